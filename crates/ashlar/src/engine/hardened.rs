//! What the options `init_on_alloc` and `init_on_free` do to the objects of caches.
//!
//! [`Hardened`] stands before the engine of every cache in a process with such an option
//! ([`Route`](super::route::Route)). The fast paths of its caches find no sheaf, so each allocation
//! and each free comes here.
//!
//! Objects are left alone where the kernel does so: those of a cache with a constructor, which keep
//! what it wrote, and those of a debugged cache with the flag `P`, whose bytes are poison. An
//! address that is no object of the cache is left alone, too; the engine reports it.
//!
//! Source: the kernel's `slab_want_init_on_alloc` and `slab_want_init_on_free`.
#![allow(unsafe_code, reason = "clears objects")]

use super::debug::{self, Debug};
use super::history::slab_queues::SlabQueues;
use super::history::slob::{self, ObjectState, Slob};
use super::history::slob_pools::{self, SlobPools};
use super::history::slub::Slub;
use super::route::{Route, inits_on_alloc, inits_on_free};
use super::sheaves::Sheaves;
use super::{DebugFlags, Engine, Object, Objects, RawCache, Strategy};
use crate::base::units::{NodeId, PAGE_SIZE, PageIndex};
use crate::pages::memmap::{MEMMAP, PageKind};
use ashlar_macros::place;

/// The options of the process, and then the engine of the cache.
#[derive(Clone, Copy)]
pub(crate) struct Hardened;

/// Whether the options say what the bytes of the cache's objects are.
#[place(cold)]
fn may_clear(cache: &RawCache) -> bool {
    cache.slabs.ctor.is_none() && !debug::flags_of(cache).has(DebugFlags::POISON)
}

/// Returns the bytes of an object that was allocated for `size` bytes.
#[place(cold)]
fn bytes_for(cache: &RawCache, size: usize) -> usize {
    match cache.engine {
        Engine::Slob if cache.policy.by_address => slob::roundup(size),
        Engine::Debug => size,
        _ => cache.object_size(),
    }
}

/// Returns the bytes of the object in use at `address`; `None` if there is none, as far as the
/// engine can say without a lock.
#[place(cold)]
fn bytes_at(cache: &'static RawCache, address: usize) -> Option<usize> {
    let is_object = || cache.slabs.locate(address).is_ok();
    match cache.engine {
        Engine::Slob if MEMMAP.page_of(address).map(|page| MEMMAP.class_of(page).kind()) == Some(PageKind::Slob) => {
            if cache.policy.by_address {
                return match slob::object_state(address) {
                    ObjectState::Live(size) => Some(slob::roundup(size)),
                    ObjectState::Free(_) | ObjectState::None => None,
                };
            }
            let bytes = cache.object_size();
            ((address & (PAGE_SIZE - 1)) + bytes <= PAGE_SIZE).then_some(bytes)
        }
        Engine::SlobSeg | Engine::SlobCache => slob_pools::is_object(cache, address).then(|| cache.object_size()),
        Engine::Debug if !is_object() || debug::is_free(cache, address) => None,
        Engine::Debug => Some(debug::size_of(cache, address)),
        _ => is_object().then(|| cache.object_size()),
    }
}

/// Clears an object that was just allocated.
#[place(cold)]
fn clear_allocated(cache: &RawCache, object: *mut u8, bytes: usize) -> *mut u8 {
    if !object.is_null() && inits_on_alloc() && may_clear(cache) {
        // SAFETY: the engine has just handed the object out, and it has that many bytes.
        unsafe { object.write_bytes(0, bytes) };
    }
    object
}

/// Clears an object that is freed.
#[place(cold)]
fn clear_freed(cache: &'static RawCache, address: usize) {
    if inits_on_free()
        && may_clear(cache)
        && let Some(bytes) = bytes_at(cache, address)
    {
        // SAFETY: an object of the cache with that many bytes starts there, and the program gives
        // it up. If it did so before, the bytes belong to a free object, in which no engine follows
        // a link that it has not checked.
        unsafe { (address as *mut u8).write_bytes(0, bytes) };
    }
}

/// As [`super::alloc_sized`].
#[place(cold)]
#[inline(never)]
pub(crate) fn alloc_sized(cache: &'static RawCache, size: usize) -> *mut u8 {
    let object = match cache.engine {
        Engine::Slob => slob::alloc_sized(cache, size),
        Engine::Debug => debug::alloc_sized(cache, size),
        _ => of_cache!(cache, alloc(cache)),
    };
    clear_allocated(cache, object, bytes_for(cache, size))
}

/// As [`super::note_size`], for a debugged cache: bytes that the object gains are zero.
#[place(cold)]
#[inline(never)]
pub(crate) fn note_size(cache: &'static RawCache, address: usize, size: usize) {
    let old = debug::size_of(cache, address);
    debug::note_size(cache, address, size);
    if size > old && cache.route == Route::Hardened {
        clear_allocated(cache, (address + old) as *mut u8, size - old);
    }
}

impl Strategy for Hardened {
    #[place(cold)]
    #[inline(never)]
    fn alloc(cache: &'static RawCache) -> *mut u8 {
        let object = of_cache!(cache, alloc(cache));
        clear_allocated(cache, object, cache.object_size())
    }

    #[place(cold)]
    #[inline(never)]
    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        let object = of_cache!(cache, alloc_on(cache, node));
        clear_allocated(cache, object, cache.object_size())
    }

    #[place(cold)]
    #[inline(never)]
    fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
        let done = of_cache!(cache, alloc_bulk(cache, out));
        if done {
            out.iter().for_each(|&object| _ = clear_allocated(cache, object as *mut u8, cache.object_size()));
        }
        done
    }

    #[place(cold)]
    #[inline(never)]
    fn free(object: Object) {
        clear_freed(object.cache, object.address);
        of_cache!(object.cache, free(object));
    }

    #[place(cold)]
    #[inline(never)]
    fn free_in(object: Object, slab: PageIndex) {
        clear_freed(object.cache, object.address);
        of_cache!(object.cache, free_in(object, slab));
    }

    #[place(cold)]
    #[inline(never)]
    fn free_bulk(objects: Objects<'_>) {
        objects.addresses.iter().for_each(|&address| clear_freed(objects.cache, address));
        of_cache!(objects.cache, free_bulk(objects));
    }
}
