//! A run as people read it.

use core::fmt::Write;

use crate::experiments::programs::plan::record::{Kind, Means, Record, Run};
use crate::experiments::programs::plan::systems::BASE;
use crate::kit::statistics::{Statistic, geometric_mean};

/// A measure of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Elapsed,
    Cpu,
    Peak,
    /// Without pages of files.
    Anonymous,
    Idle,
}

impl Measure {
    const ALL: [Self; 5] = [Self::Elapsed, Self::Cpu, Self::Peak, Self::Anonymous, Self::Idle];

    fn title(self) -> &'static str {
        match self {
            Self::Elapsed => "elapsed time, ms",
            Self::Cpu => "CPU time (user and system), ms",
            Self::Peak => "peak resident memory, MiB",
            Self::Anonymous => "peak resident memory without pages of files, MiB",
            Self::Idle => "resident memory after everything was freed and 1.5 s of sleep, MiB",
        }
    }

    /// The figure that ratios use; none where it was not measured.
    pub(crate) fn of(self, record: &Record, by: Statistic) -> Option<f64> {
        let figure = match self {
            Self::Elapsed => record.elapsed,
            Self::Cpu => record.cpu,
            Self::Peak => record.peak_rss_kib,
            Self::Anonymous => record.peak_anon_kib?,
            Self::Idle => record.idle_rss_kib?,
        };
        Some(figure.by(by)).filter(|&value| value > 0.0)
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Elapsed | Self::Cpu if value < 10.0 => format!("{value:.2}"),
            Self::Elapsed | Self::Cpu => format!("{value:.0}"),
            Self::Peak | Self::Anonymous | Self::Idle => format!("{:.1}", value / 1024.0),
        }
    }
}

/// Ratios of one system to glibc, in the workloads that ran on both.
pub(crate) fn ratios<'a>(
    run: &'a Run,
    kind: Kind,
    system: &str,
    measure: Measure,
    by: Statistic,
) -> Vec<(&'a str, f64)> {
    let ratio = |workload: &'a str| {
        let figure = |id: &str| measure.of(run.cell(workload, id)?, by);
        Some((workload, figure(system)? / figure(BASE)?))
    };
    run.workloads(kind).into_iter().filter_map(ratio).collect()
}

/// The geometric mean of those; none if there are none.
pub(crate) fn mean(run: &Run, kind: Kind, system: &str, measure: Measure, by: Statistic) -> Option<f64> {
    let values: Vec<f64> = ratios(run, kind, system, measure, by).iter().map(|(_, ratio)| *ratio).collect();
    (!values.is_empty()).then(|| geometric_mean(&values))
}

/// All means of a run.
pub(crate) fn means(run: &Run, by: Statistic) -> Vec<Means> {
    let mut all = Vec::new();
    for kind in [Kind::Synthetic, Kind::Live, Kind::Real] {
        for system in run.systems() {
            let of = |measure| mean(run, kind, system, measure, by).map(|mean| (mean * 1e4).round() / 1e4);
            let workloads = ratios(run, kind, system, Measure::Elapsed, by).len();
            if workloads > 0 {
                all.push(Means {
                    kind,
                    system: system.to_owned(),
                    workloads,
                    elapsed: of(Measure::Elapsed),
                    cpu: of(Measure::Cpu),
                    peak_rss: of(Measure::Peak),
                    peak_anon: of(Measure::Anonymous),
                    idle_rss: of(Measure::Idle),
                });
            }
        }
    }
    all
}

/// Machine, systems and what is missing.
pub(crate) fn header(run: &Run) -> String {
    let host = &run.host;
    let mut text = format!(
        "{} ({}), {} CPUs\nLinux {}, glibc {}, transparent huge pages: {}\nashlar {} ({}), mode {}\n",
        host.cpu_model,
        host.arch,
        host.cpus,
        host.kernel,
        host.glibc,
        host.thp,
        host.ashlar_version,
        host.build,
        host.ashlar_mode
    );
    for system in run.systems() {
        if let Some(record) = run.programs.iter().find(|record| record.system == system) {
            let file = record.preload.as_deref().unwrap_or("the C library, nothing preloaded");
            let _ = writeln!(text, "  {system}: {} ({file})", record.version);
        }
    }
    let _ = writeln!(text, "{} rounds after a warm-up that is not timed, scale {}", host.rounds, host.scale);
    for line in &run.missing {
        let _ = writeln!(text, "MISSING  {line}");
    }
    if host.build.starts_with("debug") {
        text += "WARNING: this is a debug build; its figures mean nothing (use cargo run --release).\n";
    }
    text
}

