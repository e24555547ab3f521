//! What a process is told and answers, and the run as `--json` writes it.

use serde::{Deserialize, Serialize};

use crate::kit::interval::{Interval, interval};
use crate::kit::measure::UNIT;
use crate::kit::once::record;
use crate::kit::record::{Host, Record};
use crate::kit::statistics::median;

/// Largest size that is measured. Larger objects fill a sheaf before a burst ends.
pub(crate) const LARGEST: usize = 1024;
/// Pairs of malloc and free in a pass.
pub(crate) const PAIRS: usize = 8_000;
/// Passes of each system, test and size in a process.
pub(crate) const PASSES: usize = 15;
/// Objects of a burst, which a sheaf of every measured size holds.
pub(crate) const BURST: usize = 10;
/// Most calls of a pass that may leave the fast path, as a share. Preemption ends a few sections.
const MOST_SLOW: f64 = 0.01;
/// Confidence of the intervals is one less this.
const RISK: f64 = 0.05;

/// What is measured, with the checked malloc first.
pub(crate) const SYSTEMS: [&str; 3] = ["ashlar-malloc", "unchecked", "ashlar"];
/// How the calls follow one another: a free after each malloc, or [`BURST`] of each by turns.
pub(crate) const TESTS: [&str; 2] = ["checks-pairs", "checks-bursts"];

/// What a child is told, as its argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Bytes of the objects.
    pub(crate) sizes: Vec<usize>,
    /// Pairs of a pass.
    pub(crate) pairs: usize,
    /// Passes that count.
    pub(crate) passes: usize,
}

/// The figures of one test, system and size in one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) test: String,
    pub(crate) system: String,
    pub(crate) size: usize,
    /// Ticks of a pair in each pass.
    pub(crate) ticks: Vec<f64>,
    /// Calls that left the fast path, for each call.
    pub(crate) slow: f64,
}

/// What a child prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) cells: Vec<Cell>,
}

/// What the checks cost in one test, at one size or over all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) test: String,
    /// Bytes; 0 stands for the geometric mean over all sizes.
    pub(crate) size: usize,
    /// The system that `ashlar-malloc` is divided by.
    pub(crate) over: String,
    /// Median of the rounds' ratios.
    pub(crate) ratio: f64,
    /// Between what that lies at 95 %; absent where there are too few rounds.
    pub(crate) interval: Option<[f64; 2]>,
}

/// A run as `--json` writes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) host: Host,
    pub(crate) records: Vec<Record>,
    /// Calls that left the fast path, for each call, by test, system and size: the most of any
    /// round.
    pub(crate) slow: Vec<(String, String, usize, f64)>,
    pub(crate) costs: Vec<Cost>,
}

impl Run {
    /// The run that the answers of all rounds make.
    pub(crate) fn collect(host: Host, answers: &[Answer]) -> Self {
        let mut run = Self { host, records: Vec::new(), slow: Vec::new(), costs: Vec::new() };
        let Some(first) = answers.first() else { return run };
        let of = |like: &Cell, system: &str| -> Vec<f64> {
            let same = |cell: &&Cell| (&cell.test, cell.size, &*cell.system) == (&like.test, like.size, system);
            answers.iter().filter_map(|answer| Some(median(&answer.cells.iter().find(same)?.ticks))).collect()
        };
        for cell in &first.cells {
            let samples = of(cell, &cell.system);
            run.records.push(Record { size: cell.size, ..record(&cell.test, &cell.system, UNIT, &samples) });
            let same =
                |other: &&Cell| (&other.test, other.size, &other.system) == (&cell.test, cell.size, &cell.system);
            let slow = answers.iter().filter_map(|answer| Some(answer.cells.iter().find(same)?.slow));
            run.slow.push((cell.test.clone(), cell.system.clone(), cell.size, slow.fold(0.0, f64::max)));
        }
        for test in TESTS {
            for over in &SYSTEMS[1..] {
                let cells: Vec<&Cell> =
                    first.cells.iter().filter(|cell| cell.test == test && cell.system == *over).collect();
                // Logarithms of the ratios of each round.
                let mut sum = vec![0.0; answers.len()];
                for cell in &cells {
                    let ratios: Vec<f64> =
                        of(cell, SYSTEMS[0]).iter().zip(of(cell, over)).map(|(a, b)| (a / b).ln()).collect();
                    sum.iter_mut().zip(&ratios).for_each(|(sum, ratio)| *sum += ratio);
                    run.costs.push(Cost::of(test, cell.size, over, &ratios));
                }
                let means: Vec<f64> = sum.iter().map(|sum| sum / cells.len() as f64).collect();
                run.costs.push(Cost::of(test, 0, over, &means));
            }
        }
        run
    }

