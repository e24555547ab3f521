//! A gate that many threads may pass at once, until one closes it and waits for the others to
//! leave.
//!
//! A fork closes the gate around slow paths; see [`crate::fork`]. Locks alone are not enough. A
//! thread that waits for a lock in the middle of an operation cannot abandon the operation, and may
//! hold a lock of the C library that the fork needs. A thread that finds the gate closed has not
//! started its operation, so it can take another path.
//!
//! Invariant: after [`Gate::close`], no other thread is inside until [`Gate::open`]. A thread that
//! enters stores its number in one of [`PLACES`] places, then loads `closed_by`. The closing thread
//! stores `closed_by`, then loads all places. Both use sequentially consistent operations, so at
//! least one of them sees the other.

use super::{AtomicUsize, Ordering};

/// The number of threads that can be inside at once; further threads wait. Each place is a cache
/// line, and a thread tries the same one first each time.
const PLACES: usize = if cfg!(ashlar_loom) { 2 } else { 32 };

/// The number of a thread inside; 0 for none.
#[repr(align(64))]
struct InsideMark(AtomicUsize);

/// A gate; see the module.
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

    /// Enters as thread `me`. Returns `None` while another thread keeps the gate closed. Blocks
    /// only for a free place, which threads inside release soon. The thread that closed the gate
    /// may pass, and a thread inside may enter again.
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
        // Thread control blocks lie one stack apart, so mix bits of both halves.
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

    /// Closes the gate as thread `me`. Returns once no other thread is inside. The gate must be
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

    /// Clears the places of threads that were checking the closed gate when the process forked. In
    /// the child only `me` exists.
    pub(crate) fn after_fork_in_child(&self, me: usize) {
        for InsideMark(place) in &self.places {
            if place.load(Ordering::Relaxed) != me {
                place.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Orders a store before a later load. Both are sequentially consistent already, but loom treats
/// them as acquire and release, so it needs a fence.
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

/// Proof that a thread is inside. Dropping it leaves the gate.
pub(crate) struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}
