//! Pairs systems with experiments: which function a measured process runs for which system, and
//! which experiment a command runs.
//!
//! Each body is compiled once for each system, so that no call of a timed loop goes through a
//! pointer. This is the only place that knows both sides; experiments know systems by their traits
//! and ids.

pub(crate) mod args;
mod bodies;

use args::{BenchCommand, Cli, Command};

use crate::experiments::{
    bulk, checks, forward, hackbench, kernel, kernel_tests, memory, programs, reproduce, simulate, soak, worst,
};
use crate::kit::error::LabError;

/// Does what is asked for.
pub(crate) fn dispatch(cli: Cli) -> Result<(), LabError> {
    match cli.command {
        Command::Bench(args) => match &args.command {
            None => kernel_tests::run(&args.kernel_tests),
            Some(BenchCommand::Programs(args)) => programs::run(args),
            Some(BenchCommand::Worst(args)) => worst::run(args),
            Some(BenchCommand::Bulk(args)) => bulk::run(args),
            Some(BenchCommand::Memory(args)) => memory::run(args),
            Some(BenchCommand::Checks(args)) => checks::run(args),
        },
        Command::Forward(args) => forward::run(&args),
        Command::Hackbench(args) => hackbench::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Kernel(args) => kernel::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::SoakChild { plan } => soak::child::main(&plan),
        Command::SimulateChild { plan } => simulate::child::main(&plan),
        Command::BenchWorstChild { system, plan } => (bodies::of(&system)?.worst)(&plan),
        Command::BenchChild { system } => (bodies::of(&system)?.bench)(),
        Command::BenchChecksChild { plan } => checks::child::main(&plan),
        Command::BenchBulkChild { system, plan } => (bodies::of(&system)?.bulk)(&plan),
        Command::BenchMemoryChild { system, plan } => (bodies::of(&system)?.memory)(&plan),
        Command::HackbenchChild { system, plan } => (bodies::of(&system)?.hackbench)(&plan),
        Command::ForwardChild { system } => bodies::forwarding(&system)?(),
    }
}
