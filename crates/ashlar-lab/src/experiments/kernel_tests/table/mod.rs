//! The table of the 2007 mail: a block for each test, sizes down, systems across, and the ratings
//! of ours in the last columns.

pub(crate) mod best;
pub(crate) mod kernel;
mod memory;
mod published;
mod rating;

use core::fmt::Write;

use crate::kit::counts::Counts;
use crate::kit::record::{Record, Report};
use crate::kit::statistics::Statistic;
use crate::kit::table::{aligned_within, figure, machine};
use crate::kit::terminal::wrapped;

const TITLES: [(&str, &str); 8] = [
    ("A", "Single threaded kmalloc"),
    ("B", "Single threaded kfree of the objects of test A"),
    ("C", "Short lived object: alloc and free at once"),
    ("D", "Concurrent kmalloc"),
    ("D-free", "Concurrent kfree of the own objects of test D"),
    ("E", "Short lived object: concurrent alloc and free at once"),
    ("F", "Remote free: CPU 0 frees what the others allocated, per object freed"),
    ("F-alloc", "Allocation on the other CPUs before test F"),
];

/// What stands between the timed loop and each system, printed under the tables.
const CALLED: &str = "\
Calls of `ashlar-cache` and `limit` are inlined into the timed loop; every other system, kmalloc, malloc or peer, is called through a function.";

/// Machine, build, peers, and what was measured.
pub(crate) fn header(run: &Report, columns: Columns) -> String {
    let host = &run.host;
    let mut text = machine(host);
    if let Some(objects) = host.fragmented {
        let _ = writeln!(
            text,
            "fragmented heap: for each size {objects} objects of 8 bytes less, of which every second is freed"
        );
    }
    if let Some(nodes) = host.nodes {
        let _ = writeln!(
            text,
            "{nodes} fake nodes for ashlar and its engines, CPU n on node n modulo {nodes}: {} of them with CPUs here",
            host.nodes_with_cpus.unwrap_or(0)
        );
    }
    if let Some(page) = host.page {
        let _ = writeln!(text, "{} KiB pages in ashlar and its engines", page >> 10);
    }
    if let Some(irq) = &host.irq {
        let _ = writeln!(text, "disabled interrupts: irq={irq}");
    }
    let counted = if host.first_pass {
        "first pass: each figure is from a new process that runs one pass, without warm-up".to_owned()
    } else {
        format!("not counted: {}", host.warm_up)
    };
    let _ = writeln!(
        text,
        "{} objects a CPU and pass, {} rounds of {} turns, systems in turn; {counted}",
        host.objects,
        host.rounds,
        turns(run)
    );
    wrapped(&text, columns.width())
}

/// Least and most turns of a cell in a round.
fn turns(run: &Report) -> String {
    let rounds = run.host.rounds.max(1);
    let turns = || run.records.iter().map(|record| record.runs / rounds);
    match (turns().min(), turns().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (least, _) => least.unwrap_or(0).to_string(),
    }
}

/// Which systems the tables show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// Those that fit into so many columns of a terminal, the most important ones first.
    Fitting(usize),
    /// All, in parts of so many columns of a terminal.
    Parts(usize),
    /// All, side by side.
    All,
}

/// Systems in the order of their importance where not all of them fit; the others follow.
const IMPORTANT: [&str; 11] = [
    "ashlar",
    "ashlar-malloc",
    "glibc",
    "mimalloc",
    "jemalloc",
    "snmalloc",
    "tcmalloc",
    "rpmalloc",
    "slub",
    "slab",
    "limit",
];

impl Columns {
    fn width(self) -> usize {
        match self {
            Self::Fitting(width) | Self::Parts(width) => width,
            Self::All => usize::MAX - 2,
        }
    }

