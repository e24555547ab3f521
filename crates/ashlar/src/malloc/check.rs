//! What a pointer given to `free`, `realloc` or `malloc_usable_size` really is; misuse is reported here.
//!
//! Objects of malloc's caches are looked up in the object map, which knows every live one exactly (see
//! [`crate::pages::objmap`]). What it has no entry for is told apart here: a free object, the inside of an object, a large
//! object, a mapping, memory of a cache that is none of malloc's, or nothing of ours.

use super::beside_fork;
use super::classes::{Code, size_of_class, size_of_entry};
use crate::base::report;
use crate::base::sync::Ordering;
use crate::base::units::{PAGE_SIZE, PageIndex};
use crate::cache::registry;
use crate::engine::RawCache;
use crate::engine::history::slob::{self, ObjectState};
use crate::pages::direct;
use crate::pages::memmap::{MEMMAP, PageKind};
use crate::pages::objmap::OBJECTS;

/// What an address turns out to be the start of.
pub(super) enum Found {
    /// A live object of malloc.
    Object(Code),
    /// An object of a cache that is none of malloc's; whether it is live is not known.
    Other(&'static RawCache),
    /// An object of kmalloc, of so many bytes, whatever the cache says.
    Sized(&'static RawCache, usize),
    /// A run of so many pages.
    Large(PageIndex, usize),
    /// A mapping of so many bytes.
    Direct(usize),
    /// A block of so many bytes that was allocated beside a fork.
    Island(usize),
}

impl Found {
    /// Bytes that may be used.
    #[inline(never)]
    pub(super) fn bytes(&self) -> usize {
        match *self {
            Found::Object(code) => size_of_class(code.class()),
            Found::Other(cache) => cache.object_size(),
            Found::Sized(cache, size) => cache.engine.round_up(size, cache.object_size()),
            Found::Large(_, pages) => pages * PAGE_SIZE,
            Found::Direct(bytes) | Found::Island(bytes) => bytes,
        }
    }
}

/// Bytes of the live object of malloc's caches that starts at `address`; 0 if there is none: then [`find`] says what is there.
#[inline]
pub(super) fn object_bytes(address: usize) -> usize {
    size_of_entry(OBJECTS.code_at(address))
}

/// Returns the bytes of the live allocation that starts at `address`, without taking a lock: for
/// threads beside a fork. `None` where no allocation starts, and for objects of other engines,
/// whose size takes a lock to find.
#[cold]
#[place(background)]
pub(super) fn bytes_without_locks(address: usize) -> Option<usize> {
    if let Some(code) = Code::from_map(OBJECTS.code_at(address)) {
        return Some(size_of_class(code.class()));
    }
    match MEMMAP.page_of(address) {
        None => beside_fork::size_of(address).or_else(|| direct::size_without_lock(address)),
        Some(page) => match MEMMAP.class_of(page).kind() {
            PageKind::LargeHead => Some(MEMMAP.head(page).state.load(Ordering::Relaxed) as usize * PAGE_SIZE),
            PageKind::Slab => registry::cache_of_address(address).map(RawCache::object_size),
            _ => None,
        },
    }
}

/// Finds the live allocation that starts at `address`, for `function`. Reports what is none.
#[cold]
#[inline(never)]
pub(super) fn find(function: &str, address: usize) -> Option<Found> {
    match Code::from_map(OBJECTS.code_at(address)) {
        Some(code) => Some(Found::Object(code)),
        None => find_other(function, address),
    }
}

fn find_other(function: &str, address: usize) -> Option<Found> {
    match MEMMAP.page_of(address) {
        None => {
            if let Some(bytes) = direct::size_of_mapping(address) {
                return Some(Found::Direct(bytes));
            }
            if let Some(bytes) = beside_fork::size_of(address) {
                return Some(Found::Island(bytes));
            }
            direct::report_stray(function, address);
            None
        }
        Some(page) if MEMMAP.class_of(page).kind() == PageKind::LargeHead && address.is_multiple_of(PAGE_SIZE) => {
            let pages = MEMMAP.head(page).state.load(Ordering::Relaxed) as usize;
            Some(Found::Large(page, pages))
        }
        Some(page) => find_in_slab(function, address, page),
    }
}

/// [`find`] in a page where nothing of malloc's caches is live, nor a large object starts: objects of other caches, and misuse.
#[cold]
#[inline(never)]
#[place(cold)]
fn find_in_slab(function: &str, address: usize, page: PageIndex) -> Option<Found> {
    match MEMMAP.class_of(page).kind() {
        PageKind::Slab => {
            let cache = registry::cache_of_address(address)?;
            match cache.slabs.locate(address) {
                Ok(_) if !cache.policy.tracked || cfg!(ashlar_unchecked) => return Some(Found::Other(cache)),
                Ok(_) => report::freed_twice(function, address, cache.name()),
                Err(_) => report::invalid_pointer(function, address, Some(cache.name())),
            }
            return None;
        }
        PageKind::Slob => {
            match slob::object_state(address) {
                ObjectState::Live(size) => {
                    return crate::kmalloc::class_cache(size).map(|cache| Found::Sized(cache, size));
                }
                _ => report::not_allocated(function, address),
            }
            return None;
        }
        PageKind::Free | PageKind::LargeHead => {}
    }
    match large_around(page) {
        Some(start) => report::inside_large(function, address, start),
        None => report::not_allocated(function, address),
    }
    None
}

/// Start of the large object that `page` lies in.
#[place(cold)]
fn large_around(page: PageIndex) -> Option<usize> {
    let furthest = crate::pages::zone::DIRECT_BYTES / PAGE_SIZE;
    for back in 0..=furthest.min(page.0 as usize) {
        let head = PageIndex(page.0 - back as u32);
        match MEMMAP.class_of(head).kind() {
            PageKind::Free => {}
            PageKind::Slab | PageKind::Slob => return None,
            PageKind::LargeHead => {
                let pages = MEMMAP.head(head).state.load(Ordering::Relaxed) as usize;
                return (back < pages).then(|| MEMMAP.address_of(head));
            }
        }
    }
    None
}
