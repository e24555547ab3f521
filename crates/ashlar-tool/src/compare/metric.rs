//! The columns of the table.

use crate::interval::{Interval, RISK};
use crate::resources::Usage;

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Elapsed,
    Cpu,
    Memory,
    Faults,
    Switches,
}

/// How a malloc differs from the system's in one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    /// The ratio to the system's, round by round.
    Ratio(Interval),
    /// The difference, where the system's malloc has a round with zero.
    Difference(Interval),
}

impl Metric {
    pub(super) const ALL: [Self; 5] = [Self::Elapsed, Self::Cpu, Self::Memory, Self::Faults, Self::Switches];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Elapsed => "elapsed",
            Self::Cpu => "CPU time",
            Self::Memory => "peak memory",
            Self::Faults => "page faults",
            Self::Switches => "switches",
        }
    }

    /// Its name in JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Elapsed => "elapsed",
            Self::Cpu => "cpu",
            Self::Memory => "peak",
            Self::Faults => "faults",
            Self::Switches => "switches",
        }
    }

    pub(super) fn value(self, usage: &Usage) -> f64 {
        let count = |number: u64| number as f64;
        match self {
            Self::Elapsed => usage.elapsed.as_secs_f64(),
            Self::Cpu => usage.cpu().as_secs_f64(),
            Self::Memory => count(usage.peak_kib),
            Self::Faults => count(usage.minor_faults + usage.major_faults),
            Self::Switches => count(usage.voluntary_switches + usage.involuntary_switches),
        }
    }

    /// Compares a malloc with the system's; both have the same rounds. None without rounds.
    pub(super) fn change<'a>(
        self,
        system: impl Iterator<Item = &'a Usage> + Clone,
        other: impl Iterator<Item = &'a Usage> + Clone,
    ) -> Option<Change> {
        let pairs = || system.clone().map(|usage| self.value(usage)).zip(other.clone().map(|usage| self.value(usage)));
        let of = |combine: fn(f64, f64) -> f64| {
            Interval::of(&pairs().map(|(system, other)| combine(system, other)).collect::<Vec<f64>>(), RISK)
        };
        if pairs().all(|(system, _)| system > 0.0) {
            of(|system, other| other / system).map(Change::Ratio)
        } else {
            of(|system, other| other - system).map(Change::Difference)
        }
    }

    /// A value in its unit, at most 12 characters wide.
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Self::Elapsed | Self::Cpu => match value {
                ..0.001 => format!("{:.0} us", value * 1e6),
                ..1.0 => digits(value * 1e3) + " ms",
                _ => digits(value) + " s",
            },
            Self::Memory => match value {
                ..1024.0 => format!("{value:.0} KiB"),
                ..1_048_576.0 => digits(value / 1024.0) + " MiB",
                _ => digits(value / 1_048_576.0) + " GiB",
            },
            Self::Faults | Self::Switches => grouped(value),
        }
    }

    /// A difference, with its sign.
    pub(super) fn show_difference(self, value: f64) -> String {
        format!("{}{}", if value < 0.0 { "-" } else { "+" }, self.show(value.abs()))
    }
}

/// A ratio, at most 6 characters wide.
pub(super) fn show_ratio(ratio: f64) -> String {
    if ratio < 99_999.5 { digits(ratio) } else { format!("{ratio:.0e}") }
}

/// Four digits, or as many as stand before the point.
fn digits(value: f64) -> String {
    match value {
        ..9.9995 => format!("{value:.3}"),
        ..99.995 => format!("{value:.2}"),
        ..999.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A count with a blank between thousands.
fn grouped(value: f64) -> String {
    if value >= 999_999_999.5 {
        return format!("{value:.2e}");
    }
    let plain = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn values_have_units_and_a_width() {
        let cases = [
            (Metric::Elapsed, 0.000_812_3, "812 us"),
            (Metric::Elapsed, 0.001_234_5, "1.234 ms"),
            (Metric::Cpu, 0.123_45, "123.5 ms"),
            (Metric::Cpu, 12.345, "12.35 s"),
            (Metric::Elapsed, 123_456.7, "123457 s"),
            (Metric::Memory, 812.0, "812 KiB"),
            (Metric::Memory, 34_406.4, "33.60 MiB"),
            (Metric::Memory, 3_145_728.0, "3.000 GiB"),
            (Metric::Faults, 0.0, "0"),
            (Metric::Faults, 1_234_567.0, "1 234 567"),
            (Metric::Switches, 2.5e12, "2.50e12"),
        ];
        for (metric, value, wanted) in cases {
            assert_eq!(metric.show(value), wanted);
        }
        for value in [0.0, 9e-7, 0.999_999, 9.999_99, 99.999, 1e5, 1e8 - 0.6, 1e9] {
            for metric in Metric::ALL {
                assert!(metric.show(value).len() <= 12, "{}", metric.show(value));
            }
            assert!(show_ratio(value).len() <= 6, "{}", show_ratio(value));
        }
        assert_eq!(Metric::Switches.show_difference(-1500.0), "-1 500");
    }

    #[test]
    fn a_change_is_the_median_of_ratios_or_of_differences_where_the_system_has_zero() {
        let usage = |ms: u64, switches: u64| Usage {
            elapsed: Duration::from_millis(ms),
            voluntary_switches: switches,
            ..Usage::default()
        };
        let system: Vec<Usage> = (1..=7).map(|n| usage(100 * n, n % 2)).collect();
        let other: Vec<Usage> = (1..=7).map(|n| usage(80 * n, n % 2 + 4)).collect();
        let change = |metric: Metric| metric.change(system.iter(), other.iter()).unwrap();
        let Change::Ratio(ratio) = change(Metric::Elapsed) else { panic!("expected a ratio") };
        assert!((ratio.median - 0.8).abs() < 1e-9 && ratio.excludes(1.0));
        let Change::Difference(difference) = change(Metric::Switches) else { panic!("expected a difference") };
        assert_eq!((difference.median, difference.excludes(0.0)), (4.0, true));
        assert_eq!(Metric::Cpu.change([].iter(), [].iter()), None);
    }
}
