//! Options of `bench worst`.

use std::path::PathBuf;

use clap::Args;

use crate::kit::options::{SizeList, parse_sizes};

/// Options of `ashlar bench worst`.
#[derive(Debug, Args)]
pub(crate) struct WorstArgs {
    /// Engines of ashlar, `ashlar-malloc` and other mallocs, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "slob-seg,slob-cache,slob,ashlar")]
    pub(crate) systems: String,

    /// Object sizes in bytes, 16 or more, separated by commas; LOW..HIGH stands for the powers of
    /// two from LOW to HIGH
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
