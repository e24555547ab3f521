//! How sure a figure is that was taken round by round.
//!
//! A round measures all that is to be compared in turn, within seconds, so what is judged are the
//! differences, or the ratios, within a round (paired samples): the slow drift of a machine hits
//! both. Now and then it spoils a round by much more than any difference, so the figure is the
//! median, and its interval the one that needs no law of errors (the sign test): the median of the
//! population lies below a sample with chance one half, so the number of samples below it is
//! binomial, and the samples at two ranks enclose it with a known chance.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

use crate::kit::statistics::median;

/// A median, and between what it lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) median: f64,
    /// Infinite where the samples are too few to say.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// Whether there were samples enough for an interval.
    pub(crate) fn is_known(&self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    /// Zero is outside.
    pub(crate) fn is_significant(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The interval for the median of what `samples` (at least one) were drawn from, which misses with
/// a chance of at most `risk`.
pub(crate) fn interval(samples: &[f64], risk: f64) -> Interval {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // The most samples that may be cut off at each end.
    let cut = Binomial::new(0.5, count as u64)
        .map_or(0, |below| (0..=count as u64 / 2).take_while(|&cut| below.cdf(cut) <= risk / 2.0).count());
    let (low, high) = match cut {
        0 => (f64::NEG_INFINITY, f64::INFINITY),
        cut => (sorted[cut - 1], sorted[count - cut]),
    };
    Interval { median: median(samples), low, high }
}

/// The fewest samples that have an interval: with one less, all on one side of the median happen
/// more often than `risk`.
pub(crate) fn fewest_samples(risk: f64) -> usize {
    (2.0 / risk).log2().ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::random;

    #[test]
    fn the_interval_is_the_one_of_the_sign_test() {
        // Tables of the sign test: of 20 samples at 95 % the 6th and the 15th, of 10 at 95 % the
        // 2nd and the 9th.
        let samples: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(interval(&samples, 0.05), Interval { median: 10.5, low: 6.0, high: 15.0 });
        assert_eq!(interval(&samples[..10], 0.05), Interval { median: 5.5, low: 2.0, high: 9.0 });
        assert!(interval(&samples, 0.05).is_significant());
        let shifted: Vec<f64> = samples.iter().map(|sample| sample - 8.0).collect();
        assert!(!interval(&shifted, 0.05).is_significant());
        let negative: Vec<f64> = samples.iter().map(|sample| -sample).collect();
        assert!(interval(&negative, 0.05).is_significant());
    }

    #[test]
    fn few_samples_say_nothing() {
        // Five on one side happen once in sixteen times.
        assert!(!interval(&[3.0], 0.05).is_significant());
        assert!(!interval(&[3.0; 5], 0.05).is_significant());
        assert!(interval(&[3.0; 6], 0.05).is_significant());
        for risk in [0.2, 0.05, 0.01, 0.001] {
            let fewest = fewest_samples(risk);
            assert!(interval(&vec![3.0; fewest], risk).is_known(), "{fewest} at {risk}");
            assert!(!interval(&vec![3.0; fewest - 1], risk).is_known(), "{fewest} at {risk}");
        }
    }

    #[test]
    fn a_spoilt_round_moves_the_interval_no_further_than_to_the_next_rank() {
        let mut samples: Vec<f64> = (1..=20).map(f64::from).collect();
        samples[19] = 1e9;
        assert_eq!(interval(&samples, 0.05).high, 15.0);
    }

    #[test]
    fn intervals_miss_no_more_often_than_they_say() {
        let mut rng = random::Rng::new(3);
        let mut missed = 0;
        for _ in 0..2000 {
            // Skewed, with rare giants; the median is 0.
            let mut sample = || {
                let at = rng.below(1 << 20) as f64 / f64::from(1 << 20) - 0.5;
                if at > 0.0 { at / (0.501 - at) } else { at }
            };
            let samples: Vec<f64> = (0..20).map(|_| sample()).collect();
            missed += usize::from(interval(&samples, 0.05).is_significant());
        }
        // The 6th and the 15th of 20 miss in 4.1 % of cases.
        assert!((50..=115).contains(&missed), "of 2000 intervals at 95 % {missed} missed");
    }
}
