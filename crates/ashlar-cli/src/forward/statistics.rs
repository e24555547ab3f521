//! How sure a difference is.
//!
//! A round gives one figure for each mode, all measured in turn within seconds, in processes that live for that round: the rounds are
//! independent of each other, and the differences within a round are what is averaged (paired samples). Of these the interval is
//! Student's t.
//!
//! Who looks at the interval after each round, and stops when he likes it, is wrong more often than he says. Here there are few looks,
//! after 20, 80, 320 and so on rounds, and each may be wrong with half of the chance that is left; the last one, when rounds or time
//! have ended, with all of it. So the chance that any interval of a run misses is at most what `--confidence` leaves.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Rounds before the first look.
pub(crate) const FIRST_LOOK: usize = 20;

/// A mean and how far off it may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) mean: f64,
    /// Half of the width; infinite for fewer than two samples.
    pub(crate) half_width: f64,
}

impl Interval {
    /// Zero is outside.
    pub(crate) fn is_significant(&self) -> bool {
        self.mean.abs() > self.half_width
    }
}

/// The interval for the mean of `samples` that misses with a chance of `risk`.
pub(crate) fn interval(samples: &[f64], risk: f64) -> Interval {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half_width = match StudentsT::new(0.0, 1.0, count - 1.0) {
        Ok(distribution) => distribution.inverse_cdf(1.0 - risk / 2.0) * (variance / count).sqrt(),
        Err(_) => f64::INFINITY,
    };
    Interval { mean, half_width }
}

/// When to look, and how much risk each look takes.
#[derive(Debug)]
pub(crate) struct Looks {
    next: usize,
    left: f64,
}

impl Looks {
    /// `confidence` in per cent.
    pub(crate) fn new(confidence: f64) -> Self {
        Self { next: FIRST_LOOK, left: 1.0 - confidence / 100.0 }
    }

    /// The risk of a look after so many rounds, if it is time for one.
    pub(crate) fn after(&mut self, rounds: usize) -> Option<f64> {
        if rounds < self.next {
            return None;
        }
        self.next *= 4;
        self.left /= 2.0;
        Some(self.left)
    }

    /// The risk of the last look.
    pub(crate) fn last(&self) -> f64 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // A textbook's: n 10, mean 5, deviation 2; t of 9 degrees at 97.5 % is 2.2622.
        let samples: Vec<f64> = [-1.5, -1.0, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1.0, 1.5].to_vec();
        let deviation = (samples.iter().map(|sample| sample * sample).sum::<f64>() / 9.0).sqrt();
        let samples: Vec<f64> = samples.iter().map(|sample| 5.0 + sample * 2.0 / deviation).collect();
        let found = interval(&samples, 0.05);
        assert!((found.mean - 5.0).abs() < 1e-9);
        assert!((found.half_width - 2.2622 * 2.0 / 10f64.sqrt()).abs() < 1e-4, "{found:?}");
        assert!(found.is_significant());
        assert!(interval(&samples, 0.01).half_width > found.half_width);
    }

    #[test]
    fn one_sample_says_nothing() {
        for samples in [&[][..], &[3.0]] {
            assert!(!interval(samples, 0.05).is_significant());
        }
    }

    #[test]
    fn all_looks_together_risk_no_more_than_was_allowed() {
        let mut looks = Looks::new(95.0);
        assert_eq!(looks.after(FIRST_LOOK - 1), None);
        let mut sum = 0.0;
        for rounds in 1..10_000 {
            sum += looks.after(rounds).unwrap_or(0.0);
        }
        assert!((sum + looks.last() - 0.05).abs() < 1e-12);
        assert!(sum > 0.04, "{sum}");
    }

    #[test]
    fn intervals_miss_as_often_as_they_say() {
        let mut rng = crate::workload::block::Rng::new(3);
        let mut missed = 0;
        for _ in 0..2000 {
            // Sums of twelve uniform numbers are nearly normal.
            let normal =
                |rng: &mut crate::workload::block::Rng| (0..12).map(|_| rng.below(1 << 20) as f64).sum::<f64>();
            let samples: Vec<f64> = (0..20).map(|_| normal(&mut rng) - normal(&mut rng)).collect();
            missed += usize::from(interval(&samples, 0.05).is_significant());
        }
        assert!((60..140).contains(&missed), "of 2000 intervals at 95 % {missed} missed");
    }
}
