//! What the runs brought: records of all of them, read leniently, since each command has fields of
//! its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiments::reproduce::plan::claims::{Side, Sides};
use crate::kit::counts::Counts;
use crate::kit::statistics::geometric_mean;

/// A record of any command of the lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) test: String,
    pub(crate) system: String,
    #[serde(default)]
    pub(crate) size: usize,
    #[serde(default)]
    pub(crate) cpus: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bulk: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scale: Option<f64>,
    pub(crate) unit: String,
    /// Absent where the machine does not offer it.
    #[serde(default)]
    pub(crate) median: Option<f64>,
    #[serde(default)]
    pub(crate) runs: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<Counts>,
    #[serde(default)]
    pub(crate) simulated: bool,
}

/// A difference as `ashlar forward` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Difference {
    pub(crate) system: String,
    pub(crate) mode: String,
    pub(crate) base_system: String,
    pub(crate) base_mode: String,
    pub(crate) percent: f64,
    pub(crate) ns: f64,
    #[serde(default)]
    pub(crate) interval_ns: Option<[f64; 2]>,
    pub(crate) significant: bool,
    #[serde(default)]
    pub(crate) rounds: usize,
}

/// What one run wrote, or why it did not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The command, as a user would type it.
    #[serde(default)]
    pub(crate) command: String,
    /// Seconds.
    #[serde(default)]
    pub(crate) seconds: f64,
    /// Why there are no records, or not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    #[serde(default)]
    pub(crate) host: serde_json::Value,
    #[serde(default)]
    pub(crate) records: Vec<Cell>,
    #[serde(default)]
    pub(crate) differences: Vec<Difference>,
}

/// All runs, by name.
pub(crate) type Evidence = BTreeMap<String, Outcome>;

/// The cells of one side, by size and bulk.
pub(crate) type Figures<'a> = BTreeMap<(usize, usize), &'a Cell>;

impl Cell {
    /// The figure of the full work, where the system was given a part of it.
    pub(crate) fn full(&self) -> Option<f64> {
        // Times and counts grow with the work; sizes do not, nor do page faults, which the live
        // objects make.
        let grows = matches!(self.unit.as_str(), "s" | "ms" | "count") && self.test != "hackbench-page-faults";
        let share = self.scale.filter(|&scale| grows && scale > 0.0).unwrap_or(1.0);
        Some(self.median? / share)
    }
}

impl Outcome {
    /// Adds what follows from the records: CPU time of hackbench, and how many CPUs it kept busy.
    pub(crate) fn derive(&mut self) {
        let of = |records: &[Cell], test: &str, system: &str| {
            records.iter().find(|cell| cell.test == test && cell.system == system)?.median
        };
        let mut more = Vec::new();
        for cell in self.records.iter().filter(|cell| cell.test == "hackbench") {
            let part = |test: &str| of(&self.records, test, &cell.system);
            let (Some(user), Some(sys), Some(elapsed)) = (part("hackbench-user"), part("hackbench-sys"), cell.median)
            else {
                continue;
            };
            let named = |test: &str, unit: &str, figure: f64| Cell {
                test: test.to_owned(),
                unit: unit.to_owned(),
                median: Some(figure),
                ..cell.clone()
            };
            more.push(named("hackbench-cpu", "s", user + sys));
            if elapsed > 0.0 {
                more.push(named("hackbench-cpus-utilized", "CPUs", (user + sys) / elapsed));
            }
        }
        self.records.retain(|cell| more.iter().all(|new| (&new.test, &new.system) != (&cell.test, &cell.system)));
        self.records.extend(more);
    }

    /// The cells of a side, at the given sizes where it names none; those that were measured before
    /// those that were simulated.
    pub(crate) fn cells(&self, side: &Side, sizes: Option<&[usize]>) -> Vec<&Cell> {
        let sizes = side.sizes.as_deref().or(sizes);
        let is_it = |cell: &&Cell| {
            cell.test == side.test
                && cell.system == side.system
                && side.cpus.is_none_or(|cpus| cell.cpus == cpus)
                && side.nodes.is_none_or(|nodes| cell.nodes.unwrap_or(1) == nodes)
                && side.phase.as_ref().is_none_or(|phase| cell.phase.as_ref() == Some(phase))
                && side.bulks.as_ref().is_none_or(|bulks| cell.bulk.is_some_and(|bulk| bulks.contains(&bulk)))
                && sizes.is_none_or(|sizes| sizes.contains(&cell.size))
                && cell.median.is_some_and(|median| median > 0.0)
        };
        let mut found: Vec<&Cell> = self.records.iter().filter(is_it).collect();
        found.sort_by_key(|cell| cell.simulated);
        found
    }

    pub(crate) fn difference(&self, of: &Sides) -> Option<&Difference> {
        self.differences.iter().find(|found| {
            (found.system.as_str(), found.base_system.as_str()) == (of.system.as_str(), of.system.as_str())
                && (found.mode.as_str(), found.base_mode.as_str()) == (of.mode.as_str(), of.base.as_str())
        })
    }
}

/// Cells by what they are of. Of several for the same the first counts.
pub(crate) fn figures<'a>(cells: &[&'a Cell]) -> Figures<'a> {
    let mut found = Figures::new();
    for &cell in cells {
        found.entry((cell.size, cell.bulk.unwrap_or(0))).or_insert(cell);
    }
    found
}

/// Geometric mean of figures; `None` for none.
pub(crate) fn mean(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let figures: Vec<f64> = figures.into_iter().collect();
    (!figures.is_empty()).then(|| geometric_mean(&figures))
}
