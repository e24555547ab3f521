//! The targets of the bulk calls.

use core::fmt::Write;

use crate::experiments::bulk::child::dpdk;
use crate::experiments::bulk::plan::{KEPT, KEPT_BULKS, keep_name};
use crate::experiments::bulk::table::cell;
use crate::kit::record::Report;
use crate::kit::table::figure;
use crate::kit::verdict::Verdict;

/// The system that the targets are about.
pub(crate) const JUDGED: &str = "ashlar";

/// From this bulk on a call must pay.
pub(crate) const PAYS_FROM: usize = 8;

/// Most that a call may cost, of the loop.
pub(crate) const PAYS: f64 = 0.4;

/// The bulks between which there may be no cliff, and the largest step that is none.
pub(crate) const LEVEL: core::ops::RangeInclusive<usize> = 30..=250;

pub(crate) const CLIFF: f64 = 1.5;

/// Judges the targets by the medians; true if none is missed.
pub(crate) fn check(run: &Report) -> Verdict {
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
                    let [ours, theirs] = [ours, theirs.median].map(figure);
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
    Verdict { passed, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::once::record;
    use crate::kit::record::{Host, Record};

    fn run(cells: &[(&str, &str, usize, f64)]) -> Report {
        let records = cells
            .iter()
            .map(|&(test, system, bulk, figure)| Record {
                bulk: Some(bulk),
                ..record(test, system, "tsc_cycles_per_op", &[figure])
            })
            .collect();
        Report { host: Host::default(), records, published: None }
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
        let Verdict { passed, text } = check(&run(&good));
        assert!(passed && text.contains("0.40 at 250") && text.contains("in all 1 cells"), "{text}");
        for (at, worse, told) in
            [(5, 4.1, "0.41 at 250"), (3, 2.0, "step is 2.00"), (6, 6.5, "bulk 8: 6.5 against 6.0")]
        {
            let mut bad = good;
            bad[at].3 = worse;
            let Verdict { passed, text } = check(&run(&bad));
            assert!(!passed && text.contains(told), "{text}");
        }
        // What was not measured is missed, but for DPDK's, which not every machine has.
        let Verdict { passed, text } = check(&run(&good[..2]));
        assert!(!passed && text.matches("not measured").count() == 2 && text.contains("it was not run"), "{text}");
    }
}
