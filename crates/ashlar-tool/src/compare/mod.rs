//! `ashlar compare`: runs a program on several mallocs by turns, and says what the program gains.
//!
//! First the program runs twice on the base, which is the system's malloc or ashlar and the
//! reference for its output, then once on each other malloc under a probe that tells whether the
//! program calls it ([`probe`]).
//! Then come rounds. Each runs the program once on every malloc, in an order that is drawn anew;
//! the first round does not count. What drifts on the machine then hits all alike, and the ratios
//! within the rounds are judged ([`crate::interval`]).

mod interrupt;
mod mallocs;
mod metric;
mod probe;
mod program;
mod record;
mod rounds;
mod spool;
mod table;
mod verdict;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::args::CompareArgs;
use crate::error::ToolError;
use crate::output;
pub(crate) use mallocs::Base;
use record::Record;

/// Compares, prints, and returns the exit code.
pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, ToolError> {
    let program = program::Program::find(&args.program)?;
    let options = crate::run::options(None, &args.options)?;
    let mut json = args.json.as_ref().map(Json::open).transpose()?;
    let (rows, notes) = mallocs::select(args.base, &args.with, &options)?;
    interrupt::install();
    let record = rounds::compare(args, &program, rows, notes)?;
    if let Some(signal) = record.interrupted.filter(|_| record.rounds < 2) {
        let done = record.rounds;
        eprintln!("ashlar: interrupted by signal {signal} after {done} complete rounds: nothing to show");
        return Ok(code_of(signal));
    }
    let text = table::render(&record);
    match &mut json {
        Some(json) => {
            json.write(&record)?;
            if json.is_stdout() { eprint!("{text}") } else { output::print(&text)? }
        }
        None => output::print(&text)?,
    }
    Ok(match record.interrupted {
        Some(signal) => code_of(signal),
        None if record.is_incomplete() => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}

/// The exit code of a shell for a program that a signal ended.
fn code_of(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

/// Where `--json` writes to.
enum Json {
    Stdout,
    File(PathBuf, File),
}

impl Json {
    /// Opens the file, so that a run does not end with the news that it cannot be written. What it
    /// holds stays there until then.
    fn open(path: &PathBuf) -> Result<Self, ToolError> {
        if path.as_os_str() == "-" {
            return Ok(Self::Stdout);
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file
            .map_err(|error| ToolError::option("--json", format_args!("cannot write {}: {error}", path.display())))?;
        Ok(Self::File(path.clone(), file))
    }

    fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    fn write(&mut self, record: &Record) -> Result<(), ToolError> {
        let text =
            serde_json::to_string_pretty(record).map_err(|error| ToolError::Failed(format!("--json: {error}")))? + "\n";
        match self {
            Self::Stdout => output::print(&text),
            Self::File(path, file) => {
                // A pipe or a terminal has no length to set.
                let _ = file.set_len(0);
                let written = file.write_all(text.as_bytes());
                written.map_err(|error| ToolError::Failed(format!("--json: {}: {error}", path.display())))
            }
        }
    }
}
