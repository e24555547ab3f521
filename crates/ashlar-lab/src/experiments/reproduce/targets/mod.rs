//! From claims and evidence to verdicts. A reason is computed from what was measured, so that
//! another measurement gives another reason.
//!
//! A verdict judges an interval and not a number: a claim is reproduced if the whole interval is
//! within the bounds, not reproduced if none of it is, and open if it has a bound inside.

mod measure;
pub(crate) mod order;

use serde::{Deserialize, Serialize};

use crate::experiments::reproduce::plan::claims::{Claim, Claims, Kind};
use crate::experiments::reproduce::plan::evidence::{Evidence, MOST_OFF, Outcome};
use crate::experiments::reproduce::plan::runs;
use crate::experiments::reproduce::targets::measure::{Found, Number, found};
use crate::kit::published::Published;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Reproduced,
    NotReproduced,
    /// A bound lies inside the interval, or there were too few rounds for one. Also where only
    /// some values of a fitted parameter decide.
    Open,
    /// Another value of a parameter that the mail does not tell gives the contrary verdict.
    Fitted,
    NotComparable,
    NotMeasured,
}

impl Verdict {
    pub(crate) const ALL: [Self; 6] =
        [Self::Reproduced, Self::NotReproduced, Self::Open, Self::Fitted, Self::NotComparable, Self::NotMeasured];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::Open => "open",
            Self::Fitted => "depends on a fitted parameter",
            Self::NotComparable => "not comparable here",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A claim, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Judged {
    pub(crate) id: String,
    pub(crate) seed: String,
    pub(crate) tables: Vec<String>,
    pub(crate) claim: String,
    /// Whose claim it is, and whether it counts.
    #[serde(default)]
    pub(crate) kind: Kind,
    /// The claim whose figures this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repeats: Option<String>,
    /// `quotient`, or `percent` for a difference.
    pub(crate) unit: String,
    /// Absent where the mail has no number.
    pub(crate) published: Option<f64>,
    pub(crate) measured: Option<f64>,
    /// Between what the number lies at 95 %; absent where there are too few rounds.
    #[serde(default)]
    pub(crate) interval: Option<[f64; 2]>,
    /// Rounds that the interval is made from.
    #[serde(default)]
    pub(crate) rounds: usize,
    /// What the rule wants, in words.
    pub(crate) wanted: String,
    /// The least and the most that the rule allows, where it has them.
    pub(crate) least: Option<f64>,
    pub(crate) most: Option<f64>,
    /// A figure of it comes from a model.
    pub(crate) simulated: bool,
    /// Bytes of a page, where they were not 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) page: Option<usize>,
    /// The parameter that the mail does not tell, where the claim rests on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parameter: Option<String>,
    /// The same claim with other values of that parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) elsewhere: Vec<Elsewhere>,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    /// The command that measured it.
    pub(crate) command: String,
}

/// A claim judged by another run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Elsewhere {
    pub(crate) command: String,
    pub(crate) measured: Option<f64>,
    pub(crate) interval: Option<[f64; 2]>,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
}

/// All claims in their order.
pub(crate) fn judge(claims: &Claims, data: &Published, evidence: &Evidence) -> Vec<Judged> {
    claims.claims.iter().map(|claim| of_claim(claim, data, evidence)).collect()
}

/// What one run says of a claim.
struct Opinion {
    verdict: Verdict,
    number: Option<Number>,
    reason: String,
}

