//! The bound on free resident memory in a process without the background thread.
//!
//! Free pages and full barns together may take [`LEAST`] bytes, or an eighth of the memory in use.
//! A call of the program that finds more returns all of it. Memory that is needed again within a
//! second was returned too early, at the cost of a page fault per page. Then the bound grows by
//! twice what the program has taken again, and at least doubles. A trim more than a second after
//! the one before halves it. So a program whose use oscillates keeps its memory, and one that frees
//! memory and sleeps keeps little. The C library's malloc adapts its trim threshold by a similar
//! rule.
//!
//! A program that frees much is trimmed several times on the way, before it can need any of it
//! again. So the trims within a second are judged together.

use super::growth::{BUSY, held_bytes};
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering, bump};
use crate::base::units::PAGE_SIZE;
use crate::cache::registry;
use crate::engine;
use crate::pages::zone::{Purge, ZONE};

/// The smallest bound, in bytes.
const LEAST: usize = 8 << 20;
/// The number of calls between two checks of barns, because a check visits each cache.
const BARNS_EVERY: usize = 32;
/// The time in milliseconds after which a new need for memory does not count against the trim.
const SOON_MS: u32 = 1000;

/// The bound in force, in bytes.
static BOUND: AtomicUsize = AtomicUsize::new(LEAST);
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// The trims since the bound was adapted: the time of the last one in milliseconds, the pages that
/// they gave back, and [`crate::pages::zone::Zone::cold_pages_taken`] at the end of the first. Only
/// changed by the thread that set `BUSY`.
static TRIMMED_MS: AtomicU32 = AtomicU32::new(0);
static TRIMMED: AtomicUsize = AtomicUsize::new(0);
static COLD_THEN: AtomicUsize = AtomicUsize::new(0);

/// Returns all free memory to the system if it exceeds the bound. `now_ms` is the time.
pub(crate) fn trim(now_ms: u32) {
    bump(&CALLS);
    let look_at_barns = CALLS.load(Ordering::Relaxed).is_multiple_of(BARNS_EVERY);
    let bound = BOUND.load(Ordering::Relaxed);
    let dirty = ZONE.dirty_pages() * PAGE_SIZE;
    if dirty < bound && !look_at_barns {
        return;
    }
    let held = held_bytes();
    let stats = ZONE.stats();
    let in_use = ((stats.committed - stats.free) * PAGE_SIZE).saturating_sub(held);
    if dirty + held >= bound.max(in_use / 8) {
        give_back(now_ms, bound, stats.committed * PAGE_SIZE, held > dirty / 2);
    }
}

/// Returns free pages to the system, and first the contents of barns if `barns` is true.
#[cold]
#[inline(never)]
#[place(background)]
fn give_back(now_ms: u32, bound: usize, committed: usize, barns: bool) {
    if BUSY.swap(1, Ordering::Acquire) != 0 {
        return;
    }
    let before = if adapt(now_ms, bound, committed) { 0 } else { TRIMMED.load(Ordering::Relaxed) };
    if barns {
        registry::try_for_each(engine::release_held);
    }
    let (given, _) = ZONE.purge(Purge::All);
    if before == 0 {
        COLD_THEN.store(ZONE.cold_pages_taken(), Ordering::Relaxed);
    }
    TRIMMED.store(before + given, Ordering::Relaxed);
    TRIMMED_MS.store(now_ms, Ordering::Relaxed);
    BUSY.store(0, Ordering::Release);
}

/// Adapts the bound to the effect of the last trims. A bound of twice `committed`, the bytes that
/// the zone has come to, ends trims. Returns false if it is too early to judge them.
fn adapt(now_ms: u32, bound: usize, committed: usize) -> bool {
    let soon = now_ms.wrapping_sub(TRIMMED_MS.load(Ordering::Relaxed)) < SOON_MS;
    let cold = ZONE.cold_pages_taken().wrapping_sub(COLD_THEN.load(Ordering::Relaxed));
    let given = TRIMMED.load(Ordering::Relaxed);
    let bound = if !soon {
        bound / 2
    } else if cold >= given.max(1) / 2 {
        bound + (cold.min(given) * 2 * PAGE_SIZE).max(bound)
    } else {
        return false;
    };
    BOUND.store(bound.clamp(LEAST, (committed * 2).max(LEAST)), Ordering::Relaxed);
    true
}
