//! Everything that was measured: what the table is made from, and what `--json` writes.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::mallocs::Malloc;
use super::metric::{Change, Metric};
use super::probe::Found;
use super::spool::Digest;
use crate::host::Host;
use crate::resources::{End, Usage};

/// A comparison.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub(super) program: Vec<String>,
    pub(super) host: Host,
    /// Rounds in which every malloc was measured.
    pub(super) rounds: usize,
    /// Rounds that were asked for, or chosen.
    pub(super) planned_rounds: usize,
    /// Rounds before the measured ones.
    pub(super) warmup: usize,
    /// Outputs and exit codes were compared.
    pub(super) checked: bool,
    /// The signal that ended the comparison early.
    pub(super) interrupted: Option<i32>,
    /// The base first, then ashlar.
    pub(super) mallocs: Vec<Row>,
    pub(super) notes: Vec<String>,
}

/// A malloc and its runs.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) malloc: Malloc,
    pub(super) probe: Option<Found>,
    /// Why it is not compared.
    pub(super) left_out: Option<String>,
    /// One for each round.
    pub(super) runs: Vec<Run>,
    /// Differences to the base.
    pub(super) changes: Changes,
}

/// A measured run.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    /// The place within its round, from 0.
    pub(super) turn: usize,
    pub(super) end: End,
    #[serde(flatten)]
    pub(super) usage: Usage,
    pub(super) stdout: Digest,
}

/// How a malloc differs from the base, in each figure.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes(pub(super) Vec<(Metric, Change)>);

impl Changes {
    pub(super) fn of(&self, metric: Metric) -> Option<Change> {
        self.0.iter().find(|(of, _)| *of == metric).map(|(_, change)| *change)
    }
}

impl Serialize for Changes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (metric, change) in &self.0 {
            let (kind, interval) = match change {
                Change::Ratio(interval) => ("ratio", interval),
                Change::Difference(interval) => ("difference", interval),
            };
            map.serialize_entry(metric.key(), &BTreeMap::from([(kind, interval)]))?;
        }
        map.end()
    }
}

impl Row {
    pub(super) fn new(malloc: Malloc) -> Self {
        Self { malloc, probe: None, left_out: None, runs: Vec::new(), changes: Changes::default() }
    }

    pub(super) fn id(&self) -> &str {
        &self.malloc.id
    }

    fn usages(&self) -> impl Iterator<Item = &Usage> + Clone {
        self.runs.iter().map(|run| &run.usage)
    }

    /// Returns the median of a figure, or none without runs.
    pub(super) fn median(&self, metric: Metric) -> Option<f64> {
        crate::interval::median(&self.usages().map(|usage| metric.value(usage)).collect::<Vec<f64>>())
    }
}

impl Record {
    /// Drops a round that is not complete, and compares each row with the first one.
    pub(super) fn finish(&mut self) {
        let complete = self.mallocs.iter().filter(|row| row.left_out.is_none()).map(|row| row.runs.len()).min();
        self.rounds = complete.unwrap_or(0);
        let Some((system, others)) = self.mallocs.split_first_mut() else { return };
        system.runs.truncate(self.rounds);
        for row in others {
            row.runs.truncate(self.rounds);
            if row.left_out.is_none() {
                let changes = Metric::ALL
                    .into_iter()
                    .filter_map(|metric| metric.change(system.usages(), row.usages()).map(|change| (metric, change)));
                row.changes = Changes(changes.collect());
            }
        }
    }

    /// Returns the rows that are compared with the base: ashlar first.
    pub(super) fn compared(&self) -> impl Iterator<Item = &Row> {
        self.mallocs.iter().skip(1).filter(|row| row.left_out.is_none())
    }

    /// True if a malloc was left out.
    pub(super) fn is_incomplete(&self) -> bool {
        self.mallocs.iter().any(|row| row.left_out.is_some())
    }

    /// True if nothing is left to compare.
    pub(super) fn is_hopeless(&self) -> bool {
        self.compared().next().is_none()
    }
}
