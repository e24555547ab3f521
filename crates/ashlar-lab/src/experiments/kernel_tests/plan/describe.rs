//! The head of a run of the tests A to F.
use std::collections::{BTreeMap, BTreeSet};

use crate::experiments::kernel_tests::plan::{Plan, ROUNDS_OF_A_CHILD};
use crate::kit::measure::allowed_cpus;
use crate::kit::record::Host;
use crate::systems::host::of_run;

/// What is not counted where a process lives through many passes.
const WARM_UP: &str = "one round of everything, and two to twelve passes right before each measured pass";

/// Describes this machine and the systems of `plan`; `notes` is what the children said about
/// themselves.
pub(crate) fn describe(plan: &Plan, notes: &BTreeMap<&'static str, String>) -> Host {
    let nodes_with_cpus = plan.nodes.map(|nodes| {
        // As ashlar spreads CPUs over fake nodes.
        let nodes: BTreeSet<usize> = allowed_cpus().into_iter().map(|cpu| cpu % nodes).collect();
        nodes.len()
    });
    Host {
        objects: plan.objects,
        nodes: plan.nodes,
        nodes_with_cpus,
        irq: plan.irq.map(str::to_owned),
        fragmented: plan.fragmented,
        first_pass: plan.first_pass,
        rounds_of_a_process: (!plan.first_pass).then_some(ROUNDS_OF_A_CHILD),
        warm_up: if plan.first_pass { "nothing" } else { WARM_UP }.to_owned(),
        ..of_run(&plan.systems, plan.rounds, notes)
    }
}
