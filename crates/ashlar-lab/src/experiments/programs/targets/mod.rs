//! The targets for whole programs, judged on the ratios of one run.
//!
//! Where a bound is as near to what is found as the noise of a machine, the ratios are those of
//! rounds (`paired`), and a target is met only if the whole interval lies below the bound. It is
//! missed if none of it does, and otherwise open: more rounds are needed.

mod paired;

use core::fmt::Write;

use ashlar_workload::LIVE;

use crate::experiments::programs::child::startup;
use crate::experiments::programs::plan::record::{Kind, Run};
use crate::experiments::programs::plan::systems::{BASE, is_peer};
use crate::experiments::programs::table::{Measure, mean, ratios};
use crate::experiments::programs::targets::paired::Time;
use crate::kit::interval::{Interval, fewest_samples};
use crate::kit::statistics::Statistic;
use crate::kit::verdict::Verdict;

const OURS: &str = "ashlar";
/// What "within noise" is in a comparison of real programs.
const NOISE: f64 = 1.02;

/// How a target came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Pass,
    Miss,
    /// Not shown, nor the contrary.
    Open,
    /// The run had no part in it.
    Unmeasured,
}

impl Outcome {
    fn of(passed: bool) -> Self {
        if passed { Self::Pass } else { Self::Miss }
    }

    /// Of a ratio that must be below `bound`.
    fn below(bound: f64, ratio: Interval) -> Self {
        match ratio {
            _ if ratio.high < bound => Self::Pass,
            _ if ratio.low >= bound => Self::Miss,
            _ => Self::Open,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Miss => "MISS",
            Self::Open => "OPEN",
            Self::Unmeasured => "none",
        }
    }
}

fn show(ratio: Interval) -> String {
    if ratio.is_known() {
        format!("{:.3} [{:.3}, {:.3}]", ratio.median, ratio.low, ratio.high)
    } else {
        format!("{:.3} (the interval needs at least {} rounds)", ratio.median, fewest_samples(paired::RISK))
    }
}

