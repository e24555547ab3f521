//! What `kernel` prints: a block for each boot, tests and sizes down, systems across; and what the
//! work at random came to.

use core::fmt::Write;

use crate::experiments::kernel::plan::{Boot, Clock, Plan};
use crate::kit::record::{Record, Report};
use crate::kit::table::{aligned, figure};

/// The tests in the order of the table.
const TESTS: [&str; 8] = ["A", "B", "C", "D", "D-free", "E", "F-alloc", "F"];

/// The record of one cell.
pub(crate) fn cell<'a>(run: &'a Report, clock: Clock, test: &str, system: &str, size: usize) -> Option<&'a Record> {
    let test = format!("kernel-{test}");
    run.records.iter().find(|record| {
        record.test == test
            && record.system == system
            && record.size == size
            && record.mode.as_deref() == Some(clock.mode())
    })
}

/// All blocks.
pub(crate) fn render(run: &Report, plan: &Plan, boots: &[Boot]) -> String {
    let mut text = String::new();
    let host = &run.host;
    let qemu = host.peers.get("qemu").map_or("", |peer| &peer.version);
    let _ = writeln!(text, "ashlar {} in ring 0, {}, {}", host.ashlar_version, host.rustc, qemu);
    let _ = writeln!(
        text,
        "{} CPUs, {} nodes, {} objects for each CPU; A, B and C on one CPU; of one operation, the least of the passes",
        plan.cpus, plan.nodes, plan.objects
    );
    for boot in boots {
        let title = match boot.clock {
            Clock::Instructions => "Instructions, of all CPUs together (-icount: CPUs take turns on one host thread)",
            Clock::Ticks => "Ticks of this host, emulation included (a host thread for each CPU); not of real hardware",
        };
        let _ = writeln!(text, "\n{title}");
        let mut rows = vec![vec!["test".to_owned(), "size".to_owned()]];
        rows[0].extend(host.systems.iter().cloned());
        for test in TESTS {
            for &size in &plan.sizes {
                let figures: Vec<Option<f64>> = host
                    .systems
                    .iter()
                    .map(|system| cell(run, boot.clock, test, system, size).map(|record| record.min))
                    .collect();
                if figures.iter().any(Option::is_some) {
                    let figures = figures.into_iter().map(|value| value.map_or_else(|| "-".to_owned(), figure));
                    rows.push([test.to_owned(), size.to_string()].into_iter().chain(figures).collect());
                }
            }
        }
        aligned(&mut text, &rows);
        storms(&mut text, boot);
    }
    text
}

/// What the work at random came to.
fn storms(text: &mut String, boot: &Boot) {
    let _ = writeln!(text, "\nAt random, with timer interrupts that allocate ({})", boot.clock.mode());
    let head = ["", "allocated", "freed by others", "interrupts", "own node", "no memory", "damaged", "lost"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for storm in &boot.storms {
        let local = match storm.local {
            // The others know no nodes.
            0 => "-".to_owned(),
            local => format!("{:.1} %", 100.0 * local as f64 / storm.allocated as f64),
        };
        let counts = [storm.allocated, storm.elsewhere, storm.interrupts].map(|count| count.to_string());
        let rest = [storm.refused, storm.damaged].map(|count| count.to_string());
        let row = [storm.system.clone()].into_iter().chain(counts).chain([local]).chain(rest);
        rows.push(row.chain([storm.lost.to_string()]).collect());
    }
    aligned(text, &rows);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::kernel::plan::{report, tests as made};

    #[test]
    fn tests_stand_below_and_systems_beside_each_other() {
        let plan = Plan::new(&made::args()).expect("sound options");
        let boots = [made::printed(made::PRINTED).expect("a whole boot")];
        let text = render(&report(&plan, &boots, "QEMU 8".to_owned()), &plan, &boots);
        let row = |start: [&str; 2]| {
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            text.lines().map(words).find(|words| words.iter().take(2).eq(start.iter()))
        };
        assert_eq!(row(["A", "64"]).expect("A"), ["A", "64", "100"]);
        assert_eq!(row(["D", "64"]).expect("D"), ["D", "64", "200"]);
        assert_eq!(row(["E", "64"]), None, "{text}");
        assert_eq!(row(["ashlar", "9"]).expect("the storm"), ["ashlar", "9", "2", "3", "100.0", "%", "0", "0", "0"]);
    }
}
