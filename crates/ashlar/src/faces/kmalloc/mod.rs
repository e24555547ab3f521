//! kmalloc: objects of any size, under the kernel's names.
//!
//! * [`entry`]: the entry points `kmalloc`, `kfree` and `kfree_sized` with their fast paths.
//! * `profiled`: what allocations and frees do for a heap profile.
//! * this file: the slow paths, and the functions built on the entry points.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

pub(crate) mod entry;
pub(super) mod profiled;

use core::ptr::NonNull;

use crate::base::report;
use crate::base::units::{BLOCK_SIZE, PAGE_SIZE, untagged};
use crate::boot;
use crate::cache::registry;
use crate::engine::{self, Object, Objects, RawCache};
use crate::pages::direct::{self, Fill};
use crate::pages::zone::DIRECT_BYTES;
#[cfg(feature = "os")]
use crate::sizes::call_site;
pub use crate::sizes::kmalloc::{KMALLOC_MAX_CACHE_SIZE, kmalloc_size_roundup};
#[cfg(feature = "os")]
pub use crate::sizes::kmalloc::{PLAIN_FLAGS, SLOW_FLAGS};
use crate::sizes::kmalloc::{class_cache, direct_cache, natural_align};
use crate::sizes::large;
pub use crate::sizes::large::KMALLOC_MAX_SIZE;
use crate::sizes::owner::{self, Misuse, Owner};
pub use entry::{kfree, kfree_sized, kmalloc};

/// The result of a request of 0 bytes: not null, but no memory. Freeing it does nothing.
pub const ZERO_SIZE_PTR: *mut u8 = core::ptr::without_provenance_mut(16);

/// `kmalloc` of a size that needs only the look-up of its cache, behind the fast path. Engines
/// without sheaves take this path on every call, so the entry points look for it first. They pay
/// only two more instructions, in the entry point.
pub(crate) extern "C" fn kmalloc_direct(size: usize) -> *mut u8 {
    engine::alloc(direct_cache(size))
}

/// `kmalloc` when neither the fast path nor `kmalloc_direct` serves it. `caller` is where the
/// call returns to, or 0 where that is unknown.
#[cold]
#[inline(never)]
#[cfg_attr(not(feature = "os"), expect(unreachable_pub, reason = "ashlar-c calls it"))]
pub extern "C" fn kmalloc_called_from(size: usize, caller: usize) -> *mut u8 {
    if size == 0 {
        return ZERO_SIZE_PTR;
    }
    if !boot::ensure() {
        return core::ptr::null_mut();
    }
    match class_cache(size) {
        #[cfg(feature = "os")]
        Some(cache) if crate::sizes::kmalloc::is_by_call_site() => {
            profiled::alloc_of(call_site::cache_of_caller(cache, size, caller), size)
        }
        Some(cache) => {
            let _ = caller;
            profiled::alloc(size, || engine::alloc_sized(cache, size))
        }
        None => alloc_large(size, natural_align(size), Fill::Any),
    }
}

fn alloc_large(size: usize, align: usize, fill: Fill) -> *mut u8 {
    profiled::counted(large::alloc(size, align, fill).map_or(core::ptr::null_mut(), NonNull::as_ptr), size)
}

/// `kfree` when the fast path could not take the object.
///
/// # Safety
/// As for [`kfree`].
#[cfg_attr(not(feature = "os"), inline(never))]
pub(crate) unsafe extern "C" fn kfree_slow(ptr: *mut u8) {
    let ptr = untagged(ptr);
    // Engines without sheaves take this path on every call. Objects of tracked caches are excluded,
    // because they must also be removed from the object map.
    if let Some((cache, slab)) = registry::slab_of_address(ptr as usize)
        && !cache.engine.has_sheaves()
        && !cache.policy.tracked
    {
        // SAFETY: the caller gives up the object, and the page belongs to a slab of this cache.
        return engine::free_in(unsafe { Object::new(cache, ptr as usize) }, slab);
    }
    // SAFETY: passed on.
    unsafe { kfree_rest(ptr) };
}

