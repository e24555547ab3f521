//! What a process is told and answers, and the records that its answers become.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kit::measure::UNIT;
use crate::kit::once::record;
use crate::kit::record::Record;

/// Objects of DPDK's test, in bytes.
pub(crate) const KEPT_SIZE: usize = 2048;

/// Objects that DPDK's test takes before it puts them back.
pub(crate) const KEPT: [usize; 3] = [32, 128, 512];

/// Bulks of DPDK's test.
pub(crate) const KEPT_BULKS: [usize; 4] = [1, 4, 8, 32];

/// What a child is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Bytes of the objects.
    pub(crate) size: usize,
    pub(crate) bulks: Vec<usize>,
    /// Objects of one pass.
    pub(crate) objects: usize,
    /// Objects of the heap of the worst case.
    pub(crate) spread: usize,
    /// Passes that count; one more comes before them.
    pub(crate) passes: usize,
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Test {
    /// One object, allocated and freed at once.
    Single,
    Loop,
    Call,
    WorstLoop,
    WorstCall,
    /// With this many objects.
    Keep(usize),
}

/// Ticks for one object, allocation and free, of each pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) test: Test,
    pub(crate) bulk: usize,
    pub(crate) samples: Vec<f64>,
}

/// What a child prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) note: String,
    pub(crate) cells: Vec<Cell>,
}

/// The records of one system: over the passes of all its processes.
pub(crate) fn collect(system: &str, size: usize, answers: &[Answer]) -> Vec<Record> {
    let mut samples: BTreeMap<(Test, usize), Vec<f64>> = BTreeMap::new();
    for cell in answers.iter().flat_map(|answer| &answer.cells) {
        samples.entry((cell.test, cell.bulk)).or_default().extend(&cell.samples);
    }
    let named = |((test, bulk), samples): ((Test, usize), Vec<f64>)| {
        let (name, size) = match test {
            Test::Single => ("bulk-single".to_owned(), size),
            Test::Loop => ("bulk-loop".to_owned(), size),
            Test::Call => ("bulk-call".to_owned(), size),
            Test::WorstLoop => ("bulk-worst-loop".to_owned(), size),
            Test::WorstCall => ("bulk-worst-call".to_owned(), size),
            Test::Keep(keep) => (keep_name(keep), KEPT_SIZE),
        };
        Record { size, bulk: Some(bulk), ..record(&name, system, UNIT, &samples) }
    };
    samples.into_iter().map(named).collect()
}

/// Name of the records of DPDK's loop with `keep` objects.
pub(crate) fn keep_name(keep: usize) -> String {
    format!("bulk-keep-{keep}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_all_processes_make_one_record() {
        let cell = |samples: &[f64]| Cell { test: Test::Call, bulk: 8, samples: samples.to_vec() };
        let answer = |samples: &[f64]| Answer { note: String::new(), cells: vec![cell(samples)] };
        let records = collect("slub", 256, &[answer(&[3.0, 1.0]), answer(&[2.0])]);
        assert_eq!(records.len(), 1);
        let found = &records[0];
        assert_eq!((found.test.as_str(), found.bulk, found.size, found.runs), ("bulk-call", Some(8), 256, 3));
        assert_eq!((found.min, found.median), (1.0, 2.0));
    }
}
