//! The way back: from sheaves of CPUs and barns to slabs, when memory is short, a cache ends, or sheaves change their size.

use super::barn::Barn;
use super::exchange::return_sheaf;
use super::here::barns_of;
use crate::base::sync::Ordering;
use crate::engine::{RawCache, tunable};
use crate::percpu;
use crate::percpu::sheaf::retire_sheaf;

/// See [`crate::engine::drain_cpus`].
pub(crate) fn drain_cpus(cache: &'static RawCache) -> bool {
    let all = percpu::drain::drain(&[cache.slot], |_, _, sheaf| return_sheaf(cache, sheaf));
    release_held(cache);
    all
}

/// Brings the objects of up to `count` full sheaves of a barn back to their slabs.
fn return_sheaves(cache: &'static RawCache, barn: &Barn, count: usize) {
    for _ in 0..count {
        let Some(sheaf) = barn.get_full() else { break };
        return_sheaf(cache, sheaf);
    }
}

/// See [`crate::engine::release_held`]: the objects of all barns go back to their slabs, their empty sheaves to the pool.
pub(crate) fn release_held(cache: &'static RawCache) {
    for barn in barns_of(cache) {
        return_sheaves(cache, barn, usize::MAX);
        retire_empty(barn);
    }
}

/// Gives a barn's empty sheaves to the pool.
pub(super) fn retire_empty(barn: &Barn) {
    while let Some(sheaf) = barn.get_empty() {
        retire_sheaf(sheaf);
    }
}

/// See [`crate::engine::reap`]: what barns held without need goes back to slabs.
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
            // The flush itself is no use.
            barn.take_surplus();
        }
    }
    busy
}

/// See [`crate::engine::held_bytes`]: the full sheaves of barns.
pub(crate) fn held_bytes(cache: &RawCache) -> usize {
    let objects: usize = barns_of(cache).map(Barn::full_objects).sum();
    objects * cache.slabs.geometry.stride
}

/// Gives the cache sheaves of another capacity, 0 for none, and barns of so many of them. Those that exist go home; what a thread
/// has in hand and is larger follows when it comes back (`check_capacity`, `exchange::fits`). A smaller one may stay: it gets the capacity that is
/// asked for when it is empty and taken next.
pub(crate) fn set_sheaf_capacity(cache: &'static RawCache, capacity: usize, barn_limit: usize) {
    cache.barn_limit.store(barn_limit, Ordering::Relaxed);
    cache.sheaf_capacity.store(capacity, Ordering::SeqCst);
    drain_cpus(cache);
    for node in cache.state.sheaf_nodes {
        node.barns.iter().for_each(retire_empty);
    }
}

/// Called when a sheaf of `capacity` objects has just gone into a slot. If less was asked for after the sheaf was chosen,
/// the drain of that change may have come before the sheaf did: then another is due. One of the two sees the other:
/// the change stores the capacity, and all CPUs pass a barrier before it looks at slots; here the slot is written first.
#[inline]
pub(super) fn check_capacity(cache: &'static RawCache, capacity: usize) {
    if tunable(&cache.sheaf_capacity) < capacity {
        drain_cpus(cache);
    }
}
