//! What a process is told and answers, and the records that its answers become.

use serde::{Deserialize, Serialize};

use crate::kit::once::record;
use crate::kit::record::Record;
use crate::systems::trace::Profile;

/// What a child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) profile: Profile,
    pub(crate) scale: f64,
    pub(crate) seed: u64,
    /// Milliseconds in which nothing happens.
    pub(crate) idle: u64,
}

/// The heap at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// The phase that has just ended.
    pub(crate) phase: String,
    /// Bytes asked for and not freed.
    pub(crate) live: usize,
    /// Bytes of slabs, of systems that have slabs.
    pub(crate) slab: Option<usize>,
    pub(crate) metadata: Option<usize>,
    /// Bytes by which resident memory has grown since before the trace.
    pub(crate) rss: usize,
    /// The most of each so far.
    pub(crate) peak_live: usize,
    pub(crate) peak_rss: usize,
}

/// What a child prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) note: String,
    /// What shrinking called; `None` if the system has nothing for it.
    pub(crate) shrink: Option<String>,
    /// Of the trace.
    pub(crate) hash: u64,
    pub(crate) moments: Vec<Moment>,
}

/// The records of one system.
pub(crate) fn collect(system: &str, answers: &[Answer]) -> Vec<Record> {
    let mut records = Vec::new();
    for (at, moment) in answers[0].moments.iter().enumerate() {
        let mut add = |test: &str, unit: &str, figure: &dyn Fn(&Moment) -> Option<f64>| {
            let samples: Vec<f64> = answers.iter().filter_map(|answer| figure(&answer.moments[at])).collect();
            if samples.len() == answers.len() {
                records.push(Record { phase: Some(moment.phase.clone()), ..record(test, system, unit, &samples) });
            }
        };
        let kib = |bytes: usize| bytes as f64 / 1024.0;
        let share = |part: usize, of: usize| (of > 0).then(|| 100.0 * part as f64 / of as f64);
        add("memory-live", "KiB", &|moment| Some(kib(moment.live)));
        add("memory-slab", "KiB", &|moment| moment.slab.map(kib));
        add("memory-metadata", "KiB", &|moment| moment.metadata.map(kib));
        add("memory-rss", "KiB", &|moment| Some(kib(moment.rss)));
        add("memory-utilisation", "percent", &|moment| share(moment.live, moment.slab.unwrap_or(moment.rss)));
        add("memory-peak-rss", "KiB", &|moment| Some(kib(moment.peak_rss)));
        add("memory-peak-over-live", "ratio", &|moment| share(moment.peak_rss, moment.peak_live).map(|p| p / 100.0));
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_slabs_only_where_there_are_slabs() {
        let moment = |slab| Moment {
            phase: "grow".to_owned(),
            live: 3 << 20,
            slab,
            metadata: slab.map(|_| 0),
            rss: 4 << 20,
            peak_live: 4 << 20,
            peak_rss: 6 << 20,
        };
        let answer = |slab| Answer { note: String::new(), shrink: None, hash: 1, moments: vec![moment(slab)] };
        let find = |records: &[Record], test: &str| {
            records.iter().find(|r| r.test == test).map(|r| (r.median, r.unit.clone()))
        };
        let ours = collect("slub", &[answer(Some(6 << 20))]);
        assert_eq!(find(&ours, "memory-slab"), Some((6144.0, "KiB".to_owned())));
        assert_eq!(find(&ours, "memory-utilisation"), Some((50.0, "percent".to_owned())));
        assert_eq!(find(&ours, "memory-peak-over-live"), Some((1.5, "ratio".to_owned())));
        let peer = collect("glibc", &[answer(None)]);
        assert_eq!(find(&peer, "memory-slab"), None);
        assert_eq!(find(&peer, "memory-utilisation"), Some((75.0, "percent".to_owned())));
        assert!(peer.iter().all(|record| record.phase.as_deref() == Some("grow")));
    }
}
