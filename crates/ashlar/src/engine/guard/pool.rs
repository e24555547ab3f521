//! The pages of the pool: where they lie, and what lies beside an object.
#![allow(unsafe_code, reason = "reads the bytes beside an object")]

use super::slot::{OBJECTS, SLOTS};
use crate::base::os;
use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::base::units::PAGE_SIZE;
use ashlar_macros::place;

/// Most bytes beside an object that a report shows.
const SHOWN: usize = 16;

/// The first address of the pool; 0 without a pool.
pub(super) static POOL: AtomicUsize = AtomicUsize::new(0);
/// The bytes of a page of the pool: those of the system, if they are more than the zone's.
pub(super) static PAGE: AtomicUsize = AtomicUsize::new(PAGE_SIZE);

/// The pages between objects that a fault opened, as bits: each stands before the object of its
/// number, and the last one behind the last object.
static OPENED: [AtomicU64; OBJECTS / 64 + 1] = [const { AtomicU64::new(0) }; OBJECTS / 64 + 1];

/// Opens the page that `address` lies on, so that an access that was reported can be repeated.
///
/// # Safety
/// The page is one of the pool.
#[place(cold)]
pub(super) unsafe fn open(address: usize) {
    let page = page_at(address).unwrap_or(1);
    if page.is_multiple_of(2) {
        OPENED[page / 2 / 64].fetch_or(1 << (page / 2 % 64), Ordering::Relaxed);
    }
    // SAFETY: a page of the pool, which holds an object of the program at most.
    unsafe { os::set_access(address & !(page_bytes() - 1), page_bytes(), true) };
}

/// Closes the pages on both sides of an object where a fault has opened them.
#[place(cold)]
pub(super) fn close_beside(number: usize) {
    for side in [number, number + 1] {
        let bit = 1 << (side % 64);
        if OPENED[side / 64].load(Ordering::Relaxed) & bit != 0 {
            OPENED[side / 64].fetch_and(!bit, Ordering::Relaxed);
            // SAFETY: a page of the pool on which no object lies.
            unsafe { os::set_access(page_of(side) - page_bytes(), page_bytes(), false) };
        }
    }
}

#[place(cold)]
pub(super) fn page_bytes() -> usize {
    PAGE.load(Ordering::Relaxed)
}

/// Returns the first address of the page of an object.
#[place(cold)]
pub(super) fn page_of(number: usize) -> usize {
    POOL.load(Ordering::Acquire) + (2 * number + 1) * page_bytes()
}

/// Returns the number of the page of the pool that an address lies on, counted with those without
/// access; `None` if it lies elsewhere.
#[place(cold)]
pub(super) fn page_at(address: usize) -> Option<usize> {
    let pool = POOL.load(Ordering::Acquire);
    let page = address.wrapping_sub(pool) / page_bytes();
    (pool != 0 && page <= 2 * OBJECTS).then_some(page)
}

/// Returns the number of the object on whose page an address lies.
#[place(cold)]
pub(super) fn number_at(address: usize) -> Option<usize> {
    page_at(address).filter(|page| page % 2 == 1).map(|page| page / 2)
}

/// Returns the byte that lies beside an object at `address` (the kernel's
/// `KFENCE_CANARY_PATTERN_U8`).
#[place(cold)]
pub(super) fn canary(address: usize) -> u8 {
    0xaa ^ (address & 7) as u8
}

/// The same for eight addresses from a multiple of eight on.
pub(super) const CANARIES: u64 = u64::from_ne_bytes([0xaa, 0xab, 0xa8, 0xa9, 0xae, 0xaf, 0xac, 0xad]);

/// The first bytes beside an object that do not hold the pattern.
pub(super) struct Changed {
    pub(super) at: usize,
    pub(super) bytes: [u8; SHOWN],
    /// How many of them lie beside the object.
    pub(super) count: usize,
}

/// Returns the bytes beside an object from the first one that does not hold the pattern. The page
/// is readable: its object is in use and the caller holds the guard lock, or the caller frees it.
#[place(cold)]
pub(super) fn changed(number: usize) -> Option<Changed> {
    let (slot, page) = (&SLOTS[number], page_of(number));
    let (start, end, page_end) = (slot.start(), slot.start() + slot.bytes(), page + page_bytes());
    // SAFETY: the page is readable.
    let byte = |at: usize| unsafe { (at as *const u8).read_volatile() };
    // SAFETY: as above; the address is a multiple of eight.
    let word = |at: usize| unsafe { (at as *const u64).read_volatile() };
    let first = |mut at: usize, end: usize| {
        while at < end {
            if at.is_multiple_of(8) && at + 8 <= end && word(at) == CANARIES {
                at += 8;
            } else if byte(at) == canary(at) {
                at += 1;
            } else {
                return Some(at);
            }
        }
        None
    };
    let at = first(page, start).or_else(|| first(end, page_end))?;
    let count = SHOWN.min(if at < start { start - at } else { page_end - at });
    let bytes = core::array::from_fn(|offset| if offset < count { byte(at + offset) } else { 0 });
    Some(Changed { at, bytes, count })
}
