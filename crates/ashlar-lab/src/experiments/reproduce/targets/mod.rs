//! From claims and evidence to verdicts. A reason is computed from what was measured, so that
//! another measurement gives another reason.

use serde::{Deserialize, Serialize};

use crate::experiments::reproduce::plan::claims::{Claim, Claims, Side};
use crate::experiments::reproduce::plan::evidence::{Cell, Evidence, Figures, Outcome, figures, mean};
use crate::experiments::reproduce::plan::runs;
use crate::kit::counts::Counts;
use crate::kit::published::Published;
use crate::kit::table::{self, figure};

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    Reproduced,
    NotReproduced,
    NotComparable,
    NotMeasured,
}

impl Verdict {
    pub(crate) const ALL: [Self; 4] = [Self::Reproduced, Self::NotReproduced, Self::NotComparable, Self::NotMeasured];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
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
    /// `quotient`, or `percent` for a difference.
    pub(crate) unit: String,
    /// Absent where the mail has no number.
    pub(crate) published: Option<f64>,
    pub(crate) measured: Option<f64>,
    /// What the rule wants, in words.
    pub(crate) wanted: String,
    /// The least and the most that the rule allows, where it has them.
    pub(crate) least: Option<f64>,
    pub(crate) most: Option<f64>,
    /// A figure of it comes from a model.
    pub(crate) simulated: bool,
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    /// The command that measured it.
    pub(crate) command: String,
}

/// What a claim comes to.
enum Found {
    /// A number, whether part of it is simulated, and what it is made of.
    Number(f64, bool, String),
    /// A difference that noise may have made.
    Noise(f64, String),
    NotComparable(String),
    NotMeasured(String),
}

/// All claims in their order.
pub(crate) fn judge(claims: &Claims, data: &Published, evidence: &Evidence) -> Vec<Judged> {
    claims.claims.iter().map(|claim| of_claim(claim, data, evidence)).collect()
}

fn of_claim(claim: &Claim, data: &Published, evidence: &Evidence) -> Judged {
    let outcome = evidence.get(&claim.run);
    let command = outcome.map_or_else(|| runs::command(&claim.run), |outcome| outcome.command.clone());
    let found = match outcome {
        None => not_run(&claim.run),
        Some(outcome) if claim.is_difference() => difference(claim, outcome),
        Some(_) => quotient(claim, evidence),
    };
    let (least, most) = claim.bounds(data);
    let wanted = claim.wanted(data);
    let inside = |value: f64| (least..=most).contains(&value);
    let (verdict, measured, simulated, reason) = match found {
        Found::Number(value, simulated, parts) => {
            let verdict = if inside(value) { Verdict::Reproduced } else { Verdict::NotReproduced };
            (verdict, Some(value), simulated, format!("{parts}; wanted {wanted}"))
        }
        // What noise could have made is no difference: it confirms only a claim that there is none.
        Found::Noise(value, parts) => {
            let verdict = if inside(0.0) { Verdict::Reproduced } else { Verdict::NotReproduced };
            (verdict, Some(value), false, format!("{parts}; wanted {wanted}"))
        }
        Found::NotComparable(why) => (Verdict::NotComparable, None, false, why),
        Found::NotMeasured(why) => (Verdict::NotMeasured, None, false, why),
    };
    Judged {
        id: claim.id.clone(),
        seed: claim.seed.clone(),
        tables: claim.tables.clone(),
        claim: claim.claim.clone(),
        unit: if claim.is_difference() { "percent" } else { "quotient" }.to_owned(),
        published: claim.published(data),
        measured,
        wanted,
        least: least.is_finite().then_some(least),
        most: most.is_finite().then_some(most),
        simulated,
        verdict,
        reason,
        command,
    }
}

/// The run's own words where it has no figure.
fn absent(outcome: &Outcome, what: &str) -> Found {
    let why = outcome.failure.as_deref().map_or_else(String::new, |failure| format!(": {failure}"));
    Found::NotMeasured(format!("`{}` gave no figure for {what}{why}", outcome.command))
}

fn not_run(run: &str) -> Found {
    Found::NotMeasured(format!("`{}` was not run", runs::command(run)))
}

/// The cells of a side, or why there are none.
fn cells_of<'a>(claim: &Claim, side: &Side, evidence: &'a Evidence) -> Result<Vec<&'a Cell>, Found> {
    let run = side.run.as_ref().unwrap_or(&claim.run);
    let outcome = evidence.get(run).ok_or_else(|| not_run(run))?;
    let found = outcome.cells(side, claim.sizes.as_deref());
    let counted = outcome.records.iter().any(|cell| cell.test == side.test && cell.median.is_some());
    let works = outcome.failure.is_none() && outcome.records.iter().any(|cell| cell.system == side.system);
    match found.is_empty() {
        false => Ok(found),
        true if works && !counted => Err(Found::NotComparable(format!(
            "`{}` has no `{}`: this machine does not count it",
            outcome.command, side.test
        ))),
        true => Err(absent(outcome, &format!("{} of `{}`", side.test, side.system))),
    }
}

