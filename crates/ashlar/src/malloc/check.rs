//! What a pointer given to `free`, `realloc` or `malloc_usable_size` really is; misuse is reported here.
//!
//! ## The freed mark
//! A free object of a malloc cache carries the address of its cache's slot of CPU 0 in its first word: a value that the
//! fast path has at hand, and no address that a program ever gets (the free link is in the middle of the object, see
//! [`crate::slab::freelist`]). Whoever is about to free an object and finds the mark makes sure: all cached
//! objects of the cache are brought back to their slabs, and the slab is asked. So program data that happens to
//! look like a mark costs time once, and is never reported. What the mark cannot see: a free object that the program
//! wrote over; its second free is seen, at the latest, when both meet at the slab, or not at all.
//!
//! A word that is no mark is believed: the search is for suspects only.
#![allow(unsafe_code, reason = "reads the first word of objects")]

use crate::cache::registry;
use crate::engine::{self, RawCache};
use crate::page::direct;
use crate::page::memmap::{MEMMAP, PageKind};
use crate::percpu;
use crate::report;
use crate::sync::Ordering;
use crate::units::{PAGE_SIZE, PageIndex};

/// What an address turns out to be the start of.
pub(super) enum Found {
    /// A live object of a cache.
    Object(&'static RawCache),
    /// A run of so many pages.
    Large(PageIndex, usize),
    /// A mapping of so many bytes.
    Direct(usize),
}

/// The mark of free objects of a cache.
fn mark(cache: &RawCache) -> u64 {
    percpu::slot0(cache.slot) as u64
}

/// Marks the object at `address` as free.
///
/// # Safety
/// An object of this cache, one of malloc's, starts there; it is the caller's to free.
pub(super) unsafe fn set_mark(cache: &RawCache, address: usize) {
    // SAFETY: by the caller's promise these are 8 aligned bytes that nobody else uses.
    unsafe { (address as *mut u64).write(mark(cache)) };
}

/// Finds the live allocation that starts at `address`, for `function`. Reports what is none.
pub(super) fn find(function: &str, address: usize) -> Option<Found> {
    let Some(page) = MEMMAP.page_of(address) else {
        if let Some(bytes) = direct::size_of_mapping(address) {
            return Some(Found::Direct(bytes));
        }
        report::foreign(function, address);
        return None;
    };
    match MEMMAP.class_of(page).kind() {
        PageKind::Slab => {
            let cache = registry::cache_of_address(address)?;
            let Ok((first, index)) = cache.locate(address) else {
                report::invalid_pointer(function, address, Some(cache.name()));
                return None;
            };
            // SAFETY: an object of the slab starts at this address, so eight bytes there can be read, whoever owns them.
            let word = unsafe { (address as *const u64).read_volatile() };
            if super::is_ours(cache) && word == mark(cache) && engine::is_free(cache, first, index) {
                report::freed_twice(function, address, cache.name());
                return None;
            }
            return Some(Found::Object(cache));
        }
        PageKind::LargeHead if address.is_multiple_of(PAGE_SIZE) => {
            let pages = MEMMAP.head(page).state.load(Ordering::Relaxed) as usize;
            return Some(Found::Large(page, pages));
        }
        _ => {}
    }
    match large_around(page) {
        Some(start) => report::inside_large(function, address, start),
        None => report::not_allocated(function, address),
    }
    None
}

/// Start of the large object that `page` lies in.
fn large_around(page: PageIndex) -> Option<usize> {
    let furthest = crate::page::zone::DIRECT_BYTES / PAGE_SIZE;
    for back in 0..=furthest.min(page.0 as usize) {
        let head = PageIndex(page.0 - back as u32);
        match MEMMAP.class_of(head).kind() {
            PageKind::Free => {}
            PageKind::Slab => return None,
            PageKind::LargeHead => {
                let pages = MEMMAP.head(head).state.load(Ordering::Relaxed) as usize;
                return (back < pages).then(|| MEMMAP.address_of(head));
            }
        }
    }
    None
}
