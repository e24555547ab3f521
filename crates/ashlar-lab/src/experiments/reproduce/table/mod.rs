//! The report as text.

pub(crate) mod page;
pub(crate) mod report;

use core::fmt::Write as _;

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

/// The counts of all verdicts.
pub(crate) fn summary(report: &Report) -> String {
    let of = |verdict: &Verdict| format!("{} {}", report.count(*verdict), verdict.words());
    format!("{} claims: {}", report.claims.len(), Verdict::ALL.iter().map(of).collect::<Vec<_>>().join(", "))
}

pub(crate) fn render(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "ashlar {} reproduce: {} CPUs, {}, Linux {}, glibc {}, sections by {}, {}\n",
        machine.ashlar_version,
        machine.cpus,
        machine.cpu_model,
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
                "  {:<20} {:<22} published {:>8}  measured {:>8}{}",
                claim.verdict.words(),
                claim.id,
                shown(claim, claim.published),
                shown(claim, claim.measured),
                if claim.simulated { "  SIMULATED" } else { "" }
            );
            let _ = writeln!(text, "      {}", claim.claim);
            let _ = writeln!(text, "      {}", claim.reason);
        }
    }
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
