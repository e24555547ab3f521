//! Claims the words of a cache in the per-CPU areas: see [`local`](super::local).
#![allow(unsafe_code, reason = "raw per-CPU memory")]

use super::stage::{Stage, Switches};
use crate::percpu::all_cpus;
use crate::percpu::area::PERCPU;
use crate::percpu::lock;
use crate::slab::state::NO_OBJECT;
use ashlar_macros::place;

/// The words of a CPU without a CPU slab.
pub(super) const NO_SLAB: [usize; 2] = [NO_OBJECT as usize, 0];
/// The words of a CPU without partial slabs.
pub(super) const NO_PARTIAL: [usize; 2] = [0, 0];

/// The places of a cache in every CPU's area; 0 for none.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    pub(super) slab: u16,
    pub(super) partial: u16,
    pub(super) entries: u16,
    pub(super) locks: u16,
    /// The switches of the stage, kept here because every operation reads the places.
    pub(super) switches: Switches,
}

#[place(cold)]
impl Places {
    pub(crate) const NONE: Places =
        Places { slab: 0, partial: 0, entries: 0, locks: 0, switches: Stage::Plain.switches() };

    /// Claims places for a new cache, all without a slab; `None` if there are too few.
    #[inline(never)]
    pub(crate) fn claim(stage: Stage) -> Option<Places> {
        if stage.switches().takes_cpu_locks() {
            lock::want();
        }
        let mut claimed = [0; 4];
        for at in 0..claimed.len() {
            let Some(place) = PERCPU.claim_slot() else {
                claimed[..at].iter().for_each(|&place| PERCPU.release_slot(place));
                return None;
            };
            claimed[at] = place;
        }
        let [slab, partial, entries, locks] = claimed;
        for cpu in all_cpus() {
            for (place, words) in [(slab, NO_SLAB), (partial, NO_PARTIAL), (entries, [0; 2]), (locks, [0; 2])] {
                // SAFETY: the place was just claimed, so only this thread uses it; it lies in the
                // committed areas.
                unsafe { PERCPU.slot(cpu, place).cast::<[usize; 2]>().write_volatile(words) };
            }
        }
        Some(Places { slab, partial, entries, locks, switches: stage.switches() })
    }

    /// Releases the places of a cache that ends.
    pub(super) fn give_back(&self) {
        [self.slab, self.partial, self.entries, self.locks].into_iter().for_each(|place| PERCPU.release_slot(place));
    }
}
