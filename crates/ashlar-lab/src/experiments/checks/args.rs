//! Options of `bench checks`.

use std::path::PathBuf;

use clap::Args;

use crate::kit::options::{SizeList, parse_sizes};

/// Options of `ashlar bench checks`.
#[derive(Debug, Args)]
pub(crate) struct ChecksArgs {
    /// Object sizes in bytes, separated by commas; LOW..HIGH stands for the powers of two from LOW
    /// to HIGH
    #[arg(long, value_name = "LIST", default_value = "16..1024", value_parser = parse_sizes)]
    pub(crate) sizes: SizeList,

    /// Measured rounds; each starts one process, which runs everything
    #[arg(long, value_name = "N", default_value_t = 40)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,

    /// Write host and records as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
