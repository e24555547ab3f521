//! Options of `bench programs`.

use std::path::PathBuf;

use clap::Args;

use crate::kit::options::parse_scale;
use crate::kit::statistics::Statistic;

/// Options of `ashlar bench programs`.
#[derive(Debug, Args)]
pub(crate) struct ProgramsArgs {
    /// Systems, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) systems: String,

    /// Workloads, separated by commas; `all`, `synthetic`, `live` and `real` stand for many
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) workloads: String,

    /// Measured rounds; each runs every workload once on every system
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// How much of the usual work is done
    #[arg(long, value_name = "F", default_value = "1", value_parser = parse_scale)]
    pub(crate) scale: f64,

    /// A column more: ashlar with these options (as in `ASHLAR_OPTIONS`); may be given several
    /// times
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
