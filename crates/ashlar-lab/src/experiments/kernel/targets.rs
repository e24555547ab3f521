//! What is asked of ashlar in ring 0: that no object is damaged or lost, whatever interrupts, which
//! decides whether the run failed; and that more CPUs cost hardly more instructions, which is told,
//! and decides as well with `--check-targets`.

use core::fmt::Write;

use crate::experiments::kernel::plan::{Boot, Clock};
use crate::experiments::kernel::table::cell;
use crate::kit::record::Report;
use crate::kit::statistics::geometric_mean;

/// The systems that are judged.
const JUDGED: [&str; 2] = ["ashlar", "ashlar-cache"];
/// Most that an operation on all CPUs may cost, of one on one CPU.
const MOST: f64 = 1.5;

/// What the targets say about a run.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Nothing is damaged or lost.
    pub(crate) sound: bool,
    /// More CPUs cost hardly more.
    pub(crate) reached: bool,
    /// Explains both.
    pub(crate) text: String,
}

/// Judges a run. Where the machine has one CPU there is nothing to compare.
pub(crate) fn check(run: &Report, boots: &[Boot]) -> Verdict {
    let mut text =
        format!("\nInstructions on {} CPUs over those on one: geometric mean over the sizes\n", run.host.cpus);
    let (mut sound, mut reached) = (true, true);
    for (test, one) in [("D", "A"), ("F", "B")] {
        for system in &run.host.systems {
            let sizes = run.sizes("kernel-A");
            let of = |test: &str, size: usize| Some(cell(run, Clock::Instructions, test, system, size)?.min);
            let ratios: Vec<f64> = sizes.iter().filter_map(|&size| Some(of(test, size)? / of(one, size)?)).collect();
            if ratios.is_empty() {
                continue;
            }
            let ratio = geometric_mean(&ratios);
            let judged = JUDGED.contains(&system.as_str());
            reached &= !judged || ratio <= MOST;
            let mark = match (judged, ratio <= MOST) {
                (false, _) => "    ",
                (true, true) => "ok  ",
                (true, false) => "MISS",
            };
            let bound = if judged { format!(", at most {MOST}") } else { String::new() };
            let _ = writeln!(text, "{mark}  {test} over {one}, {system}: {ratio:.2}{bound}");
        }
    }
    for boot in boots {
        for storm in boot.storms.iter().filter(|storm| storm.damaged != 0 || storm.lost != 0) {
            let (damaged, lost, mode) = (storm.damaged, storm.lost, boot.clock.mode());
            let _ = writeln!(text, "MISS  {} ({mode}): {damaged} objects damaged, {lost} lost", storm.system);
            sound = false;
        }
    }
    Verdict { sound, reached, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::kernel::plan::{Plan, report, tests as made};

    fn checked(text: &str) -> Verdict {
        let boots = [made::printed(text).expect("a whole boot")];
        let plan = Plan::new(&made::args()).expect("sound options");
        check(&report(&plan, &boots, String::new()), &boots)
    }

    #[test]
    fn what_more_cpus_cost_is_told_and_nothing_may_be_lost() {
        // 100 instructions on one CPU; 200 for D on eight, and 100 for F.
        let Verdict { text, sound, reached } = checked(made::PRINTED);
        assert!(sound && !reached, "{text}");
        assert!(text.contains("MISS  D over A, ashlar: 2.00, at most 1.5"), "{text}");
        assert!(text.contains("ok    F over B, ashlar: 1.00, at most 1.5"), "{text}");
        let good = made::PRINTED.replace("8000 1600000", "8000 800000");
        let verdict = checked(&good);
        assert!(verdict.sound && verdict.reached && !verdict.text.contains("MISS"), "{}", verdict.text);
        for (from, to) in [("lost ashlar 0", "lost ashlar 3"), ("damaged=0", "damaged=1")] {
            let verdict = checked(&good.replace(from, to));
            assert!(!verdict.sound && verdict.text.contains("MISS  ashlar (icount)"), "{}", verdict.text);
        }
    }
}
