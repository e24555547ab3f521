//! Rounds of processes that take turns.
//!
//! In each round every case has a process of its own, so that luck with places in memory meets all
//! alike and differs from round to round. All are set up and run once unmeasured, with every packet
//! compared; then they take turns for [`PASSES`] passes, each turn beginning with another case, and
//! the median of its passes is the case's figure for the round. Only one forwards at any time.

pub(crate) mod modes;
pub(crate) mod protocol;
mod statistics;
pub(crate) mod tally;

use core::time::Duration;
use std::collections::BTreeMap;
use std::time::Instant;

use crate::experiments::forward::plan::modes::Mode;
use crate::experiments::forward::plan::protocol::{Reply, Request, Setup};
use crate::experiments::forward::plan::statistics::Looks;
use crate::experiments::forward::plan::tally::Tally;
use crate::kit::counts::Counts;
use crate::kit::interval::{Interval, interval};
use crate::kit::pipe::Pipe;
use crate::kit::progress::progress;
use crate::kit::statistics::median;
use crate::systems::{SystemInfo, start};

/// Measured passes of a case in a round.
pub(crate) const PASSES: usize = 3;
/// Part of a pass's packets that is forwarded before, and compared.
const WARM_UP: usize = 4;

/// What is measured: a system in a mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) system: &'static SystemInfo,
    pub(crate) mode: Mode,
}

/// A run, checked and ready to start.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) systems: Vec<&'static SystemInfo>,
    pub(crate) cases: Vec<Case>,
    /// Of all processes, but for the mode.
    pub(crate) setup: Setup,
    /// Most heads of a bulk free.
    pub(crate) bulk: usize,
    pub(crate) packets: usize,
    pub(crate) rounds: usize,
    pub(crate) max_seconds: u64,
    pub(crate) confidence: f64,
}

impl Plan {
    /// CPUs that work at the same time.
    pub(crate) fn cpus(&self) -> usize {
        if self.setup.other_cpu { 2 } else { 1 }
    }

    /// The place of a case, if it is part of the run.
    pub(crate) fn place(&self, system: &str, mode: Mode) -> Option<usize> {
        self.cases.iter().position(|case| case.system.id == system && case.mode == mode)
    }

    /// Pairs of cases that are compared: those of the mail for each system, then each further
    /// system with the first.
    pub(crate) fn comparisons(&self) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for system in &self.systems {
            for (this, base) in Mode::DIFFERENCES {
                pairs.extend(self.place(system.id, this).zip(self.place(system.id, base)));
            }
        }
        let first = self.systems.first().and_then(|system| self.place(system.id, Mode::Normal));
        for system in self.systems.iter().skip(1) {
            pairs.extend(self.place(system.id, Mode::Normal).zip(first));
        }
        pairs
    }
}

/// What a run brought, by the places of the cases.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Nanoseconds for a packet, for each round.
    pub(crate) figures: Vec<Vec<f64>>,
    pub(crate) counts: Vec<Vec<Counts>>,
    /// Of all measured packets.
    pub(crate) tallies: Vec<Tally>,
    /// Whether heads shared slabs with the objects of others, where that is known.
    pub(crate) merged: Vec<Option<bool>>,
    /// What the processes said about themselves, by system.
    pub(crate) notes: BTreeMap<&'static str, String>,
    /// The chance that an interval misses.
    pub(crate) risk: f64,
    /// Whether the run ended because every difference was clear.
    pub(crate) settled: bool,
}

impl Outcome {
    fn new(cases: usize) -> Self {
        Self {
            figures: vec![Vec::new(); cases],
            counts: vec![Vec::new(); cases],
            tallies: vec![Tally::default(); cases],
            merged: vec![None; cases],
            notes: BTreeMap::new(),
            risk: 1.0,
            settled: false,
        }
    }

    /// The difference in nanoseconds between two cases.
    pub(crate) fn difference(&self, this: usize, base: usize, risk: f64) -> Interval {
        let differences: Vec<f64> =
            self.figures[this].iter().zip(&self.figures[base]).map(|(this, base)| this - base).collect();
        interval(&differences, risk)
    }

    /// Nanoseconds for a packet: the median of the rounds.
    pub(crate) fn median(&self, case: usize) -> f64 {
        median(&self.figures[case])
    }
}

