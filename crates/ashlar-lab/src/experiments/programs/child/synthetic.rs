//! The workloads of ours: the program `ashlar-workload`, linked with nothing but the C library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use ashlar_tool::library::build_under_cargo;
use ashlar_workload::Workload;
use serde::Deserialize;

use crate::experiments::programs::plan::systems::System;

/// The package and its program.
const PROGRAM: &str = "ashlar-workload";

/// What the process prints, as one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Answer {
    /// Hexadecimal.
    pub(crate) checksum: String,
    /// Most resident memory that the process had.
    pub(crate) peak_rss_kib: u64,
    /// The same without pages of files.
    pub(crate) peak_anon_kib: u64,
    /// Resident memory after everything was freed and the process slept; absent if it was not to.
    pub(crate) idle_rss_kib: Option<u64>,
}

/// The program: beside the lab, where `cargo run` and `cargo test` have it built.
fn program() -> Result<&'static Path, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let find = || {
        build_under_cargo(PROGRAM, PROGRAM).map_err(|error| error.to_string())?;
        let lab = std::env::current_exe().map_err(|error| format!("cannot find myself: {error}"))?;
        let path = lab.parent().unwrap_or(Path::new("/")).join(PROGRAM);
        if path.is_file() {
            return Ok(path);
        }
        Err(format!("no {}: `cargo build --release -p {PROGRAM}` makes it", path.display()))
    };
    FOUND.get_or_init(find).as_deref().map_err(Clone::clone)
}

/// The command of a workload on a system.
pub(crate) fn command(workload: &Workload, system: &System, scale: f64) -> Result<Command, String> {
    let mut command = Command::new(program()?);
    command.args([workload.name, "--scale", &scale.to_string()]);
    if let Some(library) = &system.preload {
        command.arg("--preload").arg(library);
    }
    system.prepare(&mut command);
    Ok(command)
}

/// Reads what the process printed: the answer is the last line.
pub(crate) fn parse(text: &str) -> Result<Answer, String> {
    let line = text.lines().last().unwrap_or("");
    serde_json::from_str(line).map_err(|error| format!("cannot read its answer `{line}`: {error}"))
}
