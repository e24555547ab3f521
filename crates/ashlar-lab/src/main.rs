//! `ashlar-lab`, the lab: it runs the kernel's slab tests, whole programs and other experiments on ashlar and on other allocators, one
//! process for each, and prints tables.
//!
//! Four layers, each of which knows only those before it: `kit`, `systems`, `experiments` (none knows another), `registry`.
//! `tests/rooms.rs` checks that.

mod experiments;
mod kit;
mod registry;
#[cfg(test)]
mod shipped;
mod systems;

use std::process::ExitCode;

use clap::Parser;
use registry::args::Cli;

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
