//! A gate that many threads pass, until one closes it and waits until all others are out.
//!
//! A fork closes the gate around the slow paths of malloc: see [`crate::fork`]. Locks alone would
//! not do. A thread that waits for a lock in the middle of an operation cannot give the operation
//! up, and it may hold a lock of the C library that the fork needs. A thread that finds the gate
//! closed has not begun yet, and can do something else.
//!
//! A thread inside has its number in one of [`PLACES`] places. It writes the number, then looks
//! whether the gate is closed; the thread that closes says so, then looks at the places. Both use
//! sequentially consistent operations, so at least one of them sees the other.

use super::{AtomicUsize, Ordering};

/// Places for threads that are inside; more wait. Each is a cache line, and a thread prefers the
/// same one each time.
const PLACES: usize = if cfg!(ashlar_loom) { 2 } else { 32 };

/// Where a thread that is inside has its number; 0 for none.
#[repr(align(64))]
struct InsideMark(AtomicUsize);

/// See the module.
pub(crate) struct Gate {
    /// The number of the thread that closed the gate; 0 while it is open.
    closed_by: AtomicUsize,
    places: [InsideMark; PLACES],
}

impl Gate {
    #[cfg(not(ashlar_loom))]
    pub(crate) const fn new() -> Gate {
        Gate { closed_by: AtomicUsize::new(0), places: [const { InsideMark(AtomicUsize::new(0)) }; PLACES] }
    }
    #[cfg(ashlar_loom)]
    pub(crate) fn new() -> Gate {
        Gate { closed_by: AtomicUsize::new(0), places: core::array::from_fn(|_| InsideMark(AtomicUsize::new(0))) }
    }

    /// Goes in, as thread `me`; `None` while another thread has the gate closed. Waits only for a
    /// place, which threads inside give up soon. The thread that closed the gate may pass, and one
    /// that is inside may come again.
    #[inline(never)]
    pub(crate) fn enter(&self, me: usize) -> Option<Inside<'_>> {
        let place = self.take_place(me);
        let inside = Inside(place);
        sequential();
        let closed_by = self.closed_by.load(Ordering::SeqCst);
        (closed_by == 0 || closed_by == me).then_some(inside)
    }

    #[inline]
    fn take_place(&self, me: usize) -> &AtomicUsize {
        // Thread control blocks lie a stack apart: bits of both halves tell them apart.
        let preferred = (me >> 12 ^ me >> 23) % PLACES;
        let mut tries = 0;
        loop {
            let place = &self.places[(preferred + tries) % PLACES].0;
            if place.load(Ordering::Relaxed) == 0
                && place.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            {
                return place;
            }
            tries += 1;
            if tries > PLACES {
                relax(tries - PLACES);
            }
        }
    }

    /// Closes the gate as thread `me`, and returns when no other thread is inside. The gate is
    /// open, or closed by `me`.
    pub(crate) fn close(&self, me: usize) {
        self.closed_by.store(me, Ordering::SeqCst);
        sequential();
        for InsideMark(place) in &self.places {
            let mut waited = 0;
            while ![0, me].contains(&place.load(Ordering::SeqCst)) {
                waited += 1;
                relax(waited);
            }
        }
    }

    /// Opens the gate.
    pub(crate) fn open(&self) {
        self.closed_by.store(0, Ordering::Release);
    }

    /// Forgets threads that looked at the closed gate at the moment of a fork: in the child there
    /// is only `me`.
    #[cfg(not(ashlar_loom))]
    pub(crate) fn after_fork_in_child(&self, me: usize) {
        for InsideMark(place) in &self.places {
            if place.load(Ordering::Relaxed) != me {
                place.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Stands between a write and a look. Both are sequentially consistent already; loom takes that for
/// acquire and release, and needs a fence to see it.
#[inline(always)]
fn sequential() {
    #[cfg(ashlar_loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(not(ashlar_loom))]
fn relax(waited: usize) {
    super::relax(u32::try_from(waited).unwrap_or(u32::MAX));
}
#[cfg(ashlar_loom)]
fn relax(_waited: usize) {
    loom::thread::yield_now();
}

/// That a thread is inside; dropping it goes out.
pub(crate) struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}
