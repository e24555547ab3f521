//! From what was measured to predictions, and what they are worth on two CPUs.
//!
//! **Test D**: the CPUs of a node are a [`Model`]. What is under list_lock and the zone lock is
//! theirs together; everything else of an operation each does for itself, also at the locks of
//! CPUs, slabs and barns, where no two meet in this test. Nodes have locks of their own, so CPUs of
//! different nodes do not wait for each other.
//!
//! Of list_lock and zone lock the waiters do what those of the engine's kernel did ([`locks_of`]).
//! What a poller costs the holder is measured with one. That each of several costs as much is an
//! assumption.
//!
//! **Test F**: one CPU frees, so no CPU waits; what a free costs depends on where the object is
//! from. Objects are thousands, as in the test, so their lines have left the caches. Objects of
//! CPUs of the same node cost what was measured between two CPUs of one node; those of other nodes
//! what was measured with two fake nodes, and for each line that moves the difference between a far
//! and a near line. That difference is the one number which this machine cannot tell: it is an
//! option.
//!
//! What is left out: memory that becomes slow because more CPUs use it, and caches that are too
//! small for the objects of many CPUs.

use serde::{Deserialize, Serialize};

use crate::experiments::simulate::plan::measured::{Answer, Measured, Operation, Polled};
use crate::experiments::simulate::plan::model::{Model, SPREAD, SharedLock, Waiting};

/// Least share of an operation that a CPU does for itself, where the measured hold times say less.
const LEAST_LOCAL: f64 = 0.05;

/// What was measured of one engine and size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inputs {
    /// On one node, with both CPUs on it.
    pub(crate) one_node: Measured,
    /// On two fake nodes, with a CPU on each.
    pub(crate) two_nodes: Measured,
    /// Ticks until a line that one CPU wrote is the other's.
    pub(crate) line: f64,
    /// Ticks that a poller of a lock adds to a taking.
    #[serde(default)]
    pub(crate) polled: Polled,
    /// What a line from another node costs over one of the same.
    pub(crate) far: f64,
}

impl Inputs {
    /// The inputs of each size that both processes measured.
    pub(crate) fn pair(one_node: &Answer, two_nodes: &Answer, far: f64) -> Vec<Self> {
        let line = one_node.line.min(two_nodes.line);
        let least = |of: fn(&Polled) -> f64| of(&one_node.polled).min(of(&two_nodes.polled));
        let polled = Polled { one_line: least(|polled| polled.one_line), apart: least(|polled| polled.apart) };
        let both = one_node.sizes.iter().zip(&two_nodes.sizes);
        both.map(|(&one_node, &two_nodes)| Self { one_node, two_nodes, line, polled, far }).collect()
    }

    /// What would have been measured if a line took `line` ticks: each line that moves costs so
    /// much more or less.
    pub(crate) fn with_line(&self, line: f64) -> Self {
        let times = line / self.line;
        let moves = |mut measured: Measured, nodes: usize| {
            for of in [&mut measured.alloc, &mut measured.free] {
                of.by_turns = of.by_turns_alone + (of.by_turns - of.by_turns_alone).max(0.0) * times;
            }
            let more = self.lines(nodes) * (line - self.line);
            measured.remote_free += more;
            measured.remote_free_cold += more;
            measured
        };
        Self {
            one_node: moves(self.one_node, 1),
            two_nodes: moves(self.two_nodes, 2),
            line,
            polled: Polled { one_line: self.polled.one_line * times, apart: self.polled.apart * times },
            far: self.far,
        }
    }

    /// The CPUs of a node in test D.
    pub(crate) fn model(&self, system: &str, nodes: usize) -> Model {
        let measured = if nodes == 1 { &self.one_node } else { &self.two_nodes };
        let of = &measured.alloc;
        let held = of.list_locks * of.list_hold + of.zone_locks * of.zone_hold;
        // Looks from outside cannot be exact: what is held is no more than what there is.
        let scale = (of.alone * (1.0 - LEAST_LOCAL) / held).min(1.0);
        let moved = moved(&self.one_node.alloc);
        let lock = |taken: f64, hold: f64| SharedLock { every: 1.0 / taken, hold: hold * scale, moved };
        let locks = [lock(of.list_locks, of.list_hold), lock(of.zone_locks, of.zone_hold)];
        Model {
            local: if held > 0.0 { of.alone - held * scale } else { of.alone },
            locks: locks.into_iter().filter(|lock| lock.every.is_finite()).collect(),
            handover: self.line,
            polled: match locks_of(system).1 {
                Place::OneLine => self.polled.one_line,
                Place::Apart => self.polled.apart,
            },
            waiting: locks_of(system).0,
            spread: SPREAD,
        }
    }

    /// Ticks of an allocation in test D on `cpus` CPUs, spread evenly over `nodes` nodes.
    pub(crate) fn test_d(&self, system: &str, cpus: usize, nodes: usize, seed: u64) -> f64 {
        let model = self.model(system, nodes);
        let (least, fuller) = (cpus / nodes, cpus % nodes);
        let of = |groups: usize, size: usize| {
            let members = groups * size;
            if members == 0 { 0.0 } else { members as f64 * model.cost(size, seed) }
        };
        (of(nodes - fuller, least) + of(fuller, least + 1)) / cpus as f64
    }

