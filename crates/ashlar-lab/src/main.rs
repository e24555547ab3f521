//! `ashlar`, the tool. `ashlar bench` is the lab: it runs the kernel's slab tests A to F on ashlar and on other
//! allocators, one process for each, and prints the table of the 2007 mail. `ashlar run` runs a program on ashlar.

mod experiments;
mod kit;
mod registry;
mod run;
#[cfg(test)]
mod shipped;
mod systems;
mod workload;

use std::process::ExitCode;

use clap::Parser;
use registry::args::Cli;

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
    match registry::dispatch(cli) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("error: {error}");
            error.exit_code()
        }
    }
}
