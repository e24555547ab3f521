//! Options of `bench memory`.

use std::path::PathBuf;

use clap::Args;

use crate::kit::options::parse_scale;
use crate::systems::trace::Profile;

/// Options of `ashlar bench memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Systems, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) systems: String,

    /// The trace
    #[arg(long, value_enum, default_value_t = Profile::Mixed)]
    pub(crate) profile: Profile,

    /// How much of the full trace, for all systems
    #[arg(long, value_name = "F", default_value = "1", value_parser = parse_scale)]
    pub(crate) scale: f64,

    /// What the trace is made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Milliseconds that the idle phase lasts
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub(crate) idle: u64,

    /// Each system of ashlar once more, with these options (as in `ASHLAR_OPTIONS`); may be given
    /// several times
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub(crate) options: Vec<String>,

    /// Measured rounds; each starts a process for every system
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// Write host and records as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
