//! The command line. Each option is checked here, by name, so that a run starts only with sound input.

use crate::kit::options::SizeList;
use crate::kit::options::parse_scale;
use crate::kit::options::parse_sizes;
use crate::kit::statistics::Statistic;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bench::Test;
use crate::bench::bulk::BulkArgs;
use crate::bench::memory::MemoryArgs;
use crate::forward::args::ForwardArgs;
use crate::hackbench::HackbenchArgs;
use crate::reproduce::ReproduceArgs;
use crate::simulate::SimulateArgs;

/// Sizes of a default run: those of the kernel's test module.
const DEFAULT_SIZES: &str = "8..16384";

#[derive(Debug, Parser)]
#[command(name = "ashlar", version, about = "The Linux slab allocators in user space: the tool and the lab")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the kernel's slab tests A to F on ashlar and its peers, and print the table
    #[command(after_help = "Tests: A kmalloc, B kfree of the same objects, C kmalloc+kfree at once (one CPU);\n\
        D kmalloc on all CPUs, E kmalloc+kfree at once on all CPUs, F CPU 0 frees what the others allocated.\n\
        Exit code: 0 done, 1 the run failed or a target was missed, 2 bad input.")]
    Bench(Box<BenchArgs>),
    /// Forward IPv4 packets with heads from ashlar and its peers, freed one by one and in bulk, and print the differences
    #[command(
        after_help = "Exit code: 0 done, 1 the run failed, the system refuses what --veth needs, or the target was missed; \
        2 bad input."
    )]
    Forward(Box<ForwardArgs>),
    /// Send messages between groups of senders and receivers, and print what hackbench prints
    #[command(after_help = "Exit code: 0 done, 1 the run failed, 2 bad input.")]
    Hackbench(HackbenchArgs),
    /// Run a program with its malloc on ashlar
    #[command(after_help = "Exit code: that of the program; 2 bad input, or a program that cannot be run so; \
        127 no such program.")]
    Run(RunArgs),
    /// Predict tests D and F for machines with more CPUs and nodes, from what is measured here
    #[command(after_help = "Exit code: 0 done, 1 the run failed, 2 bad input.")]
    Simulate(SimulateArgs),
    /// Go through every claim of the mails that ashlar starts from, and say with figures whether it holds here
    #[command(after_help = "Takes less than 15 minutes; --quick less than one.\n\
        Exit code: 0 done, whatever the verdicts; 1 a measurement failed; 2 bad input.")]
    Reproduce(ReproduceArgs),
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
    BenchWorstChild { plan: String },
    /// One measured process of `bench bulk`
    #[command(hide = true)]
    BenchBulkChild { system: String, plan: String },
    /// One measured process of `bench memory`
    #[command(hide = true)]
    BenchMemoryChild { system: String, plan: String },
    /// One measured process of `hackbench`
    #[command(hide = true)]
    HackbenchChild { system: String, plan: String },
    /// Fixed work on the malloc of this process; `bench programs` starts these itself
    #[command(hide = true)]
    Workload(WorkloadArgs),
}

/// Options of the hidden command `ashlar workload`.
#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    pub(crate) name: String,

    /// How much of the usual work
    #[arg(long, value_name = "F", default_value = "1", value_parser = parse_scale)]
    pub(crate) scale: f64,

    /// The library that must serve malloc [default: the C library]
    #[arg(long, value_name = "FILE")]
    pub(crate) preload: Option<PathBuf>,

    /// Milliseconds to sleep when everything is freed, before resident memory is read
    #[arg(long, value_name = "MS")]
    pub(crate) idle: Option<u64>,
}

/// Options of `ashlar run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The strategy of the caches (option `engine`)
    #[arg(long, value_name = "ID")]
    pub(crate) engine: Option<String>,

    /// An option of the allocator, as in `ASHLAR_OPTIONS`; may be given several times
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub(crate) options: Vec<String>,

    /// Print the caches, resident memory and the mode on standard error when the program ends
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub(crate) stats: Option<StatsForm>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<std::ffi::OsString>,
}

/// Forms of the figures of `ashlar run --stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsForm {
    Text,
    Json,
}

impl StatsForm {
    /// The value of `ASHLAR_STATS`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
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
    /// Time calls for many objects at once against loops of single calls, and against DPDK's mempool
    #[command(after_help = "Exit code: 0 done, 1 the run failed or a target was missed, 2 bad input.")]
    Bulk(BulkArgs),
    /// Replay one trace on every system and print slabs, resident memory and utilisation
    #[command(after_help = "Exit code: 0 done, 1 the run failed or a target was missed, 2 bad input.")]
    Memory(MemoryArgs),
}