    /// The systems to show, in the order of the run.
    fn systems(self, run: &Report) -> Vec<&str> {
        let all = run.systems();
        let Self::Fitting(width) = self else { return all };
        let widest = |heads: &mut dyn Iterator<Item = usize>| heads.max().unwrap_or(0);
        // Sizes stand in front, the ratings behind. Published figures go to parts of their own.
        let mut room = width.saturating_sub(7 + rating::width(run));
        let mut shown: Vec<&str> = Vec::new();
        let place = |id: &str| IMPORTANT.iter().position(|known| *known == id).unwrap_or(IMPORTANT.len());
        let mut by_importance = all.clone();
        by_importance.sort_by_key(|id| place(id));
        for id in by_importance {
            let cells = run.records.iter().filter(|record| record.system == id);
            let takes = 2 + id.len().max(widest(&mut cells.map(|record| cell(record).len())));
            if takes > room && !shown.is_empty() {
                break;
            }
            room = room.saturating_sub(takes);
            shown.push(id);
        }
        all.into_iter().filter(|id| shown.contains(id)).collect()
    }
}

/// All tables, the rule and a line for each test.
pub(crate) fn render(run: &Report, by: Statistic, columns: Columns) -> String {
    let mut text = String::new();
    let systems = columns.systems(run);
    for test in run.tests() {
        block(&mut text, run, test, by, &systems, columns.width());
    }
    memory::block(&mut text, run, &systems, columns.width());
    counts(&mut text, run, &systems, columns.width());
    let hidden: Vec<&str> = run.systems().into_iter().filter(|id| !systems.contains(id)).collect();
    if !hidden.is_empty() {
        let line = format!(
            "Not shown, because the table would be too wide: {}. `--wide` shows every system; `--systems LIST` chooses.",
            hidden.join(", ")
        );
        let _ = writeln!(text, "\n{line}");
    }
    published::legend(&mut text, run, columns.width());
    let _ = writeln!(text, "\n{CALLED}");
    text += rating::RULE;
    text.push('\n');
    for test in run.tests() {
        rating::summary(&mut text, run, test, by);
    }
    wrapped(&text, columns.width())
}

/// Locks and slow paths of the systems that count them, for one operation, over all sizes of a
/// test.
fn counts(text: &mut String, run: &Report, systems: &[&str], width: usize) {
    let systems: Vec<&str> = systems
        .iter()
        .copied()
        .filter(|id| run.records.iter().any(|record| record.system == **id && record.counts.is_some()))
        .collect();
    if systems.is_empty() {
        return;
    }
    let head = "Locks taken / calls beyond the fast path, for one operation (mean over the sizes)";
    let _ = writeln!(text, "\n{head}\n{}\n", "=".repeat(head.len()));
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(systems.iter().map(|&id| id.to_owned()));
    // The phases of a pass are counted together, so each pass has one row.
    for test in run.tests().into_iter().filter(|test| !["B", "D-free", "F-alloc"].contains(test)) {
        let mut row = vec![if test == "A" { "A, B".to_owned() } else { test.to_owned() }];
        for id in &systems {
            let cells: Vec<_> = run
                .records
                .iter()
                .filter(|record| record.test == test && record.system == **id)
                .filter_map(|record| record.counts)
                .collect();
            let mean = |of: fn(&Counts) -> f64| cells.iter().map(of).sum::<f64>() / cells.len() as f64;
            row.push(if cells.is_empty() {
                "-".to_owned()
            } else {
                format!("{:.3}/{:.3}", mean(|c| c.locks), mean(|c| c.slow))
            });
        }
        rows.push(row);
    }
    aligned_within(text, &rows, width);
}

/// What a cell shows.
fn cell(record: &Record) -> String {
    format!("{}/{}", figure(record.median), figure(record.min))
}

