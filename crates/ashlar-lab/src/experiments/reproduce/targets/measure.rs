//! The number that a claim comes to, with its interval, from what was measured.

use crate::experiments::reproduce::plan::claims::{Claim, Side};
use crate::experiments::reproduce::plan::evidence::{Cell, Evidence, Figures, Outcome, figures};
use crate::experiments::reproduce::plan::runs;
use crate::kit::bootstrap::{self, fewest_rounds};
use crate::kit::counts::Counts;
use crate::kit::statistics::{geometric_mean, median};
use crate::kit::table::{self, figure};

/// What a claim comes to.
pub(super) enum Found {
    Number(Number),
    NotComparable(String),
    NotMeasured(String),
}

/// A number, and how sure it is.
pub(super) struct Number {
    pub(super) value: f64,
    /// Absent where there are too few rounds to say.
    pub(super) interval: Option<[f64; 2]>,
    /// Fewest rounds of any run that it is made from.
    pub(super) rounds: usize,
    /// A part of it comes from a model.
    pub(super) simulated: bool,
    /// The model is too far off where it can be checked.
    pub(super) off: bool,
    /// What it is made of, in words.
    pub(super) parts: String,
}

/// The number of a claim. With `run`, that run stands for the claim's own.
pub(super) fn found(claim: &Claim, run: &str, evidence: &Evidence) -> Found {
    match evidence.get(run) {
        None => not_run(run),
        Some(outcome) if claim.is_difference() => difference(claim, outcome),
        Some(_) => quotient(claim, run, evidence),
    }
}

/// A side of a quotient: its cells, and the samples of each.
struct Part<'a> {
    cells: Vec<&'a Cell>,
    outcome: &'a Outcome,
}

/// The samples of a cell, and where they belong.
struct Samples<'a> {
    /// Index of the group whose rounds are drawn together.
    group: usize,
    /// Samples of a round.
    turns: usize,
    samples: &'a [f64],
    /// What makes of a sample the figure of the full work.
    factor: f64,
}

impl Samples<'_> {
    /// The median over the rounds that were drawn.
    fn median(&self, drawn: &[Vec<usize>]) -> f64 {
        let of = |&round: &usize| &self.samples[round * self.turns..(round + 1) * self.turns];
        self.factor * median(&drawn[self.group].iter().flat_map(of).copied().collect::<Vec<f64>>())
    }
}

/// The groups of all samples: a run and the number of its rounds. Rounds of one run are drawn
/// together.
#[derive(Default)]
struct Groups(Vec<(*const Outcome, usize)>);

impl Groups {
    /// The samples of a cell of `outcome`. A cell without samples has its median alone.
    fn samples<'a>(&mut self, cell: &'a Cell, outcome: &'a Outcome) -> Option<Samples<'a>> {
        let samples = if cell.samples.is_empty() { cell.median.as_slice() } else { &cell.samples[..] };
        let rounds = outcome.rounds();
        // Turns of one round stand together. Where they do not, each counts as a round.
        let rounds = if samples.len().is_multiple_of(rounds) { rounds } else { samples.len() };
        let key = (core::ptr::from_ref(outcome), rounds);
        let group = self.0.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.0.push(key);
            self.0.len() - 1
        });
        Some(Samples { group, turns: samples.len() / rounds, samples, factor: cell.full()? / cell.median? })
    }

    /// The samples of a side.
    fn of<'a>(&mut self, outcome: &'a Outcome, side: &Figures<'a>, keys: &[(usize, usize)]) -> Vec<Samples<'a>> {
        keys.iter().filter_map(|key| self.samples(side[key], outcome)).collect()
    }

    fn rounds(&self) -> Vec<usize> {
        self.0.iter().map(|(_, rounds)| *rounds).collect()
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
fn cells_of<'a>(claim: &Claim, side: &Side, run: &str, evidence: &'a Evidence) -> Result<Part<'a>, Found> {
    let run = side.run.as_deref().unwrap_or(run);
    let outcome = evidence.get(run).ok_or_else(|| not_run(run))?;
    let found = outcome.cells(side, claim.sizes.as_deref());
    let counted = outcome.records.iter().any(|cell| cell.test == side.test && cell.median.is_some());
    let has = |system: &str| outcome.records.is_empty() || outcome.records.iter().any(|cell| cell.system == system);
    let works = outcome.failure.is_none() && has(&side.system);
    match found.is_empty() {
        false => Ok(Part { cells: found, outcome }),
        true if works && !counted => Err(Found::NotComparable(format!(
            "`{}` has no `{}`: this machine does not count it",
            outcome.command, side.test
        ))),
        true => Err(absent(outcome, &format!("{} of `{}`", side.test, side.system))),
    }
}