/// Options of `ashlar bench worst`.
#[derive(Debug, Args)]
pub(crate) struct WorstArgs {
    /// Engines of ashlar, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "slob-seg,slob-cache,slob,ashlar")]
    pub(crate) systems: String,

    /// Object sizes in bytes, 16 or more, separated by commas; LOW..HIGH stands for the powers of two from LOW to HIGH
    #[arg(long, value_name = "LIST", default_value = "64,4096", value_parser = parse_sizes)]
    pub(crate) sizes: SizeList,

    /// Objects of the fragmented heap, of which every second is freed
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) live: u32,

    /// Calls of each kind that are timed with warm caches
    #[arg(long, value_name = "N", default_value_t = 60_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) samples: u32,

    /// Calls of each kind that are timed with cold caches
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) cold: u32,

    /// MiB that are read before each of those, to make the caches cold
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) sweep: u16,

    /// Write machine and figures as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Options of `ashlar bench programs`.
#[derive(Debug, Args)]
pub(crate) struct ProgramsArgs {
    /// Systems, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) systems: String,

    /// Workloads, separated by commas; `all`, `synthetic` and `real` stand for many
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) workloads: String,

    /// Measured rounds; each runs every workload once on every system
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// How much of the usual work is done
    #[arg(long, value_name = "F", default_value = "1", value_parser = parse_scale)]
    pub(crate) scale: f64,

    /// A column more: ashlar with these options (as in `ASHLAR_OPTIONS`); may be given several times
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub(crate) options: Vec<String>,

    /// Print workloads and systems, and what is missing here; run nothing
    #[arg(long)]
    pub(crate) list: bool,

    /// Write machine and figures as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Statistic over the rounds that ratios and targets use
    #[arg(long, value_enum, default_value_t = Statistic::Median)]
    pub(crate) by: Statistic,

    /// Judge the targets of the project; exit code 1 if one is missed
    #[arg(long)]
    pub(crate) check_targets: bool,

    /// Do not measure: take the figures of an earlier run from this JSON file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["systems", "workloads", "rounds", "scale", "options", "list", "json"])]
    pub(crate) from: Option<PathBuf>,
}

/// Options of `ashlar bench`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,

    /// Tests to run: any of A B C D E F
    #[arg(value_name = "TEST", value_parser = parse_test)]
    pub(crate) tests: Vec<Test>,

    /// Systems, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) systems: String,

    /// Object sizes in bytes, separated by commas; LOW..HIGH stands for the powers of two from LOW to HIGH
    #[arg(long, value_name = "LIST", default_value = DEFAULT_SIZES, value_parser = parse_sizes)]
    pub(crate) sizes: SizeList,

    /// Objects for each CPU and pass
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) objects: u32,

    /// Threads of the concurrent tests, each pinned to a CPU, in turn where there are more of them than CPUs [default:
    /// the CPUs this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) cpus: Option<u16>,

    /// NUMA nodes that ashlar and its engines pretend, 1 to 64 (their option `nodes`) [default: the machine's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) nodes: Option<u8>,

    /// Let each process begin with a fragmented heap: for each size so many objects that are 8 bytes smaller, of which every
    /// second is freed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) fragmented: Option<u32>,

    /// Measured rounds; each asks every system in turn for each test and size, several times where that is cheap
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,

    /// Write host and records as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the records as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// `table`: one block for each test; `kernel`: the lines that the kernel's test module prints
    #[arg(long, value_enum, default_value_t = Style::Table)]
    pub(crate) style: Style,

    /// Statistic over the measured turns that ratings, ratios and targets use
    #[arg(long, value_enum, default_value_t = Statistic::Median)]
    pub(crate) by: Statistic,

    /// Judge the speed targets of the project; exit code 1 if one is missed
    #[arg(long)]
    pub(crate) check_targets: bool,

    /// Show beside the measured figures those that the kernel's mailing lists published, of other machines and kernels
    #[arg(long)]
    pub(crate) published: bool,

    /// Do not measure: take the records of an earlier run from this JSON file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tests", "systems", "sizes", "objects", "cpus", "nodes", "fragmented", "rounds", "json"])]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    Table,
    Kernel,
}

fn parse_test(text: &str) -> Result<Test, String> {
    Test::parse(text).ok_or_else(|| "expected one of A, B, C, D, E, F".to_owned())
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
