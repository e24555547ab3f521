//! `ashlar-lab`, the lab: runs the kernel's slab tests, whole programs and other experiments on
//! ashlar and on other allocators, in one process for each, and prints tables.
//!
//! Four layers, each of which imports only those before it: `kit`, `systems`, `experiments` (none
//! imports another) and `registry`. `tests/rooms.rs` checks that.

mod experiments;
mod kit;
mod registry;
#[cfg(test)]
mod shipped;
mod systems;

use std::process::ExitCode;

use ashlar_tool::usage;
use clap::Parser;
use clap::error::ErrorKind;
use kit::error::{LabError, NAME};
use registry::args::Cli;

fn main() -> ExitCode {
    match parse().and_then(registry::dispatch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{NAME}: {error}");
            error.exit_code().into()
        }
    }
}

/// Reads the command line. Ends the process where clap prints a help text or the version.
fn parse() -> Result<Cli, LabError> {
    Cli::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.exit()
        }
        _ => LabError::Usage(usage::message(&error)),
    })
}
