//! `realloc`: in place where possible.
//!
//! | object | shrinks in place | grows in place |
//! |---|---|---|
//! | of a cache | while it stays above half of its class | up to its class |
//! | run of pages | the pages behind the new end go back | if the pages behind it are free |
//! | mapping | by mremap | by mremap, which may move it without a copy |
#![allow(unsafe_code, reason = "moves raw memory")]

use core::ptr::NonNull;

use super::entry::{free, malloc};
use super::{errno, slow};
use crate::base::units::{PAGE_SIZE, untagged};
use crate::pages::direct;
use crate::pages::zone::DIRECT_BYTES;
use crate::sizes::beside_fork;
use crate::sizes::malloc::classes::MALLOC_MAX_CACHE_SIZE;
use crate::sizes::owner::{self, Owner};
#[cfg(feature = "os")]
use crate::sizes::profile;

/// Changes the size of an allocation, and moves it if needed. Null allocates. A size of 0 frees and
/// returns null. On failure, returns null with `errno` `ENOMEM`, and the allocation is unchanged.
///
/// # Safety
/// `ptr` is null or was allocated here and was not freed. After success the old pointer is invalid.
#[inline]
pub unsafe fn realloc(ptr: *mut u8, size: usize) -> *mut u8 {
    if ptr.is_null() {
        return malloc(size);
    }
    let bytes = owner::tracked_bytes(ptr as usize);
    if bytes == 0 {
        // SAFETY: passed on.
        return unsafe { realloc_other(ptr, size) };
    }
    if stays(size, bytes) {
        return ptr;
    }
    if size == 0 {
        // SAFETY: the caller gives it up.
        unsafe { free(ptr) };
        return core::ptr::null_mut();
    }
    // SAFETY: passed on; a size beyond all is refused by `malloc`.
    unsafe { relocate(ptr, bytes, size) }
}

/// Returns whether an object of `bytes` bytes suits `size`, which is not 0.
#[inline]
fn stays(size: usize, bytes: usize) -> bool {
    size != 0 && size <= bytes && (size > bytes / 2 || bytes <= 32)
}

/// Moves the `old` bytes at `ptr` to new memory, and frees the old.
///
/// # Safety
/// As for [`realloc`]. The allocation has `old` bytes.
#[inline(never)]
unsafe fn relocate(ptr: *mut u8, old: usize, size: usize) -> *mut u8 {
    let new = malloc(size);
    if !new.is_null() {
        // SAFETY: both are live and distinct; the old one has `old` bytes, the new one `size`. The
        // caller gives the old one up.
        unsafe {
            let copy = if size > DIRECT_BYTES { copy_to_large } else { copy };
            copy(new, ptr, old.min(size));
            free(ptr);
        }
    }
    new
}

/// Copies `bytes` bytes.
///
/// # Safety
/// Both are valid for so many bytes, which do not overlap.
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe { to.copy_from_nonoverlapping(from, bytes) };
}

/// As [`copy`], to a new allocation. If that is a mapping, pages of zeros are left out, which stay
/// without memory there.
///
/// # Safety
/// As for [`copy`].
#[inline(never)]
#[place(cold)]
unsafe fn copy_to_large(to: *mut u8, from: *const u8, bytes: usize) {
    if direct::size_without_lock(to as usize).is_none() {
        // SAFETY: passed on.
        return unsafe { copy(to, from, bytes) };
    }
    for start in (0..bytes).step_by(PAGE_SIZE) {
        let part = PAGE_SIZE.min(bytes - start);
        // SAFETY: the part lies within both ranges. The bytes of an allocation may never have been
        // written, so they are read as words that may hold anything: by volatile reads.
        unsafe {
            let (to, from) = (to.add(start), from.add(start));
            let words = (0..part / 8).all(|at| from.cast::<u64>().add(at).read_volatile() == 0);
            if part < PAGE_SIZE || !words {
                to.copy_from_nonoverlapping(from, part);
            }
        }
    }
}

/// [`realloc`] of an allocation that is not an object of malloc's caches.
///
/// # Safety
/// As for [`realloc`]; not null.
#[inline(never)]
unsafe fn realloc_other(ptr: *mut u8, size: usize) -> *mut u8 {
    if untagged(ptr) != ptr {
        // SAFETY: passed on; the pointer leads to the same allocation.
        return unsafe { realloc(untagged(ptr), size) };
    }
    if size == 0 {
        let before = errno::get();
        // SAFETY: the caller gives the allocation up.
        beside_fork::pass(|| unsafe { slow::release("realloc", ptr) }, || unsafe { beside_fork::leave(ptr as usize) });
        errno::set(before);
        return core::ptr::null_mut();
    }
    if size > isize::MAX as usize {
        errno::set(errno::ENOMEM);
        return core::ptr::null_mut();
    }
    let beside_fork = || owner::bytes_without_locks(ptr as usize).map_or(Resized::Failed, Resized::Not);
    // SAFETY: passed on.
    match beside_fork::pass(|| unsafe { resize(ptr, size) }, beside_fork) {
        // SAFETY: the caller keeps the same contract, and `old` bytes were found there.
        Resized::Not(old) => unsafe { relocate(ptr, old, size) },
        Resized::At(at) => at,
        Resized::Failed => core::ptr::null_mut(),
    }
}

/// The result of an attempt to resize an allocation without a copy.
enum Resized {
    /// The allocation has its new size, at this address.
    At(*mut u8),
    /// The allocation is unchanged, and has this many bytes.
    Not(usize),
    /// No allocation starts at the address.
    Failed,
}

/// Resizes an allocation that is not an object of malloc's caches, if that needs no copy.
///
/// # Safety
/// As for [`realloc`]; not null.
unsafe fn resize(ptr: *mut u8, size: usize) -> Resized {
    let owner = match owner::identify(ptr as usize) {
        Ok(owner) => owner,
        Err(misuse) => {
            misuse.report("realloc", ptr as usize);
            return Resized::Failed;
        }
    };
    let have = owner.bytes(ptr as usize);
    match owner {
        Owner::Tracked(_) | Owner::Cache(_) | Owner::Sized(..) | Owner::Apart(_) => {
            if stays(size, have) {
                owner.note_size(ptr as usize, size);
                return Resized::At(ptr);
            }
        }
        Owner::Large(mut large) => {
            if size > MALLOC_MAX_CACHE_SIZE && size <= DIRECT_BYTES && large.resize(size) {
                return Resized::At(ptr);
            }
        }
        Owner::Direct(bytes) => {
            if size <= bytes && size > bytes - bytes / 8 {
                return Resized::At(ptr);
            }
            if size > DIRECT_BYTES
                && let Some(at) = NonNull::new(ptr)
                // SAFETY: a direct mapping starts there, and the caller expects it to move.
                && let Some(moved) = unsafe { direct::remap(at, size) }
            {
                #[cfg(feature = "os")]
                if profile::ever_on() {
                    profile::relocated(ptr as usize, moved.as_ptr() as usize);
                }
                return Resized::At(moved.as_ptr());
            }
        }
    }
    Resized::Not(have)
}
