//! Options of `simulate`.

use std::path::PathBuf;

use clap::Args;

use crate::kit::options::{SizeList, parse_sizes};

/// Options of `ashlar simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// Engines of ashlar, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "ashlar,slab,slub,slub+,slub-ll,slob-seg")]
    pub(crate) systems: String,

    /// Object sizes in bytes, separated by commas; LOW..HIGH stands for the powers of two from LOW
    /// to HIGH
    #[arg(long, value_name = "LIST", default_value = "8,64,512,4096", value_parser = parse_sizes)]
    pub(crate) sizes: SizeList,

    /// Numbers of CPUs to predict for, 2 to 1024, separated by commas
    #[arg(long, value_name = "LIST", default_value = "2,4,8,16,64,256,1024", value_parser = parse_cpus)]
    pub(crate) cpus: Numbers,

    /// Numbers of NUMA nodes to predict for, 1 to 16, separated by commas; where there are more
    /// nodes than CPUs, nothing is predicted
    #[arg(long, value_name = "LIST", default_value = "1,4,16", value_parser = parse_nodes)]
    pub(crate) nodes: Numbers,

    /// What a cache line from another node costs over one of the same, which cannot be measured on
    /// a machine with one node
    #[arg(long, value_name = "RATIO", default_value = "2", value_parser = parse_far)]
    pub(crate) far: f64,

    /// Predict for CPUs that are farther apart or nearer: what a line costs that moves between
    /// them, in cycles of the time-stamp counter, in place of what was measured
    #[arg(long, value_name = "CYCLES", value_parser = clap::value_parser!(u32).range(10..=10_000))]
    pub(crate) line: Option<u32>,

    /// Objects for each CPU and measured pass
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) objects: u32,

    /// Start of the random numbers: the same measurements and the same seed give the same
    /// predictions
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write machine, records, measured inputs and errors as JSON
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) json: Option<PathBuf>,

    /// Do not measure: predict from the inputs of an earlier run's JSON file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["systems", "sizes", "objects", "far"])]
    pub(crate) from: Option<PathBuf>,
}

/// A list of numbers. (A type of its own, because clap takes a bare `Vec` for a repeated option.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers(pub(crate) Vec<usize>);

pub(crate) fn parse_numbers(text: &str, least: usize, most: usize) -> Result<Numbers, String> {
    let one = |part: &str| match part.trim().parse::<usize>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("`{}`: expected numbers from {least} to {most}, separated by commas", part.trim())),
    };
    let mut numbers = text.split(',').map(one).collect::<Result<Vec<_>, _>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Numbers(numbers))
}

pub(crate) fn parse_cpus(text: &str) -> Result<Numbers, String> {
    parse_numbers(text, 2, 1024)
}

pub(crate) fn parse_nodes(text: &str) -> Result<Numbers, String> {
    parse_numbers(text, 1, 16)
}

pub(crate) fn parse_far(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(far) if (1.0..=20.0).contains(&far) => Ok(far),
        _ => Err("expected a number from 1 to 20".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_checked() {
        assert_eq!(parse_cpus("8, 2,8").unwrap().0, [2, 8]);
        for bad in ["1", "1025", "", "two", "2,,4"] {
            assert!(parse_cpus(bad).unwrap_err().contains("expected numbers from 2 to 1024"), "{bad}");
        }
        assert!(parse_nodes("17").unwrap_err().contains("from 1 to 16"));
        assert!(parse_far("0.5").is_err() && parse_far("far").is_err());
    }
}
