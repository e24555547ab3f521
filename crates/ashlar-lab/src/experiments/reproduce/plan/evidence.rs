//! What the runs brought: records of all of them, read leniently, since each command has fields of
//! its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiments::reproduce::plan::claims::{Side, Sides};
use crate::kit::counts::Counts;
use crate::kit::statistics::{geometric_mean, median};

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
    /// The figure of each turn, in the order measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) samples: Vec<f64>,
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
    #[serde(default)]
    pub(crate) interval_percent: Option<[f64; 2]>,
    pub(crate) significant: bool,
    #[serde(default)]
    pub(crate) rounds: usize,
}

/// A prediction that could be measured too, as `ashlar simulate` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Checked {
    pub(crate) test: String,
    pub(crate) system: String,
    pub(crate) size: usize,
    pub(crate) cpus: usize,
    pub(crate) nodes: usize,
    pub(crate) predicted: f64,
    pub(crate) measured: f64,
}

/// What `ashlar simulate` measured for the predictions of a system, as far as a verdict names it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Predicted {
    pub(crate) inputs: Line,
}

/// Cycles until a line that one CPU wrote is the other's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) line: f64,
}

/// Predictions of a test that are further off than this, where they can be checked, say nothing.
pub(crate) const MOST_OFF: f64 = 0.2;

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
    /// How often the command ran; each time has its place in the samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repeats: Option<usize>,
    #[serde(default)]
    pub(crate) host: serde_json::Value,
    #[serde(default)]
    pub(crate) records: Vec<Cell>,
    #[serde(default)]
    pub(crate) differences: Vec<Difference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) validation: Vec<Checked>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) inputs: Vec<Predicted>,
}

/// All runs, by name.
pub(crate) type Evidence = BTreeMap<String, Outcome>;

/// The cells of one side, by size and bulk.
pub(crate) type Figures<'a> = BTreeMap<(usize, usize), &'a Cell>;

impl Cell {
    /// Whether both are figures of the same.
    fn is_of(&self, other: &Self) -> bool {
        (&self.test, &self.system, &self.mode, &self.phase) == (&other.test, &other.system, &other.mode, &other.phase)
            && (self.size, self.cpus, self.nodes, self.bulk) == (other.size, other.cpus, other.nodes, other.bulk)
            && self.simulated == other.simulated
    }

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
    /// The rounds that its samples are from. Rounds that a process served together are one, because
    /// where the process lies in memory moves all of them.
    pub(crate) fn rounds(&self) -> usize {
        let of = |key: &str| self.host[key].as_u64().unwrap_or(1).max(1) as usize;
        of("rounds").div_ceil(of("rounds_of_a_process")) * self.repeats.unwrap_or(1).max(1)
    }

    /// Bytes of a page of ashlar and its engines, where that is not 4 KiB.
    pub(crate) fn page(&self) -> Option<usize> {
        self.host["page"].as_u64().and_then(|page| usize::try_from(page).ok())
    }

    /// Adds the samples of the same command, run once more. What `other` alone has is left out.
    pub(crate) fn repeat(&mut self, mut other: Self) {
        // A cell that one of the two lacks would have fewer rounds than the others.
        self.records.retain_mut(|cell| {
            let again = other.records.iter_mut().find(|again| again.is_of(cell));
            if let Some(again) = again {
                if cell.samples.is_empty() {
                    cell.samples.extend(cell.median);
                }
                match again.samples.is_empty() {
                    true => cell.samples.extend(again.median),
                    false => cell.samples.append(&mut again.samples),
                }
                cell.median = (!cell.samples.is_empty()).then(|| median(&cell.samples));
                cell.runs = cell.samples.len();
                return true;
            }
            false
        });
        self.validation.append(&mut other.validation);
        self.inputs.append(&mut other.inputs);
        self.repeats = Some(self.repeats.unwrap_or(1) + 1);
        self.failure = self.failure.take().or(other.failure);
    }

    /// Adds what follows from the records: CPU time of hackbench, and how many CPUs it kept busy.
    pub(crate) fn derive(&mut self) {
        let find =
            |test: &str, system: &str| self.records.iter().find(|cell| cell.test == test && cell.system == system);
        let mut more = Vec::new();
        for cell in self.records.iter().filter(|cell| cell.test == "hackbench") {
            let (Some(user), Some(sys)) = (find("hackbench-user", &cell.system), find("hackbench-sys", &cell.system))
            else {
                continue;
            };
            // The figure of the medians, and of each round.
            let with = |test: &str, unit: &str, of: &dyn Fn([f64; 3]) -> f64| {
                let rounds = cell.samples.iter().zip(&user.samples).zip(&sys.samples);
                Some(Cell {
                    test: test.to_owned(),
                    unit: unit.to_owned(),
                    median: Some(of([cell.median?, user.median?, sys.median?])).filter(|figure| figure.is_finite()),
                    samples: rounds.map(|((&elapsed, &user), &sys)| of([elapsed, user, sys])).collect(),
                    ..cell.clone()
                })
            };
            more.extend(with("hackbench-cpu", "s", &|[_, user, sys]| user + sys));
            more.extend(with("hackbench-cpus-utilized", "CPUs", &|[elapsed, user, sys]| (user + sys) / elapsed));
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

    /// What is predicted over what is measured, for simulated cells of one test and system: on as
    /// many of their CPUs and nodes as this machine has, the geometric mean over their sizes.
    /// `None` if none of them can be measured.
    pub(crate) fn predicted_over_measured(&self, cells: &[&Cell]) -> Option<f64> {
        let is_of = |checked: &Checked, cell: &Cell| {
            (&checked.test, &checked.system, checked.size) == (&cell.test, &cell.system, cell.size)
                && checked.cpus == cell.cpus.min(2)
                && checked.nodes == cell.nodes.unwrap_or(1).min(2)
        };
        let simulated = |checked: &&Checked| cells.iter().any(|cell| cell.simulated && is_of(checked, cell));
        let found = self.validation.iter().filter(simulated);
        let quotients: Vec<f64> = found.map(|checked| checked.predicted / checked.measured).collect();
        (!quotients.is_empty()).then(|| geometric_mean(&quotients))
    }

    /// What a line cost that went from one CPU to the other, least and most of all repeats.
    pub(crate) fn lines(&self) -> Option<[f64; 2]> {
        let of = self.inputs.iter().map(|of| of.inputs.line);
        Some([of.clone().reduce(f64::min)?, of.reduce(f64::max)?])
    }

    /// As [`Self::predicted_over_measured`], where it is too far off for a verdict.
    pub(crate) fn is_off(&self, cells: &[&Cell]) -> Option<f64> {
        self.predicted_over_measured(cells).filter(|quotient| quotient.ln().abs() > (1.0 + MOST_OFF).ln())
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
