//! A table of places that threads claim without a lock. A part of it is always there, the rest is
//! mapped when that is full: a fork may have to wait for long.

use core::mem::size_of;

use crate::base::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::pages::zone::ZONE;

pub(super) struct Table<T: 'static, const FIRST: usize, const MORE: usize> {
    first: [T; FIRST],
    /// `MORE` places; null until they are needed. Never unmapped.
    more: AtomicPtr<T>,
    /// Where the next search begins, modulo the places that there are.
    next: AtomicUsize,
    /// Places from this on were never claimed.
    taken: AtomicUsize,
}

impl<T: Sync, const FIRST: usize, const MORE: usize> Table<T, FIRST, MORE> {
    /// A table whose first places are these.
    ///
    /// # Safety
    /// Zeros are a valid `T`, and one that is free.
    pub(super) const unsafe fn new(first: [T; FIRST]) -> Self {
        let more = AtomicPtr::new(core::ptr::null_mut());
        Table { first, more, next: AtomicUsize::new(0), taken: AtomicUsize::new(0) }
    }

    fn more(&self) -> &[T] {
        let start = self.more.load(Ordering::Acquire);
        if start.is_null() {
            return &[];
        }
        // SAFETY: a mapping of `MORE` places that stays. It began as zeros, which are free places.
        unsafe { core::slice::from_raw_parts(start, MORE) }
    }

    /// Maps more places; false if they are there already, or without memory.
    fn map_more(&self) -> bool {
        let bytes = MORE * size_of::<T>();
        let Some(source) = ZONE.source() else { return false };
        let Some(start) = source.map_direct(bytes) else { return false };
        let null = core::ptr::null_mut();
        if self.more.compare_exchange(null, start.as_ptr().cast(), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: the mapping just made, which no other thread has seen.
            unsafe { source.unmap_direct(start, bytes) };
        }
        true
    }

    pub(super) fn at(&self, place: usize) -> Option<&T> {
        self.first.get(place).or_else(|| self.more().get(place - FIRST))
    }

    /// Finds a place for which `claim` is true; `None` if there is none. `claim` has to take the
    /// place from all other threads.
    #[inline(never)]
    #[place(background)]
    pub(super) fn claim(&self, claim: impl Fn(&T) -> bool) -> Option<usize> {
        loop {
            let places = FIRST + self.more().len();
            for _ in 0..places {
                let place = self.next.fetch_add(1, Ordering::Relaxed) % places;
                if self.at(place).is_some_and(&claim) {
                    self.taken.fetch_max(place + 1, Ordering::AcqRel);
                    return Some(place);
                }
            }
            if places > FIRST || !self.map_more() {
                return None;
            }
        }
    }

    /// Begins the next search at the first place.
    pub(super) fn start_over(&self) {
        self.next.store(0, Ordering::Relaxed);
    }

    /// Whether a place was ever claimed.
    pub(super) fn was_used(&self) -> bool {
        self.taken.load(Ordering::Acquire) != 0
    }

    /// All places that were ever claimed.
    pub(super) fn taken(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.more()).take(self.taken.load(Ordering::Acquire))
    }
}
