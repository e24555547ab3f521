//! How sure a figure is that was taken round by round.
//!
//! A round measures everything that is compared, within seconds. The slow drift of a machine then
//! hits all sides alike, so the ratios within each round are judged, not the means of all rounds.
//! Now and then one round is spoilt by more than any difference between allocators. The figure is
//! therefore the median, and its interval is that of the sign test, which needs no law of errors:
//! the median of the population lies below a sample with chance one half, so the number of samples
//! below it is binomial, and the samples at two ranks enclose it with a known chance.

use serde::{Deserialize, Serialize};

/// The chance with which an interval of the tool may miss.
pub const RISK: f64 = 0.05;

/// A median, and what it lies between.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The median of the samples.
    pub median: f64,
    /// The lower end; the smallest sample where the samples are too few for the risk.
    pub low: f64,
    /// The upper end; the largest sample where the samples are too few for the risk.
    pub high: f64,
    /// The chance that the interval holds the median of what the samples were drawn from.
    pub confidence: f64,
    /// The confidence is the one that was asked for.
    pub enough: bool,
}

impl Interval {
    /// Returns the interval that misses with a chance of at most `risk`, or none without samples.
    ///
    /// Samples that are too few for that risk (fewer than six for 5 %) give the range of all, and
    /// `enough` is false.
    pub fn of(samples: &[f64], risk: f64) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let missed = missed_by_rank(count);
        let rank = missed.iter().take_while(|&&missed| missed <= risk).count();
        let enough = rank > 0;
        // Rank 1 is the range of all samples.
        let rank = rank.max(1);
        Some(Self {
            median: median_of_sorted(&sorted)?,
            low: sorted[rank - 1],
            high: sorted[count - rank],
            confidence: 1.0 - missed[rank - 1],
            enough,
        })
    }

    /// True if the samples show that the median differs from `value`.
    pub fn excludes(&self, value: f64) -> bool {
        self.enough && (self.low > value || self.high < value)
    }
}

/// Returns the median, or none without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 0 => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        _ => Some(sorted[middle]),
    }
}

/// The chances to miss of the intervals between the samples of rank 1, 2, … from both ends.
fn missed_by_rank(count: usize) -> Vec<f64> {
    // The chance that exactly `below` of the samples lie below the median; 2^-1000 is still a
    // normal number.
    let mut exactly = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut missed = 0.0;
    let step = |below: usize| {
        missed += 2.0 * exactly;
        exactly *= (count - below) as f64 / (below + 1) as f64;
        missed
    };
    (0..count.div_ceil(2)).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(samples: &[f64]) -> (f64, f64, f64, bool) {
        let found = Interval::of(samples, RISK).unwrap();
        (found.median, found.low, found.high, found.enough)
    }

    #[test]
    fn the_interval_is_the_one_of_the_sign_test() {
        // Tables of the sign test: of 20 samples at 95 % the 6th and the 15th, of 10 the 2nd and
        // the 9th.
        let samples: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(ends(&samples), (10.5, 6.0, 15.0, true));
        assert_eq!(ends(&samples[..10]), (5.5, 2.0, 9.0, true));
        assert_eq!(ends(&samples[..9]), (5.0, 2.0, 8.0, true));
        let confidence = Interval::of(&samples, RISK).unwrap().confidence;
        assert!((confidence - 0.9586).abs() < 1e-4, "{confidence}");
        let many: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(ends(&many), (500.5, 469.0, 532.0, true));
    }

    #[test]
    fn few_samples_give_their_range_and_show_nothing() {
        assert_eq!(ends(&[3.0, 1.0, 2.0, 5.0, 4.0]), (3.0, 1.0, 5.0, false));
        assert!(!Interval::of(&[3.0; 5], RISK).unwrap().excludes(1.0));
        assert!(Interval::of(&[3.0; 6], RISK).unwrap().excludes(1.0));
        let one = Interval::of(&[3.0], RISK).unwrap();
        assert_eq!((one.low, one.high, one.confidence), (3.0, 3.0, 0.0));
        assert_eq!(Interval::of(&[], RISK), None);
    }

    #[test]
    fn a_spoilt_round_moves_the_interval_no_further_than_to_the_next_rank() {
        let mut samples: Vec<f64> = (1..=20).map(f64::from).collect();
        samples[19] = 1e9;
        assert_eq!(ends(&samples).2, 15.0);
    }

    #[test]
    fn intervals_miss_no_more_often_than_they_say() {
        let mut state = 3_u64;
        let mut missed = 0;
        for _ in 0..2000 {
            // Skewed, with rare giants; the median is 0.
            let mut sample = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 44) as f64 / f64::from(1 << 20) - 0.5;
                if at > 0.0 { at / (0.501 - at) } else { at }
            };
            let samples: Vec<f64> = (0..20).map(|_| sample()).collect();
            missed += usize::from(Interval::of(&samples, RISK).unwrap().excludes(0.0));
        }
        // The 6th and the 15th of 20 miss in 4.1 % of cases.
        assert!((50..=115).contains(&missed), "of 2000 intervals at 95 % {missed} missed");
    }
}
