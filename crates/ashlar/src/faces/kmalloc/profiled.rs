//! What the slow paths of kmalloc and of caches do for a heap profile ([`crate::sizes::profile`])
//! and for guard sampling ([`crate::engine::guard`]).
//!
//! Nothing, but a look whether there is one.

#[cfg(feature = "os")]
use crate::engine::{self, Object, RawCache};
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::pages::zone::ZONE;
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::percpu::{self, area::PERCPU, sections};
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::sizes::kmalloc::SIZE_SLOT;
#[cfg(feature = "os")]
use crate::sizes::{guarded::in_place_of_kmalloc, kmalloc::class_cache, profile};

/// Allocates an object for `size` bytes behind the fast path, by `slow` if no profile runs or this
/// CPU has no sheaf.
#[inline]
pub(super) fn alloc(size: usize, slow: impl FnOnce() -> *mut u8) -> *mut u8 {
    #[cfg(feature = "os")]
    if crate::engine::route::is_watched() {
        let object = instead(size);
        return counted(if object.is_null() { slow() } else { object }, size);
    }
    let _ = size;
    slow()
}

/// Returns a guarded object, or one of this CPU's sheaf; null if there is neither.
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
fn instead(size: usize) -> *mut u8 {
    match in_place_of_kmalloc(size, class_cache(size)) {
        Some(object) => object.as_ptr(),
        None => from_sheaf(size),
    }
}

/// Does what the fast path does, which a profile or guard sampling has closed.
#[cfg(feature = "os")]
#[place(cold)]
fn from_sheaf(size: usize) -> *mut u8 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Some(&slot) = SIZE_SLOT.get(size)
        && !crate::engine::route::is_hardened()
    {
        let offset = PERCPU.rseq_offset.load(crate::base::sync::Ordering::Relaxed);
        return sections::pop(percpu::slot0(slot), offset) as *mut u8;
    }
    let _ = size;
    core::ptr::null_mut()
}

/// Allocates an object for `size` bytes of kmalloc, from a cache that its caller chose.
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
pub(super) fn alloc_of(cache: &'static RawCache, size: usize) -> *mut u8 {
    if crate::engine::route::is_watched()
        && let Some(object) = in_place_of_kmalloc(size, Some(cache))
    {
        return counted(object.as_ptr(), size);
    }
    let object = from_sheaf_of(cache);
    counted(if object.is_null() { engine::alloc_sized(cache, size) } else { object }, size)
}

/// Does what the fast path of a cache does, with the slot that has the sheaves.
#[cfg(feature = "os")]
#[place(cold)]
fn from_sheaf_of(cache: &'static RawCache) -> *mut u8 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if cache.slabs.class_slot != 0 {
        return sections::pop(percpu::slot0(cache.sheaf_slot()), sections::rseq_offset()) as *mut u8;
    }
    let _ = cache;
    core::ptr::null_mut()
}

/// Allocates an object of a cache behind the fast path while a profile runs.
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
pub(in crate::faces) fn alloc_in(cache: &'static RawCache) -> *mut u8 {
    let mut object = from_sheaf_of(cache);
    if object.is_null() {
        object = engine::alloc(cache);
    }
    if let Some(object) = core::ptr::NonNull::new(object) {
        profile::count_in(cache, object);
    }
    object
}

/// Frees an object of a cache behind the fast path, once a profile has run.
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
pub(in crate::faces) fn free_in(object: Object) {
    let (cache, address) = object.parts();
    profile::freed_object(address);
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if cache.slabs.class_slot != 0
        && ZONE.nodes() == 1
        && sections::push(percpu::slot0(cache.sheaf_slot()), sections::rseq_offset(), address)
    {
        return;
    }
    engine::free(object);
}

/// Tells the profile of an object of `size` bytes that was just allocated, and returns it.
#[inline]
pub(in crate::faces) fn counted(object: *mut u8, size: usize) -> *mut u8 {
    #[cfg(feature = "os")]
    if profile::is_on()
        && let Some(object) = core::ptr::NonNull::new(object)
    {
        profile::count(object, size);
    }
    let _ = size;
    object
}

/// Tells the profile that the object at `address`, which is in a slab, is about to be freed.
#[inline]
pub(in crate::faces) fn freed(address: usize) {
    #[cfg(feature = "os")]
    if profile::ever_on() {
        profile::freed_object(address);
    }
    let _ = address;
}

/// Tells the profile that the object at `old` lies at `new` now.
#[inline]
pub(super) fn relocated(old: usize, new: usize) {
    #[cfg(feature = "os")]
    if profile::ever_on() {
        profile::relocated(old, new);
    }
    let _ = (old, new);
}
