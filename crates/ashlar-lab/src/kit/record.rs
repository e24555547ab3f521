//! A run as data: what `--json` writes and `--from` reads.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::kit::counts::Counts;
use crate::kit::error::LabError;
use crate::kit::published::Published;
use crate::kit::statistics::Statistic;

/// Host and records of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) host: Host,
    pub(crate) records: Vec<Record>,
    /// Figures of others, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) published: Option<Published>,
}

/// One cell: a test, a system and a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// `A` to `F`; `D-free` is the second phase of D, `F-alloc` the first of F, per CPU that
    /// allocates. Those of other commands begin with the command's name: `bulk-`, `memory-`,
    /// `hackbench`.
    pub(crate) test: String,
    pub(crate) system: String,
    /// Of tests that run a system in several configurations: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<String>,
    /// Bytes.
    pub(crate) size: usize,
    /// Threads that took part.
    pub(crate) cpus: usize,
    pub(crate) unit: String,
    /// Least over the runs.
    pub(crate) min: f64,
    pub(crate) median: f64,
    /// Objects of one call, in the tests `bulk-*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bulk: Option<usize>,
    /// When it was read, in the tests `memory-*`; before or after, in those of hackbench.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
    /// Share of the full work that this system was given, where that is not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scale: Option<f64>,
    /// Measured turns: at least one for each round, more where they are cheap.
    pub(crate) runs: usize,
    /// More threads than CPUs: the figures contain waiting.
    #[serde(default)]
    pub(crate) oversubscribed: bool,
    /// Median over the runs for each CPU. For F: of CPU 0 alone.
    #[serde(default)]
    pub(crate) per_cpu: Vec<f64>,
    /// What the system counted, for one operation of the pass; mean over the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<Counts>,
    /// Resident memory beyond the start of the process, in KiB, median over the runs. Of A: with
    /// all objects allocated; of B: with all freed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resident: Option<f64>,
    /// The figure of each run, in the order measured.
    #[serde(default)]
    pub(crate) samples: Vec<f64>,
}

/// The machine, the tool and the systems of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Host {
    pub(crate) cpu_model: String,
    /// CPUs that the run could use.
    pub(crate) cpus: usize,
    pub(crate) arch: String,
    pub(crate) kernel: String,
    pub(crate) glibc: String,
    /// Measured against the monotonic clock; absent where there is no time-stamp counter.
    pub(crate) tsc_mhz: Option<f64>,
    /// Setting of transparent huge pages.
    pub(crate) thp: String,
    pub(crate) ashlar_version: String,
    /// How ashlar's CPU-local sections are protected here: rseq, lock or emulate.
    pub(crate) ashlar_mode: String,
    pub(crate) rustc: String,
    /// Of the tool and of ashlar in it.
    pub(crate) build: String,
    /// Objects for each thread and pass.
    pub(crate) objects: usize,
    /// NUMA nodes that ashlar and its engines were told to pretend, if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<usize>,
    /// How many of those have a CPU of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes_with_cpus: Option<usize>,
    /// What the engines were told to take for disabled interrupts, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) irq: Option<String>,
    /// Bytes of a page of ashlar and its engines, where that is not 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) page: Option<usize>,
    /// Objects of the fragmented heap for each size, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fragmented: Option<usize>,
    /// Whether each figure is from the first pass of a new process.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub(crate) first_pass: bool,
    pub(crate) rounds: usize,
    /// Rounds that one process of a system serves, where it serves several. The luck of a process
    /// is in all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rounds_of_a_process: Option<usize>,
    /// What was not counted.
    pub(crate) warm_up: String,
    /// In the order of the columns.
    pub(crate) systems: Vec<String>,
    pub(crate) peers: BTreeMap<String, Peer>,
    /// What the processes of our own systems said about themselves: the mode and the number of
    /// nodes.
    pub(crate) notes: BTreeMap<String, String>,
}

/// A peer as it was linked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) version: String,
    /// `release`, `debug`, or what is known instead.
    pub(crate) build: String,
    /// What its process said about itself, such as the mode; often empty.
    #[serde(default)]
    pub(crate) note: String,
}

impl Report {
    /// Reads what `--json` wrote.
    pub(crate) fn load(path: &Path) -> Result<Self, LabError> {
        let expected = "expected a file written by `ashlar bench --json`";
        let text = std::fs::read_to_string(path).map_err(|error| {
            LabError::option("--from", format_args!("cannot read {}: {error}; {expected}", path.display()))
        })?;
        let report: Self = serde_json::from_str(&text)
            .map_err(|error| LabError::option("--from", format_args!("{}: {error}; {expected}", path.display())))?;
        if report.records.is_empty() {
            return Err(LabError::option("--from", format_args!("{} holds no records; {expected}", path.display())));
        }
        Ok(report)
    }

    /// Systems that have records, in the order of the run.
    pub(crate) fn systems(&self) -> Vec<&str> {
        let mut found: Vec<&str> = self.host.systems.iter().map(String::as_str).collect();
        for record in &self.records {
            if !found.contains(&record.system.as_str()) {
                found.push(&record.system);
            }
        }
        found.retain(|system| self.records.iter().any(|record| record.system == *system));
        found
    }

    /// Names of the tests that have records, in order.
    pub(crate) fn tests(&self) -> Vec<&str> {
        self.sorted(|record| record.test.as_str())
    }

    /// Sizes that have records for `test`, in order.
    pub(crate) fn sizes(&self, test: &str) -> Vec<usize> {
        let mut sizes: Vec<usize> =
            self.records.iter().filter(|record| record.test == test).map(|record| record.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The record of one cell.
    pub(crate) fn cell(&self, test: &str, system: &str, size: usize) -> Option<&Record> {
        self.records.iter().find(|record| record.test == test && record.system == system && record.size == size)
    }

    fn sorted<'a, K: Ord>(&'a self, key: impl Fn(&'a Record) -> K) -> Vec<K> {
        let mut keys: Vec<K> = self.records.iter().map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// The figure of a record that comparisons use.
pub(crate) fn value(record: &Record, by: Statistic) -> f64 {
    match by {
        Statistic::Min => record.min,
        Statistic::Median => record.median,
    }
}

/// A run made by hand, for the tests of the printers.
#[cfg(test)]
pub(crate) fn sample(cells: &[(&str, &str, usize, f64)]) -> Report {
    let records = cells
        .iter()
        .map(|&(test, system, size, figure)| Record {
            test: test.to_owned(),
            system: system.to_owned(),
            size,
            cpus: 1,
            unit: "tsc_cycles_per_op".to_owned(),
            mode: None,
            min: figure,
            median: figure,
            runs: 10,
            per_cpu: vec![figure],
            samples: vec![figure; 10],
            ..Record::default()
        })
        .collect();
    Report { host: Host::default(), records, published: None }
}
