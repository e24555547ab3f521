//! The interval of a figure that is computed from several medians, such as a quotient of two means
//! over sizes: by the bootstrap over rounds.
//!
//! A run of the lab is a number of rounds, each of which measures everything. The bootstrap draws
//! as many rounds as there were, with repetition, computes the figure from these, and does so a
//! thousand times. The middle 95 % of the figures are the interval. What was measured in one round
//! is drawn together, because the drift of a machine is in all of it. One median alone needs no
//! such simulation; see [`crate::kit::interval`].

use crate::kit::interval::fewest_samples;
use crate::kit::random::Rng;

/// How often rounds are drawn. Twice as many move the ends by less than they are rounded to.
const DRAWS: usize = 1000;
/// The chance with which an interval may miss.
pub(crate) const RISK: f64 = 0.05;

/// The fewest rounds that have an interval: with less, all rounds may well lie on one side of the
/// figure.
pub(crate) fn fewest_rounds() -> usize {
    fewest_samples(RISK)
}

/// The interval of `figure`, which computes a number from the rounds drawn in each group. `groups`
/// holds the number of rounds of each; rounds of one group are drawn together, and groups by
/// themselves. `None` if a group has too few rounds.
pub(crate) fn interval(groups: &[usize], figure: impl Fn(&[Vec<usize>]) -> f64) -> Option<[f64; 2]> {
    if groups.is_empty() || groups.iter().any(|&rounds| rounds < fewest_rounds()) {
        return None;
    }
    // The same draws in every run: the same records have the same interval.
    let mut rng = Rng::new(1);
    let mut drawn: Vec<Vec<usize>> = groups.iter().map(|&rounds| vec![0; rounds]).collect();
    let mut found: Vec<f64> = (0..DRAWS)
        .map(|_| {
            for (rounds, &count) in drawn.iter_mut().zip(groups) {
                rounds.fill_with(|| rng.below(count));
            }
            figure(&drawn)
        })
        .collect();
    found.sort_by(f64::total_cmp);
    let cut = (DRAWS as f64 * RISK / 2.0) as usize;
    Some([found[cut], found[DRAWS - 1 - cut]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::statistics::median;

    fn of_median(samples: &[f64]) -> Option<[f64; 2]> {
        let figure = |drawn: &[Vec<usize>]| median(&drawn[0].iter().map(|&round| samples[round]).collect::<Vec<f64>>());
        interval(&[samples.len()], figure)
    }

    #[test]
    fn equal_rounds_have_an_interval_of_no_width_and_few_have_none() {
        assert_eq!(of_median(&[3.0; 6]), Some([3.0, 3.0]));
        assert_eq!(of_median(&[3.0; 5]), None);
        assert_eq!(interval(&[9, 5], |_| 1.0), None, "one group of two is too small");
        assert_eq!(interval(&[], |_| 1.0), None);
    }

    #[test]
    fn an_interval_holds_the_middle_rounds_and_not_the_outer_ones() {
        let samples: Vec<f64> = (1..=20).map(f64::from).collect();
        let [low, high] = of_median(&samples).unwrap();
        // The exact interval of the sign test is 6 to 15.
        assert!((5.0..=7.5).contains(&low) && (13.5..=16.0).contains(&high), "{low} {high}");
        assert_eq!(of_median(&samples), Some([low, high]), "the same again");
    }

    #[test]
    fn drift_that_both_sides_share_does_not_widen_a_quotient() {
        let drift = |round: usize| 1.0 + round as f64 / 3.0;
        let quotient = |over: &[usize], under: &[usize]| {
            let of = |rounds: &[usize]| median(&rounds.iter().map(|&round| drift(round)).collect::<Vec<f64>>());
            2.0 * of(over) / of(under)
        };
        assert_eq!(interval(&[12], |drawn| quotient(&drawn[0], &drawn[0])), Some([2.0, 2.0]));
        // Two runs have rounds of their own.
        let [low, high] = interval(&[12, 12], |drawn| quotient(&drawn[0], &drawn[1])).unwrap();
        assert!(low < 1.5 && high > 2.6, "{low} {high}");
    }

    #[test]
    fn intervals_miss_about_as_often_as_they_say() {
        let mut rng = Rng::new(5);
        let mut missed = 0;
        for _ in 0..400 {
            let samples: Vec<f64> = (0..15).map(|_| rng.below(1 << 20) as f64 / f64::from(1 << 20) - 0.5).collect();
            let [low, high] = of_median(&samples).unwrap();
            missed += usize::from(low > 0.0 || high < 0.0);
        }
        // A bootstrap of few rounds is a little too narrow.
        assert!((4..=40).contains(&missed), "of 400 intervals at 95 % {missed} missed");
    }
}
