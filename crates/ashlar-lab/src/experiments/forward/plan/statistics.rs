//! When a run has measured enough.
//!
//! Rounds give paired samples, whose interval is that of [`crate::kit::interval`]. Who looks at the
//! interval after each round, and stops when he likes it, is wrong more often than he says. Here
//! there are few looks, after 20, 80, 320 and so on rounds, and each may be wrong with half of the
//! chance that is left; the last one, when rounds or time have ended, with all of it. So the chance
//! that any interval of a run misses is at most what `--confidence` leaves.

/// Rounds before the first look.
pub(crate) const FIRST_LOOK: usize = 20;

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
}
