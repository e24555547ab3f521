//! What the options `init_on_alloc`, `init_on_free`, `quarantine` and `random` do to the objects of
//! caches, and `cache.NAME.guard` to those of one.
//!
//! [`Hardened`] stands before the engine of every cache in a process with such an option, and of
//! caches of the program that are guarded ([`Route`](super::route::Route)). The fast paths of its
//! caches find no sheaf, so each allocation and each free comes here.
//!
//! Objects are left alone where the kernel does so: those of a cache with a constructor, which keep
//! what it wrote, and those of a debugged cache with the flag `P`, whose bytes are poison. An
//! address where the cache has no object is not written to; the engine reports it.
//!
//! Objects that are held back ([`delay`]) are in use for the engine. Debugged caches and caches
//! without a slot of their own hold none back.
//!
//! Source: the kernel's `slab_want_init_on_alloc` and `slab_want_init_on_free`.
#![allow(unsafe_code, reason = "clears objects")]

mod delay;

use super::debug::{self, Debug};
use super::history::slab_queues::SlabQueues;
use super::history::slob::{self, ObjectState, Slob};
use super::history::slob_pools::{self, SlobPools};
use super::history::slub::Slub;
use super::route::{Route, inits_on_alloc, inits_on_free, quarantine};
use super::sheaves::Sheaves;
use super::{DebugFlags, Engine, Object, Objects, RawCache, Strategy};
use crate::base::units::{NodeId, PAGE_SIZE, PageIndex};
use crate::base::{background, report};
use crate::pages::memmap::{MEMMAP, PageKind};
use ashlar_macros::place;
pub(crate) use delay::MOST_QUARANTINED;
use delay::Put;

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

/// Fills an object that is freed. Returns whether the program gave up an object, as far as can be
/// known.
#[place(cold)]
fn fill_freed(cache: &'static RawCache, address: usize) -> bool {
    let Some(bytes) = bytes_at(cache, address) else { return false };
    if may_clear(cache) && (inits_on_free() || quarantine() > 0) {
        // SAFETY: an object of the cache with that many bytes starts there, and the program gives
        // it up. If it did so before, the bytes belong to a free object, in which no engine follows
        // a link that it has not checked.
        unsafe {
            if inits_on_free() {
                (address as *mut u8).write_bytes(0, bytes);
            } else {
                delay::poison(address, bytes);
            }
        }
    }
    true
}

/// Whether the options say when the objects of a cache are handed out.
#[place(cold)]
fn may_delay(cache: &RawCache) -> bool {
    // Objects of such caches have different sizes.
    let sized = cache.engine == Engine::Slob && cache.policy.by_address;
    !sized && cache.engine != Engine::Debug
}

/// Returns an object of the engine to it.
#[place(cold)]
fn free_to_engine(object: Object) {
    of_cache!(object.cache, free(object));
}

/// Returns an object to the engine that was quarantined, unless it was written to.
#[place(cold)]
fn release(cache: &'static RawCache, address: usize) {
    if may_clear(cache)
        && let Some(bytes) = bytes_at(cache, address)
        // SAFETY: `fill_freed` filled the object, which only the quarantine held since.
        && let Some(at) = unsafe { delay::overwritten(address, bytes, inits_on_free()) }
    {
        return report::written_after_free(cache.name(), address, at);
    }
    free_to_engine(Object { cache, address });
}

/// Returns all objects that are held back to the engine of their cache. Returns whether there were
/// some. The caller may hold the registry lock, which the work of the background takes, too: so the
/// frees leave that work for later.
#[place(cold)]
pub(crate) fn drain(cache: &'static RawCache) -> bool {
    let unused = |address| free_to_engine(Object { cache, address });
    background::put_off(|| delay::drain(cache, |address| release(cache, address), unused))
}

/// Returns the number of objects of a cache that are held back.
#[place(cold)]
pub(crate) fn held(cache: &RawCache) -> usize {
    delay::count(cache)
}