fn of_claim(claim: &Claim, data: &Published, evidence: &Evidence) -> Judged {
    let command = |run: &str| evidence.get(run).map_or_else(|| runs::command(run), |outcome| outcome.command.clone());
    let own = opinion(claim, &claim.run, data, evidence);
    let fitted = claim.fitted.as_ref();
    let others: Vec<(&String, Opinion)> = fitted
        .into_iter()
        .flat_map(|fitted| &fitted.runs)
        .map(|run| (run, opinion(claim, run, data, evidence)))
        .collect();
    let elsewhere = |(run, opinion): (&String, Opinion)| Elsewhere {
        command: command(run),
        measured: opinion.number.as_ref().map(|number| number.value),
        interval: opinion.number.and_then(|number| number.interval),
        verdict: opinion.verdict,
        reason: opinion.reason,
    };
    let elsewhere: Vec<Elsewhere> = others.into_iter().map(elsewhere).collect();
    let verdict = match own.number {
        Some(_) => of_all(own.verdict, elsewhere.iter().map(|other| other.verdict)),
        None => own.verdict,
    };
    let mut reason = own.reason;
    if let Some(fitted) = fitted.filter(|_| own.number.is_some()) {
        reason += &format!(" ({})", own.verdict.words());
        for other in &elsewhere {
            reason += &format!("; `{}`: {} ({})", other.command, other.reason, other.verdict.words());
        }
        reason += &format!("; the mail does not tell {}", fitted.parameter);
    }
    let (least, most) = claim.bounds(data);
    Judged {
        id: claim.id.clone(),
        seed: claim.seed.clone(),
        tables: claim.tables.clone(),
        claim: claim.claim.clone(),
        kind: claim.kind(),
        repeats: claim.repeats.clone(),
        unit: if claim.is_difference() { "percent" } else { "quotient" }.to_owned(),
        published: claim.published(data),
        measured: own.number.as_ref().map(|number| number.value),
        interval: own.number.as_ref().and_then(|number| number.interval),
        rounds: own.number.as_ref().map_or(0, |number| number.rounds),
        wanted: claim.wanted(data),
        least: least.is_finite().then_some(least),
        most: most.is_finite().then_some(most),
        simulated: own.number.as_ref().is_some_and(|number| number.simulated),
        page: evidence.get(&claim.run).and_then(Outcome::page),
        parameter: fitted.map(|fitted| fitted.parameter.clone()),
        elsewhere,
        verdict,
        reason,
        command: command(&claim.run),
    }
}

/// The verdict on a claim that rests on a parameter, from those with each value of it.
fn of_all(own: Verdict, others: impl Iterator<Item = Verdict>) -> Verdict {
    let all: Vec<Verdict> = core::iter::once(own).chain(others).collect();
    let has = |verdict: Verdict| all.contains(&verdict);
    match own {
        Verdict::NotComparable => own,
        _ if all.iter().all(|other| *other == own) => own,
        // What was not measured with another value is not shown to be independent of it.
        _ if has(Verdict::NotMeasured) || has(Verdict::NotComparable) => Verdict::Fitted,
        _ if has(Verdict::Reproduced) && has(Verdict::NotReproduced) => Verdict::Fitted,
        _ => Verdict::Open,
    }
}

/// Judges a claim by one run.
fn opinion(claim: &Claim, run: &str, data: &Published, evidence: &Evidence) -> Opinion {
    match found(claim, run, evidence) {
        Found::Number(number) => {
            let mut reason = format!("{}; wanted {}", number.parts, claim.wanted(data));
            let verdict = if number.off {
                reason += &format!("; a prediction that is more than {:.0} % off has no verdict", 100.0 * MOST_OFF);
                Verdict::NotComparable
            } else {
                of_interval(number.interval, claim.bounds(data))
            };
            Opinion { verdict, number: Some(number), reason }
        }
        Found::NotComparable(reason) => Opinion { verdict: Verdict::NotComparable, number: None, reason },
        Found::NotMeasured(reason) => Opinion { verdict: Verdict::NotMeasured, number: None, reason },
    }
}

/// Where an interval lies.
fn of_interval(interval: Option<[f64; 2]>, (least, most): (f64, f64)) -> Verdict {
    match interval {
        None => Verdict::Open,
        Some([low, high]) if low >= least && high <= most => Verdict::Reproduced,
        Some([low, high]) if high < least || low > most => Verdict::NotReproduced,
        Some(_) => Verdict::Open,
    }
}

#[cfg(test)]
pub(crate) mod tests;
