//! The slow paths of `malloc` and `free`.
//!
//! Every path passes the gate of forks ([`crate::sizes::beside_fork`]), and keeps C's rules for
//! errno.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

use core::ptr::NonNull;

use super::errno;
use crate::base::units::{BLOCK_SIZE, untagged};
use crate::boot;
#[cfg(feature = "os")]
use crate::engine::route::is_watched;
use crate::engine::{self, Object};
use crate::pages::direct::{self, Fill};
use crate::percpu;
use crate::percpu::area::PerCpu;
use crate::sizes::beside_fork;
use crate::sizes::large;
use crate::sizes::malloc::classes::{Code, MALLOC_MAX_CACHE_SIZE, STEP, class_of};
use crate::sizes::malloc::{alloc, cache_of};
use crate::sizes::owner;
#[cfg(feature = "os")]
use crate::sizes::{guarded, profile};

/// Allocates `size` bytes at a multiple of `align` behind the fast path, by `allocate` or, beside a
/// fork, without the allocator. Sets errno to `ENOMEM` on failure, and leaves it as it was
/// otherwise.
fn allocate(size: usize, align: usize, allocate: impl FnOnce() -> Option<NonNull<u8>>) -> *mut u8 {
    let before = errno::get();
    let usual = || {
        if !boot::ensure_malloc() {
            return None;
        }
        #[cfg(feature = "os")]
        if is_watched() {
            return watched(size, align, allocate);
        }
        allocate()
    };
    let found = beside_fork::pass(usual, || beside_fork::alloc(size, align));
    errno::set(if found.is_none() { errno::ENOMEM } else { before });
    found.map_or(core::ptr::null_mut(), NonNull::as_ptr)
}

/// Allocates by `allocate`, or a guarded object instead, and counts what was allocated for a
/// profile.
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
fn watched(size: usize, align: usize, allocate: impl FnOnce() -> Option<NonNull<u8>>) -> Option<NonNull<u8>> {
    let guarded = if align == STEP { guarded::in_place_of_malloc(size) } else { None };
    let object = guarded.or_else(allocate)?;
    if profile::is_on() {
        profile::count(object, size);
    }
    Some(object)
}

/// `malloc` when no fast path found an object.
pub(super) extern "C" fn malloc_uncounted(size: usize) -> *mut u8 {
    if size > MALLOC_MAX_CACHE_SIZE {
        return allocate_large(size, STEP, Fill::Any);
    }
    allocate(size, STEP, || alloc(class_of(size), size))
}

/// As [`malloc_uncounted`], by a call that returns to `caller`, while a profile runs or is awaited.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[place(cold)]
pub(super) extern "C" fn malloc_called_from(size: usize, caller: usize) -> *mut u8 {
    if profile::is_awaited() {
        let before = errno::get();
        profile::start_awaited(caller);
        errno::set(before);
    }
    malloc_uncounted(size)
}

/// Allocates `size` bytes that no cache has, or not at a multiple of `align`.
#[inline(never)]
pub(super) fn allocate_large(size: usize, align: usize, fill: Fill) -> *mut u8 {
    allocate(size, align, || {
        if align > BLOCK_SIZE {
            // The zone aligns at most to its blocks.
            size.checked_add(align)
                .filter(|&sum| sum <= isize::MAX as usize)
                .and_then(|_| direct::map(size.max(1), align, fill))
        } else {
            large::alloc(size.max(1), align, fill)
        }
    })
}

/// `free` of an object that does not fit on this CPU's sheaf, of a large object or a mapping, of
/// null, or of an invalid address.
///
/// # Safety
/// As for [`free`](super::free).
pub unsafe extern "C" fn free_slow(ptr: *mut u8) {
    let ptr = untagged(ptr);
    if ptr.is_null() {
        return;
    }
    let before = errno::get();
    // SAFETY: passed on.
    beside_fork::pass(|| unsafe { free_found(ptr) }, || unsafe { beside_fork::leave(ptr as usize) });
    errno::set(before);
}

/// # Safety
/// As for [`free`](super::free).
unsafe fn free_found(ptr: *mut u8) {
    let entry = owner::take(ptr as usize);
    let Some(code) = Code::from_map(entry) else {
        // SAFETY: passed on.
        return unsafe { release("free", ptr) };
    };
    // SAFETY: the map held it as a live object of this cache, and the caller gives it up.
    let object = unsafe { Object::new(cache_of(code), ptr as usize) };
    if entry & 1 == PerCpu::side_of(percpu::this_cpu()) {
        engine::free(object);
    } else {
        engine::free_remote(object);
    }
}

/// Frees the allocation at `ptr`, or reports that there is none under the name `function`.
///
/// # Safety
/// As for [`free`](super::free).
pub(super) unsafe fn release(function: &str, ptr: *mut u8) {
    match owner::identify(ptr as usize) {
        // SAFETY: the caller gives the allocation up.
        Ok(owner) => unsafe { owner.free(function, ptr) },
        Err(misuse) => misuse.report(function, ptr as usize),
    }
}

/// Returns the bytes of the allocation at `ptr`, or reports that there is none under the name
/// `function`.
pub(super) fn bytes_of(function: &str, ptr: *const u8) -> Option<usize> {
    match owner::identify(ptr as usize) {
        Ok(owner) => Some(owner.bytes(ptr as usize)),
        Err(misuse) => {
            misuse.report(function, ptr as usize);
            None
        }
    }
}
