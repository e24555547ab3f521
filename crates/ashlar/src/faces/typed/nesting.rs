//! How deep the calls of [`Constructed::construct`](super::Constructed::construct) nest in a
//! thread.
//!
//! A `construct` that takes an object of its own cache makes the allocator carve a slab, which
//! calls `construct` again. Without a bound that ends in an overflow of the stack. Each level takes
//! a few kilobytes of it, so [`MAX_NESTING`] of them fit on any stack, and are more than types
//! build on one another.
//!
//! A thread counts in a place that it finds by its number. Where another thread has that place the
//! level is not counted, which delays the report: the other thread leaves the place when its own
//! `construct` returns.

use crate::base::report;
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering, thread_id};

/// Calls of `construct` inside one another that a thread may have.
const MAX_NESTING: u32 = 16;
const PLACES: usize = 32;

/// Where a thread counts.
#[repr(align(64))]
struct NestingCount {
    /// The number of the thread that has the place; 0 for none.
    thread: AtomicUsize,
    depth: AtomicU32,
}

static COUNTS: [NestingCount; PLACES] =
    [const { NestingCount { thread: AtomicUsize::new(0), depth: AtomicU32::new(0) } }; PLACES];

/// That the thread is in a call of `construct`, which ends when this drops.
pub(super) struct Nested(Option<&'static NestingCount>);

/// Counts a call of `construct` for values of `T`. Ends the program if it is one too many.
#[inline]
pub(super) fn enter<T>() -> Nested {
    let place = take_count();
    if place.is_some_and(|place| place.depth.fetch_add(1, Ordering::Relaxed) >= MAX_NESTING) {
        report::endless_construct(core::any::type_name::<T>());
    }
    Nested(place)
}

fn take_count() -> Option<&'static NestingCount> {
    let me = thread_id();
    // Thread control blocks lie a stack apart: bits of both halves tell them apart.
    let place = &COUNTS[(me >> 12 ^ me >> 23) % PLACES];
    let is_mine = place.thread.load(Ordering::Relaxed) == me;
    let take = || place.thread.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
    (is_mine || take()).then_some(place)
}

impl Drop for Nested {
    #[inline]
    fn drop(&mut self) {
        if let Some(place) = self.0
            && place.depth.fetch_sub(1, Ordering::Relaxed) == 1
        {
            place.thread.store(0, Ordering::Release);
        }
    }
}
