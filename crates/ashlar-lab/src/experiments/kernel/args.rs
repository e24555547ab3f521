//! Options of `kernel`.

use std::path::PathBuf;

use clap::Args;

use crate::kit::options::{SizeList, parse_sizes};

/// Options of `ashlar-lab kernel`.
#[derive(Debug, Args)]
pub(crate) struct KernelArgs {
    /// CPUs of the machine
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: u32,

    /// NUMA nodes of the machine, which share its CPUs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) nodes: u32,

    /// Object sizes in bytes, separated by commas; LOW..HIGH stands for the powers of two from LOW
    /// to HIGH
    #[arg(long, value_name = "LIST", default_value = "16,64,256,1024,4096", value_parser = parse_sizes)]
    pub(crate) sizes: SizeList,

    /// Objects that each CPU allocates in a pass
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) objects: u32,

    /// Seconds that all CPUs work at random on each system, interrupted, after the tests; for each
    /// of two boots
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=600))]
    pub(crate) seconds: u32,

    /// What random numbers begin with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u32,

    /// Write host and records as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Judge the target: an operation on all CPUs takes at most 1.5 times the instructions of one
    /// on one CPU; exit code 1 if it is missed
    #[arg(long)]
    pub(crate) check_targets: bool,
}