    /// Cache lines that move for one free of another CPU's object: what it costs more, in lines.
    pub(crate) fn lines(&self, nodes: usize) -> f64 {
        let measured = if nodes == 1 { &self.one_node } else { &self.two_nodes };
        ((measured.remote_free - measured.free.alone) / self.line).max(0.0)
    }

    /// Ticks of a free in test F, where one CPU frees what all `cpus - 1` others allocated.
    pub(crate) fn test_f(&self, cpus: usize, nodes: usize) -> f64 {
        if nodes == 1 {
            return self.one_node.remote_free_cold;
        }
        // What looking at the node costs every free, also where it is the same.
        let look = (self.two_nodes.free.alone - self.one_node.free.alone).max(0.0);
        let near = self.one_node.remote_free_cold + look;
        let far = self.two_nodes.remote_free_cold + self.lines(nodes) * self.line * (self.far - 1.0);
        let others = (cpus - 1) as f64;
        let neighbours = (cpus.div_ceil(nodes) - 1) as f64;
        (neighbours * near + (others - neighbours) * far) / others
    }
}

/// Where the words are that a holder of list_lock changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the line of the lock: SLUB's `kmem_cache_node` begins with it.
    OneLine,
    /// In another line: SLAB's `kmem_list3` has the lists before it.
    Apart,
}

/// The spin locks of the kernel that an engine stands for. Waiters polled the word until 2.6.24 and
/// took tickets from 2.6.25 on. Since 4.2 they queue, and each polls a word of its own. Waiters of
/// our own engines soon sleep between two looks.
fn locks_of(system: &str) -> (Waiting, Place) {
    match system {
        "slab24" => (Waiting::Polls, Place::Apart),
        "slub" | "slub-emu" | "slub+" | "slub-o" => (Waiting::Polls, Place::OneLine),
        "slub-2010" | "slub-2010-ll" | "slub-ll" => (Waiting::Tickets, Place::OneLine),
        _ => (Waiting::Apart, Place::OneLine),
    }
}

/// What the lines of another CPU cost at one taking of a shared lock: what allocating by turns
/// costs more than allocating alone.
fn moved(of: &Operation) -> f64 {
    let takings = of.list_locks + of.zone_locks;
    if takings > 0.0 { ((of.by_turns - of.by_turns_alone) / takings).max(0.0) } else { 0.0 }
}

/// A prediction for what this machine can measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Validation {
    pub(crate) test: String,
    pub(crate) system: String,
    pub(crate) size: usize,
    pub(crate) cpus: usize,
    pub(crate) nodes: usize,
    /// Ticks.
    pub(crate) predicted: f64,
    /// Ticks.
    pub(crate) measured: f64,
    /// Predicted over measured, less one, in percent.
    pub(crate) error_percent: f64,
}