/// `kfree` of an object of another node.
///
/// # Safety
/// As for [`kfree`].
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[place(background)]
pub(crate) unsafe extern "C" fn kfree_far(ptr: *mut u8) {
    let ptr = untagged(ptr);
    if let Some((cache, slab)) = registry::slab_of_address(ptr as usize)
        && !cache.policy.tracked
    {
        profiled::freed(ptr as usize);
        // SAFETY: the caller gives up the object, and the page belongs to a slab of this cache.
        return engine::free_in(unsafe { Object::new(cache, ptr as usize) }, slab);
    }
    // SAFETY: passed on.
    unsafe { kfree_rest(ptr) };
}

/// # Safety
/// As for [`kfree`].
#[cold]
#[inline(never)]
unsafe fn kfree_rest(ptr: *mut u8) {
    let address = ptr as usize;
    if address <= ZERO_SIZE_PTR as usize {
        return;
    }
    match owner::identify(address) {
        // SAFETY: the caller gives the allocation up.
        Ok(owner) => unsafe { owner.free("kfree", ptr) },
        Err(misuse) => report_misuse("kfree", address, &misuse),
    }
}

#[cold]
#[place(cold)]
fn report_misuse(function: &str, address: usize, misuse: &Misuse) {
    match misuse {
        Misuse::FreeSized(cache) => report::double_free(cache.name(), address),
        misuse => misuse.report(function, address),
    }
}

/// As [`kmalloc`], with all bytes zero.
pub fn kzalloc(size: usize) -> *mut u8 {
    if size > KMALLOC_MAX_CACHE_SIZE {
        if !boot::ensure() {
            return core::ptr::null_mut();
        }
        return alloc_large(size, natural_align(size), Fill::Zeros);
    }
    let ptr = kmalloc(size);
    if !ptr.is_null() && size > 0 {
        // SAFETY: the memory is fresh and has `size` bytes.
        unsafe { ptr.write_bytes(0, size) };
    }
    ptr
}

/// As [`kzalloc`], for a call that returns to `caller`.
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
pub fn kzalloc_called_from(size: usize, caller: usize) -> *mut u8 {
    if size > KMALLOC_MAX_CACHE_SIZE {
        return kzalloc(size);
    }
    let ptr = kmalloc_called_from(size, caller);
    if !ptr.is_null() && size > 0 {
        // SAFETY: the memory is fresh and has `size` bytes.
        unsafe { ptr.write_bytes(0, size) };
    }
    ptr
}

/// Allocates memory for `count` elements of `size` bytes. Returns null if the product overflows.
#[inline]
pub fn kmalloc_array(count: usize, size: usize) -> *mut u8 {
    count.checked_mul(size).map_or(core::ptr::null_mut(), |bytes| kmalloc(bytes))
}

/// As [`kmalloc_array`], with all bytes zero.
pub fn kcalloc(count: usize, size: usize) -> *mut u8 {
    count.checked_mul(size).map_or(core::ptr::null_mut(), kzalloc)
}

/// Allocates memory of any size. In the kernel, such memory may be mapped instead of taken from the
/// page allocator. Here kmalloc does that itself.
#[inline]
pub fn kvmalloc(size: usize) -> *mut u8 {
    kmalloc(size)
}

/// Allocates `size` bytes at a multiple of `align`, a power of two of at most 2 MiB. Returns null
/// for another `align`, or without memory.
pub fn kmalloc_aligned(size: usize, align: usize) -> *mut u8 {
    if align <= 8 {
        return kmalloc(size);
    }
    if !align.is_power_of_two() || align > BLOCK_SIZE || size > KMALLOC_MAX_SIZE {
        return core::ptr::null_mut();
    }
    // Classes that are powers of two are naturally aligned; 96 and 192 are not aligned enough.
    let fitting = size.max(align).next_power_of_two();
    if align <= PAGE_SIZE && fitting <= KMALLOC_MAX_CACHE_SIZE {
        return kmalloc(fitting);
    }
    if !boot::ensure() {
        return core::ptr::null_mut();
    }
    alloc_large(size.max(1), align, Fill::Any)
}

