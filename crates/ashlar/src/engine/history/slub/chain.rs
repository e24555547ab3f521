//! Freelists that a thread owns: followed, counted and checked.
#![allow(unsafe_code, reason = "reads links")]

use super::local;
use crate::base::report;
use crate::base::units::PageIndex;
use crate::engine::RawCache;
use crate::pages::memmap::MEMMAP;
use crate::slab::freelist::read_link;
use crate::slab::partial::Chain;
use crate::slab::state::NO_OBJECT;

/// Follows a freelist from `head` on and calls `each` for every index. Returns the index of the
/// last object. Returns `None` if the list is longer than the slab, or if a link does not decode.
#[place(cold)]
pub(super) fn walk(cache: &RawCache, base: usize, head: u16, limit: u16, mut each: impl FnMut(u16)) -> Option<u16> {
    let (mut at, mut last) = (head, NO_OBJECT);
    for _ in 0..=limit {
        if at == NO_OBJECT {
            return Some(last);
        }
        if at >= limit {
            return None;
        }
        each(at);
        last = at;
        // SAFETY: `at` is below the slab's number of objects, so its link is readable; its value is
        // checked.
        at = unsafe { read_link(local::link_at(cache, base, at), cache.slabs.secret, limit) }.ok()?;
    }
    None
}

/// Counts and checks a freelist that the caller owns. Returns its chain and its last object;
/// `None`, after a report, if it is corrupt.
#[place(cold)]
pub(super) fn chain_of(cache: &'static RawCache, page: PageIndex, head: u16) -> Option<(Chain, u16)> {
    let base = MEMMAP.address_of(page);
    let limit = MEMMAP.head(page).objects();
    let mut seen = [0u64; 8];
    let (mut count, mut twice) = (0, None);
    let last = walk(cache, base, head, limit, |index| {
        count += 1;
        if let Some(word) = seen.get_mut(usize::from(index) / 64) {
            let bit = 1u64 << (index % 64);
            if *word & bit != 0 {
                twice.get_or_insert(index);
            }
            *word |= bit;
        }
    });
    if let Some(index) = twice {
        report::double_free(cache.name(), base + usize::from(index) * cache.slabs.geometry.stride);
        return None;
    }
    match last {
        Some(last) => Some((Chain { head, count }, last)),
        None => {
            report_walk(cache, base, head, limit);
            None
        }
    }
}

/// Reports why a freelist does not end.
#[cold]
#[place(cold)]
fn report_walk(cache: &'static RawCache, base: usize, head: u16, limit: u16) {
    let mut at = head;
    for _ in 0..=limit {
        if at >= limit {
            break;
        }
        // SAFETY: as in `walk`.
        match unsafe { read_link(local::link_at(cache, base, at), cache.slabs.secret, limit) } {
            Ok(next) => at = next,
            Err(bad) => return report::corrupt_link(cache.name(), bad.at),
        }
    }
    report::corrupt_freelist(cache.name(), base);
}
