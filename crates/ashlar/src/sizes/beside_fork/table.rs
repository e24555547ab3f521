//! A table of places that threads claim without a lock. Its first part is static. The rest is
//! mapped when that part is full, because a fork may take long.

use core::mem::size_of;

use crate::base::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::pages::zone::ZONE;

pub(super) struct Table<T: 'static, const FIRST: usize, const MORE: usize> {
    first: [T; FIRST],
    /// `MORE` further places; null until they are needed. Never unmapped.
    more: AtomicPtr<T>,
    /// The start of the next search, modulo the number of places.
    next: AtomicUsize,
    /// The first place that was never claimed.
    taken: AtomicUsize,
}

impl<T: Sync, const FIRST: usize, const MORE: usize> Table<T, FIRST, MORE> {
    /// Creates a table with these first places.
    ///
    /// # Safety
    /// Zeros are a valid `T` that stands for a free place.
    pub(super) const unsafe fn new(first: [T; FIRST]) -> Self {
        let more = AtomicPtr::new(core::ptr::null_mut());
        Table { first, more, next: AtomicUsize::new(0), taken: AtomicUsize::new(0) }
    }

    fn more(&self) -> &[T] {
        let start = self.more.load(Ordering::Acquire);
        if start.is_null() {
            return &[];
        }
        // SAFETY: the mapping has `MORE` places and is never unmapped. It started as zeros, which
        // are free places.
        unsafe { core::slice::from_raw_parts(start, MORE) }
    }

    /// Maps the further places. Returns false if they exist already, or without memory.
    fn map_more(&self) -> bool {
        let bytes = MORE * size_of::<T>();
        let Some(source) = ZONE.source() else { return false };
        let Some(start) = source.map_direct(bytes) else { return false };
        let null = core::ptr::null_mut();
        if self.more.compare_exchange(null, start.as_ptr().cast(), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: this call made the mapping and has not published it.
            unsafe { source.unmap_direct(start, bytes) };
        }
        true
    }

    pub(super) fn at(&self, place: usize) -> Option<&T> {
        self.first.get(place).or_else(|| self.more().get(place - FIRST))
    }

    /// Returns the first place for which `claim` returns true, if any. `claim` must take the place
    /// atomically.
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

    /// Lets the next search start at the first place.
    pub(super) fn start_over(&self) {
        self.next.store(0, Ordering::Relaxed);
    }

    /// Returns whether a place was ever claimed.
    pub(super) fn was_used(&self) -> bool {
        self.taken.load(Ordering::Acquire) != 0
    }

    /// Returns all places that were ever claimed.
    pub(super) fn taken(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.more()).take(self.taken.load(Ordering::Acquire))
    }
}
