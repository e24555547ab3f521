//! What `bench bulk` prints: a block for each test, bulks down, systems across; and the verdict on the targets.

use crate::kit::table;
use core::fmt::Write;

use super::child::{KEPT, KEPT_BULKS, KEPT_SIZE, Plan};
use super::{dpdk, keep_name};
use crate::kit::measure::UNIT_OF_TICKS;
use crate::kit::record::{Record, Report};
use crate::kit::table::machine;

/// Widest group of columns that still fits a terminal.
const ACROSS: usize = 8;
/// The system that the targets are about.
const JUDGED: &str = "ashlar";
/// From this bulk on a call must pay.
const PAYS_FROM: usize = 8;
/// Most that a call may cost, of the loop.
const PAYS: f64 = 0.4;
/// The bulks between which there may be no cliff, and the largest step that is none.
const LEVEL: core::ops::RangeInclusive<usize> = 30..=250;
const CLIFF: f64 = 1.5;

fn cell<'a>(run: &'a Report, test: &str, system: &str, bulk: usize) -> Option<&'a Record> {
    run.records.iter().find(|record| record.test == test && record.system == system && record.bulk == Some(bulk))
}

/// All blocks.
pub(crate) fn render(run: &Report, plan: &Plan) -> String {
    let mut text = machine(&run.host);
    let _ = writeln!(
        text,
        "{} rounds of {} passes of {} objects; {} for one object, allocation and free together: least / median",
        run.host.rounds, plan.passes, plan.objects, UNIT_OF_TICKS
    );
    let systems: Vec<&str> = run.host.systems.iter().map(String::as_str).collect();
    let systems: Vec<&str> = systems.into_iter().filter(|id| cell(run, "bulk-single", id, 1).is_some()).collect();
    let size = plan.size;
    block(
        &mut text,
        run,
        &format!("One object of {size} bytes, allocated and freed at once"),
        &systems,
        &[1],
        &["bulk-single"],
    );
    let title = format!("Bulks of objects of {size} bytes: loop of single calls | one call each");
    block(&mut text, run, &title, &systems, &plan.bulks, &["bulk-loop", "bulk-call"]);
    let title = format!("Worst case, neighbours of different slabs, heap of {} objects: loop | call", plan.spread);
    block(&mut text, run, &title, &systems, &plan.bulks, &["bulk-worst-loop", "bulk-worst-call"]);
    let kept: Vec<&str> = systems.iter().copied().chain([dpdk::ID]).collect();
    for keep in KEPT {
        let name = keep_name(keep);
        let kept: Vec<&str> = kept.iter().copied().filter(|id| cell(run, &name, id, 1).is_some()).collect();
        let title = format!("DPDK's loop: {keep} objects of {KEPT_SIZE} bytes taken, bulk by bulk, then put back");
        block(&mut text, run, &title, &kept, &KEPT_BULKS, &[&name]);
    }
    text
}

/// One block: a line for each bulk; several of them where the systems do not fit beside each other.
fn block(text: &mut String, run: &Report, title: &str, systems: &[&str], bulks: &[usize], tests: &[&str]) {
    for part in systems.chunks(ACROSS) {
        let _ = writeln!(text, "\n{title}");
        let cells = |bulk: usize, system: &str| {
            let figures = tests.iter().map(|test| {
                cell(run, test, system, bulk).map_or_else(
                    || "-".to_owned(),
                    |record| format!("{}/{}", table::figure(record.min), table::figure(record.median)),
                )
            });
            figures.collect::<Vec<_>>().join(" | ")
        };
        let mut rows = vec![[vec![String::from("bulk")], part.iter().map(|id| (*id).to_owned()).collect()].concat()];
        for &bulk in bulks {
            let figures = part.iter().map(|system| cells(bulk, system));
            rows.push([vec![bulk.to_string()], figures.collect()].concat());
        }
        let widths: Vec<usize> =
            (0..=part.len()).map(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or(0)).collect();
        for row in rows {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
            let _ = writeln!(text, "{}", cells.join("  "));
        }
    }
}

