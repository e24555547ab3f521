//! Options of `soak`.

use clap::Args;

/// Options of `ashlar-lab soak`.
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// Minutes, such as 30 or 0.5
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = parse_minutes)]
    pub(crate) minutes: f64,

    /// The number from which the options of each round are drawn, and what its threads do; a run
    /// prints it [default: another one each time]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,

    /// Threads that allocate and free
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: u8,

    /// Seconds of a round
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub(crate) round: u16,
}

/// Reads a number of minutes.
fn parse_minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse::<f64>().ok().filter(|minutes| (0.01..=10_000.0).contains(minutes));
    minutes.ok_or_else(|| "expected 0.01 to 10000 minutes".to_owned())
}
