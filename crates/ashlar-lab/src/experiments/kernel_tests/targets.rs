//! The speed targets of the project, judged on the ratios of one run.

use core::fmt::Write;

use crate::experiments::kernel_tests::table::best::best_peer;
use crate::kit::record::{Report, value};
use crate::kit::statistics::{Statistic, geometric_mean};
use crate::kit::verdict::Verdict;

/// Whom a target compares with.
#[derive(Clone, Copy, Debug)]
enum Against {
    /// The best peer of each cell, among those told as much as ours is.
    BestPeer,
    /// One system.
    System(&'static str),
}

/// A bound on ratios of costs: ours over theirs.
#[derive(Debug)]
struct Target {
    ours: &'static str,
    against: Against,
    tests: &'static [&'static str],
    /// Least size, in bytes.
    from: usize,
    /// Largest size, in bytes.
    up_to: usize,
    /// Bound on the geometric mean over the cells.
    mean: f64,
    /// Bound on every single cell, where there is one.
    cell: Option<f64>,
}

/// Least size of most targets, in bytes.
const SMALLEST: usize = 8;
/// Tests that hold many objects at a time, and both phases of each.
const BATCHES: &[&str] = &["A", "B", "D", "D-free", "F"];
const PAIRS: &[&str] = &["C", "E"];

const TARGETS: [Target; 7] = [
    Target {
        ours: "ashlar",
        against: Against::BestPeer,
        tests: PAIRS,
        from: SMALLEST,
        up_to: 1024,
        mean: 0.90,
        cell: Some(1.0),
    },
    Target {
        ours: "ashlar-sized",
        against: Against::BestPeer,
        tests: PAIRS,
        from: SMALLEST,
        up_to: 1024,
        mean: 0.90,
        cell: Some(1.0),
    },
    Target {
        ours: "ashlar-cache",
        against: Against::System("limit"),
        tests: PAIRS,
        from: SMALLEST,
        up_to: 1024,
        mean: 2.0,
        cell: None,
    },
    Target {
        ours: "ashlar",
        against: Against::BestPeer,
        tests: &["A", "B", "D", "F"],
        from: SMALLEST,
        up_to: 4096,
        mean: 0.8,
        cell: Some(1.1),
    },
    Target {
        ours: "ashlar-malloc",
        against: Against::BestPeer,
        tests: BATCHES,
        from: SMALLEST,
        up_to: 1024,
        mean: 0.95,
        cell: Some(1.5),
    },
    Target {
        ours: "ashlar-malloc",
        against: Against::BestPeer,
        tests: BATCHES,
        from: 2048,
        up_to: 16384,
        mean: 1.0,
        cell: Some(1.5),
    },
    Target {
        ours: "ashlar-malloc",
        against: Against::BestPeer,
        tests: PAIRS,
        from: SMALLEST,
        up_to: 16384,
        mean: 1.0,
        cell: None,
    },
];

/// One cell of a target.
struct Cell<'a> {
    test: &'a str,
    size: usize,
    other: &'a str,
    ours: f64,
    theirs: f64,
}

impl Cell<'_> {
    fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }
}

/// Judges all targets. A target that was not measured in full counts as missed.
pub(crate) fn check(run: &Report, by: Statistic) -> Verdict {
    let mut verdict = Verdict { passed: true, text: format!("\nTargets (by {}, ratios of cost)\n", by.name()) };
    for target in &TARGETS {
        verdict.passed &= judge(target, run, by, &mut verdict.text);
    }
    verdict
}

fn judge(target: &Target, run: &Report, by: Statistic, text: &mut String) -> bool {
    let other = match target.against {
        Against::BestPeer if target.ours == "ashlar-sized" => "best peer told the size",
        Against::BestPeer => "best peer",
        Against::System(id) => id,
    };
    let name = format!(
        "{} / {other}, tests {}, sizes {} to {}",
        target.ours,
        target.tests.join(" "),
        target.from,
        target.up_to
    );
    let (mut cells, mut absent) = (Vec::new(), Vec::new());
    for &test in target.tests {
        let measured: Vec<Cell<'_>> =
            sizes(target, run, test).filter_map(|size| cell(target, run, test, size, by)).collect();
        if measured.is_empty() {
            absent.push(test);
        }
        cells.extend(measured);
    }
    if !absent.is_empty() {
        let _ = writeln!(text, "{name}\n  MISS  not measured: test {}", absent.join(" "));
        return false;
    }
    let _ = writeln!(text, "{name}");

    let ratios: Vec<f64> = cells.iter().map(Cell::ratio).collect();
    let mean = geometric_mean(&ratios);
    let mean_ok = mean <= target.mean;
    let _ = writeln!(
        text,
        "  {}  geometric mean of {} cells {mean:.3}, bound {:.2}",
        word(mean_ok),
        cells.len(),
        target.mean
    );
    for &test in target.tests {
        let of_test: Vec<f64> = cells.iter().filter(|cell| cell.test == test).map(Cell::ratio).collect();
        let _ = writeln!(text, "        test {test}: {:.3}", geometric_mean(&of_test));
    }

    let bound = target.cell.unwrap_or(target.mean);
    let above: Vec<&Cell<'_>> = cells.iter().filter(|cell| cell.ratio() > bound).collect();
    if target.cell.is_some() {
        let _ =
            writeln!(text, "  {}  {} of {} cells above {bound:.2}", word(above.is_empty()), above.len(), cells.len());
    } else if !above.is_empty() {
        let _ = writeln!(text, "        for information, {} of {} cells above {bound:.2}", above.len(), cells.len());
    }
    for cell in &above {
        let _ = writeln!(
            text,
            "        {} {}: {:.2} ({:.1} against {:.1} of {})",
            cell.test,
            cell.size,
            cell.ratio(),
            cell.ours,
            cell.theirs,
            cell.other
        );
    }
    mean_ok && (target.cell.is_none() || above.is_empty())
}

