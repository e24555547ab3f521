//! What the tool `ashlar` is made of, and what the lab shares with it.
//!
//! `ashlar run` becomes a program whose malloc is ashlar. `ashlar compare` runs a program on
//! several mallocs by turns and says which differences it saw. `ashlar ps`, `info`, `top` and
//! `diff` show what the memory of running programs is used for, and `ashlar profile` where it was
//! allocated. Every other command is the lab's: the tool becomes the program `ashlar-lab`, if it
//! finds one.
//!
//! The modules that are public are those that the lab uses. They are no stable interface for
//! others.

#![deny(unsafe_code)]

mod args;
mod compare;
mod doctor;
pub mod error;
mod host;
pub mod interval;
mod lab;
pub mod library;
mod observe;
pub mod output;
pub mod preload;
mod profile;
pub mod program;
pub mod resources;
mod run;
#[cfg(test)]
mod shipped;
pub mod style;
pub mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use args::{Cli, Command};
use error::ToolError;

/// Runs the tool with these arguments, the program's own name first.
pub fn run_tool(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    // The lab reads its own arguments, so they must not pass through the tool's parser.
    let outcome = match lab::forwarded(&args) {
        Some(words) => Err(lab::become_lab(&words)),
        None => parse(args).and_then(|cli| match cli.command {
            Command::Run(args) => run::run(&args),
            Command::Compare(args) => compare::run(&args),
            Command::Ps(args) => observe::ps::run(&args),
            Command::Info(args) => observe::info::run(&args),
            Command::Diff(args) => observe::diff::run(&args),
            Command::Top(args) => observe::top::run(&args),
            Command::Export(args) => observe::export::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Tune(args) => observe::hands::tune(&args),
            Command::Shrink(args) => observe::hands::shrink(&args),
            Command::Reap(args) => observe::hands::reap(&args),
            Command::Validate(args) => observe::hands::validate(&args),
            Command::Profile(args) => profile::run(&args),
            Command::Pins(args) => observe::pins::run(&args),
            Command::Report(args) => observe::page::run(&args),
        }),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ashlar: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Reads a process whose window and memory are these bytes. For the fuzz target alone.
#[cfg(feature = "fuzz")]
pub fn fuzz_window(bytes: &[u8]) {
    observe::fuzz::read(bytes);
}

/// Reads the tool's own commands; ends the process where clap prints a help text or the version.
fn parse(args: Vec<OsString>) -> Result<Cli, ToolError> {
    let parsed = command().try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.exit()
        }
        _ => ToolError::Usage(usage::message(&error)),
    })
}

/// Returns the command line of the tool. The lab's commands are in it by name alone: the lab knows
/// their options.
pub fn command() -> clap::Command {
    Cli::command().subcommands(lab::COMMANDS.map(|(name, about)| clap::Command::new(name).about(about)))
}
