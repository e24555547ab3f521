//! The memory that each system holds beside tests A and B.

use core::fmt::Write;

use crate::kit::record::Report;
use crate::kit::table::aligned_within;

/// Writes a row for each size and a column for each system that has figures; nothing where no
/// system has any.
pub(crate) fn block(text: &mut String, run: &Report, systems: &[&str], width: usize) {
    let held = || run.records.iter().filter(|record| record.resident.is_some());
    let systems: Vec<&str> = systems.iter().copied().filter(|id| held().any(|record| record.system == **id)).collect();
    if systems.is_empty() {
        return;
    }
    let head =
        "Memory: resident KiB beyond the start of the process, all objects of test A allocated / all freed in test B";
    let _ = writeln!(text, "\n{head}\n{}\n", "=".repeat(head.len().min(width)));
    let mut sizes: Vec<usize> = held().map(|record| record.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(systems.iter().map(|&id| id.to_owned()));
    for size in sizes {
        let kib = |test: &str, id: &str| {
            let resident = run.cell(test, id, size).and_then(|record| record.resident);
            resident.map_or_else(|| "-".to_owned(), |kib| format!("{kib:.0}"))
        };
        let mut row = vec![size.to_string()];
        row.extend(systems.iter().map(|id| format!("{}/{}", kib("A", id), kib("B", id))));
        rows.push(row);
    }
    aligned_within(text, &rows, width);
    let kept = if run.host.first_pass {
        "Each figure is of a process that had this size alone."
    } else {
        "The figures contain what the system kept of the sizes that its process ran before; `--first-pass` has a process for each size."
    };
    let _ = writeln!(text, "\n{kept} Of a large object only the page counts in which one byte is written.");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::kernel_tests::table::{Columns, render};
    use crate::kit::record;
    use crate::kit::statistics::Statistic;

    fn run() -> Report {
        let mut run = record::sample(&[
            ("A", "ashlar", 8, 1.0),
            ("B", "ashlar", 8, 1.0),
            ("A", "ashlar", 64, 1.0),
            ("B", "ashlar", 64, 1.0),
            ("A", "glibc", 8, 1.0),
            ("A", "linux-slub", 8, 1.0),
        ]);
        for (record, kib) in run.records.iter_mut().zip([Some(100.4), Some(-4.0), Some(700.0), None, Some(250.6)]) {
            record.resident = kib;
        }
        run
    }

    #[test]
    fn memory_has_a_row_for_each_size_and_a_column_for_each_system_that_has_figures() {
        let text = render(&run(), Statistic::Median, Columns::All);
        let block = text.split("Memory: resident KiB").nth(1).expect("a block");
        let words = |line: usize| block.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(words(3), ["ashlar", "glibc"], "a kernel has none: {text}");
        assert_eq!(words(4), ["8", "100/-4", "251/-"], "{text}");
        assert_eq!(words(5), ["64", "700/-", "-/-"], "{text}");
        assert!(block.contains("what the system kept of the sizes that"), "{text}");
    }

    #[test]
    fn memory_of_first_passes_is_of_one_size() {
        let mut run = run();
        run.host.first_pass = true;
        let text = render(&run, Statistic::Median, Columns::Fitting(80));
        assert!(text.contains("had this size alone") && !text.contains("ran before"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn a_run_without_figures_of_memory_has_no_block() {
        let mut run = run();
        run.records.iter_mut().for_each(|record| record.resident = None);
        assert!(!render(&run, Statistic::Median, Columns::All).contains("Memory: "));
    }
}
