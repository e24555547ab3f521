//! A run as data: what `--json` writes and `--from` reads.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::kit::error::LabError;
use crate::kit::statistics::{Statistic, median};

/// Machine, figures and means of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) host: Machine,
    pub(crate) programs: Vec<Record>,
    /// Ratios to glibc by the medians; what the printed means are.
    #[serde(default)]
    pub(crate) geomeans: Vec<Means>,
    /// What could not be run here, and how to get it.
    #[serde(default)]
    pub(crate) missing: Vec<String>,
}

/// The machine and the tool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    pub(crate) cpu_model: String,
    /// CPUs that the run could use.
    pub(crate) cpus: usize,
    pub(crate) arch: String,
    pub(crate) kernel: String,
    pub(crate) glibc: String,
    /// Setting of transparent huge pages.
    pub(crate) thp: String,
    pub(crate) ashlar_version: String,
    /// How ashlar's CPU-local sections are protected here.
    pub(crate) ashlar_mode: String,
    pub(crate) build: String,
    pub(crate) rounds: usize,
    pub(crate) scale: f64,
}

/// Where a workload comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// One of our own.
    Synthetic,
    /// One of our own with a live set, of which random blocks are replaced.
    Live,
    /// A program of the machine.
    Real,
    /// The start of a program that does nothing.
    Startup,
    /// malloc and free by turns, and nothing else.
    Pairs,
}

/// Least and middle of several figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) min: f64,
    pub(crate) median: f64,
}

impl Figure {
    /// Of at least one sample.
    pub(crate) fn of(samples: &[f64]) -> Self {
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        Self { min: round(samples.iter().copied().fold(f64::INFINITY, f64::min)), median: round(median(samples)) }
    }

    pub(crate) fn by(self, by: Statistic) -> f64 {
        match by {
            Statistic::Min => self.min,
            Statistic::Median => self.median,
        }
    }
}

/// One workload on one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) workload: String,
    pub(crate) kind: Kind,
    pub(crate) system: String,
    /// The preloaded file; of glibc none.
    pub(crate) preload: Option<String>,
    pub(crate) version: String,
    /// Of `elapsed`, `cpu`, `user` and `sys`.
    pub(crate) unit: String,
    /// From before the process is made to after it is gone.
    pub(crate) elapsed: Figure,
    /// In user and system mode, with all threads and all children that it waited for.
    pub(crate) cpu: Figure,
    pub(crate) user: Figure,
    pub(crate) sys: Figure,
    /// Of a program of several processes: of the largest.
    pub(crate) peak_rss_kib: Figure,
    /// The same without pages of files; workloads of our own only.
    #[serde(default)]
    pub(crate) peak_anon_kib: Option<Figure>,
    /// After everything was freed and the process had slept; workloads of our own only.
    pub(crate) idle_rss_kib: Option<Figure>,
    pub(crate) minor_faults: Figure,
    pub(crate) context_switches: Figure,
    /// Measured runs; the warm-up is none.
    pub(crate) runs: usize,
    /// Of its output, the same for all systems.
    pub(crate) checksum: String,
    /// Elapsed time of each run.
    #[serde(default)]
    pub(crate) samples: Vec<f64>,
    /// CPU time of each run.
    #[serde(default)]
    pub(crate) cpu_samples: Vec<f64>,
}

/// Geometric means over the workloads of a kind, as ratios to glibc.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Means {
    pub(crate) kind: Kind,
    pub(crate) system: String,
    /// Workloads that ran on both.
    pub(crate) workloads: usize,
    pub(crate) elapsed: Option<f64>,
    pub(crate) cpu: Option<f64>,
    pub(crate) peak_rss: Option<f64>,
    #[serde(default)]
    pub(crate) peak_anon: Option<f64>,
    pub(crate) idle_rss: Option<f64>,
}

impl Run {
    /// Reads what `--json` wrote.
    pub(crate) fn load(path: &Path) -> Result<Self, LabError> {
        let expected = "expected a file written by `ashlar bench programs --json`";
        let bad = |error: &dyn core::fmt::Display| {
            LabError::option("--from", format_args!("{}: {error}; {expected}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
        let run: Self = serde_json::from_str(&text).map_err(|error| bad(&error))?;
        if run.programs.is_empty() { Err(bad(&"holds no figures")) } else { Ok(run) }
    }

    /// The systems, in the order of the run.
    pub(crate) fn systems(&self) -> Vec<&str> {
        ordered(self.programs.iter().map(|record| record.system.as_str()))
    }

    /// The workloads of a kind, in the order of the run.
    pub(crate) fn workloads(&self, kind: Kind) -> Vec<&str> {
        ordered(self.programs.iter().filter(|record| record.kind == kind).map(|record| record.workload.as_str()))
    }

    /// One workload on one system.
    pub(crate) fn cell(&self, workload: &str, system: &str) -> Option<&Record> {
        self.programs.iter().find(|record| record.workload == workload && record.system == system)
    }
}

fn ordered<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}
