//! The targets for whole programs, judged on the ratios of one run.

use core::fmt::Write;

use super::record::{Kind, Run};
use super::systems::{BASE, is_peer};
use super::table::{Measure, mean, ratios};
use crate::args::Statistic;
use crate::report::targets::Verdict;

const OURS: &str = "ashlar";
/// What "within noise" is in a comparison of real programs.
const NOISE: f64 = 1.02;

/// Judges all targets. A target that was not measured counts as missed.
pub(super) fn check(run: &Run, by: Statistic) -> Verdict {
    let mut judge = Judge { run, by, passed: true, text: format!("\nTargets (by {})\n", by.name()) };
    judge.mean_against_best_peer(Kind::Synthetic, Measure::Elapsed, 0.95, "synthetic workloads, elapsed time");
    judge.each_against_glibc(Kind::Synthetic, Measure::Elapsed, 1.10, "synthetic workloads, elapsed time");
    judge.mean_against_glibc(Kind::Synthetic, Measure::Peak, 1.10, "synthetic workloads, peak resident memory");
    let files_aside = "synthetic workloads, peak resident memory without pages of files";
    judge.mean_against_glibc(Kind::Synthetic, Measure::Anonymous, 1.10, files_aside);
    for workload in ["handover", "handover-small"] {
        judge.ahead_of_every_peer(workload);
    }
    judge.mean_against_best_peer(Kind::Real, Measure::Cpu, NOISE, "real programs, CPU time");
    judge.each_against_glibc(Kind::Real, Measure::Cpu, 1.02, "real programs, CPU time");
    judge.startup();
    Verdict { passed: judge.passed, text: judge.text }
}

struct Judge<'a> {
    run: &'a Run,
    by: Statistic,
    passed: bool,
    text: String,
}

