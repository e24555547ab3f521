//! The caches of the program while a heap profile samples them.
//!
//! A handle holds the place of its slot, and its fast paths are inlined into the program. They jump
//! to the slow path if the slot has no sheaf. So while a profile runs, the sheaves of the caches of
//! the program are in a second slot, which only slow paths know. Every call takes the slow path,
//! and that counts. The slot that is not in use is closed: a thread that was under way when it was
//! closed cannot put a sheaf there.
//!
//! The second slot stays with the cache, for the next profile. A cache for which there is none, or
//! whose sheaves cannot be reached on every CPU, is not sampled.
//!
//! All functions but [`is_sampled`] are called under the registry lock.

use crate::base::sync::{AtomicUsize, Ordering};
use crate::engine::route::Route;
use crate::engine::{Engine, RawCache, sheaves};
use crate::percpu::area::PERCPU;

/// The bit of [`RawCache::second_slot`] that says that a profile samples the cache. Offsets of
/// slots are even.
const SAMPLED: u16 = 1;
/// 1 while caches that are created are sampled.
static ON: AtomicUsize = AtomicUsize::new(0);

/// Has caches created from now on sampled, or not any more. For those that exist, there are
/// [`begin`] and [`end`].
#[place(cold)]
pub(crate) fn begin_or_end(begin: bool) {
    ON.store(usize::from(begin), Ordering::Relaxed);
}

/// Has a new cache sampled if a profile runs.
#[inline]
pub(super) fn adopt(cache: &'static RawCache) {
    if ON.load(Ordering::Relaxed) != 0 {
        begin(cache);
    }
}

/// Has each call of a cache of the program take the slow path, until [`end`].
#[place(cold)]
#[inline(never)]
pub(crate) fn begin(cache: &'static RawCache) {
    if !cache.policy.of_program || cache.engine != Engine::Sheaves || is_sampled(cache) {
        return;
    }
    // The calls of a hardened cache take the slow path anyway.
    if cache.route != Route::Hardened {
        let Some(second) = second_slot(cache) else { return };
        if !sheaves::move_sheaves(cache, cache.slot, second) {
            sheaves::move_sheaves(cache, second, cache.slot);
            return;
        }
    }
    cache.second_slot.fetch_or(SAMPLED, Ordering::Relaxed);
}

/// Returns the second slot of a cache, and claims it the first time.
#[place(cold)]
fn second_slot(cache: &RawCache) -> Option<u16> {
    let second = cache.second_slot.load(Ordering::Relaxed);
    if second != 0 {
        return Some(second);
    }
    let second = PERCPU.claim_slot()?;
    cache.second_slot.store(second, Ordering::Relaxed);
    Some(second)
}

/// Has the fast paths of a cache work again.
#[place(cold)]
#[inline(never)]
pub(crate) fn end(cache: &'static RawCache) {
    let second = cache.second_slot.fetch_and(!SAMPLED, Ordering::Relaxed);
    if second & SAMPLED != 0 && cache.route != Route::Hardened {
        sheaves::move_sheaves(cache, second & !SAMPLED, cache.slot);
    }
}

/// Releases the second slot of a cache that ends, whose slots hold no sheaves.
#[place(cold)]
#[inline(never)]
pub(super) fn forget(cache: &RawCache) {
    let second = cache.second_slot.swap(0, Ordering::Relaxed) & !SAMPLED;
    if second != 0 {
        PERCPU.release_slot(second);
    }
}

/// Returns whether each call of a cache takes the slow path, for a profile.
#[inline]
pub(crate) fn is_sampled(cache: &RawCache) -> bool {
    cache.second_slot.load(Ordering::Relaxed) & SAMPLED != 0
}
