//! Drain: returns objects from the sheaves of CPUs and barns to their slabs.
//!
//! Runs when memory is short, when a cache is shrunk or destroyed, and when its sheaf capacity
//! changes.

use super::barn::Barn;
use super::exchange::return_sheaf;
use super::here::{barns_of, objects_in_barns};
use crate::base::sync::Ordering;
#[cfg(not(feature = "os"))]
use crate::base::units::CpuId;
use crate::engine::{RawCache, tunable};
use crate::percpu;
#[cfg(not(feature = "os"))]
use crate::percpu::remote::Cause;
use crate::percpu::sheaf::retire_sheaf;
use ashlar_macros::place;

/// See [`crate::engine::drain_cpus`].
#[place(background)]
pub(crate) fn drain_cpus(cache: &'static RawCache) -> bool {
    let all = percpu::drain::drain(&cache.sheaf_slots(), |_, _, sheaf| return_sheaf(cache, sheaf));
    release_held(cache);
    all
}

/// See [`crate::engine::drain_cpu`]. A dead CPU loses its barns, too.
#[cfg(not(feature = "os"))]
pub(crate) fn drain_cpu(cache: &'static RawCache, cpu: CpuId, cause: Cause) {
    for slot in cache.sheaf_slots() {
        percpu::drain::drain_for(cause, cpu, slot, |_, _, sheaf| return_sheaf(cache, sheaf));
    }
    if cause == Cause::Dead {
        for node in cache.state.sheaf_nodes {
            return_sheaves(cache, node.barn(cpu), usize::MAX);
            retire_empty(node.barn(cpu));
        }
    }
}

/// Returns the objects of up to `count` full sheaves of a barn to their slabs.
#[place(background)]
fn return_sheaves(cache: &'static RawCache, barn: &Barn, count: usize) {
    for _ in 0..count {
        let Some(sheaf) = barn.get_full() else { break };
        return_sheaf(cache, sheaf);
    }
}

/// See [`crate::engine::release_held`]. Empties all barns: objects to slabs, empty sheaves to the
/// pool.
pub(crate) fn release_held(cache: &'static RawCache) {
    for barn in barns_of(cache) {
        return_sheaves(cache, barn, usize::MAX);
        retire_empty(barn);
    }
}

/// Returns a barn's empty sheaves to the pool.
pub(super) fn retire_empty(barn: &Barn) {
    while let Some(sheaf) = barn.get_empty() {
        retire_sheaf(sheaf);
    }
}

/// See [`crate::engine::reap`]. Returns the barns' surplus to slabs.
pub(crate) fn reap(cache: &'static RawCache) -> bool {
    let mut busy = false;
    for barn in barns_of(cache) {
        let (used, unused) = barn.take_surplus();
        busy |= used;
        if !used {
            retire_empty(barn);
        }
        if unused > 0 {
            return_sheaves(cache, barn, unused);
            // Reset the figures, because this flush is not a use of the barn.
            barn.take_surplus();
        }
    }
    busy
}

/// See [`crate::engine::held_bytes`]. Counts the full sheaves of barns.
pub(crate) fn held_bytes(cache: &RawCache) -> usize {
    objects_in_barns(cache) * cache.slabs.geometry.stride
}

/// Sets the capacity of the cache's sheaves, 0 for none, and the number of full sheaves a barn may
/// hold. Drains the existing sheaves.
///
/// A larger sheaf that a thread holds meanwhile is drained when it is stored (`check_capacity`,
/// `exchange::fits`). A smaller one may stay; it gets the new capacity the next time it is taken
/// empty.
pub(crate) fn set_sheaf_capacity(cache: &'static RawCache, capacity: usize, barn_limit: usize) {
    cache.barn_limit.store(barn_limit, Ordering::Relaxed);
    cache.sheaf_capacity.store(capacity, Ordering::SeqCst);
    drain_cpus(cache);
    for node in cache.state.sheaf_nodes {
        node.barns.iter().for_each(retire_empty);
    }
}

/// Has the sheaves of a cache in the slot `to` from now on, which is closed or has none. Those in
/// the slot `from` are drained, and it is closed. Returns false if some CPU could not be reached,
/// and the slot `from` is still open there.
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
pub(crate) fn move_sheaves(cache: &'static RawCache, from: u16, to: u16) -> bool {
    percpu::drain::open(to);
    cache.set_sheaf_slot(to);
    percpu::drain::close(from, |_, _, sheaf| return_sheaf(cache, sheaf))
}

/// Drains again if the capacity was lowered after a sheaf of `capacity` objects was chosen. Called
/// right after that sheaf was stored in a slot.
///
/// Either this check or the drain in `set_sheaf_capacity` sees the other side. The setter stores
/// the capacity, and every CPU passes a barrier before slots are read. Here the slot is written
/// first and the capacity read after.
#[inline]
pub(super) fn check_capacity(cache: &'static RawCache, capacity: usize) {
    if tunable(&cache.sheaf_capacity) < capacity {
        drain_cpus(cache);
    }
}