fn block(text: &mut String, run: &Report, test: &str, by: Statistic, systems: &[&str], width: usize) {
    let of_test = || run.records.iter().filter(|record| record.test == test);
    let title = TITLES.iter().find(|(id, _)| *id == test).map_or("", |(_, title)| title);
    let cpus = of_test().map(|record| record.cpus).max().unwrap_or(1);
    let unit = of_test().next().map_or("", |record| record.unit.as_str());
    let over = if of_test().any(|record| record.oversubscribed) {
        format!("; OVERSUBSCRIBED: {cpus} threads on {} CPUs, figures contain waiting", run.host.cpus)
    } else {
        String::new()
    };
    let head = format!("Test {test}: {title} ({cpus} CPU{})", if cpus == 1 { "" } else { "s" });
    let _ = writeln!(text, "\n{head}\n{}\n{unit}, median/min{over}\n", "=".repeat(head.len()));

    let mut rows = vec![vec![String::new()]];
    rows[0].extend(systems.iter().map(|&id| id.to_owned()));
    rows[0].extend(published::heads(run, test));
    rows[0].extend(rating::heads(run));
    for size in run.sizes(test) {
        let mut row = vec![size.to_string()];
        row.extend(systems.iter().map(|id| run.cell(test, id, size).map_or_else(|| "?".to_owned(), cell)));
        row.extend(published::cells(run, test, size));
        row.extend(rating::cells(run, test, size, by));
        rows.push(row);
    }
    aligned_within(text, &rows, width);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::record;

    #[test]
    fn counts_have_a_column_for_each_system_that_counts() {
        let mut run = record::sample(&[("A", "ashlar", 8, 10.0), ("C", "ashlar", 8, 5.0), ("A", "glibc", 8, 35.0)]);
        run.records[0].counts = Some(Counts { locks: 0.25, slow: 0.5, search: None });
        let text = render(&run, Statistic::Median, Columns::All);
        let block = text.split("Locks taken").nth(1).expect("a block of counts");
        assert!(block.contains("0.250/0.500") && !block.split("Rating:").next().unwrap().contains("glibc"), "{text}");
        run.records[0].counts = None;
        assert!(!render(&run, Statistic::Median, Columns::All).contains("Locks taken"));
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_and_named() {
        let ids = ["ashlar-sized", "ashlar", "slob", "glibc", "mimalloc", "jemalloc", "snmalloc", "limit", "rpmalloc"];
        let run = record::sample(&ids.map(|id| ("A", id, 8, 1234.0)));
        for width in [80, 100, 120] {
            let text = render(&run, Statistic::Median, Columns::Fitting(width));
            assert!(text.lines().all(|line| line.len() <= width), "{width}:\n{text}");
            let head = text.lines().find(|line| line.contains("mimalloc")).unwrap();
            assert!(head.contains("ashlar") && head.contains("glibc"), "{head}");
            assert_eq!(text.contains("Not shown") && text.contains("`--wide`"), !head.contains("slob"), "{text}");
        }
        let parts = render(&run, Statistic::Median, Columns::Parts(80));
        let all = render(&run, Statistic::Median, Columns::All);
        for id in ids {
            assert!(parts.contains(id) && all.contains(id), "{id}");
        }
        assert!(parts.lines().all(|line| line.len() <= 80), "{parts}");
        assert!(all.lines().any(|line| line.len() > 100) && !all.contains("Not shown"), "{all}");
    }

    #[test]
    fn a_block_has_a_row_for_each_size_and_the_rating_last() {
        let run = record::sample(&[
            ("A", "ashlar", 8, 10.0),
            ("A", "glibc", 8, 35.0),
            ("A", "jemalloc", 8, 20.0),
            ("A", "ashlar", 64, 300.0),
            ("A", "limit", 8, 1.0),
        ]);
        let text = render(&run, Statistic::Median, Columns::All);
        let row = |size: &str| text.lines().find(|line| line.trim_start().starts_with(size)).unwrap();
        assert!(row("8 ").ends_with("2 *"), "{text}");
        assert!(row("64 ").contains("300/300") && row("64 ").contains('?'), "{text}");
        assert!(text.contains("Test A: ashlar / best peer 0.50") && text.contains("against jemalloc"), "{text}");
        assert!(text.contains("Rating:"));
        let called = text.find("Calls of `ashlar-cache` and `limit` are inlined").expect("how systems are called");
        assert!(Some(called) > text.find("300/300"), "under the tables: {text}");
    }
}