impl Judge<'_> {
    fn say(&mut self, passed: bool, what: &str, finding: &str) {
        self.passed &= passed;
        let _ = writeln!(self.text, "  {}  {what}: {finding}", if passed { "PASS" } else { "MISS" });
    }

    /// The least geometric mean among the peers.
    fn best_peer(&self, kind: Kind, measure: Measure) -> Option<(&str, f64)> {
        let peers = self.run.systems().into_iter().filter(|id| is_peer(id));
        peers
            .filter_map(|id| Some((id, mean(self.run, kind, id, measure, self.by)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn mean_against_best_peer(&mut self, kind: Kind, measure: Measure, bound: f64, what: &str) {
        let ours = mean(self.run, kind, OURS, measure, self.by);
        let (passed, finding) = match (ours, self.best_peer(kind, measure)) {
            (Some(ours), Some((peer, theirs))) => {
                let ratio = ours / theirs;
                let finding = format!(
                    "mean {ours:.3} of {BASE}, {ratio:.3} of the best peer's ({peer} {theirs:.3}), bound {bound:.2}"
                );
                (ratio <= bound, finding)
            }
            _ => (false, "not measured".to_owned()),
        };
        self.say(passed, what, &finding);
    }

    fn mean_against_glibc(&mut self, kind: Kind, measure: Measure, bound: f64, what: &str) {
        let (passed, finding) = match mean(self.run, kind, OURS, measure, self.by) {
            Some(mean) => (mean <= bound, format!("mean {mean:.3} of {BASE}, bound {bound:.2}")),
            None => (false, "not measured".to_owned()),
        };
        self.say(passed, what, &finding);
    }

    fn each_against_glibc(&mut self, kind: Kind, measure: Measure, bound: f64, what: &str) {
        let all = ratios(self.run, kind, OURS, measure, self.by);
        let above: Vec<String> = all
            .iter()
            .filter(|(_, ratio)| *ratio > bound)
            .map(|(workload, ratio)| format!("{workload} {ratio:.2}"))
            .collect();
        let mut finding = format!("{} of {} above {bound:.2} of {BASE}", above.len(), all.len());
        if !above.is_empty() {
            let _ = write!(finding, ": {}", above.join(", "));
        }
        self.say(!all.is_empty() && above.is_empty(), what, &finding);
    }

    fn ahead_of_every_peer(&mut self, workload: &str) {
        let elapsed = |id: &str| Measure::Elapsed.of(self.run.cell(workload, id)?, self.by);
        let peers = self.run.systems().into_iter().filter(|id| is_peer(id));
        let best = peers.filter_map(|id| Some((id, elapsed(id)?))).min_by(|a, b| a.1.total_cmp(&b.1));
        let (passed, finding) = match (elapsed(OURS), best) {
            (Some(ours), Some((peer, theirs))) => {
                (ours < theirs, format!("{ours:.0} ms, the best peer ({peer}) {theirs:.0} ms"))
            }
            _ => (false, "not measured".to_owned()),
        };
        self.say(passed, &format!("{workload} ahead of every peer, elapsed time"), &finding);
    }

    fn startup(&mut self) {
        let name = super::startup::NAME;
        let more = |measure: Measure| {
            let figure = |id: &str| measure.of(self.run.cell(name, id)?, self.by);
            Some(figure(OURS)? - figure(BASE)?)
        };
        let (time, memory) = (more(Measure::Elapsed), more(Measure::Peak));
        let finding = time.map_or("not measured".to_owned(), |ms| format!("{ms:+.3} ms, bound +1 ms"));
        self.say(time.is_some_and(|ms| ms <= 1.0), "start-up, elapsed time", &finding);
        let finding = memory.map_or("not measured".to_owned(), |kib| format!("{kib:+.0} KiB, bound +1536 KiB"));
        self.say(memory.is_some_and(|kib| kib <= 1536.0), "start-up, resident memory", &finding);
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Figure, Machine, Record};
    use super::*;

    /// Ours at `time` and `memory` of glibc's everywhere, one peer at 1.
    fn run(time: f64, memory: f64) -> Run {
        let mut programs = Vec::new();
        for (workload, kind) in [
            ("numbers", Kind::Synthetic),
            ("handover", Kind::Synthetic),
            ("handover-small", Kind::Synthetic),
            ("gcc", Kind::Real),
            ("startup", Kind::Startup),
        ] {
            for (system, time, memory) in [("glibc", 1.0, 1.0), ("ashlar", time, memory), ("mimalloc", 1.0, 1.3)] {
                let figure = |value: f64| Figure { min: value, median: value };
                programs.push(Record {
                    workload: workload.to_owned(),
                    kind,
                    system: system.to_owned(),
                    preload: None,
                    version: String::new(),
                    unit: "ms".to_owned(),
                    elapsed: figure(100.0 * time),
                    cpu: figure(100.0 * time),
                    user: figure(100.0 * time),
                    sys: figure(0.0),
                    peak_rss_kib: figure(2000.0 * memory),
                    peak_anon_kib: Some(figure(1000.0 * memory)),
                    idle_rss_kib: None,
                    minor_faults: figure(1.0),
                    context_switches: figure(1.0),
                    runs: 1,
                    checksum: String::new(),
                    samples: Vec::new(),
                });
            }
        }
        Run { host: Machine::default(), programs, geomeans: Vec::new(), missing: Vec::new() }
    }

    #[test]
    fn a_run_within_all_bounds_passes() {
        let verdict = check(&run(0.94, 1.09), Statistic::Median);
        assert!(verdict.passed && !verdict.text.contains("MISS"), "{}", verdict.text);
        assert_eq!(verdict.text.matches("PASS").count(), 10);
        assert!(verdict.text.contains("0.940 of the best peer's (mimalloc 1.000), bound 0.95"), "{}", verdict.text);
    }

    #[test]
    fn each_bound_can_be_missed() {
        for (run, missed) in [(run(0.96, 1.0), 1), (run(1.03, 1.0), 6), (run(0.9, 1.11), 2), (run(0.9, 1.8), 3)] {
            let verdict = check(&run, Statistic::Median);
            assert!(!verdict.passed);
            assert_eq!(verdict.text.matches("MISS").count(), missed, "{}", verdict.text);
        }
    }

    #[test]
    fn one_slow_program_is_named() {
        let mut run = run(0.9, 1.0);
        let slow = run.programs.iter_mut().find(|r| r.workload == "gcc" && r.system == "ashlar").unwrap();
        slow.cpu.median = 105.0;
        let text = check(&run, Statistic::Median).text;
        assert!(text.contains("1 of 1 above 1.02 of glibc: gcc 1.05"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_missed() {
        let mut run = run(0.9, 1.0);
        run.programs.retain(|record| record.system != "ashlar");
        let verdict = check(&run, Statistic::Min);
        assert!(!verdict.passed && !verdict.text.contains("PASS"), "{}", verdict.text);
    }
}
