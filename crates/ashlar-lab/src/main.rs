//! `ashlar`, the tool. `ashlar bench` is the lab: it runs the kernel's slab tests A to F on ashlar and on other
//! allocators, one process for each, and prints the table of the 2007 mail. `ashlar run` runs a program on ashlar.

mod args;
mod bench;
mod error;
mod forward;
mod hackbench;
mod host;
mod programs;
mod report;
mod reproduce;
mod run;
#[cfg(test)]
mod shipped;
mod simulate;
mod workload;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use bench::systems;
use error::CliError;

/// `ashlar workload` is over before the constructors of the allocators that are linked into this tool: TCMalloc's takes 6 MiB, and a
/// workload's memory and time are to be those of the malloc under it. The libraries', a preloaded malloc's among them, have run by then,
/// and the standard library has its arguments since 99.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array.00100")]
static BEFORE_CONSTRUCTORS: extern "C" fn() = {
    extern "C" fn run_workload() {
        if std::env::args_os().nth(1).is_some_and(|command| command == "workload") {
            std::process::exit(dispatch(Cli::parse()).into());
        }
    }
    run_workload
};

fn main() -> ExitCode {
    dispatch(Cli::parse()).into()
}

/// Does what is asked for; the exit code.
fn dispatch(cli: Cli) -> u8 {
    let outcome = match cli.command {
        Command::Bench(args) => bench::run(&args),
        Command::Forward(args) => forward::run(&args),
        Command::Hackbench(args) => hackbench::run(&args),
        Command::Run(args) => run::run(&args),
        Command::BenchChild { system } => bench::child::main(&system),
        Command::ForwardChild { system } => forward::child::main(&system),
        Command::BenchWorstChild { plan } => bench::worst::child::main(&plan),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::SimulateChild { plan } => simulate::child_main(&plan),
        Command::BenchBulkChild { system, plan } => systems::bodies_of(&system).and_then(|of| (of.bulk)(&plan)),
        Command::BenchMemoryChild { system, plan } => systems::bodies_of(&system).and_then(|of| (of.memory)(&plan)),
        Command::HackbenchChild { system, plan } => systems::bodies_of(&system).and_then(|of| (of.hackbench)(&plan)),
        Command::Workload(args) => workload::main(&args),
    };
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("error: {error}");
            error.exit_code()
        }
    }
}

/// Writes to standard output. A reader that went away (`ashlar bench | head`) is no error.
fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::Failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
