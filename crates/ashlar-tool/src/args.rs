//! The command line of the tool.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::compare::Base;

#[derive(Debug, Parser)]
#[command(
    name = "ashlar",
    version,
    about = "Run programs on the Linux slab allocators, and see what they gain",
    max_term_width = 80
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program with its malloc on ashlar
    #[command(
        override_usage = "ashlar run [OPTIONS] [--] PROGRAM [ARGUMENT]...",
        after_help = "Exit code: that of the program; 2 bad input, or a program that cannot be run so; \
        127 no such program."
    )]
    Run(RunArgs),
    /// Say what a program gains: run it by turns on the system's malloc and on ashlar
    #[command(
        override_usage = "ashlar compare [OPTIONS] [--] PROGRAM [ARGUMENT]...",
        after_help = "Standard output and exit code must be those of the system's malloc. Standard input is read anew \
        for each run if it is a file, and is empty if not. A signal ends the program and prints the complete rounds.\n\
        Exit code: 0 done; 1 a malloc was left out, because the program does other work on it or does not call it; \
        2 bad input, or a program that cannot be compared so; 127 no such program; 128 and the number of the signal."
    )]
    Compare(CompareArgs),
    /// List the processes on ashlar
    #[command(after_help = "Exit code: 0, also where there is none.")]
    Ps(PsArgs),
    /// Show the caches and the memory of a process on ashlar, while it runs
    #[command(
        after_help = "The process does nothing meanwhile, and may be stopped. Reading needs the rights of a debugger: \
        the same user, or root.\n\
        Exit code: 0 done; 2 bad input, or a process that cannot be read."
    )]
    Info(InfoArgs),
    /// Show what changed between two files of `ashlar info --save`
    #[command(after_help = "Exit code: 0 done; 2 bad input.")]
    Diff(DiffArgs),
    /// Watch the caches of a process, or all processes on ashlar
    #[command(after_help = "Exit code: 0 done; 2 bad input, or a process that cannot be read.")]
    Top(TopArgs),
    /// Serve the figures of all processes to Prometheus and its like, by HTTP
    #[command(
        after_help = "The path is /metrics, and a request reads the processes that `ashlar ps` lists. Prints the address, \
        and runs until a signal ends it.\n\
        Exit code: 2 bad input, or an address that cannot be listened at."
    )]
    Export(ExportArgs),
    /// Say what is in the way of ashlar here, in a program or in a process, and what to do
    #[command(
        override_usage = "ashlar doctor [OPTIONS] [PID | -- PROGRAM [ARGUMENT]...]",
        after_help = "The program is not run. Without PID and PROGRAM, the machine alone is looked at.\n\
        Exit code: 0 nothing is in the way; 1 something is; 2 bad input; 127 no such program."
    )]
    Doctor(DoctorArgs),
    /// Change a tunable of a cache of a running process
    #[command(after_help = HANDS)]
    Tune(TuneArgs),
    /// Have a running process return the free slabs of a cache, or of all
    #[command(after_help = HANDS)]
    Shrink(OneCacheArgs),
    /// Have a running process return all free memory to the system
    #[command(after_help = HANDS)]
    Reap(ReapArgs),
    /// Have a running process check the free objects of a cache, or of all
    #[command(
        after_help = "Objects on partial slabs are checked, as the kernel's `validate` does. Threads that need the same \
        slabs wait meanwhile.\n\
        Exit code: 0 sound; 1 a slab is corrupt, or the process took nothing up within the time; 2 bad input, or a \
        process that does not allow it."
    )]
    Validate(OneCacheArgs),
    /// Show where the memory of a program was allocated
    #[command(
        after_help = "The file is written by `ashlar run --profile FILE -- PROGRAM`. A process is read while it runs, \
        and does nothing meanwhile.\n\
        Exit code: 0 done; 2 bad input, or a process that cannot be read."
    )]
    Profile(ProfileArgs),
    /// Show which caches have pages that cannot go back, and which objects hold them
    #[command(after_help = "The objects are known where a heap profile was started: `ashlar run --profile`.\n\
        Exit code: 0 done; 2 bad input, or a process that cannot be read.")]
    Pins(PinsArgs),
    /// Write a page about the memory of a process: caches, growth, pinned pages, heap profile
    #[command(
        after_help = "The page is one file that needs nothing else. A process that runs is looked at for some seconds, \
        and does nothing meanwhile. If it ends before, the page shows what was seen.\n\
        Exit code: 0 done; 2 bad input, or a process that cannot be read."
    )]
    Report(ReportArgs),
}

