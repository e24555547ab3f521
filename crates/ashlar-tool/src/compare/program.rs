//! The program that is compared, and one run of it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::interrupt;
use super::mallocs::Malloc;
use super::probe::Probe;
use super::spool::Spool;
use crate::error::ToolError;
use crate::resources::{self, End, Usage};
use crate::{preload, program};

#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    /// As given, with arguments.
    pub(super) words: Vec<OsString>,
    pub(super) input: Input,
}

/// What a program reads as its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Nothing,
    /// Nothing, since the tool's standard input is a pipe, which can be read once only.
    InPlaceOfPipe,
    /// The file that is the tool's standard input, from where that one stood.
    File {
        offset: u64,
    },
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) end: End,
    pub(super) usage: Usage,
    pub(super) stdout: Spool,
    pub(super) stderr: Spool,
    /// Processes that it started are still there.
    pub(super) left_processes: bool,
}

impl Program {
    pub(super) fn find(words: &[OsString]) -> Result<Self, ToolError> {
        let name = words.first().ok_or_else(|| ToolError::option("PROGRAM", "expected a program"))?;
        let path = program::find(name)?;
        program::check_preload(&path)?;
        Ok(Self { path, words: words.to_vec(), input: Input::of_tool() })
    }

    /// Runs the program to its end.
    pub(super) fn run(&self, malloc: &Malloc, probe: Option<&mut Probe>) -> Result<Ran, ToolError> {
        let failed = |error: io::Error| ToolError::Failed(format!("cannot keep the output: {error}"));
        let (stdout, stderr) = (Spool::new().map_err(failed)?, Spool::new().map_err(failed)?);
        let mut command = Command::new(&self.path);
        command.arg0(&self.words[0]).args(&self.words[1..]).process_group(0);
        command.stdout(stdout.writer().map_err(failed)?).stderr(stderr.writer().map_err(failed)?);
        command.stdin(self.input.open()?);
        fork_plainly(&mut command);
        command.env_remove("ASHLAR_STATS");
        if let Some(library) = &malloc.preload {
            command.env("LD_PRELOAD", preload::list(library)?);
        }
        if let Some(options) = &malloc.options {
            command.env("ASHLAR_OPTIONS", options);
        }
        if let Some(probe) = &probe {
            probe.prepare(&mut command);
        }

        let start = Instant::now();
        let child = command.spawn().map_err(|error| ToolError::Usage(format!("{}: {error}", self.path.display())))?;
        let group = child.id().cast_signed();
        interrupt::started(group);
        let waited = match probe {
            Some(probe) => {
                probe.started(group);
                resources::watch(child, start, &mut || probe.look())
            }
            None => resources::wait(child, start),
        };
        let left_processes = interrupt::ended(group);
        let (end, usage) = waited.map_err(|error| ToolError::Failed(format!("wait: {error}")))?;
        Ok(Ran { end, usage, stdout, stderr, left_processes })
    }
}

/// Has `command` start by a fork that copies memory. The faster way shares the tool's memory until
/// the program is loaded, and the kernel would count all of that as memory that the program had.
#[expect(unsafe_code, reason = "the standard library forks so when it has a function to call")]
fn fork_plainly(command: &mut Command) {
    // SAFETY: the function does nothing, so it does nothing that is forbidden between fork and
    // exec.
    unsafe { command.pre_exec(|| Ok(())) };
}

impl Input {
    /// Looks at the tool's standard input.
    fn of_tool() -> Self {
        let Ok(mut file) = io::stdin().as_fd().try_clone_to_owned().map(File::from) else { return Self::Nothing };
        match file.metadata().map(|meta| meta.file_type()) {
            Ok(kind) if kind.is_file() => Self::File { offset: file.stream_position().unwrap_or(0) },
            Ok(kind) if kind.is_fifo() => Self::InPlaceOfPipe,
            _ => Self::Nothing,
        }
    }

    fn open(self) -> Result<Stdio, ToolError> {
        let Self::File { offset } = self else { return Ok(Stdio::null()) };
        // A descriptor of its own: what one run reads must not move the position of the next.
        let open = || -> io::Result<File> {
            let mut file = File::open("/proc/self/fd/0")?;
            file.seek(SeekFrom::Start(offset))?;
            Ok(file)
        };
        open().map(Stdio::from).map_err(|error| ToolError::Failed(format!("standard input: {error}")))
    }
}
