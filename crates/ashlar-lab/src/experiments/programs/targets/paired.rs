//! Comparisons round by round.
//!
//! Machines drift: over minutes by more than allocators differ. What runs next to each other drifts
//! together, so a comparison takes the ratio of each round, and their median with its interval says
//! what the run has shown ([`crate::kit::interval`]).

use crate::experiments::programs::plan::record::{Kind, Record, Run};
use crate::experiments::programs::plan::systems::is_peer;
use crate::kit::interval::{Interval, interval};
use crate::kit::statistics::geometric_mean;

/// The chance with which an interval may miss.
pub(crate) const RISK: f64 = 0.05;

/// A time that each round has a sample of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Time {
    Elapsed,
    Cpu,
}

impl Time {
    fn samples(self, record: &Record) -> &[f64] {
        match self {
            Self::Elapsed => &record.samples,
            Self::Cpu => &record.cpu_samples,
        }
    }
}

/// Our time over theirs in one workload, round by round; none where the two have not the same
/// rounds.
fn rounds(run: &Run, workload: &str, ours: &str, theirs: &str, time: Time) -> Option<Vec<f64>> {
    let samples = |id: &str| Some(time.samples(run.cell(workload, id)?));
    let (ours, theirs) = (samples(ours)?, samples(theirs)?);
    let ratios = || ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    (!ours.is_empty() && ours.len() == theirs.len() && theirs.iter().all(|&time| time > 0.0)).then(ratios)
}

/// The ratio of one workload.
pub(crate) fn ratio(run: &Run, workload: &str, ours: &str, theirs: &str, time: Time) -> Option<Interval> {
    rounds(run, workload, ours, theirs, time).map(|ratios| interval(&ratios, RISK))
}

/// The geometric mean over the workloads of a kind that ran on both.
pub(crate) fn mean(run: &Run, kind: Kind, ours: &str, theirs: &str, time: Time) -> Option<Interval> {
    let workloads: Vec<Vec<f64>> =
        run.workloads(kind).into_iter().filter_map(|workload| rounds(run, workload, ours, theirs, time)).collect();
    let count = workloads.iter().map(Vec::len).min()?;
    let mean = |round: usize| geometric_mean(&workloads.iter().map(|ratios| ratios[round]).collect::<Vec<f64>>());
    Some(interval(&(0..count).map(mean).collect::<Vec<f64>>(), RISK))
}

/// The peer that ours is furthest behind, or least ahead of, and the ratio to it.
pub(crate) fn against_best_peer(run: &Run, ratio: impl Fn(&str) -> Option<Interval>) -> Option<(&str, Interval)> {
    let peers = run.systems().into_iter().filter(|id| is_peer(id));
    peers.filter_map(|id| Some((id, ratio(id)?))).max_by(|a, b| a.1.median.total_cmp(&b.1.median))
}
