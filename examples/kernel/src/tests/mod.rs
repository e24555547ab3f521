//! What is run on each system: the lab's tests A to F, and work at random with interrupts.

pub mod passes;
pub mod storm;

use alloc::vec::Vec;

use crate::machine::cpus::{Work, run_on_all};
use crate::options::Options;
use crate::say;
use crate::systems::System;

/// Runs everything on `system`. Returns whether every object was whole and none was lost.
pub fn run<S: System>(system: &S, options: &Options, nodes: &[u32]) -> bool {
    let before = settled(system);
    let slots: Vec<passes::Slots> = nodes.iter().map(|_| passes::Slots::new(options.objects)).collect();
    for &size in &options.sizes {
        passes::of_size(system, size, &slots, options);
    }
    drop(slots);
    let good = storm::run(system, options, nodes);
    let lost = settled(system).wrapping_sub(before) as isize;
    say!("lost {} {lost}", S::NAME);
    good && lost == 0
}

/// What is in use when each CPU has emptied its sheaves.
fn settled<S: System>(system: &S) -> usize {
    ashlar::reap();
    run_on_all(&Work(&|_| ashlar::poll()));
    system.in_use()
}