fn quotient(claim: &Claim, run: &str, evidence: &Evidence) -> Found {
    let (Some(over), Some(under)) = (&claim.over, &claim.under) else {
        return Found::NotMeasured("the claim names nothing to measure".to_owned());
    };
    let (one, other) = match (cells_of(claim, over, run, evidence), cells_of(claim, under, run, evidence)) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(why), _) | (_, Err(why)) => return why,
    };
    let (tops, bottoms) = (&one.cells, &other.cells);
    let (top, bottom) = (figures(tops), figures(bottoms));
    let own_sizes = over.sizes.is_some() || under.sizes.is_some();
    // Only what both sides have is compared, unless each side has sizes of its own.
    let common = |key: &&(usize, usize)| own_sizes || (top.contains_key(*key) && bottom.contains_key(*key));
    let keys = |side: &Figures<'_>| side.keys().filter(common).copied().collect::<Vec<_>>();
    let (over_keys, under_keys) = (keys(&top), keys(&bottom));
    let mut groups = Groups::default();
    let of = |side: &Figures<'_>, keys: &[(usize, usize)]| -> Vec<f64> {
        keys.iter().filter_map(|key| side[key].full()).collect()
    };
    let (a, b) = (of(&top, &over_keys), of(&bottom, &under_keys));
    if a.is_empty() || b.is_empty() {
        return Found::NotMeasured(format!("{} and {} were measured at no common size", over.system, under.system));
    }
    let (a, b) = (geometric_mean(&a), geometric_mean(&b));
    let over_samples = groups.of(one.outcome, &top, &over_keys);
    let under_samples = groups.of(other.outcome, &bottom, &under_keys);
    let rounds = groups.rounds();
    let interval = bootstrap::interval(&rounds, |drawn| {
        let of = |side: &[Samples<'_>]| {
            geometric_mean(&side.iter().map(|samples| samples.median(drawn)).collect::<Vec<f64>>())
        };
        of(&over_samples) / of(&under_samples)
    });
    let simulated =
        over_keys.iter().any(|key| top[key].simulated) || under_keys.iter().any(|key| bottom[key].simulated);
    let place = range(&over_keys.iter().chain(&under_keys).copied().collect::<Vec<_>>());
    let unit = tops.first().map_or("", |cell| runs::unit(&cell.unit));
    let page = one.outcome.page().map_or_else(String::new, |page| format!("{} KiB pages: ", page >> 10));
    let mut parts = format!(
        "{page}{}{} {} over {} {}{unit} = {}",
        if simulated { "simulated: " } else { "" },
        name(over, tops),
        figure(a),
        name(under, bottoms),
        figure(b),
        table::number(a / b)
    );
    parts += &match interval {
        Some([low, high]) => format!(" [{}, {}]", table::number(low), table::number(high)),
        None => format!(" (the interval needs {} rounds)", fewest_rounds()),
    };
    if !place.is_empty() {
        parts += &format!(" ({place})");
    }
    parts += &beside(over, under, tops, bottoms);
    if simulated && let Some([least, most]) = one.outcome.lines() {
        let cycles = table::range(least, most);
        parts += &format!(", a line goes from one CPU to the other in {cycles} cycles");
    }
    let sides = [(over, &one, chosen(&top, &over_keys)), (under, &other, chosen(&bottom, &under_keys))];
    let mut off = false;
    for (side, part, cells) in sides {
        let Some(quotient) = part.outcome.predicted_over_measured(&cells) else { continue };
        off |= part.outcome.is_off(&cells).is_some();
        parts += &error_of(side, &cells, quotient);
    }
    let rounds = rounds.into_iter().min().unwrap_or(0);
    Found::Number(Number { value: a / b, interval, rounds, simulated, off, parts })
}

/// A side in words.
fn name(side: &Side, cells: &[&Cell]) -> String {
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
}

/// What was counted beside the figures of two sides.
fn beside(over: &Side, under: &Side, tops: &[&Cell], bottoms: &[&Cell]) -> String {
    let mut words = String::new();
    if let (Some(over), Some(under)) = (counts(tops), counts(bottoms)) {
        words += &format!(", locks for one operation {over} and {under}");
    }
    for (side, cells) in [(over, tops), (under, bottoms)] {
        if let Some(searched) = searched(cells) {
            words += &format!(", {} looks through {searched}", side.system);
        }
    }
    words
}

/// How far the predictions of a side are off, where they can be checked.
fn error_of(side: &Side, cells: &[&Cell], quotient: f64) -> String {
    let cpus = cells.iter().map(|cell| cell.cpus.min(2)).max().unwrap_or(1);
    let s = if cpus == 1 { "" } else { "s" };
    let percent = 100.0 * (quotient - 1.0);
    format!(", {} {} is predicted {percent:+.0} % off on {cpus} CPU{s}", side.system, side.test)
}

/// The cells of a side that are compared.
fn chosen<'a>(side: &Figures<'a>, keys: &[(usize, usize)]) -> Vec<&'a Cell> {
    keys.iter().map(|key| side[key]).collect()
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
        |[low, high]| format!("between {low:+.2} and {high:+.2} ns for a packet"),
    );
    let mut parts = format!("{} {} against {}: {:+.2} %", found.system, found.mode, found.base_mode, found.percent);
    if let Some([low, high]) = found.interval_percent {
        parts += &format!(" [{low:+.2}, {high:+.2}]");
    }
    parts += &format!(", {interval}");
    if !found.significant {
        parts += ": below the accuracy of this run";
    }
    Found::Number(Number {
        value: found.percent,
        interval: found.interval_percent,
        rounds: found.rounds,
        simulated: false,
        off: false,
        parts,
    })
}