/// A block for each kind and measure, then the means.
pub(crate) fn render(run: &Run, by: Statistic) -> String {
    let mut text = String::new();
    for (kind, title) in [
        (Kind::Synthetic, "Synthetic workloads"),
        (Kind::Live, "Live sets"),
        (Kind::Real, "Real programs"),
        (Kind::Startup, "Start-up"),
        (Kind::Pairs, "Pairs"),
    ] {
        for measure in Measure::ALL {
            block(&mut text, run, kind, title, measure, by);
        }
    }
    text
}

fn block(text: &mut String, run: &Run, kind: Kind, title: &str, measure: Measure, by: Statistic) {
    let systems = run.systems();
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(systems.iter().map(|&id| id.to_owned()));
    for workload in run.workloads(kind) {
        let figure = |id: &str| measure.of(run.cell(workload, id)?, by);
        let base = figure(BASE);
        let mut row = vec![workload.to_owned()];
        row.extend(systems.iter().map(|&id| match (figure(id), base) {
            (None, _) => "-".to_owned(),
            (Some(value), Some(base)) if id != BASE => format!("{} ({:.2})", measure.show(value), value / base),
            (Some(value), _) => measure.show(value),
        }));
        if row.iter().skip(1).any(|cell| cell != "-") {
            rows.push(row);
        }
    }
    if rows.len() == 1 {
        return;
    }
    let mut last = vec!["geometric mean".to_owned()];
    last.extend(
        systems.iter().map(|id| mean(run, kind, id, measure, by).map_or("-".to_owned(), |mean| format!("{mean:.3}"))),
    );
    if rows.len() > 2 {
        rows.push(last);
    }
    let head = format!("{title}: {}", measure.title());
    let _ = writeln!(
        text,
        "\n{head}\n{}\n{} over the rounds; in brackets the ratio to {BASE}\n",
        "=".repeat(head.chars().count()),
        by.name()
    );
    let widths: Vec<usize> =
        (0..=systems.len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    for row in &rows {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::experiments::programs::child::process::Usage;
    use crate::experiments::programs::plan::record::Machine;
    use crate::experiments::programs::plan::systems::System;
    use crate::experiments::programs::plan::{Samples, record};

    /// A synthetic workload on which ours takes half of glibc's time, and two of live sets on which
    /// it takes a quarter.
    fn run() -> Run {
        let cell = |workload: &str, kind, id: &str, millis| {
            let system = System { id: id.to_owned(), preload: None, version: String::new(), options: None };
            let usage = Usage { elapsed: Duration::from_millis(millis), ..Usage::default() };
            record(workload, kind, &system, &Samples { usages: vec![usage], ..Samples::default() })
        };
        let workloads = [("trees", Kind::Synthetic, 2), ("live-1", Kind::Live, 4), ("live-8", Kind::Live, 4)];
        let cells = |(workload, kind, part): (&str, _, _)| {
            [cell(workload, kind, BASE, 100), cell(workload, kind, "ashlar", 100u64 / part)]
        };
        let programs = workloads.into_iter().flat_map(cells).collect();
        Run { host: Machine::default(), programs, geomeans: Vec::new(), missing: Vec::new() }
    }

    #[test]
    fn live_sets_have_a_table_and_a_mean_of_their_own() {
        let run = run();
        let means: Vec<_> = means(&run, Statistic::Median).into_iter().filter(|mean| mean.system == "ashlar").collect();
        let found: Vec<_> = means.iter().map(|mean| (mean.kind, mean.workloads, mean.elapsed)).collect();
        assert_eq!(found, [(Kind::Synthetic, 1, Some(0.5)), (Kind::Live, 2, Some(0.25))]);
        let text = render(&run, Statistic::Median);
        let (synthetic, live) = text.split_once("\nLive sets: elapsed time, ms\n").expect("a heading");
        assert!(synthetic.contains("trees") && !synthetic.contains("live-1"), "{text}");
        assert!(!live.contains("trees") && live.contains("live-8") && live.contains("0.250"), "{text}");
    }
}
