//! Returns memory that caches hold without need, before the zone grows.
//!
//! [`BUSY`] admits one thread at a time to this, or to a trim.

use crate::base::sync::{self, AtomicU32, AtomicUsize, Ordering};
use crate::cache::registry;
use crate::engine;
use crate::pages::zone::Need;
use crate::percpu::pages;

/// Set while a thread empties barns before growth, or trims.
pub(super) static BUSY: AtomicU32 = AtomicU32::new(0);

/// Resets [`BUSY`] in the child of a fork, where the thread that set it may not exist.
pub(crate) fn after_fork_in_child() {
    BUSY.store(0, Ordering::Relaxed);
}

/// Called by the zone when only fresh memory could serve a request. Empties the page lists of all
/// CPUs, and also the barns if they hold more than an eighth of the zone. Before a request fails,
/// returns all free memory of all caches. Returns true if any memory was returned.
pub(crate) fn before_growth(need: Need) -> bool {
    let last = need == Need::Last;
    if BUSY.swap(1, Ordering::Acquire) != 0 {
        // Another thread is doing this. Only a request that would otherwise fail waits for it.
        return last && sync::wait_while(|| BUSY.load(Ordering::Acquire) != 0);
    }
    let found = match need {
        Need::Growth(committed) => {
            let released = held_bytes() > (committed / 8).max(2 << 20) && registry::try_for_each(engine::release_held);
            evict_from_caches(committed) || released
        }
        Need::Last => empty_all(),
    };
    let listed = pages::drain();
    BUSY.store(0, Ordering::Release);
    found || listed
}

/// Below this many committed bytes, slabs are not searched for free pages.
const EVICT_FROM: usize = 8 << 20;

/// The committed bytes at the last search of slabs, and the bytes that it left in sparse slabs,
/// which another search would not get either. Only the thread that set `BUSY` reads or changes
/// them.
static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Returns free pages of slabs in use to the system, if they may amount to a sixteenth of the
/// committed memory, because the zone is about to grow by an eighth. Runs once for each growth, so
/// that a program at the limit of its memory does not search each time. Returns true if slabs
/// became empty.
fn evict_from_caches(committed: usize) -> bool {
    if committed < EVICT_FROM || LOOKED_AT.swap(committed, Ordering::Relaxed) == committed {
        return false;
    }
    let sparse = || {
        let mut sum = 0;
        registry::try_for_each(|cache| sum += engine::sparse_bytes(cache));
        sum
    };
    let mut came = false;
    registry::try_for_each(|cache| came |= engine::restore_emptied(cache));
    let (found, left) = (sparse(), LEFT.load(Ordering::Relaxed));
    if found.saturating_sub(left) < committed / 16 {
        LEFT.store(left.min(found), Ordering::Relaxed);
        return came;
    }
    registry::try_for_each(|cache| _ = engine::evict_free_pages(cache));
    LEFT.store(sparse(), Ordering::Relaxed);
    came
}

/// Returns the bytes of free objects in the stores of all caches; 0 if another thread holds the
/// registry lock.
pub(super) fn held_bytes() -> usize {
    let mut held = 0;
    registry::try_for_each(|cache| held += engine::held_bytes(cache));
    held
}

/// Empties all caches. Returns true if any held an object.
#[cold]
#[inline(never)]
#[place(cold)]
fn empty_all() -> bool {
    let mut cached = 0;
    let _away = crate::percpu::before_drains();
    // Another thread may hold the registry lock for a moment, or the calling thread may hold it.
    sync::wait_while(|| !registry::try_for_each(|cache| cached += empty(cache)));
    cached > 0
}

/// Returns a cache's free objects to their slabs, and its empty slabs to the zone. Returns the
/// number of objects.
#[place(cold)]
pub(super) fn empty(cache: &'static engine::RawCache) -> usize {
    let cached = engine::usage(cache).cached;
    if cached > 0 {
        engine::drain_cpus(cache);
        engine::reap(cache);
    }
    engine::trim(cache);
    cached
}
