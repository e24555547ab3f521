//! An allocation of Linux 2.6.37, statement by statement.
//!
//! Interrupts are off (here: the CPU lock is held) from the look at the CPU slab to the slab that
//! replaces it. slab_lock is taken once for the CPU slab, which is refilled or thawed under it, and
//! once for the next one. Interrupts are on while a new slab is made.
//!
//! In the stage with the lockless fast path the lock does not protect the CPU's words, as
//! interrupts that are off do in the kernel. There [`feed`] takes the slab off the CPU by a
//! critical section before, and installs the next one by another.

use super::feed;
use super::give_up::give_up;
use super::local::{self, CpuGuard, switches};
use super::places::NO_SLAB;
use crate::engine::RawCache;
use crate::percpu::area::PERCPU;
use crate::slab::state::NO_OBJECT;

/// Allocates an object under one hold of the CPU lock, but for the time in which a slab is made.
/// Returns 0 if there is no memory or a freelist is corrupt; the caller tries other ways then.
#[place(cold)]
pub(super) fn alloc(cache: &'static RawCache) -> usize {
    let mut guard = CpuGuard::take(cache);
    match local::pop_locked(cache, &mut guard) {
        0 => alloc_slow(cache, guard),
        object => object,
    }
}

/// Allocates an object for the CPU whose lock the caller holds, and whose freelist is empty.
#[place(cold)]
fn alloc_slow(cache: &'static RawCache, mut guard: CpuGuard) -> usize {
    let (switches, place) = (switches(cache), cache.state.places.slab);
    let [head, base] = *guard.words(place);
    if head < usize::from(NO_OBJECT) {
        // The freelist is corrupt.
        return 0;
    }
    local::count_alloc(cache, guard.cpu());
    let node = PERCPU.node_of(guard.cpu());
    *guard.words(place) = NO_SLAB;
    let mut fed = feed::refill(cache, switches, base, node, &guard);
    if fed.is_none() {
        drop(guard);
        fed = feed::not_of_lists(cache, switches, node);
        guard = CpuGuard::take(cache);
        // Another thread may have given this CPU a slab meanwhile, or this thread migrated.
        let other = core::mem::replace(guard.words(place), NO_SLAB);
        give_up(cache, switches, other, false);
    }
    let Some((object, rest, base)) = fed.and_then(|fed| {
        let (object, rest) = feed::first_of(cache, fed)?;
        Some((object, rest, fed.base))
    }) else {
        return 0;
    };
    *guard.words(place) = [usize::from(rest), base];
    object
}
