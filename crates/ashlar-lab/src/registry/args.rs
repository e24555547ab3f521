//! The command line. Each option is checked here, by name, so that a run starts only with sound
//! input.

use clap::{Args, Parser, Subcommand};

use crate::experiments::bulk::args::BulkArgs;
use crate::experiments::checks::args::ChecksArgs;
use crate::experiments::forward::args::ForwardArgs;
use crate::experiments::hackbench::args::HackbenchArgs;
use crate::experiments::kernel::args::KernelArgs;
use crate::experiments::kernel_tests::args::KernelTestsArgs;
use crate::experiments::memory::args::MemoryArgs;
use crate::experiments::programs::args::ProgramsArgs;
use crate::experiments::reproduce::args::ReproduceArgs;
use crate::experiments::simulate::args::SimulateArgs;
use crate::experiments::soak::args::SoakArgs;
use crate::experiments::worst::args::WorstArgs;

#[derive(Debug, Parser)]
#[command(
    name = "ashlar-lab",
    version,
    about = "Measure ashlar, its engines and other allocators",
    after_help = "Words: an engine is one of the allocators of ashlar (SLAB, SLUB and SLOB of Linux among them); the peers \
    are the other mallocs that this program was built with, and glibc's; a system is any of them."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the kernel's slab tests A to F on ashlar and its peers (other mallocs), and print the
    /// table
    #[command(after_help = "Tests (kmalloc is the kernel's malloc, kfree its free):\n  \
        A  kmalloc on one CPU\n  \
        B  kfree of the same objects\n  \
        C  kmalloc and kfree at once on one CPU\n  \
        D  kmalloc on all CPUs\n  \
        E  kmalloc and kfree at once on all CPUs\n  \
        F  CPU 0 frees what the others allocated\n\
        A cell of the table is median/min of the cycles for one operation.\n\
        Exit code: 0 done, 1 the run failed or a target was missed, 2 bad input.")]
    Bench(Box<BenchArgs>),
    /// Forward IPv4 packets with heads from ashlar and other mallocs, freed one by one and in bulk,
    /// and print the differences
    #[command(
        after_help = "Exit code: 0 done, 1 the run failed, the system refuses what --veth needs, or the target was missed; \
        2 bad input."
    )]
    Forward(Box<ForwardArgs>),
    /// Send messages between groups of senders and receivers, and print what hackbench prints
    #[command(after_help = "Exit code: 0 done, 1 the run failed, 2 bad input.")]
    Hackbench(HackbenchArgs),
    /// Predict the kernel's slab tests D and F for machines with more CPUs and nodes, from what is
    /// measured here
    #[command(
        after_help = "Test D is kmalloc on all CPUs; in test F CPU 0 frees what the others allocated.\nExit code: 0 done, 1 the run failed, 2 bad input."
    )]
    Simulate(SimulateArgs),
    /// Boot a small kernel on ashlar in an emulated machine, run the kernel's slab tests in ring 0,
    /// on ashlar and on allocators behind a spin lock, and print the table
    #[command(
        after_help = "Needs QEMU (Debian's package qemu-system-x86) and the target x86_64-unknown-none of rustup. Takes a minute.\n\
        Exit code: 0 done, 1 the run failed or an object was damaged or lost, 2 bad input, or something is not installed."
    )]
    Kernel(KernelArgs),
    /// Go through every claim of five mails on slab allocators, and say with figures whether it
    /// holds here
    #[command(
        after_help = "The mails went to the kernel's mailing lists from 2007 to 2021, and ashlar starts from them.\n\
        Takes less than 15 minutes; --quick less than one.\n\
        Exit code: 0 done, whatever the verdicts; 1 a measurement failed; 2 bad input."
    )]
    Reproduce(ReproduceArgs),
    /// Use everything at once, with options drawn at random, and check that no object is lost or
    /// overwritten
    #[command(after_help = "Exit code: 0 nothing was lost; 1 a round failed, whose options are printed; 2 bad input.")]
    Soak(SoakArgs),
    /// One process of `soak`, which starts these itself
    #[command(hide = true)]
    SoakChild { plan: String },
    /// One measured process of `simulate`, which starts these itself
    #[command(hide = true)]
    SimulateChild { plan: String },
    /// One measured process; the lab starts these itself
    #[command(hide = true)]
    BenchChild { system: String },
    /// One measured process of `forward`, which starts these itself
    #[command(hide = true)]
    ForwardChild { system: String },
    /// One measured process of `bench worst`, which starts these itself
    #[command(hide = true)]
    BenchWorstChild { system: String, plan: String },
    /// One measured process of `bench checks`
    #[command(hide = true)]
    BenchChecksChild { plan: String },
    /// One measured process of `bench bulk`
    #[command(hide = true)]
    BenchBulkChild { system: String, plan: String },
    /// One measured process of `bench memory`
    #[command(hide = true)]
    BenchMemoryChild { system: String, plan: String },
    /// One measured process of `hackbench`
    #[command(hide = true)]
    HackbenchChild { system: String, plan: String },
}

/// What `ashlar bench` can run besides the kernel's tests.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Run whole programs on ashlar and its peers, by preloading each library
    #[command(after_help = "Exit code: 0 done, 1 the run failed or a target was missed, 2 bad input.")]
    Programs(ProgramsArgs),
    /// Time each call by itself on heaps made to be bad, and print the worst
    #[command(after_help = "Exit code: 0 done, 1 the run failed, 2 bad input.")]
    Worst(WorstArgs),
    /// Time calls for many objects at once against loops of single calls, and against DPDK's
    /// mempool
    #[command(after_help = "Exit code: 0 done, 1 the run failed or a target was missed, 2 bad input.")]
    Bulk(BulkArgs),
    /// Replay one trace on every system and print slabs, resident memory and utilisation
    #[command(after_help = "Exit code: 0 done, 1 the run failed, 2 bad input.")]
    Memory(MemoryArgs),
    /// Time malloc and free with and without their misuse checks, and kmalloc and kfree beside them
    #[command(after_help = "Exit code: 0 done, 1 the run failed, 2 bad input.")]
    Checks(ChecksArgs),
}

/// Options of `bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,

    #[command(flatten)]
    pub(crate) kernel_tests: KernelTestsArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
