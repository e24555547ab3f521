//! Options of `reproduce`.

use std::path::PathBuf;

use clap::Args;

/// Options of `ashlar reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Write claims, verdicts and everything that was measured as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write a page with charts, which needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Write the verdicts and tables into a Markdown document. If it is there, only the parts
    /// between the lines `<!-- reproduce NAME -->` and `<!-- end -->` change
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// Measure a little of everything, to see that all of it works: the figures are worth nothing
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measurements to make, separated by commas, or `all`: tests, one-cpu, 2010, nodes, nodes-8,
    /// slob, simulate, bulk, memory, hackbench, instructions, forward, forward-none, forward-many,
    /// simulate-far
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) runs: String,

    /// Do not measure: take what an earlier run wrote by `--json`, or a directory with a file
    /// NAME.json for each measurement
    #[arg(long, value_name = "PATH", conflicts_with_all = ["quick", "runs"])]
    pub(crate) from: Option<PathBuf>,
}
