//! What `bench bulk` prints: a block for each test, bulks down, systems across; and the verdict on
//! the targets.

use core::fmt::Write;

use crate::experiments::bulk::child::dpdk;
use crate::experiments::bulk::plan::{KEPT, KEPT_BULKS, KEPT_SIZE, Plan, keep_name};
use crate::kit::measure::UNIT_OF_TICKS;
use crate::kit::record::{Record, Report};
use crate::kit::table::{self, machine};

/// Widest group of columns that still fits a terminal.
const ACROSS: usize = 8;

pub(crate) fn cell<'a>(run: &'a Report, test: &str, system: &str, bulk: usize) -> Option<&'a Record> {
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