fn quotient(claim: &Claim, evidence: &Evidence) -> Found {
    let (Some(over), Some(under)) = (&claim.over, &claim.under) else {
        return Found::NotMeasured("the claim names nothing to measure".to_owned());
    };
    let (tops, bottoms) = match (cells_of(claim, over, evidence), cells_of(claim, under, evidence)) {
        (Ok(tops), Ok(bottoms)) => (tops, bottoms),
        (Err(why), _) | (_, Err(why)) => return why,
    };
    let (top, bottom) = (figures(&tops), figures(&bottoms));
    let own_sizes = over.sizes.is_some() || under.sizes.is_some();
    // Only what both sides have is compared, unless each side has sizes of its own.
    let common = |key: &&(usize, usize)| own_sizes || (top.contains_key(*key) && bottom.contains_key(*key));
    let keys = |side: &Figures<'_>| side.keys().filter(common).copied().collect::<Vec<_>>();
    let (over_keys, under_keys) = (keys(&top), keys(&bottom));
    let of = |side: &Figures<'_>, keys: &[(usize, usize)]| mean(keys.iter().filter_map(|key| side[key].full()));
    let (Some(a), Some(b)) = (of(&top, &over_keys), of(&bottom, &under_keys)) else {
        return Found::NotMeasured(format!("{} and {} were measured at no common size", over.system, under.system));
    };
    let simulated =
        over_keys.iter().any(|key| top[key].simulated) || under_keys.iter().any(|key| bottom[key].simulated);
    let place = range(&over_keys.iter().chain(&under_keys).copied().collect::<Vec<_>>());
    let name = |side: &Side, cells: &[&Cell]| {
        let mut name = format!("{} {}", side.system, side.test);
        if let Some(cpus) = side.cpus {
            name += &format!(" on {cpus} CPU{}", if cpus == 1 { "" } else { "s" });
        }
        if let Some(phase) = &side.phase {
            name += &format!(", {phase}");
        }
        if side.run.is_some() {
            let cpus = cells.first().map_or(0, |cell| cell.cpus);
            name += &format!(" on {cpus} CPU{}", if cpus == 1 { "" } else { "s" });
        }
        if let Some(nodes) = side.nodes.filter(|&nodes| nodes > 1) {
            name += &format!(" of {nodes} nodes");
        }
        if let Some(scale) = cells.iter().find_map(|cell| cell.scale).filter(|&scale| scale != 1.0) {
            name += &format!(" (from {scale} of the work)");
        }
        name
    };
    let unit = tops.first().map_or("", |cell| runs::unit(&cell.unit));
    let mut parts = format!(
        "{}{} {} over {} {}{unit} = {}",
        if simulated { "simulated: " } else { "" },
        name(over, &tops),
        figure(a),
        name(under, &bottoms),
        figure(b),
        table::number(a / b)
    );
    if !place.is_empty() {
        parts += &format!(" ({place})");
    }
    if let (Some(over), Some(under)) = (counts(&tops), counts(&bottoms)) {
        parts += &format!(", locks for one operation {over} and {under}");
    }
    for (side, cells) in [(over, &tops), (under, &bottoms)] {
        if let Some(searched) = searched(cells) {
            parts += &format!(", {} looks through {searched}", side.system);
        }
    }
    Found::Number(a / b, simulated, parts)
}

/// Locks for one operation, mean over cells that have counts.
fn counts(cells: &[&Cell]) -> Option<String> {
    let locks: Vec<f64> = cells.iter().filter_map(|cell| cell.counts.map(|counts| counts.locks)).collect();
    (!locks.is_empty()).then(|| table::number(locks.iter().sum::<f64>() / locks.len() as f64))
}

/// How far searches went, mean over cells that have such figures.
fn searched(cells: &[&Cell]) -> Option<String> {
    let counts: Vec<Counts> = cells.iter().filter_map(|cell| cell.counts).collect();
    let search = Counts::mean(&counts)?.search?;
    Some(format!(
        "{} pages and {} free blocks for an allocation, and {} % of its calls wait for its lock",
        figure(search.pages),
        figure(search.blocks),
        figure(100.0 * search.waits)
    ))
}

/// Sizes or bulks that a figure is the mean of.
fn range(keys: &[(usize, usize)]) -> String {
    let span = |of: fn(&(usize, usize)) -> usize| {
        let values: Vec<usize> = keys.iter().map(of).filter(|&value| value > 0).collect();
        Some((*values.iter().min()?, *values.iter().max()?))
    };
    let sizes = span(|key| key.0)
        .map(|(least, most)| if least == most { format!("{least} bytes") } else { format!("{least} to {most} bytes") });
    let bulks = span(|key| key.1).map(|(least, most)| {
        if least == most { format!("{least} in a call") } else { format!("{least} to {most} in a call") }
    });
    sizes.into_iter().chain(bulks).collect::<Vec<_>>().join(", ")
}

fn difference(claim: &Claim, outcome: &Outcome) -> Found {
    let Some(sides) = &claim.difference else {
        return Found::NotMeasured("the claim names nothing to measure".to_owned());
    };
    let Some(found) = outcome.difference(sides) else {
        return absent(outcome, &format!("`{}` against `{}` of `{}`", sides.mode, sides.base, sides.system));
    };
    let interval = found.interval_ns.map_or_else(
        || format!("{} rounds are too few to know the noise", found.rounds),
        |[low, high]| format!("between {low:+.2} and {high:+.2} ns for a packet at the run's confidence"),
    );
    let parts =
        format!("{} {} against {}: {:+.2} %, {interval}", found.system, found.mode, found.base_mode, found.percent);
    if found.significant {
        Found::Number(found.percent, false, parts)
    } else {
        Found::Noise(found.percent, parts + ": below the accuracy of this run")
    }
}

#[cfg(test)]
pub(crate) mod tests;
