//! What a process is told and answers, and the records that its answers become.

pub(crate) mod instructions;

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kit::counts::Counts;
use crate::kit::measure::allowed_cpus;
use crate::kit::memory::anonymous_kib;
use crate::kit::once::record;
use crate::kit::record::Record;
use crate::systems::heap::Heap;

/// Systems that are given less to do.
pub(crate) const SLOW: [&str; 1] = ["slob"];

/// What a process of hackbench is told to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) groups: usize,
    pub(crate) loops: usize,
    /// Senders of a group, and as many receivers.
    pub(crate) fds: usize,
    /// Bytes of the messages, in turn.
    pub(crate) sizes: Vec<usize>,
    pub(crate) processes: bool,
    /// Size of the heap that a process begins with; 0 for none.
    pub(crate) boot: f64,
}

impl Work {
    pub(crate) fn messages(&self) -> usize {
        self.groups * self.fds * self.fds * self.loops
    }
}

/// Memory of a process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Of slab allocators: `Slab:` of the kernel.
    pub(crate) slab_kib: Option<u64>,
    /// What describes and queues the slabs.
    pub(crate) metadata_kib: u64,
    /// Resident, without pages of files.
    pub(crate) rss_kib: u64,
}

impl Figures {
    /// Those of this process.
    pub(crate) fn of(heap: &impl Heap) -> Self {
        let slab = heap.slab();
        Self {
            slab_kib: slab.map(|slab| slab.bytes as u64 / 1024),
            metadata_kib: slab.map_or(0, |slab| slab.metadata as u64 / 1024),
            rss_kib: anonymous_kib(),
        }
    }

    pub(crate) fn multiply(&mut self, by: u64) {
        self.slab_kib = self.slab_kib.map(|kib| kib * by);
        self.metadata_kib *= by;
        self.rss_kib *= by;
    }
}

/// What a process of hackbench prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) note: String,
    pub(crate) elapsed: Duration,
    pub(crate) counts: Vec<Count>,
    pub(crate) usage: Usage,
    /// What the allocator counted, for one allocation or free; of threads, and of systems that
    /// count.
    pub(crate) heap: Option<Counts>,
    pub(crate) before: Figures,
    pub(crate) after: Figures,
}

/// Loops of a system, of `all`.
pub(crate) fn loops_of(id: &str, all: usize, scale: f64) -> usize {
    if SLOW.contains(&id) { ((all as f64 * scale) as usize).max(1) } else { all }
}

/// The records of one system, which has done `done`, of `all` loops.
pub(crate) fn collect(id: &str, done: &Work, all: usize, answers: &[Answer]) -> Vec<Record> {
    let scale = (done.loops < all).then(|| done.loops as f64 / all as f64);
    let cpus = allowed_cpus().len();
    let tasks = 2 * done.groups * done.fds;
    let counts = Counts::mean(&answers.iter().filter_map(|answer| answer.heap).collect::<Vec<_>>());
    let base = |test: &str, unit: &str, samples: &[f64]| Record {
        size: done.sizes[0],
        cpus,
        oversubscribed: tasks > cpus,
        scale,
        counts,
        ..record(test, id, unit, samples)
    };
    let of = |figure: &dyn Fn(&Answer) -> f64| answers.iter().map(figure).collect::<Vec<f64>>();
    let mut records = vec![
        base("hackbench", "s", &of(&|answer| answer.elapsed.as_secs_f64())),
        base("hackbench-message", "ns", &of(&|answer| answer.elapsed.as_secs_f64() * 1e9 / done.messages() as f64)),
        base("hackbench-user", "s", &of(&|answer| answer.usage.user.as_secs_f64())),
        base("hackbench-sys", "s", &of(&|answer| answer.usage.sys.as_secs_f64())),
    ];
    for name in NAMES {
        let values: Vec<f64> = answers
            .iter()
            .flat_map(|answer| &answer.counts)
            .filter(|count| count.name == name)
            .filter_map(|count| count.value)
            .collect();
        // What is not supported has no record.
        if values.len() == answers.len() {
            let unit = if name == "task-clock" { "ms" } else { "count" };
            records.push(base(&format!("hackbench-{name}"), unit, &values));
        }
    }
    for (phase, figures) in [("before", (|a| &a.before) as fn(&Answer) -> &Figures), ("after", |a| &a.after)] {
        let mut add = |test: &str, samples: Vec<f64>| {
            records.push(Record { phase: Some(phase.to_owned()), ..base(test, "KiB", &samples) });
        };
        if figures(&answers[0]).slab_kib.is_some() {
            add("hackbench-slab", of(&|answer| figures(answer).slab_kib.unwrap_or(0) as f64));
            add("hackbench-metadata", of(&|answer| figures(answer).metadata_kib as f64));
        }
        add("hackbench-rss", of(&|answer| figures(answer).rss_kib as f64));
    }
    records
}

/// A line of the block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Count {
    /// As perf names it.
    pub(crate) name: String,
    /// None where it is not supported. Milliseconds of the task clock.
    pub(crate) value: Option<f64>,
}

/// Names of the counters, in the order of the mails.
pub(crate) const NAMES: [&str; 10] = [
    "task-clock",
    "context-switches",
    "cpu-migrations",
    "page-faults",
    "cycles",
    "instructions",
    "branches",
    "branch-misses",
    "cache-references",
    "cache-misses",
];

/// What `getrusage` tells, of this process and of those that it started and waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) user: Duration,
    pub(crate) sys: Duration,
    pub(crate) faults: u64,
    pub(crate) switches: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_systems_run_a_share_of_the_loops() {
        assert_eq!(loops_of("slob", 10_000, 0.02), 200);
        assert_eq!(loops_of("slob", 10, 0.02), 1);
        assert_eq!(loops_of("slob-seg", 10_000, 0.02), 10_000);
    }
}
