//! The addresses that were freed beside a fork.

use super::table::Table;
use crate::base::sync::{AtomicUsize, Ordering};

// SAFETY: an address of 0 marks a free place.
static PLACES: Table<AtomicUsize, 512, { 1 << 16 }> = unsafe { Table::new([const { AtomicUsize::new(0) }; 512]) };

/// Stores an address for the forking thread. The block is lost if all places are taken.
pub(super) fn put(address: usize) {
    PLACES.claim(|place| place.compare_exchange(0, address, Ordering::Release, Ordering::Relaxed).is_ok());
}

/// Takes out all addresses.
#[inline(always)]
pub(super) fn take_all(mut take: impl FnMut(usize)) {
    PLACES.start_over();
    for place in PLACES.taken() {
        if place.load(Ordering::Relaxed) != 0 {
            let address = place.swap(0, Ordering::Acquire);
            if address != 0 {
                take(address);
            }
        }
    }
}
