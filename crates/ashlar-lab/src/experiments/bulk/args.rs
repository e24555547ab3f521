//! Options of `bench bulk`.

use core::str::FromStr;
use std::path::PathBuf;

use clap::Args;

/// The bulks of the kernel's test.
pub(crate) const DEFAULT_BULKS: &str = "1,2,3,4,8,16,30,32,34,48,64,128,158,250";

/// Options of `ashlar bench bulk`.
#[derive(Debug, Args)]
pub(crate) struct BulkArgs {
    /// Systems, separated by commas, or `all`; `dpdk` is the mempool in DPDK's own test
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) systems: String,

    /// Objects of one call, separated by commas
    #[arg(long, value_name = "LIST", default_value = DEFAULT_BULKS, value_parser = parse_bulks)]
    pub(crate) bulks: Bulks,

    /// Bytes of an object
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=65_536))]
    pub(crate) size: u32,

    /// Objects of a timed pass
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) objects: u32,

    /// Objects of the heap of the worst case
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) spread: u32,

    /// Passes of each cell in a process
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) passes: u32,

    /// Measured rounds; each starts a process for every system
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,

    /// Write host and records as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Judge the targets: from 8 on a call costs at most 0.4 of the loop, no cliff from 30 to 250,
    /// ahead of DPDK's mempool; exit code 1 if one is missed
    #[arg(long)]
    pub(crate) check_targets: bool,
}

/// Bulk sizes in the order given, each once; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bulks(pub(crate) Vec<usize>);

pub(crate) fn parse_bulks(text: &str) -> Result<Bulks, String> {
    let mut bulks = Vec::new();
    for part in text.split(',').map(str::trim) {
        match usize::from_str(part) {
            Ok(bulk) if (1..=MAX_BULK).contains(&bulk) && !bulks.contains(&bulk) => bulks.push(bulk),
            Ok(bulk) if bulks.contains(&bulk) => {}
            _ => return Err(format!("`{part}` is no bulk: expected numbers of objects from 1 to {MAX_BULK}")),
        }
    }
    bulks.sort_unstable();
    Ok(Bulks(bulks))
}

/// Largest bulk.
pub(crate) const MAX_BULK: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulks_are_sorted_and_taken_once() {
        assert_eq!(parse_bulks("8, 1,8").unwrap().0, [1, 8]);
        assert_eq!(parse_bulks(DEFAULT_BULKS).unwrap().0.len(), 14);
        for bad in ["", "0", "5000", "many", "1,,2"] {
            assert!(parse_bulks(bad).is_err(), "{bad}");
        }
    }
}
