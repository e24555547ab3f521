//! Whether one object is free: what malloc asks before it reports a double free.
#![allow(unsafe_code, reason = "walks a freelist")]

use crate::engine::RawCache;
use crate::page::memmap::{MEMMAP, PageKind};
use crate::slab::freelist::read_link;
use crate::slab::state::{NO_OBJECT, SlabState};
use crate::sync::Ordering;
use crate::units::PageIndex;

/// See [`crate::engine::is_free`].
///
/// After the flush a free object is on its slab's freelist, or its slab has forgotten it, or the slab is gone. What
/// other threads take meanwhile was free before as well, unless they free the same object, which is the bug looked for.
pub(crate) fn is_free(cache: &'static RawCache, page: PageIndex, index: u16) -> bool {
    super::flush_all(cache);
    let class = MEMMAP.class_of(page);
    let head = MEMMAP.head(page);
    if class.kind() != PageKind::Slab || class.back() != 0 || head.owner() != core::ptr::from_ref(cache) as usize {
        return true;
    }
    let node = &cache.nodes[usize::from(head.node()) % cache.nodes.len()];
    // Under the list_lock nothing is taken off the freelist, and the slab stays: a walk from any head is whole.
    let _list = node.list.lock();
    let state = SlabState(head.state.load(Ordering::Acquire));
    if index >= state.carved() {
        return true;
    }
    let base = MEMMAP.address_of(page);
    let mut at = state.head();
    for _ in 0..state.linked() {
        if at == index {
            return true;
        }
        if at >= head.objects() {
            return false;
        }
        let link = base + usize::from(at) * cache.geometry.stride + cache.geometry.link_offset;
        // SAFETY: `at` is on the freelist of a slab of this cache, so its link is 8 readable, aligned bytes.
        match unsafe { read_link(link, cache.secret, head.objects()) } {
            Ok(next) if next != NO_OBJECT => at = next,
            _ => return false,
        }
    }
    false
}
