//! How a program of this machine is run, and on what input.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Where and how much.
pub(crate) struct Setting<'a> {
    /// A directory for this program alone.
    pub(crate) dir: &'a Path,
    pub(crate) program: &'a Path,
    pub(crate) scale: f64,
}

impl Setting<'_> {
    /// `usual` at scale 1.
    pub(crate) fn count(&self, usual: usize) -> usize {
        ((usual as f64 * self.scale) as usize).max(1)
    }

    /// Writes a file of the input.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

/// How to run a program.
pub(crate) enum Job {
    /// To its end, with a file as its input, if any.
    Command { program: PathBuf, args: Vec<OsString>, input: Option<PathBuf>, env: Vec<(&'static str, OsString)> },
    /// A server, and a client that is not measured.
    Redis(Redis),
}

/// Server, client, and how much is asked.
pub(crate) struct Redis {
    pub(crate) server: PathBuf,
    pub(crate) benchmark: PathBuf,
    pub(crate) cli: PathBuf,
    pub(crate) requests: usize,
}