/// What is true of all commands that ask a process for something.
const HANDS: &str = "The process is not interrupted: it takes the request up in its next slow call of the allocator, or \
    in its background thread. Asking needs the rights of a debugger: the same user, or root.\n\
    Exit code: 0 done; 1 the process took nothing up within the time, and nothing was changed; 2 bad input, or a \
    process that does not allow it.";

/// The process that a command is for.
#[derive(Debug, Args)]
pub(crate) struct ProcessArg {
    /// The number of the process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: i32,
}

/// How long a process is waited for.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Seconds to wait for the process, 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = interval)]
    pub(crate) timeout: f64,
}

/// Options of `ashlar export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The address and the port to listen at; port 0 for any
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    pub(crate) listen: String,

    /// The most caches of all processes together; the largest are kept
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) caches: u32,
}

/// Options of `ashlar doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The number of a process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,

    /// Write what was found as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// A program; its arguments do not matter
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Options of `ashlar tune`.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub(crate) process: ProcessArg,

    /// `cache.NAME.KEY=VALUE`, as in `ASHLAR_OPTIONS`; a NAME that ends in `*` stands for all that
    /// begin so
    #[arg(required = true, value_name = "SETTING")]
    pub(crate) settings: Vec<String>,

    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// Options of `ashlar shrink` and `ashlar validate`.
#[derive(Debug, Args)]
pub(crate) struct OneCacheArgs {
    #[command(flatten)]
    pub(crate) process: ProcessArg,

    /// The cache [default: all]
    #[arg(value_name = "CACHE")]
    pub(crate) cache: Option<String>,

    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// Options of `ashlar reap`.
#[derive(Debug, Args)]
pub(crate) struct ReapArgs {
    #[command(flatten)]
    pub(crate) process: ProcessArg,

    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// Options of `ashlar pins`.
#[derive(Debug, Args)]
pub(crate) struct PinsArgs {
    #[command(flatten)]
    pub(crate) process: ProcessArg,

    /// Show these caches alone
    #[arg(value_name = "CACHE")]
    pub(crate) caches: Vec<String>,

    /// Also show sites that hold less than a hundredth
    #[arg(long)]
    pub(crate) all: bool,

    /// Write the same as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `ashlar report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The number of a process, or files of `ashlar info --save`: two or more show growth
    #[arg(required = true, value_name = "PID|FILE")]
    pub(crate) subjects: Vec<PathBuf>,

    /// Write the page to OUT, or to standard output
    #[arg(long, required = true, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) html: PathBuf,

    /// Seconds to look at a process, 0.1 to 3600 [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    pub(crate) seconds: Option<f64>,

    /// Show this heap profile, of `ashlar run --profile` [default: that of the process, if any]
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
}

/// Options of `ashlar profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// The profile, or the number of a process in which one was started
    #[arg(value_name = "FILE|PID")]
    pub(crate) file: PathBuf,

    /// Print a table of the places that hold most memory [default]
    #[arg(long)]
    pub(crate) top: bool,

    /// The rows of the table; `site` prints backtraces
    #[arg(long, value_enum, value_name = "WHAT", default_value = "function", conflicts_with = "folded")]
    pub(crate) by: ProfileBy,

    /// The most rows
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "folded")]
    pub(crate) limit: usize,

    /// Sort by, or print, all that was allocated instead of what is live
    #[arg(long)]
    pub(crate) allocated: bool,

    /// Print a line for each backtrace with its bytes, for flame graphs
    #[arg(long, conflicts_with = "top")]
    pub(crate) folded: bool,

    /// Write a file for pprof, such as heap.pb.gz
    #[arg(short = 'o', long, value_name = "OUT")]
    pub(crate) pprof: Option<PathBuf>,

    /// Have the process profile itself for so long, 0.1 to 3600, then show that
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    pub(crate) seconds: Option<f64>,

    /// Have the process start a profile, and end
    #[arg(long, conflicts_with_all = ["seconds", "stop", "top", "folded", "pprof"])]
    pub(crate) start: bool,

    /// Have the process stop its profile, and end
    #[arg(long, conflicts_with_all = ["seconds", "top", "folded", "pprof"])]
    pub(crate) stop: bool,

    /// Bytes between two samples of a profile that is started: 1 to 16M
    #[arg(long, value_name = "BYTES", default_value = "512K")]
    pub(crate) rate: String,

    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// The rows of the table of `ashlar profile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileBy {
    Function,
    Site,
    Cache,
    Thread,
}

