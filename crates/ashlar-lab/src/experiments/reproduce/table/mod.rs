//! The report as text.

pub(crate) mod markdown;
mod order;
pub(crate) mod page;
pub(crate) mod report;

use core::fmt::Write as _;

use crate::experiments::reproduce::plan::claims::Kind;
use crate::experiments::reproduce::table::report::Report;
use crate::experiments::reproduce::targets::{Judged, Verdict};
use crate::kit::table::number;

/// A number of a claim with its unit.
pub(crate) fn shown(claim: &Judged, value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if claim.unit == "percent" => format!("{value:+.2} %"),
        Some(value) => number(value),
    }
}

/// The interval of a claim, behind its number.
pub(crate) fn shown_interval(claim: &Judged) -> String {
    match claim.interval {
        None => String::new(),
        Some([low, high]) => format!("[{}, {}]", shown(claim, Some(low)), shown(claim, Some(high))),
    }
}

/// The counts of the verdicts on claims of a kind.
pub(crate) fn counts(report: &Report, kind: Kind) -> String {
    let of = |verdict: &Verdict| format!("{} {}", report.count(kind, *verdict), verdict.words());
    format!(
        "{} {}: {}",
        report.of_kind(kind).count(),
        kind.words(),
        Verdict::ALL.iter().map(of).collect::<Vec<_>>().join(", ")
    )
}

/// The counts of all verdicts: claims of the mails, and below them those that do not count.
pub(crate) fn summary(report: &Report) -> String {
    let mut text = counts(report, Kind::Published);
    for kind in &Kind::ALL[1..] {
        text += &format!("\nApart: {}", counts(report, *kind));
    }
    text
}

pub(crate) fn render(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "ashlar {} reproduce: {} CPUs, {}, Linux {}, glibc {}, sections by {}, {}\n",
        machine.ashlar_version,
        machine.cpus,
        machine.processor.as_ref().map_or_else(|| machine.cpu_model.clone(), ToString::to_string),
        machine.kernel,
        machine.glibc,
        machine.ashlar_mode,
        machine.build
    );
    if report.quick {
        text += "QUICK: the measurements are too small to mean anything\n";
    }
    let seeds: Vec<&str> = report.claims.iter().map(|claim| claim.seed.as_str()).fold(Vec::new(), |mut seen, seed| {
        if !seen.contains(&seed) {
            seen.push(seed);
        }
        seen
    });
    for seed in seeds {
        let _ = writeln!(text, "\nMail {seed}");
        for claim in report.claims.iter().filter(|claim| claim.seed == seed) {
            let _ = writeln!(
                text,
                "  {:<29} {:<22} published {:>8}  measured {:>8} {}{}",
                claim.verdict.words(),
                claim.id,
                shown(claim, claim.published),
                shown(claim, claim.measured),
                shown_interval(claim),
                if claim.simulated { "  SIMULATED" } else { "" }
            );
            if claim.kind != Kind::Published {
                let of = claim.repeats.as_ref().map_or_else(String::new, |id| format!(" ({id})"));
                let _ = writeln!(text, "      counted apart: {}{of}", claim.kind.words());
            }
            let _ = writeln!(text, "      {}", claim.claim);
            let _ = writeln!(text, "      {}", claim.reason);
        }
    }
    text += &order::render(&report.tables);
    text += "\nRuns\n";
    for (name, run) in &report.runs {
        let _ = writeln!(text, "  {name:<10} {:>6.1} s  {}", run.seconds, run.command);
        if let Some(failure) = &run.failure {
            let _ = writeln!(text, "  {:<10} FAILED    {failure}", "");
        }
    }
    let _ = writeln!(text, "\n{}", summary(report));
    text
}
