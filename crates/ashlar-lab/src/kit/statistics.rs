//! Figures of many samples: the middle one, the mean of ratios, and the choice between them.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Statistic {
    Min,
    Median,
}

impl Statistic {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Median => "median",
        }
    }
}

/// Middle value, or the mean of the two middle ones. The slice is not empty.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

pub(crate) fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// More digits than the clock can justify only make the files longer.
pub(crate) fn round2(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Rounds a figure of `unit`: seconds to microseconds, because short runs take milliseconds, and
/// anything else to hundredths.
pub(crate) fn rounded(value: f64, unit: &str) -> f64 {
    if unit == "s" { (value * 1e6).round() / 1e6 } else { round2(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_are_not_rounded_to_nothing() {
        assert_eq!(rounded(0.001_234_4, "s"), 0.001_234);
        assert_eq!(rounded(0.001_234_4, "ns"), 0.0);
        assert_eq!(rounded(12.345_678_9, "ns"), 12.35);
    }

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }
}
