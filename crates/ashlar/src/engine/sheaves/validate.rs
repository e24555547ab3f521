//! Checks the slabs of a cache that are on partial lists, as the kernel's `validate_slab_cache`.
//!
//! While a thread holds list_lock, no other thread takes a freelist of a slab on that list: frees
//! only put objects in front. So the freelist that a state word names can be followed to its end
//! under the lock. Frees wait meanwhile if they fill the list or empty a slab. Objects on sheaves
//! and evicted objects are not checked, because they belong to CPUs and barns.
#![allow(unsafe_code, reason = "reads links")]

use crate::base::sync::Ordering;
use crate::base::units::PageIndex;
use crate::engine::{RawCache, Validated};
use crate::pages::memmap::{MEMMAP, PageKind};
use crate::slab::freelist::read_link;
use crate::slab::state::{NO_OBJECT, SlabState};

/// Checks all partial slabs of a cache. Changes nothing and reports nothing.
#[inline(never)]
#[place(cold)]
pub(crate) fn validate(cache: &'static RawCache) -> Validated {
    let mut seen = Validated::default();
    for list in cache.slabs.nodes.iter().flat_map(|node| node.lists) {
        let list = list.lock();
        let (mut page, mut left) = (list.first(), list.count);
        while page != PageIndex::NONE && left > 0 {
            let head = MEMMAP.head(page);
            let state = SlabState(head.state.load(Ordering::Acquire));
            seen.slabs += 1;
            let owned =
                MEMMAP.class_of(page).kind() == PageKind::Slab && head.owner() == core::ptr::from_ref(cache).addr();
            let fits = state.inuse() <= state.carved() && state.carved() <= head.objects();
            match if owned && fits { follow(cache, page, state) } else { None } {
                Some(objects) => seen.objects += objects,
                None => {
                    seen.corrupt += 1;
                    seen.first_corrupt.get_or_insert(MEMMAP.address_of(page));
                }
            }
            page = head.next();
            left -= 1;
        }
    }
    seen
}

/// Follows the freelist of a slab. Returns the number of its objects; `None` if a link does not
/// decode, or if the list does not have the length that the state word states.
#[place(cold)]
fn follow(cache: &RawCache, page: PageIndex, state: SlabState) -> Option<u64> {
    let geometry = &cache.slabs.geometry;
    let mut at = state.head();
    for _ in 0..state.linked() {
        if at >= state.carved() {
            return None;
        }
        let link = MEMMAP.address_of(page) + usize::from(at) * geometry.stride + geometry.link_offset;
        // SAFETY: the index is below the number of objects that were carved, so the place is in the
        // slab. The caller holds list_lock, so the object stays on the freelist.
        at = unsafe { read_link(link, cache.slabs.secret, state.carved()) }.ok()?;
    }
    (at == NO_OBJECT).then(|| u64::from(state.linked()))
}
