//! The run as `--json` writes it: what was measured, and what is predicted from it.

pub(crate) mod measured;
mod model;
pub(crate) mod predict;

use serde::{Deserialize, Serialize};

use crate::experiments::simulate::plan::predict::{Inputs, Validation, validate};
use crate::kit::measure::UNIT;
use crate::kit::record::{Host, Record};

/// A record that may be no measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SimRecord {
    #[serde(flatten)]
    pub(crate) record: Record,
    /// NUMA nodes.
    pub(crate) nodes: usize,
    /// False for what was measured on two CPUs of this machine.
    pub(crate) simulated: bool,
}

/// One engine at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) system: String,
    pub(crate) inputs: Inputs,
}

/// A run as `--json` writes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) host: Host,
    pub(crate) records: Vec<SimRecord>,
    /// Start of the random numbers.
    pub(crate) seed: u64,
    /// What a line costs in the predictions, where it is not what was measured; ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<f64>,
    pub(crate) inputs: Vec<Cell>,
    pub(crate) validation: Vec<Validation>,
}

/// All predictions, and what they are worth.
pub(crate) fn predict(
    host: Host,
    cells: Vec<Cell>,
    cpus: &[usize],
    nodes: &[usize],
    line: Option<f64>,
    seed: u64,
) -> Run {
    let (mut records, mut validation) = (Vec::new(), Vec::new());
    for Cell { system, inputs } in &cells {
        let size = inputs.one_node.size;
        let record = |test: &str, cpus: usize, nodes: usize, ticks: f64, simulated: bool| {
            let ticks = (ticks * 100.0).round() / 100.0;
            let record = Record {
                mode: None,
                test: test.to_owned(),
                system: system.clone(),
                size,
                cpus,
                unit: UNIT.to_owned(),
                min: ticks,
                median: ticks,
                runs: 1,
                samples: vec![ticks],
                ..Record::default()
            };
            SimRecord { record, nodes, simulated }
        };
        let there = line.map_or(*inputs, |line| inputs.with_line(line));
        for &nodes in nodes {
            for &cpus in cpus.iter().filter(|&&cpus| cpus >= nodes) {
                records.push(record("D", cpus, nodes, there.test_d(system, cpus, nodes, seed), true));
                records.push(record("F", cpus, nodes, there.test_f(cpus, nodes), true));
            }
        }
        let found = validate(system, inputs, seed);
        records.extend(found.iter().map(|cell| record(&cell.test, cell.cpus, cell.nodes, cell.measured, false)));
        validation.extend(found);
    }
    Run { host, records, seed, line, inputs: cells, validation }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::kit::record;

    pub(crate) fn sample() -> Run {
        let cells =
            ["slab", "slub"].map(|system| Cell { system: system.to_owned(), inputs: super::predict::tests::inputs() });
        predict(Host::default(), cells.to_vec(), &[2, 8, 1024], &[1, 4, 16], None, 1)
    }

    #[test]
    fn every_test_has_a_record_for_each_machine_that_can_be() {
        let run = sample();
        let of = |simulated: bool| run.records.iter().filter(move |record| record.simulated == simulated).count();
        // 2, 8 and 1024 CPUs on one node, 8 and 1024 on four, 1024 on sixteen; tests D and F; two
        // engines.
        assert_eq!(of(true), 6 * 2 * 2);
        assert_eq!(of(false), run.validation.len());
    }

    #[test]
    fn another_line_changes_predictions_and_not_what_was_measured() {
        let run = |line| predict(Host::default(), sample().inputs, &[2, 8], &[1], line, 1);
        let (here, there) = (run(None), run(Some(400.0)));
        assert_eq!((here.inputs, here.validation), (there.inputs, there.validation));
        for (here, there) in here.records.iter().zip(&there.records) {
            let (near, far) = (here.record.median, there.record.median);
            assert!(if here.simulated { far > 2.0 * near } else { far == near }, "{there:?}");
        }
    }

    #[test]
    fn json_says_what_is_simulated_and_can_be_read_as_a_run_of_the_lab() {
        let run = sample();
        let text = serde_json::to_string(&run).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["records"][0]["simulated"], true);
        assert_eq!(value["records"][0]["nodes"], 1);
        let report: record::Report = serde_json::from_str(&text).unwrap();
        assert_eq!(report.records.len(), run.records.len());
        let again: Run = serde_json::from_str(&text).unwrap();
        assert_eq!(again.records, run.records);
    }
}