/// Measures until every difference is clear, or rounds or time have ended.
///
/// # Errors
/// Which case failed, and why.
pub(crate) fn run(plan: &Plan) -> Result<Outcome, String> {
    let mut outcome = Outcome::new(plan.cases.len());
    let mut looks = Looks::new(plan.confidence);
    let (start, limit) = (Instant::now(), Duration::from_secs(plan.max_seconds));
    let bar = progress(plan.max_seconds * 1000);
    let mut longest = Duration::ZERO;
    for round in 0..plan.rounds {
        // One round there must be.
        if round > 0 && start.elapsed() + longest > limit {
            break;
        }
        bar.set_message(format!("round {}", round + 1));
        let begun = Instant::now();
        one(plan, round, &mut outcome)?;
        longest = longest.max(begun.elapsed());
        bar.set_position(start.elapsed().as_millis() as u64);
        if let Some(risk) = looks.after(round + 1) {
            let clear = |&(this, base): &(usize, usize)| outcome.difference(this, base, risk).is_significant();
            if plan.comparisons().iter().all(clear) {
                outcome.settled = true;
                outcome.risk = risk;
                break;
            }
        }
    }
    bar.finish_and_clear();
    if !outcome.settled {
        outcome.risk = looks.last();
    }
    Ok(outcome)
}

/// One round.
fn one(plan: &Plan, round: usize, outcome: &mut Outcome) -> Result<(), String> {
    let name = |at: usize| format!("{}, {}", plan.cases[at].system.id, plan.cases[at].mode.id());
    let mut processes = Vec::new();
    for (at, case) in plan.cases.iter().enumerate() {
        let (process, note, merged) = open(plan, case).map_err(|error| format!("{}: {error}", name(at)))?;
        outcome.notes.insert(case.system.id, note);
        outcome.merged[at] = merged;
        processes.push(process);
    }
    let count = processes.len();
    let mut passes = vec![Vec::new(); count];
    for turn in 0..=PASSES {
        for at in 0..count {
            let at = (round + turn + at) % count;
            let checks = turn == 0;
            let packets = if checks { plan.packets.div_ceil(WARM_UP) } else { plan.packets };
            let (nanoseconds, tally, counts) =
                measure(&mut processes[at], packets, checks).map_err(|error| format!("{}: {error}", name(at)))?;
            if checks {
                continue;
            }
            passes[at].push(nanoseconds as f64 / packets as f64);
            outcome.counts[at].extend(counts);
            let sum = &mut outcome.tallies[at];
            sum.received += tally.received;
            sum.forwarded += tally.forwarded;
            sum.dropped.iter_mut().zip(tally.dropped).for_each(|(sum, dropped)| *sum += dropped);
        }
    }
    for (at, mut process) in processes.into_iter().enumerate() {
        match process.ask(&Request::End) {
            Ok(Reply::Ended) => {}
            Ok(Reply::Failed(error)) | Err(error) => return Err(format!("{}: {error}", name(at))),
            Ok(other) => return Err(format!("{}: ended with {other:?}", name(at))),
        }
        outcome.figures[at].push(median(&passes[at]));
    }
    Ok(())
}

/// Starts and sets up the process of a case.
fn open(plan: &Plan, case: &Case) -> Result<(Pipe, String, Option<bool>), String> {
    let options = Some(case.mode.options()).filter(|options| !options.is_empty());
    let mut process = Pipe::open(start::command(case.system, options, "forward-child")?)?;
    let bulk = case.mode.is_bulk().then_some(plan.bulk);
    let setup = Setup { bulk, tuned: case.mode.is_tuned(), ..plan.setup.clone() };
    match process.ask(&Request::Setup(setup))? {
        Reply::Ready { note, merged } => Ok((process, note, merged)),
        Reply::Failed(error) => Err(error),
        other => Err(format!("answered the set-up with {other:?}")),
    }
}

fn measure(process: &mut Pipe, packets: usize, checks: bool) -> Result<(u64, Tally, Option<Counts>), String> {
    match process.ask(&Request::Run { packets, checks })? {
        Reply::Done { nanoseconds, tally, counts } => Ok((nanoseconds, tally, counts)),
        Reply::Failed(error) => Err(error),
        other => Err(format!("answered a run with {other:?}")),
    }
}
