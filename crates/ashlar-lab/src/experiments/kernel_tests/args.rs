//! Options of `bench` without a subcommand: the tests A to F.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::kit::options::{SizeList, parse_sizes};
use crate::kit::page::Page;
use crate::kit::statistics::Statistic;

/// Sizes of a default run: those of the kernel's test module.
pub(crate) const DEFAULT_SIZES: &str = "8..16384";

/// A test of the kernel's module, by the letter it has in the 2007 mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Test {
    A,
    B,
    C,
    D,
    E,
    F,
}

impl Test {
    pub(crate) const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|test| test.letter().eq_ignore_ascii_case(text))
    }

    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E => "E",
            Self::F => "F",
        }
    }
}

/// The options that say what to measure, which a run from a file has no use for.
const WHAT_IS_MEASURED: [&str; 12] = [
    "tests",
    "systems",
    "sizes",
    "objects",
    "cpus",
    "nodes",
    "irq",
    "page",
    "fragmented",
    "first_pass",
    "rounds",
    "json",
];

/// Options of `bench` without a subcommand.
#[derive(Debug, Args)]
pub(crate) struct KernelTestsArgs {
    /// Tests to run: any of A B C D E F
    #[arg(value_name = "TEST", value_parser = parse_test)]
    pub(crate) tests: Vec<Test>,

    /// Systems, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) systems: String,

    /// Object sizes in bytes, separated by commas; LOW..HIGH stands for the powers of two from LOW
    /// to HIGH
    #[arg(long, value_name = "LIST", default_value = DEFAULT_SIZES, value_parser = parse_sizes)]
    pub(crate) sizes: SizeList,

    /// Objects for each CPU and pass
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) objects: u32,

    /// Threads of the concurrent tests, each pinned to a CPU, in turn where there are more of them
    /// than CPUs [default: the CPUs this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) cpus: Option<u16>,

    /// NUMA nodes that ashlar and its engines pretend, 1 to 64 (their option `nodes`) [default: the
    /// machine's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) nodes: Option<u8>,

    /// What stands for disabled interrupts in the engines of the kernel's history (their option
    /// `irq`): `lock`, a compare-and-swap, or `biased`, a plain store in a critical section
    /// [default: that of `ASHLAR_OPTIONS`, else lock]
    #[arg(long, value_enum, value_name = "FORM")]
    pub(crate) irq: Option<Irq>,

    /// Page size of ashlar and its engines, which is another build of the lab; Cargo makes it where
    /// it started this one [default: that of this build]
    #[arg(long, value_enum, value_name = "SIZE")]
    pub(crate) page: Option<Page>,

    /// Let each process begin with a fragmented heap: for each size so many objects that are 8
    /// bytes smaller, of which every second is freed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) fragmented: Option<u32>,

    /// Show the first pass after start: each figure is from a new process that runs one pass of one
    /// test and size, without warm-up. Without this option the memory beside A and B contains what
    /// the system kept of the sizes that its process ran before
    #[arg(long)]
    pub(crate) first_pass: bool,

    /// Measured rounds; each asks every system in turn for each test and size, several times where
    /// that is cheap
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,

    /// Write host and records as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the records as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// `table`: one block for each test; `kernel`: the lines that the kernel's test module prints
    #[arg(long, value_enum, default_value_t = Style::Table)]
    pub(crate) style: Style,

    /// Show every system side by side, however wide the table becomes; without it, those that fit
    /// the terminal, or all of `--systems` in parts
    #[arg(long)]
    pub(crate) wide: bool,

    /// Statistic over the measured turns that ratings, ratios and targets use
    #[arg(long, value_enum, default_value_t = Statistic::Median)]
    pub(crate) by: Statistic,

    /// Judge the speed targets of the project; exit code 1 if one is missed
    #[arg(long)]
    pub(crate) check_targets: bool,

    /// Show beside the measured figures those that the kernel's mailing lists published, of other
    /// machines and kernels
    #[arg(long)]
    pub(crate) published: bool,

    /// Do not measure: take the records of an earlier run from this JSON file
    #[arg(long, value_name = "FILE", conflicts_with_all = WHAT_IS_MEASURED)]
    pub(crate) from: Option<PathBuf>,
}

/// What stands for disabled interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Irq {
    Lock,
    Biased,
}

impl Irq {
    /// The value of ashlar's option `irq`.
    pub(crate) fn value(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Biased => "biased",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    Table,
    Kernel,
}

pub(crate) fn parse_test(text: &str) -> Result<Test, String> {
    Test::parse(text).ok_or_else(|| format!("`{text}` is no test: expected one of A, B, C, D, E, F"))
}
