//! The target of `forward`: bulk free is faster, beyond the noise.

use crate::experiments::forward::plan::Plan;
use crate::experiments::forward::plan::modes::Mode;
use crate::experiments::forward::table::{Difference, Run, sureness};
use crate::kit::error::LabError;
use crate::kit::verdict::Verdict;

/// Least gain of bulk free that the project asks for, in per cent.
pub(crate) const TARGET: f64 = 1.0;

/// The system by which the target is judged: the first that has both modes.
///
/// # Errors
/// None has.
pub(crate) fn target_of(plan: &Plan) -> Result<&'static str, LabError> {
    let both = |id: &str| plan.place(id, Mode::Normal).is_some() && plan.place(id, Mode::Bulk).is_some();
    plan.systems.iter().map(|system| system.id).find(|id| both(id)).ok_or_else(|| {
        LabError::option("--check-targets", "expected the modes `normal` and `bulk`, and a system that has caches")
    })
}

/// Whether bulk free is as much faster as the project asks for, and a line that says so.
pub(crate) fn judge(run: &Run, system: &str) -> Verdict {
    let is_it = |difference: &&Difference| {
        difference.system == system
            && (difference.mode.as_str(), difference.base_mode.as_str()) == (Mode::Bulk.id(), Mode::Normal.id())
    };
    let Some(difference) = run.differences.iter().find(is_it) else {
        return Verdict { passed: false, text: format!("TARGET {system}: not measured\n") };
    };
    let met = difference.significant && difference.percent >= TARGET;
    let line = format!(
        "TARGET {}: {system}, bulk free against normal: {:+.1} %, {}; wanted at least {TARGET:+.1} %\n",
        if met { "met" } else { "MISSED" },
        difference.percent,
        sureness(difference, run.confidence),
    );
    Verdict { passed: met, text: line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::record::Host;

    fn difference(percent: f64, significant: bool) -> Difference {
        Difference {
            system: "slub-bulk".to_owned(),
            mode: "bulk".to_owned(),
            base_system: "slub-bulk".to_owned(),
            base_mode: "normal".to_owned(),
            pps: 42_052.0,
            percent,
            ns: -9.81,
            interval_ns: Some([-11.0, -8.5]),
            interval_percent: Some([1.7, 2.3]),
            significant,
            rounds: 20,
        }
    }

    fn run(differences: Vec<Difference>) -> Run {
        Run { host: Host::default(), records: Vec::new(), confidence: 95.0, differences }
    }

    #[test]
    fn without_enough_rounds_nothing_is_claimed() {
        let few = Difference { interval_ns: None, significant: false, rounds: 3, ..difference(5.0, false) };
        let Verdict { passed: met, text: line } = judge(&run(vec![few]), "slub-bulk");
        assert!(!met && line.contains("3 rounds are too few"), "{line}");
    }

    #[test]
    fn the_target_needs_gain_and_certainty() {
        for (percent, significant, met) in
            [(2.1, true, true), (2.1, false, false), (0.9, true, false), (-3.0, true, false)]
        {
            let Verdict { passed: verdict, text: line } =
                judge(&run(vec![difference(percent, significant)]), "slub-bulk");
            assert_eq!(verdict, met, "{line}");
            assert!(line.contains("-11.00 to -8.50 ns at 95 %"), "{line}");
        }
        assert!(!judge(&run(Vec::new()), "slub-bulk").passed);
    }
}
