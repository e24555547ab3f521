//! The command line of the tool.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    #[command(after_help = "Exit code: that of the program; 2 bad input, or a program that cannot be run so; \
        127 no such program.")]
    Run(RunArgs),
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

    /// Print the caches, resident memory and the mode on standard error when the program ends
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub(crate) stats: Option<StatsForm>,

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