/// Tests D and F on as many CPUs and nodes as can be measured here.
pub(crate) fn validate(system: &str, inputs: &Inputs, seed: u64) -> Vec<Validation> {
    let (one, two) = (&inputs.one_node, &inputs.two_nodes);
    [
        ("D", 1, 1, inputs.test_d(system, 1, 1, seed), one.alloc.alone_again),
        ("D", 2, 1, inputs.test_d(system, 2, 1, seed), one.alloc.both),
        ("D", 2, 2, inputs.test_d(system, 2, 2, seed), two.alloc.both),
        ("F", 2, 1, inputs.test_f(2, 1), one.remote_free_test),
        // Fake nodes are no farther than neighbours.
        ("F", 2, 2, Inputs { far: 1.0, ..*inputs }.test_f(2, 2), two.remote_free_test),
    ]
    .into_iter()
    .map(|(test, cpus, nodes, predicted, measured)| Validation {
        test: test.to_owned(),
        system: system.to_owned(),
        size: one.size,
        cpus,
        nodes,
        predicted,
        measured,
        error_percent: (predicted / measured - 1.0) * 100.0,
    })
    .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An engine that takes list_lock for every tenth allocation, and holds it for 50 ticks.
    pub(crate) fn inputs() -> Inputs {
        let alloc = Operation {
            alone: 25.0,
            alone_again: 26.0,
            both: 31.0,
            by_turns: 28.0,
            by_turns_alone: 26.0,
            list_locks: 0.1,
            list_hold: 50.0,
            ..Operation::default()
        };
        let free = Operation { alone: 20.0, ..Operation::default() };
        let one_node =
            Measured { size: 64, alloc, free, remote_free: 60.0, remote_free_cold: 60.0, remote_free_test: 66.0 };
        let free = Operation { alone: 30.0, ..Operation::default() };
        let two_nodes =
            Measured { free, remote_free: 110.0, remote_free_cold: 110.0, remote_free_test: 100.0, ..one_node };
        Inputs { one_node, two_nodes, line: 40.0, polled: Polled { one_line: 90.0, apart: 30.0 }, far: 2.0 }
    }

    #[test]
    fn the_model_takes_what_was_measured_apart() {
        let model = inputs().model("ashlar", 1);
        assert!((model.local - 20.0).abs() < 1e-9, "{model:?}");
        let [lock] = model.locks[..] else { panic!("a lock that is never taken is none: {model:?}") };
        assert!(
            (lock.every - 10.0).abs() < 1e-9 && (lock.hold - 50.0).abs() < 1e-9 && (lock.moved - 20.0).abs() < 1e-9
        );
        assert_eq!(model.handover, 40.0);
    }

    #[test]
    fn a_line_that_costs_more_makes_all_that_moves_dearer() {
        let (here, there) = (inputs(), inputs().with_line(400.0));
        assert_eq!(here.with_line(here.line), here);
        assert!((there.model("slub", 1).locks[0].moved - 200.0).abs() < 1e-9, "{there:?}");
        assert_eq!((there.model("slub", 1).handover, there.model("slub", 1).polled), (400.0, 900.0));
        assert_eq!((there.lines(1), there.lines(2)), (1.0, 2.0));
        assert_eq!((there.test_f(2, 1), there.model("slub", 1).local), (420.0, 20.0));
    }

    #[test]
    fn holds_that_are_more_than_everything_are_cut() {
        let mut inputs = inputs();
        inputs.one_node.alloc.list_hold = 900.0;
        let model = inputs.model("ashlar", 1);
        let sum = model.local + model.locks[0].hold / model.locks[0].every;
        assert!((sum - 25.0).abs() < 1e-9 && model.local > 0.0, "{model:?}");
    }

    #[test]
    fn one_cpu_costs_what_was_measured_alone() {
        assert!((inputs().test_d("ashlar", 1, 1, 1) / 25.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_node_for_each_cpu_is_as_good_as_one_cpu() {
        let inputs = inputs();
        assert!((inputs.test_d("slab24", 16, 16, 1) / inputs.test_d("slab24", 1, 1, 1) - 1.0).abs() < 0.01);
        // Sixteen CPUs at one lock: each of their holds is of 50 ticks, of lines that moved, and of
        // the waiters' line.
        assert!((inputs.test_d("ashlar", 256, 1, 1) / (256.0 * (50.0 + 20.0 + 40.0) / 10.0) - 1.0).abs() < 0.1);
        assert!(inputs.test_d("ashlar", 256, 1, 1) > 3.0 * inputs.test_d("ashlar", 256, 4, 1));
    }

    #[test]
    fn waiters_do_what_those_of_the_kernel_did() {
        let model = |system: &str| inputs().model(system, 1);
        assert_eq!((model("slab24").waiting, model("slab24").polled), (Waiting::Polls, 30.0));
        assert_eq!((model("slub").waiting, model("slub").polled), (Waiting::Polls, 90.0));
        assert_eq!((model("slub-ll").waiting, model("slub-ll").polled), (Waiting::Tickets, 90.0));
        assert_eq!(model("slab").waiting, Waiting::Apart);
        assert_eq!(model("slab").handover, 40.0);
    }

    #[test]
    fn cpus_that_do_not_divide_are_spread_as_evenly_as_they_can() {
        let inputs = inputs();
        let uneven = inputs.test_d("slub", 5, 4, 1);
        let expected = (3.0 * inputs.test_d("slub", 1, 4, 1) + 2.0 * inputs.model("slub", 4).cost(2, 1)) / 5.0;
        // `test_d(1, 4, …)` is one CPU on one of the nodes.
        assert!((uneven - expected).abs() < 1e-9, "{uneven} and {expected}");
    }

    #[test]
    fn remote_frees_cost_by_how_far_their_objects_are() {
        let inputs = inputs();
        assert_eq!(inputs.lines(1), 1.0);
        assert_eq!(inputs.lines(2), 2.0);
        assert_eq!(inputs.test_f(2, 1), 60.0);
        assert_eq!(inputs.test_f(1024, 1), 60.0);
        // All far: 110 and two lines of 40 more. One of three near: 60 and the look of 10.
        assert_eq!(inputs.test_f(2, 2), 190.0);
        assert_eq!(inputs.test_f(4, 2), (70.0 + 2.0 * 190.0) / 3.0);
    }

    #[test]
    fn an_error_is_the_prediction_over_the_measurement() {
        let found = validate("x", &inputs(), 1);
        let cell = |test: &str, nodes: usize| {
            found.iter().find(|v| v.test == test && v.nodes == nodes && v.cpus == 2).unwrap()
        };
        assert!((cell("F", 1).error_percent - (60.0 / 66.0 - 1.0) * 100.0).abs() < 1e-9);
        assert!((cell("F", 2).error_percent - 10.0).abs() < 1e-9, "{:?}", cell("F", 2));
        assert_eq!(found.len(), 5);
    }
}
