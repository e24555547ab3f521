//! Options of `ashlar forward`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Most heads of one bulk free: the kernel's NAPI_SKB_CACHE of 2015 and the mail's number.
pub(crate) const MOST_BULK: usize = 256;

/// Least bytes of a frame, without the checksum that a wire adds: pktgen's default.
pub(crate) const LEAST: u16 = 60;

/// Most.
pub(crate) const MOST: u16 = 1514;

/// Who frees sent packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cleaner {
    /// The forwarder, at the start of each poll
    Same,
    /// A thread on another CPU
    Other,
}

/// Options of `ashlar forward`.
#[derive(Debug, Args)]
pub(crate) struct ForwardArgs {
    /// Forward between two network namespaces over veth pairs and packet sockets, not in memory.
    /// Needs the rights of root, or user namespaces
    #[arg(long)]
    pub(crate) veth: bool,

    /// Systems, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "slub-bulk,ashlar,glibc")]
    pub(crate) systems: String,

    /// Modes of systems that have caches, separated by commas, or `all`; others run `normal` alone
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) modes: String,

    /// Most packet heads that one bulk free gives back
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=MOST_BULK as i64))]
    pub(crate) bulk: u16,

    /// The CPU that frees sent packets
    #[arg(long, value_enum, value_name = "CPU", default_value_t = Cleaner::Same)]
    pub(crate) completions: Cleaner,

    /// Bytes of a frame, without its checksum
    #[arg(long, value_name = "BYTES", default_value_t = LEAST, value_parser = clap::value_parser!(u16).range(i64::from(LEAST)..=i64::from(MOST)))]
    pub(crate) size: u16,

    /// Prefixes of the routing table
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) routes: u32,

    /// Destinations of the packets, in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) flows: u32,

    /// Of thousand frames so many are bad, in turn for each reason to drop one
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) bad: u16,

    /// Live objects of the other caches of 256 bytes that heads may be merged with; one is replaced
    /// in each poll
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(crate) others: u32,

    /// Packets of a pass [default: 200000 in memory, 20480 over veth]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) packets: Option<u32>,

    /// Most rounds; each measures every mode of every system in turn, in processes of its own
    #[arg(long, value_name = "N", default_value_t = 320, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rounds: u32,

    /// No further round begins that would end later than this
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) max_seconds: u32,

    /// Of the intervals, in per cent
    #[arg(long, value_name = "P", default_value = "95", value_parser = parse_confidence)]
    pub(crate) confidence: f64,

    /// Write machine, records and differences as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Judge the target of the project: bulk free at least 1 % faster than normal, beyond the
    /// noise; exit code 1 if it is missed
    #[arg(long)]
    pub(crate) check_targets: bool,
}

fn parse_confidence(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(confidence) if (50.0..=99.99).contains(&confidence) => Ok(confidence),
        _ => Err("expected a number of per cent from 50 to 99.99".to_owned()),
    }
}