/// Options of `ashlar top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The number of the process [default: all]
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,

    /// Seconds between two looks, 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: f64,

    /// The column by which rows are sorted
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "memory")]
    pub(crate) sort: Column,

    /// Show rows whose name has this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,

    /// Print one table after one interval, and end
    #[arg(long)]
    pub(crate) once: bool,

    /// The same as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A column of `ashlar top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Column {
    Name,
    Active,
    Cached,
    Memory,
    Pinned,
    Growth,
    Alloc,
    Free,
}

/// Reads the seconds between two looks.
fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "expected 0.1 to 3600".to_owned())
}

/// Options of `ashlar ps`.
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Write all figures of each process as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `ashlar info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) process: ProcessArg,

    /// Show all figures of these caches alone
    #[arg(value_name = "CACHE")]
    pub(crate) caches: Vec<String>,

    /// Also show how often slow paths were taken
    #[arg(long)]
    pub(crate) events: bool,

    /// Write the figures as JSON
    #[arg(long, conflicts_with_all = ["prometheus", "save"])]
    pub(crate) json: bool,

    /// Write the figures in the text format of Prometheus
    #[arg(long, conflicts_with = "save")]
    pub(crate) prometheus: bool,

    /// Write the figures to a file, for `ashlar diff`
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
}

/// Options of `ashlar diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The file that was saved first
    #[arg(value_name = "A")]
    pub(crate) before: PathBuf,

    /// The file that was saved later
    #[arg(value_name = "B")]
    pub(crate) after: PathBuf,

    /// Write the changes as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `ashlar compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Rounds, each of one run on every malloc [default: what fits into 20 seconds, 6 to 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,

    /// Rounds before them that do not count
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) warmup: u32,

    /// More mallocs, separated by commas: mimalloc, jemalloc, tcmalloc, snmalloc, rpmalloc, the
    /// path of a shared library, or `all` for those that are found
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) with: Vec<String>,

    /// An option of ashlar, as in `ASHLAR_OPTIONS`; may be given several times
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub(crate) options: Vec<String>,

    /// What the ratios are to: the system's malloc, or ashlar, to see what options of it cost
    #[arg(long, value_enum, value_name = "MALLOC", default_value_t = Base::System)]
    pub(crate) base: Base,

    /// Do not compare outputs and exit codes, for a program that differs from run to run
    #[arg(long)]
    pub(crate) no_check: bool,

    /// Write machine, runs, ratios and intervals as JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Options of `ashlar run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The strategy of the caches (option `engine`)
    #[arg(long, value_name = "ID")]
    pub(crate) engine: Option<String>,

    /// An option of the allocator, as in `ASHLAR_OPTIONS`; may be given several times
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub(crate) options: Vec<String>,

    /// Debug caches, as `ASHLAR_DEBUG`: letters of FZPUTAO, then names of caches, each behind a
    /// comma; further blocks behind semicolons. An empty text means FZPU for all
    #[arg(long, value_name = "LETTERS[,CACHE]...", allow_hyphen_values = true)]
    pub(crate) debug: Option<String>,

    /// Let allocations of caches with the letter A fail, as `ASHLAR_FAILSLAB`
    #[arg(long, value_name = "INTERVAL,PROBABILITY,SPACE,TIMES")]
    pub(crate) failslab: Option<String>,

    /// Print the caches, resident memory and the mode on standard error when the program ends
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub(crate) stats: Option<StatsForm>,

    /// Sample where memory is allocated, and write that to a file when the program ends; `%p` is
    /// the number of the process
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,

    /// Bytes between two samples, on average: 1 to 16M [default: 512K]
    #[arg(long, value_name = "BYTES", requires = "profile")]
    pub(crate) profile_rate: Option<String>,

    /// Print what lives when the program ends, by the place where it was allocated
    #[arg(long, conflicts_with = "profile")]
    pub(crate) leaks: bool,

    /// Leave out what fits a line `leak:PATTERN` of this file
    #[arg(long, value_name = "FILE", requires = "leaks")]
    pub(crate) suppressions: Option<PathBuf>,

    /// The exit code if something is left
    #[arg(long, value_name = "N", requires = "leaks")]
    pub(crate) leak_exit_code: Option<u8>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Forms of the figures of `ashlar run --stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsForm {
    Text,
    Json,
}

impl StatsForm {
    /// Returns the value of `ASHLAR_STATS`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}