/// Returns the usable bytes of memory of kmalloc, at least the requested size. Returns 0 for null
/// and for [`ZERO_SIZE_PTR`].
///
/// # Safety
/// `ptr` came from this module, or is null, and was not freed.
pub unsafe fn ksize(ptr: *const u8) -> usize {
    let address = untagged(ptr.cast_mut()) as usize;
    if address <= ZERO_SIZE_PTR as usize {
        return 0;
    }
    match owner::identify(address) {
        Ok(owner) => owner.bytes(address),
        Err(misuse) => {
            report_misuse("ksize", address, &misuse);
            0
        }
    }
}

/// Changes the size of an object, and moves it if needed. A null pointer allocates. A size of 0
/// frees and returns [`ZERO_SIZE_PTR`]. The object stays in place if the new size fits, as in the
/// kernel. Returns null without memory; the old object is unchanged then.
///
/// # Safety
/// As for [`kfree`]. After success the old pointer is invalid.
pub unsafe fn krealloc(ptr: *mut u8, size: usize) -> *mut u8 {
    let ptr = untagged(ptr);
    if size == 0 {
        // SAFETY: the caller's promise is that of kfree.
        unsafe { kfree(ptr) };
        return ZERO_SIZE_PTR;
    }
    let address = ptr as usize;
    if address <= ZERO_SIZE_PTR as usize {
        return kmalloc(size);
    }
    let owner = match owner::identify(address) {
        Ok(owner) => owner,
        Err(misuse) => {
            report_misuse("krealloc", address, &misuse);
            return kmalloc(size);
        }
    };
    let old = owner.bytes(address);
    if size <= old || owner.grows_to(size) {
        owner.note_size(address, size);
        return ptr;
    }
    if size > DIRECT_BYTES
        && let Owner::Direct(_) = owner
        && let Some(at) = NonNull::new(ptr)
        // SAFETY: a direct mapping starts there, and the caller lets it move.
        && let Some(moved) = unsafe { direct::remap(at, size) }
    {
        profiled::relocated(address, moved.as_ptr() as usize);
        return moved.as_ptr();
    }
    let new = kmalloc(size);
    if !new.is_null() {
        // SAFETY: both are live and do not overlap, `old` bytes are readable, and `new` has more.
        unsafe {
            new.copy_from_nonoverlapping(ptr, old);
            kfree(ptr);
        }
    }
    new
}

/// Frees objects of any caches and sizes. Consecutive objects of one cache are freed together. Null
/// entries are skipped.
///
/// # Safety
/// As for [`kfree`], for each object. None occurs twice.
pub unsafe fn kfree_bulk(objects: &[*mut u8]) {
    const BATCH: usize = 64;
    let mut batch = [0usize; BATCH];
    let mut count = 0;
    let mut owner: Option<&'static RawCache> = None;
    for &object in objects {
        let cache = registry::cache_of_address(object as usize)
            .filter(|c| !c.policy.tracked && c.slabs.locate(object as usize).is_ok());
        let same = match (cache, owner) {
            (Some(a), Some(b)) => core::ptr::eq(a, b),
            _ => false,
        };
        if !same || count == BATCH {
            if let Some(cache) = owner {
                // SAFETY: objects start at these addresses in slabs of this cache, and the caller
                // gives each up once.
                engine::free_bulk(unsafe { Objects::new(cache, &batch[..count]) });
            }
            count = 0;
            owner = cache;
        }
        if cache.is_some() {
            profiled::freed(object as usize);
            batch[count] = object as usize;
            count += 1;
        } else {
            // SAFETY: the caller's promise is that of kfree.
            unsafe { kfree(object) };
        }
    }
    if let Some(cache) = owner {
        // SAFETY: as above.
        engine::free_bulk(unsafe { Objects::new(cache, &batch[..count]) });
    }
}