/// Judges all targets. One that was not measured is not met.
pub(crate) fn check(run: &Run, by: Statistic) -> Verdict {
    let mut judge = Judge { run, by, passed: true, text: format!("\nTargets (by {})\n", by.name()) };
    judge.mean_against_best_peer(Kind::Synthetic, Measure::Elapsed, 0.95, "synthetic workloads, elapsed time");
    judge.each_against_glibc(Kind::Synthetic, Measure::Elapsed, 1.10, "synthetic workloads, elapsed time");
    judge.mean_against_glibc(Kind::Synthetic, Measure::Peak, 1.10, "synthetic workloads, peak resident memory");
    let files_aside = "synthetic workloads, peak resident memory without pages of files";
    judge.mean_against_glibc(Kind::Synthetic, Measure::Anonymous, 1.10, files_aside);
    for workload in ["handover", "handover-small"] {
        judge.against_every_peer(workload, "ahead of every peer");
    }
    // Live sets of 1 MiB are for comparison with the larger ones. They have no bound.
    for workload in LIVE.iter().filter(|workload| !workload.name.starts_with("live-1")) {
        judge.against_every_peer(workload.name, "no slower than any peer");
    }
    judge.no_worse_than_the_best_peer();
    judge.none_slower_than_glibc(1.02);
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
    fn say(&mut self, what: &str, found: Option<(bool, String)>) {
        match found {
            Some((passed, finding)) => self.came_out(Outcome::of(passed), what, &finding),
            None => self.came_out(Outcome::Unmeasured, what, "not measured"),
        }
    }

    fn came_out(&mut self, outcome: Outcome, what: &str, finding: &str) {
        self.passed &= outcome == Outcome::Pass;
        let _ = writeln!(self.text, "  {}  {what}: {finding}", outcome.name());
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
        let found = ours.zip(self.best_peer(kind, measure)).map(|(ours, (peer, theirs))| {
            let ratio = ours / theirs;
            let best = format!("{ratio:.3} of the best peer's ({peer} {theirs:.3})");
            (ratio <= bound, format!("mean {ours:.3} of {BASE}, {best}, bound {bound:.2}"))
        });
        self.say(what, found);
    }

    fn mean_against_glibc(&mut self, kind: Kind, measure: Measure, bound: f64, what: &str) {
        let found = mean(self.run, kind, OURS, measure, self.by);
        let found = found.map(|mean| (mean <= bound, format!("mean {mean:.3} of {BASE}, bound {bound:.2}")));
        self.say(what, found);
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
        self.say(what, (!all.is_empty()).then_some((above.is_empty(), finding)));
    }

    /// A ratio of rounds to `whom`, which must be below `bound`.
    fn ratio_of_rounds(&mut self, what: &str, bound: f64, found: Option<(&str, Interval)>) {
        let (outcome, finding) = match found {
            Some((whom, ratio)) => {
                (Outcome::below(bound, ratio), format!("{} of {whom}, bound {bound:.2}", show(ratio)))
            }
            None => (Outcome::Unmeasured, "not measured".to_owned()),
        };
        self.came_out(outcome, what, &finding);
    }

    fn against_every_peer(&mut self, workload: &str, claim: &str) {
        let run = self.run;
        let to = |peer: &str| paired::ratio(run, workload, OURS, peer, Time::Elapsed);
        let what = format!("{workload} {claim}, elapsed time");
        self.ratio_of_rounds(&what, 1.0, paired::against_best_peer(run, to));
    }

    fn no_worse_than_the_best_peer(&mut self) {
        let run = self.run;
        let to = |peer: &str| paired::mean(run, Kind::Real, OURS, peer, Time::Cpu);
        let what = "real programs no worse than on any peer, CPU time";
        self.ratio_of_rounds(what, NOISE, paired::against_best_peer(run, to));
    }

    fn none_slower_than_glibc(&mut self, bound: f64) {
        let run = self.run;
        let to_glibc = |workload| Some((workload, paired::ratio(run, workload, OURS, BASE, Time::Cpu)?));
        let all: Vec<_> = run.workloads(Kind::Real).into_iter().filter_map(to_glibc).collect();
        if all.is_empty() {
            return self.say("real programs, CPU time", None);
        }
        let list = |wanted: Outcome| {
            let found = all.iter().filter(|(_, ratio)| Outcome::below(bound, *ratio) == wanted);
            found.map(|(workload, ratio)| format!("{workload} {}", show(*ratio))).collect::<Vec<_>>().join(", ")
        };
        let (slower, open) = (list(Outcome::Miss), list(Outcome::Open));
        let outcome = match (slower.is_empty(), open.is_empty()) {
            (false, _) => Outcome::Miss,
            (true, false) => Outcome::Open,
            (true, true) => Outcome::Pass,
        };
        let none = |list: String| if list.is_empty() { "none".to_owned() } else { list };
        let finding = format!("of {}, above {bound:.2} of {BASE}: {}; open: {}", all.len(), none(slower), none(open));
        self.came_out(outcome, "real programs, CPU time", &finding);
    }

    fn startup(&mut self) {
        let name = startup::NAME;
        let more = |measure: Measure| {
            let figure = |id: &str| measure.of(self.run.cell(name, id)?, self.by);
            Some(figure(OURS)? - figure(BASE)?)
        };
        let (time, memory) = (more(Measure::Elapsed), more(Measure::Peak));
        let time = time.map(|ms| (ms <= 1.0, format!("{ms:+.3} ms, bound +1 ms")));
        self.say("start-up, elapsed time", time);
        let memory = memory.map(|kib| (kib <= 1536.0, format!("{kib:+.0} KiB, bound +1536 KiB")));
        self.say("start-up, resident memory", memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::programs::plan::record::{Figure, Machine, Record};

    /// Ours at `time` and `memory` of glibc's everywhere, one peer at 1.
    fn run(time: f64, memory: f64) -> Run {
        let mut programs = Vec::new();
        let others = [
            ("numbers", Kind::Synthetic),
            ("handover", Kind::Synthetic),
            ("handover-small", Kind::Synthetic),
            ("gcc", Kind::Real),
            ("startup", Kind::Startup),
        ];
        for (workload, kind) in others.into_iter().chain(LIVE.iter().map(|live| (live.name, Kind::Live))) {
            for (system, time, memory) in [("glibc", 1.0, 1.0), ("ashlar", time, memory), ("mimalloc", 1.0, 1.3)] {
                let figure = |value: f64| Figure { min: value, median: value };
                let samples: Vec<f64> = (0..20).map(|round| 100.0 * time * (1.0 + f64::from(round) / 10.0)).collect();
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
                    runs: samples.len(),
                    checksum: String::new(),
                    cpu_samples: samples.clone(),
                    samples,
                });
            }
        }
        Run { host: Machine::default(), programs, geomeans: Vec::new(), missing: Vec::new() }
    }

    #[test]
    fn a_run_within_all_bounds_passes() {
        let verdict = check(&run(0.94, 1.09), Statistic::Median);
        assert!(verdict.passed && !verdict.text.contains("MISS"), "{}", verdict.text);
        assert_eq!(verdict.text.matches("PASS").count(), 16);
        assert!(verdict.text.contains("0.940 of the best peer's (mimalloc 1.000), bound 0.95"), "{}", verdict.text);
    }

    #[test]
    fn a_run_of_a_part_misses_nothing_else_and_does_not_pass() {
        let mut run = run(0.9, 1.0);
        run.programs.retain(|record| record.workload == "handover");
        let verdict = check(&run, Statistic::Median);
        assert!(!verdict.passed && !verdict.text.contains("MISS"), "{}", verdict.text);
        assert_eq!(verdict.text.matches("none  ").count(), 11, "{}", verdict.text);
    }

    #[test]
    fn each_bound_can_be_missed() {
        for (run, missed) in [(run(0.96, 1.0), 1), (run(1.03, 1.0), 12), (run(0.9, 1.11), 2), (run(0.9, 1.8), 3)] {
            let verdict = check(&run, Statistic::Median);
            assert!(!verdict.passed);
            assert_eq!(verdict.text.matches("MISS").count(), missed, "{}", verdict.text);
        }
    }

    fn cpu_of_gcc(run: &mut Run) -> &mut Vec<f64> {
        let gcc = run.programs.iter_mut().find(|r| r.workload == "gcc" && r.system == "ashlar").unwrap();
        &mut gcc.cpu_samples
    }

    #[test]
    fn a_slow_program_is_named_with_its_interval() {
        let mut run = run(0.9, 1.0);
        cpu_of_gcc(&mut run).iter_mut().for_each(|time| *time *= 1.05 / 0.9);
        let verdict = check(&run, Statistic::Median);
        assert!(verdict.text.contains("of 1, above 1.02 of glibc: gcc 1.050 [1.050, 1.050]; open: none"));
        assert!(
            verdict
                .text
                .contains("MISS  real programs no worse than on any peer, CPU time: 1.050 [1.050, 1.050] of mimalloc")
        );
    }

    #[test]
    fn large_live_sets_are_judged_one_by_one_and_small_ones_not() {
        let mut run = run(0.9, 1.0);
        let ours = run.programs.iter_mut().filter(|record| record.system == "ashlar");
        for record in ours.filter(|record| ["live-1", "live-1-skewed", "live-8-busy"].contains(&&*record.workload)) {
            record.samples.iter_mut().for_each(|time| *time *= 1.1 / 0.9);
        }
        let verdict = check(&run, Statistic::Median);
        let missed = "MISS  live-8-busy no slower than any peer, elapsed time: 1.100 [1.100, 1.100] of mimalloc";
        assert!(!verdict.passed && verdict.text.contains(missed), "{}", verdict.text);
        assert_eq!(verdict.text.matches("MISS").count(), 1, "{}", verdict.text);
        assert!(verdict.text.contains("PASS  live-64-skewed no slower than any peer"), "{}", verdict.text);
        assert!(!verdict.text.contains("live-1"), "{}", verdict.text);
    }

    #[test]
    fn what_the_rounds_do_not_tell_is_open_and_does_not_pass() {
        // The 6th and the 15th of twenty are the interval's ends: with six rounds above the bound
        // one end lies there, with five none.
        for (above, open) in [(6, 2), (5, 0)] {
            let mut run = run(0.9, 1.0);
            for (round, time) in cpu_of_gcc(&mut run).iter_mut().enumerate() {
                *time *= if round < above { 1.15 } else { 1.0 };
            }
            let verdict = check(&run, Statistic::Median);
            assert_eq!(verdict.passed, open == 0, "{}", verdict.text);
            assert!(!verdict.text.contains("MISS"), "{}", verdict.text);
            assert_eq!(verdict.text.matches("OPEN").count(), open, "{}", verdict.text);
        }
    }

    #[test]
    fn too_few_rounds_for_an_interval_are_told_in_words() {
        for (rounds, enough) in [(1, false), (5, false), (6, true)] {
            let mut run = run(0.9, 1.0);
            for record in &mut run.programs {
                record.samples.truncate(rounds);
                record.cpu_samples.truncate(rounds);
            }
            let text = check(&run, Statistic::Median).text;
            assert!(!text.contains("inf"), "{text}");
            let open = text.lines().filter(|line| line.contains("OPEN")).collect::<Vec<_>>();
            assert_eq!(open.is_empty(), enough, "{rounds}: {text}");
            let words = "(the interval needs at least 6 rounds)";
            assert!(open.iter().all(|line| line.contains(words)), "{rounds}: {text}");
        }
    }

    #[test]
    fn a_machine_that_drifts_changes_no_ratio_of_rounds() {
        let run = run(0.9, 1.0);
        let ratio = paired::ratio(&run, "handover", OURS, "mimalloc", Time::Elapsed).unwrap();
        assert!((ratio.low - 0.9).abs() < 1e-9 && (ratio.high - 0.9).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let mut run = run(0.9, 1.0);
        run.programs.retain(|record| record.system != "ashlar");
        let verdict = check(&run, Statistic::Min);
        assert!(!verdict.passed && !verdict.text.contains("PASS"), "{}", verdict.text);
    }
}