/// Returns a guarded object of a cache of the program, if the next allocation is to have one.
#[place(cold)]
fn guarded(cache: &'static RawCache) -> Option<*mut u8> {
    #[cfg(feature = "os")]
    if cache.guarded && cache.policy.of_program && super::guard::is_due_now() {
        let align = cache.slabs.geometry.align;
        return super::guard::alloc(cache, cache.object_size(), align).map(core::ptr::NonNull::as_ptr);
    }
    let _ = cache;
    None
}

/// Frees a guarded object. Returns false if the address is not that of one.
#[place(cold)]
fn free_guarded(cache: &'static RawCache, address: usize) -> bool {
    #[cfg(feature = "os")]
    if cache.guarded && super::guard::contains(address) {
        super::guard::free_of(cache, address);
        return true;
    }
    let _ = (cache, address);
    false
}

/// Returns an object of the engine of a cache. Not a closure, which would lie in the code of every
/// program.
#[place(cold)]
#[inline(never)]
fn alloc_of_engine(cache: &'static RawCache) -> *mut u8 {
    of_cache!(cache, alloc(cache))
}

/// Returns an object of the engine of a cache, or one that waits.
#[place(cold)]
fn take(cache: &'static RawCache) -> *mut u8 {
    if !may_delay(cache) {
        return alloc_of_engine(cache);
    }
    let object = delay::take_random(cache, alloc_of_engine);
    if object.is_null() && drain(cache) { alloc_of_engine(cache) } else { object }
}

/// As [`super::alloc_sized`].
#[place(cold)]
#[inline(never)]
pub(crate) fn alloc_sized(cache: &'static RawCache, size: usize) -> *mut u8 {
    let object = match cache.engine {
        Engine::Slob => slob::alloc_sized(cache, size),
        Engine::Debug => debug::alloc_sized(cache, size),
        _ => take(cache),
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
        if let Some(object) = guarded(cache) {
            return object;
        }
        let object = take(cache);
        clear_allocated(cache, object, cache.object_size())
    }

    #[place(cold)]
    #[inline(never)]
    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        if let Some(object) = guarded(cache) {
            return object;
        }
        let object = of_cache!(cache, alloc_on(cache, node));
        clear_allocated(cache, object, cache.object_size())
    }

    #[place(cold)]
    #[inline(never)]
    fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
        let done = of_cache!(cache, alloc_bulk(cache, out));
        if done {
            for object in out {
                match guarded(cache) {
                    Some(guarded) => {
                        let address = core::mem::replace(object, guarded as usize);
                        free_to_engine(Object { cache, address });
                    }
                    None => _ = clear_allocated(cache, *object as *mut u8, cache.object_size()),
                }
            }
        }
        done
    }

    #[place(cold)]
    #[inline(never)]
    fn free(object: Object) {
        let Object { cache, address } = object;
        if free_guarded(cache, address) {
            return;
        }
        if quarantine() > 0 && may_delay(cache) {
            if delay::is_quarantined(cache, address) {
                return report::double_free(cache.name(), address);
            }
            if fill_freed(cache, address) {
                return match delay::put(cache, address) {
                    Put::Waits(0) => {}
                    Put::Waits(leaves) => release(cache, leaves),
                    Put::Not => free_to_engine(object),
                };
            }
        } else {
            fill_freed(cache, address);
        }
        free_to_engine(object);
    }

    #[place(cold)]
    #[inline(never)]
    fn free_in(object: Object, slab: PageIndex) {
        if quarantine() > 0 {
            return Self::free(object);
        }
        fill_freed(object.cache, object.address);
        of_cache!(object.cache, free_in(object, slab));
    }

    #[place(cold)]
    #[inline(never)]
    fn free_bulk(objects: Objects<'_>) {
        if quarantine() > 0 || objects.cache.guarded {
            return objects.for_each(Self::free);
        }
        objects.addresses.iter().for_each(|&address| _ = fill_freed(objects.cache, address));
        of_cache!(objects.cache, free_bulk(objects));
    }
}
