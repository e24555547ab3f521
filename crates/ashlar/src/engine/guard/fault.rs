//! What a fault in the pool means.

use super::pool::{open, page_at};
use super::report;
use super::slot::{OBJECTS, SLOTS, State};
use crate::base::os::fault::Access;

use ashlar_macros::place;

/// Reports a fault at an address of the pool. If the program is to go on, its access is repeated,
/// and the page allows it until an object beside it is freed. Returns false for other addresses.
#[place(cold)]
#[expect(unsafe_code, reason = "opens a page")]
pub(super) fn on_fault(address: usize, access: Access) -> bool {
    let Some(page) = page_at(address) else { return false };
    find_and_report(page, address, access);
    report::end();
    // SAFETY: a page of the pool.
    unsafe { open(address) };
    true
}

/// Finds the object that an access was meant for, and reports it.
#[place(cold)]
fn find_and_report(page: usize, address: usize, access: Access) {
    if page % 2 == 1 {
        let number = page / 2;
        return if SLOTS[number].is(State::Unused) {
            report::invalid_access(address, access)
        } else {
            report::use_after_free(number, address, access)
        };
    }
    // The objects on both sides, and their distances.
    let is_live = |&number: &usize| SLOTS.get(number).is_some_and(|slot| slot.is(State::Live));
    let left = (page / 2).checked_sub(1).filter(is_live);
    let left = left.map(|number| (number, address + 1 - (SLOTS[number].start() + SLOTS[number].bytes())));
    let right = Some(page / 2).filter(|&number| number < OBJECTS).filter(is_live);
    let right = right.map(|number| (number, SLOTS[number].start() - address));
    match (left, right) {
        (Some((_, far)), Some((number, distance))) if far > distance => {
            report::out_of_bounds(number, address, access, distance, "left")
        }
        (Some((number, distance)), _) => report::out_of_bounds(number, address, access, distance, "right"),
        (None, Some((number, distance))) => report::out_of_bounds(number, address, access, distance, "left"),
        (None, None) => report::invalid_access(address, access),
    }
}
