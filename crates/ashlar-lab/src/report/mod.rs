//! A run in the forms that people and programs read.

pub(crate) mod csv;
pub(crate) mod interval;
pub(crate) mod kernel;
mod published;
pub(crate) mod table;
pub(crate) mod targets;

use crate::args::Statistic;
use crate::bench::record::{Record, Report};
use crate::bench::systems::SystemInfo;

/// The figure of a record that comparisons use.
fn value(record: &Record, by: Statistic) -> f64 {
    match by {
        Statistic::Min => record.min,
        Statistic::Median => record.median,
    }
}

/// The best of the peers that `ours` is compared with, in one cell. A figure of zero is no measurement.
fn best_peer<'a>(run: &'a Report, ours: &str, test: &str, size: usize, by: Statistic) -> Option<(&'a str, f64)> {
    run.systems()
        .into_iter()
        .filter(|id| SystemInfo::by_id(id).is_some_and(|info| info.is_peer_of(ours)))
        .filter_map(|id| run.cell(test, id, size).map(|record| (id, value(record, by))))
        .filter(|(_, figure)| *figure > 0.0)
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

pub(crate) fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// As many digits as the size of the figure deserves.
pub(crate) fn figure(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A run made by hand, for the tests of the printers.
#[cfg(test)]
fn sample(cells: &[(&str, &str, usize, f64)]) -> Report {
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
    Report { host: crate::bench::record::Host::default(), records, published: None }
}
