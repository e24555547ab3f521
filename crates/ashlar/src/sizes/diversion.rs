//! Which paths the calls of malloc and kmalloc take: their fast paths, the copy of malloc's that
//! counts, or slow paths.
//!
//! A heap profile and guard sampling [`divert`] calls and let them [`go_back`]. What is in force
//! follows from who diverts, so they need to know nothing of each other.

use super::kmalloc;
use super::malloc;
use super::malloc::LIMIT;
use super::malloc::classes::MALLOC_MAX_CACHE_SIZE;
use crate::base::sync::{AtomicU32, Ordering};
use ashlar_macros::place;

/// Who diverts calls, as bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// A profile, which counts the bytes of malloc.
    Profile = 1,
    /// A profile that takes each object, also those of 0 bytes.
    EachObject = 2,
    /// A profile that starts with the next call of malloc.
    Awaited = 4,
    /// Guard sampling, which counts calls.
    Guard = 8,
    /// Guard sampling, whose gate is open.
    Gate = 16,
}

static DIVERTED: AtomicU32 = AtomicU32::new(0);
/// 1 where the copy of malloc's fast path counts calls.
pub(crate) static BY_CALLS: AtomicU32 = AtomicU32::new(0);

/// Diverts calls.
#[place(cold)]
pub(super) fn divert(by: By) {
    DIVERTED.fetch_or(by as u32, Ordering::SeqCst);
    apply();
}

/// Diverts calls no longer.
#[place(cold)]
pub(super) fn go_back(by: By) {
    DIVERTED.fetch_and(!(by as u32), Ordering::SeqCst);
    apply();
}

/// Whether this one diverts calls.
#[place(cold)]
pub(super) fn has(by: By) -> bool {
    DIVERTED.load(Ordering::Relaxed) & by as u32 != 0
}

/// Has the calls of malloc and kmalloc take the paths that follow from who diverts them. Called
/// again when one of the two has started.
///
/// Threads that do this at the same time may mix what they store. But who stored last for an old
/// reason sees that it is old, and stores again.
#[place(cold)]
#[inline(never)]
pub(super) fn apply() {
    loop {
        let diverted = DIVERTED.load(Ordering::SeqCst);
        apply_to_malloc(diverted);
        apply_to_kmalloc(diverted);
        if DIVERTED.load(Ordering::SeqCst) == diverted {
            return;
        }
    }
}

#[place(cold)]
fn apply_to_malloc(diverted: u32) {
    if !malloc::may_open_fast_path() {
        return;
    }
    let has = |by: By| diverted & by as u32 != 0;
    // Where two things are to be counted, and at the open gate, slow paths do it.
    let counts = match has(By::Profile) {
        true => !has(By::EachObject) && !has(By::Guard) && !has(By::Gate),
        false => has(By::Awaited) || has(By::Guard),
    };
    BY_CALLS.store(u32::from(has(By::Guard)), Ordering::Relaxed);
    malloc::count_below(if counts { MALLOC_MAX_CACHE_SIZE + 1 } else { 0 });
    if diverted == 0 { malloc::open_fast_path() } else { LIMIT.close() }
}

#[place(cold)]
fn apply_to_kmalloc(diverted: u32) {
    let guards = diverted & (By::Guard as u32 | By::Gate as u32) != 0 && kmalloc::is_guarded();
    if guards || diverted & By::Profile as u32 != 0 {
        kmalloc::close_fast_path();
    } else {
        kmalloc::open_fast_path();
    }
}
