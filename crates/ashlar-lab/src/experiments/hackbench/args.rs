//! Options of `hackbench`.

use std::path::PathBuf;

use clap::Args;

use crate::kit::options::parse_scale;

/// Largest message: what the kernel copies to a socket in one piece.
pub(crate) const MAX_BYTES: usize = 16_384;

/// Options of `ashlar hackbench`.
#[derive(Debug, Args)]
pub(crate) struct HackbenchArgs {
    /// Groups
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) groups: u16,

    /// Messages of each sender to each receiver
    #[arg(short, long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) loops: u32,

    /// Senders of a group, and as many receivers
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) fds: u16,

    /// Bytes of a message; several sizes, separated by commas, take turns
    #[arg(short = 's', long = "datasize", value_name = "LIST", default_value = "100", value_parser = parse_bytes)]
    pub(crate) datasize: Bytes,

    /// Senders and receivers are threads: what one allocates the other frees (the default)
    #[arg(short = 'T', long, conflicts_with = "process")]
    pub(crate) threads: bool,

    /// Senders and receivers are processes, each with its own heap: messages are copied, each side
    /// frees what it allocated
    #[arg(short = 'P', long)]
    pub(crate) process: bool,

    /// Systems, separated by commas, or `all`
    #[arg(long, visible_alias = "system", value_name = "LIST", default_value = "ashlar")]
    pub(crate) systems: String,

    /// Share of the loops that slow systems (`slob`) run
    #[arg(long, value_name = "F", default_value = "0.02", value_parser = parse_scale)]
    pub(crate) scale: f64,

    /// Begin with the heap of a machine that has been up for a while: so many times 7 MiB of
    /// objects of 160 caches, of which a third was freed since; 0 for an empty heap. Processes
    /// begin with empty heaps
    #[arg(long, value_name = "F", default_value = "1", value_parser = parse_boot)]
    pub(crate) boot: f64,

    /// Measured rounds; each starts a process for every system
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// Count the instructions of user space by valgrind, and nothing else: each system runs under
    /// it with all loops and with one, and the difference is told
    #[arg(long, conflicts_with = "process")]
    pub(crate) instructions: bool,

    /// Write host and records as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

pub(crate) fn parse_boot(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(boot) if (0.0..=10.0).contains(&boot) => Ok(boot),
        _ => Err("expected a number from 0 to 10".to_owned()),
    }
}

/// Sizes of messages, in the order of their turns; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<usize>);

pub(crate) fn parse_bytes(text: &str) -> Result<Bytes, String> {
    let one = |part: &str| match part.trim().parse() {
        Ok(bytes) if (1..=MAX_BYTES).contains(&bytes) => Ok(bytes),
        _ => Err(format!("`{}` is no size: expected bytes from 1 to {MAX_BYTES}", part.trim())),
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_lists() {
        assert_eq!(parse_bytes("100").unwrap(), Bytes(vec![100]));
        assert_eq!(parse_bytes("100, 1460").unwrap(), Bytes(vec![100, 1460]));
        for bad in ["", "0", "99999", "many"] {
            assert!(parse_bytes(bad).unwrap_err().contains("from 1 to 16384"), "{bad}");
        }
    }
}