fn word(passed: bool) -> &'static str {
    if passed { "PASS" } else { "MISS" }
}

fn sizes(target: &Target, run: &Report, test: &str) -> impl Iterator<Item = usize> {
    let range = target.from..=target.up_to;
    run.sizes(test).into_iter().filter(move |size| range.contains(size))
}

fn cell<'a>(target: &Target, run: &'a Report, test: &'a str, size: usize, by: Statistic) -> Option<Cell<'a>> {
    let ours = value(run.cell(test, target.ours, size)?, by);
    let (other, theirs) = match target.against {
        Against::BestPeer => best_peer(run, target.ours, test, size, by)?,
        Against::System(id) => (id, value(run.cell(test, id, size)?, by)),
    };
    // A figure of zero is no measurement, and its ratio no number.
    (ours > 0.0 && theirs > 0.0).then_some(Cell { test, size, other, ours, theirs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::record;

    /// A run in which every target is met: (our cost, peer's cost) differ by the factor given for
    /// each kind.
    fn run(pair: f64, bulk: f64) -> Report {
        let mut cells = Vec::new();
        for size in [8, 64, 1024] {
            for test in ["C", "E"] {
                cells.extend([
                    (test, "ashlar", size, 10.0 * pair),
                    (test, "ashlar-sized", size, 8.0 * pair),
                    (test, "ashlar-cache", size, 6.0 * pair),
                    (test, "ashlar-malloc", size, 11.0 * pair),
                    (test, "glibc", size, 20.0),
                    (test, "jemalloc", size, 10.0),
                    (test, "snmalloc-sized", size, 8.0),
                    (test, "limit", size, 4.0),
                ]);
            }
            for test in ["A", "B", "D", "F"] {
                cells.extend([(test, "ashlar", size, 100.0 * bulk), (test, "mimalloc", size, 100.0)]);
            }
            cells.push(("D-free", "mimalloc", size, 100.0));
            cells.extend(BATCHES.iter().map(|test| (*test, "ashlar-malloc", size, 115.0 * bulk)));
        }
        for size in [2048, 16384] {
            for test in BATCHES {
                cells.extend([(*test, "ashlar-malloc", size, 120.0 * bulk), (*test, "jemalloc", size, 100.0)]);
            }
        }
        record::sample(&cells)
    }

    #[test]
    fn a_run_within_all_bounds_passes() {
        let verdict = check(&run(0.89, 0.79), Statistic::Median);
        assert!(verdict.passed && !verdict.text.contains("MISS"), "{}", verdict.text);
        assert_eq!(verdict.text.matches("PASS").count(), 12);
        assert!(verdict.text.contains("geometric mean of 6 cells 0.890, bound 0.90"));
        assert!(verdict.text.contains("geometric mean of 12 cells 0.790, bound 0.80"));
    }

    #[test]
    fn means_above_a_bound_miss() {
        assert!(!check(&run(0.91, 0.79), Statistic::Median).passed);
        assert!(!check(&run(0.89, 0.81), Statistic::Median).passed);
    }

    #[test]
    fn one_cell_above_its_bound_misses_and_is_named() {
        let mut run = run(0.5, 0.5);
        let record = run.records.iter_mut().find(|r| r.test == "F" && r.system == "ashlar" && r.size == 64);
        record.unwrap().median = 120.0;
        let verdict = check(&run, Statistic::Median);
        assert!(!verdict.passed);
        assert!(verdict.text.contains("F 64: 1.20 (120.0 against 100.0 of mimalloc)"), "{}", verdict.text);
        assert!(check(&run, Statistic::Min).passed, "the minimum of that cell is fine");
    }

    #[test]
    fn peers_told_the_size_meet_only_the_sized_system() {
        let mut run = run(0.89, 0.79);
        for record in run.records.iter_mut().filter(|r| r.system == "snmalloc-sized") {
            record.median = 1.0;
        }
        let text = check(&run, Statistic::Median).text;
        let (plain, sized) = text.split_once("ashlar-sized").unwrap();
        assert!(!plain.contains("MISS") && sized.contains("MISS"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_missed() {
        let mut run = run(0.5, 0.5);
        run.records.retain(|record| record.test != "E");
        let verdict = check(&run, Statistic::Median);
        assert!(!verdict.passed && verdict.text.contains("not measured: test E"), "{}", verdict.text);
    }

    /// Multiplies the costs of `ashlar-malloc` in the cells that `of` takes.
    fn dearer(mut run: Report, factor: f64, of: impl Fn(&str, usize) -> bool) -> String {
        let malloc = run.records.iter_mut().filter(|record| record.system == "ashlar-malloc");
        malloc.filter(|record| of(&record.test, record.size)).for_each(|record| record.median *= factor);
        let verdict = check(&run, Statistic::Median);
        assert_eq!(verdict.passed, !verdict.text.contains("MISS"));
        verdict.text
    }

    #[test]
    fn the_drop_in_malloc_is_judged_by_bounds_of_its_own() {
        // Small batches are at 0.805 of the best peer, large ones at 0.84, and pairs at 0.55.
        let run = || run(0.5, 0.7);
        let heads = [
            "ashlar-malloc / best peer, tests A B D D-free F, sizes 8 to 1024\n",
            "ashlar-malloc / best peer, tests A B D D-free F, sizes 2048 to 16384\n",
            "ashlar-malloc / best peer, tests C E, sizes 8 to 16384\n",
        ];
        let text = dearer(run(), 1.0, |_, _| true);
        assert!(heads.iter().all(|head| text.contains(head)) && !text.contains("MISS"), "{text}");

        let text = dearer(run(), 1.17, |test, size| size <= 1024 && BATCHES.contains(&test));
        assert!(!text.contains("MISS") && text.contains("15 cells 0.942, bound 0.95"), "{text}");
        let text = dearer(run(), 1.19, |test, size| size <= 1024 && BATCHES.contains(&test));
        assert!(text.matches("MISS").count() == 1 && text.contains("15 cells 0.958, bound 0.95"), "{text}");

        let text = dearer(run(), 1.18, |_, size| size > 1024);
        assert!(!text.contains("MISS") && text.contains("10 cells 0.991, bound 1.00"), "{text}");
        let text = dearer(run(), 1.2, |_, size| size > 1024);
        assert!(text.matches("MISS").count() == 1 && text.contains("10 cells 1.008, bound 1.00"), "{text}");

        let text = dearer(run(), 1.86, |test, _| PAIRS.contains(&test));
        assert!(text.matches("MISS").count() == 1 && text.contains("6 cells 1.023, bound 1.00"), "{text}");
        // A pair has no bound of its own.
        let text = dearer(run(), 3.0, |test, size| PAIRS.contains(&test) && size == 8);
        assert!(!text.contains("MISS") && text.contains("for information, 2 of 6 cells above 1.00"), "{text}");
    }

    #[test]
    fn one_cell_of_the_drop_in_malloc_above_its_bound_misses() {
        // With the mean within its bound: the second phase of D counts as a test of its own.
        let run = || run(0.5, 0.6);
        let text = dearer(run(), 2.0, |test, size| test == "D-free" && size == 64);
        assert!(!text.contains("MISS"), "{text}");
        let text = dearer(run(), 2.2, |test, size| test == "D-free" && size == 64);
        assert!(text.matches("MISS").count() == 1 && text.contains("D-free 64: 1.52"), "{text}");
        let text = dearer(run(), 2.2, |test, size| test == "F" && size == 16384);
        assert!(text.matches("MISS").count() == 1 && text.contains("F 16384: 1.58"), "{text}");
    }

    #[test]
    fn a_system_that_was_not_part_of_the_run_misses_its_targets() {
        let mut run = run(0.5, 0.5);
        run.records.retain(|record| record.system != "ashlar-malloc");
        let text = check(&run, Statistic::Median).text;
        assert_eq!(text.matches("MISS  not measured: test A B D D-free F").count(), 2, "{text}");
        assert!(text.contains("MISS  not measured: test C E"), "{text}");
    }

    #[test]
    fn sizes_outside_the_target_do_not_count() {
        let mut run = run(0.5, 0.5);
        run.records.extend(record::sample(&[("C", "ashlar", 2048, 99.0), ("C", "glibc", 2048, 1.0)]).records);
        assert!(check(&run, Statistic::Median).passed);
    }
}
