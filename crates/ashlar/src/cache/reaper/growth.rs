//! Memory before the zone grows: what caches hold without need is returned first.
//!
//! [`BUSY`] lets one thread at a time do this, or a trim.

use crate::base::sync::{self, AtomicU32, AtomicUsize, Ordering};
use crate::cache::registry;
use crate::engine;
use crate::pages::zone::Need;
use crate::percpu::pages;

/// Set while a thread empties barns before growth, or trims.
pub(super) static BUSY: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork the thread that emptied barns may be gone.
pub(crate) fn after_fork_in_child() {
    BUSY.store(0, Ordering::Relaxed);
}

/// Called by the zone when only fresh memory could serve a request: the page lists of all CPUs are
/// emptied, and if barns hold more than an eighth of the zone they are too. Before a request fails
/// everything that is free in any cache goes back. True if anything came back.
pub(crate) fn before_growth(need: Need) -> bool {
    let last = need == Need::Last;
    if BUSY.swap(1, Ordering::Acquire) != 0 {
        // Another thread is doing this. A request that would fail otherwise waits for the outcome.
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

/// Bytes committed below which slabs are not looked at for free pages.
const EVICT_FROM: usize = 8 << 20;

/// How much was committed when slabs were last looked at, and what was left in sparse ones then,
/// which another look would not get. Only looked at and changed by who set `BUSY`.
static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Gives free pages of slabs that are in use back to the system, if they may come to a sixteenth of
/// what is committed: the zone is to grow by an eighth. Once for each growth, so that a program at
/// the end of its memory does not look each time. True if slabs became empty.
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

/// Bytes of free objects in stores of all caches, 0 if another thread holds the registry lock.
pub(super) fn held_bytes() -> usize {
    let mut held = 0;
    registry::try_for_each(|cache| held += engine::held_bytes(cache));
    held
}

/// Empties all caches; true if there was something in one.
#[cold]
#[inline(never)]
#[place(cold)]
fn empty_all() -> bool {
    let mut cached = 0;
    // Another thread may hold the registry lock for a moment, or this one may hold it.
    sync::wait_while(|| !registry::try_for_each(|cache| cached += empty(cache)));
    cached > 0
}

/// Brings a cache's free objects home and gives its empty slabs back; how many objects.
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