/// Judges the targets by the medians; true if none is missed.
pub(crate) fn check(run: &Report) -> (String, bool) {
    let mut text = String::from("\nTargets, by the medians\n");
    let mut passed = true;
    let mut line = |good: bool, what: &str| {
        let _ = writeln!(text, "{}  {what}", if good { "ok  " } else { "MISS" });
        passed &= good;
    };
    let of = |test: &str, bulk: usize| cell(run, test, JUDGED, bulk).map(|record| record.median);
    let mut bulks: Vec<usize> = run.records.iter().filter_map(|record| record.bulk).collect();
    bulks.sort_unstable();
    bulks.dedup();
    let pairs: Vec<(usize, f64, f64)> =
        bulks.iter().filter_map(|&bulk| Some((bulk, of("bulk-loop", bulk)?, of("bulk-call", bulk)?))).collect();
    match pairs
        .iter()
        .filter(|(bulk, ..)| *bulk >= PAYS_FROM)
        .map(|(bulk, single, call)| (call / single, bulk))
        .max_by(|a, b| a.0.total_cmp(&b.0))
    {
        Some((worst, bulk)) => line(
            worst <= PAYS,
            &format!("from {PAYS_FROM} on a call costs at most {PAYS} of the loop: {worst:.2} at {bulk}"),
        ),
        None => line(false, &format!("from {PAYS_FROM} on a call costs at most {PAYS} of the loop: not measured")),
    }
    let level: Vec<f64> = pairs.iter().filter(|(bulk, ..)| LEVEL.contains(bulk)).map(|(.., call)| *call).collect();
    let steps = level.windows(2).map(|two| two[1] / two[0]);
    match steps.max_by(f64::total_cmp) {
        Some(step) => line(
            step <= CLIFF,
            &format!(
                "no cliff from {} to {}: the largest step is {step:.2}, {CLIFF} is one",
                LEVEL.start(),
                LEVEL.end()
            ),
        ),
        None => line(false, &format!("no cliff from {} to {}: not measured", LEVEL.start(), LEVEL.end())),
    }
    let mut behind = Vec::new();
    let mut compared = 0;
    for keep in KEPT {
        for bulk in KEPT_BULKS {
            let name = keep_name(keep);
            if let (Some(ours), Some(theirs)) = (of(&name, bulk), cell(run, &name, dpdk::ID, bulk)) {
                compared += 1;
                if ours > theirs.median {
                    let [ours, theirs] = [ours, theirs.median].map(table::figure);
                    behind.push(format!("keep {keep}, bulk {bulk}: {ours} against {theirs}"));
                }
            }
        }
    }
    if compared == 0 {
        let _ = writeln!(text, "-     ahead of DPDK's mempool in its own test: it was not run");
    } else {
        let told = if behind.is_empty() { format!("in all {compared} cells") } else { behind.join("; ") };
        line(behind.is_empty(), &format!("ahead of DPDK's mempool in its own test: {told}"));
    }
    (text, passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::once::record;
    use crate::kit::record;

    fn run(cells: &[(&str, &str, usize, f64)]) -> Report {
        let records = cells
            .iter()
            .map(|&(test, system, bulk, figure)| Record {
                bulk: Some(bulk),
                ..record(test, system, "tsc_cycles_per_op", &[figure])
            })
            .collect();
        Report { host: record::Host::default(), records, published: None }
    }

    #[test]
    fn targets_are_judged_by_the_worst_cell() {
        let good = [
            ("bulk-loop", JUDGED, 4, 10.0),
            ("bulk-call", JUDGED, 4, 9.0),
            ("bulk-loop", JUDGED, 30, 10.0),
            ("bulk-call", JUDGED, 30, 3.0),
            ("bulk-loop", JUDGED, 250, 10.0),
            ("bulk-call", JUDGED, 250, 4.0),
            ("bulk-keep-32", JUDGED, 8, 5.0),
            ("bulk-keep-32", dpdk::ID, 8, 6.0),
        ];
        let (text, passed) = check(&run(&good));
        assert!(passed && text.contains("0.40 at 250") && text.contains("in all 1 cells"), "{text}");
        for (at, worse, told) in
            [(5, 4.1, "0.41 at 250"), (3, 2.0, "step is 2.00"), (6, 6.5, "bulk 8: 6.5 against 6.0")]
        {
            let mut bad = good;
            bad[at].3 = worse;
            let (text, passed) = check(&run(&bad));
            assert!(!passed && text.contains(told), "{text}");
        }
        // What was not measured is missed, but for DPDK's, which not every machine has.
        let (text, passed) = check(&run(&good[..2]));
        assert!(!passed && text.matches("not measured").count() == 2 && text.contains("it was not run"), "{text}");
    }
}
