//! The gate that a fork closes, see [`crate::base::sync::gate`]. After it is closed, no other
//! thread is inside, and none enters.

use std::sync::Arc;

use super::{explore, race};
use crate::base::sync::gate::Gate;
use crate::base::sync::{AtomicU32, Ordering};

/// Data that threads inside the gate change in two steps; a copy taken between them is torn.
struct Guarded {
    gate: Gate,
    first: AtomicU32,
    second: AtomicU32,
}

impl Guarded {
    fn new() -> Arc<Guarded> {
        Arc::new(Guarded { gate: Gate::new(), first: AtomicU32::new(0), second: AtomicU32::new(0) })
    }

    /// Runs one operation of thread `me`, if the gate lets it enter.
    fn operate(&self, me: usize) -> bool {
        let Some(_inside) = self.gate.enter(me) else { return false };
        self.first.fetch_add(1, Ordering::Relaxed);
        self.second.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Returns the values that a child forked now would see.
    fn copy(&self) -> (u32, u32) {
        (self.first.load(Ordering::Relaxed), self.second.load(Ordering::Relaxed))
    }
}

const ME: usize = 2;

#[test]
fn a_copy_behind_the_closed_gate_is_whole() {
    explore(|| {
        let guarded = Guarded::new();
        let (one, other) = (guarded.clone(), guarded.clone());
        let (a, b, ()) = race(
            move || one.operate(4),
            move || other.operate(6),
            || {
                guarded.gate.close(ME);
                let (first, second) = guarded.copy();
                assert_eq!(first, second, "a thread was inside");
                guarded.gate.open();
            },
        );
        let done = u32::from(a) + u32::from(b);
        assert_eq!(guarded.copy(), (done, done));
    });
}

#[test]
fn the_thread_that_closed_the_gate_may_pass_and_the_others_see_what_it_did() {
    explore(|| {
        let guarded = Guarded::new();
        let (one, other) = (guarded.clone(), guarded.clone());
        let ((), (), ()) = race(
            move || {
                if let Some(_inside) = one.gate.enter(4) {
                    let (first, second) = one.copy();
                    assert_eq!(first, second, "let in while another thread was inside");
                }
            },
            move || _ = other.gate.enter(6),
            || {
                guarded.gate.close(ME);
                assert!(guarded.operate(ME));
                guarded.gate.open();
            },
        );
    });
}