    /// A line for each cell whose calls did not stay on the fast path.
    pub(crate) fn off_the_fast_path(&self) -> Vec<String> {
        let told = |(test, system, size, slow): &(String, String, usize, f64)| {
            format!("{test} of {system} at {size} bytes left the fast path in {:.1} % of its calls", 100.0 * slow)
        };
        self.slow.iter().filter(|cell| cell.3 > MOST_SLOW).map(told).collect()
    }
}

impl Cost {
    fn of(test: &str, size: usize, over: &str, logarithms: &[f64]) -> Self {
        let Interval { median, low, high } = interval(logarithms, RISK);
        let known = low.is_finite() && high.is_finite();
        Self {
            test: test.to_owned(),
            size,
            over: over.to_owned(),
            ratio: median.exp(),
            interval: known.then(|| [low.exp(), high.exp()]),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Rounds in which the checks cost a fifth of a pair, and kmalloc is half of that cheaper.
    pub(crate) fn answers(rounds: usize, slow: f64) -> Vec<Answer> {
        let cell = |test: &str, system: &str, size: usize, ticks: f64| Cell {
            test: test.to_owned(),
            system: system.to_owned(),
            size,
            ticks: vec![ticks, 100.0 * ticks, ticks],
            slow,
        };
        let of = |round: usize| {
            let drift = 1.0 + round as f64 / 10.0;
            let mut cells = Vec::new();
            for test in TESTS {
                for size in [16, 64] {
                    cells.extend(SYSTEMS.iter().zip([12.0, 10.0, 11.0]).map(|(s, t)| cell(test, s, size, t * drift)));
                }
            }
            Answer { cells }
        };
        (0..rounds).map(of).collect()
    }

    #[test]
    fn a_cost_is_the_ratio_within_a_round() {
        let run = Run::collect(Host::default(), &answers(8, 0.0));
        assert_eq!((run.records.len(), run.costs.len()), (12, 12));
        let of = |over: &str, size: usize| {
            run.costs.iter().find(|cost| cost.over == over && cost.size == size).expect("a cost")
        };
        for size in [0, 16, 64] {
            // The drift of the machine is in both sides of each ratio.
            assert!((of("unchecked", size).ratio - 1.2).abs() < 1e-9);
            assert!((of("ashlar", size).ratio - 12.0 / 11.0).abs() < 1e-9);
            let [low, high] = of("unchecked", size).interval.expect("eight rounds are enough");
            assert!((low - 1.2).abs() < 1e-9 && (high - 1.2).abs() < 1e-9);
        }
        assert!(Run::collect(Host::default(), &answers(3, 0.0)).costs[0].interval.is_none());
    }

    #[test]
    fn a_run_off_the_fast_path_is_no_figure() {
        assert!(Run::collect(Host::default(), &answers(2, 0.009)).off_the_fast_path().is_empty());
        let told = Run::collect(Host::default(), &answers(2, 0.02)).off_the_fast_path();
        assert_eq!(told.len(), 12);
        assert_eq!(told[0], "checks-pairs of ashlar-malloc at 16 bytes left the fast path in 2.0 % of its calls");
    }
}
