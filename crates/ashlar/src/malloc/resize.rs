//! `realloc`: in place where possible.
//!
//! | object | shrinks in place | grows in place |
//! |---|---|---|
//! | of a cache | while it stays above half of its class | up to its class |
//! | run of pages | the pages behind the new end go back | if the pages behind it are free |
//! | mapping | by mremap | by mremap, which may move it without a copy |
#![allow(unsafe_code, reason = "moves raw memory")]

use core::ptr::NonNull;

use super::check::{self, Found};
use super::{MALLOC_MAX_CACHE_SIZE, beside_fork, errno, free, malloc, release};
use crate::base::sync::Ordering;
use crate::base::units::{PAGE_SIZE, PageIndex};
use crate::pages::direct;
use crate::pages::memmap::MEMMAP;
use crate::pages::zone::{DIRECT_BYTES, ZONE};

/// Changes the size of an allocation, moving it if need be. Null allocates; a size of 0 frees and returns null. On
/// failure it returns null, `errno` is `ENOMEM`, and the allocation is as it was.
///
/// # Safety
/// `ptr` is null or was allocated here and was not freed; on success the old pointer is dead.
#[inline]
pub unsafe fn realloc(ptr: *mut u8, size: usize) -> *mut u8 {
    if ptr.is_null() {
        return malloc(size);
    }
    let bytes = check::object_bytes(ptr as usize);
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

/// Whether an object of `bytes` bytes is good for `size`, which is not 0.
#[inline]
fn stays(size: usize, bytes: usize) -> bool {
    size != 0 && size <= bytes && (size > bytes / 2 || bytes <= 32)
}

/// Gives up the `old` bytes at `ptr` for new memory with the same content.
///
/// # Safety
/// As for [`realloc`]; so many bytes are there.
#[inline(never)]
unsafe fn relocate(ptr: *mut u8, old: usize, size: usize) -> *mut u8 {
    let new = malloc(size);
    if !new.is_null() {
        // SAFETY: both are live and distinct; the old one has `old` bytes, the new one `size`. The caller gives the old one up.
        unsafe {
            new.copy_from_nonoverlapping(ptr, old.min(size));
            free(ptr);
        }
    }
    new
}

/// [`realloc`] of what is no object of malloc's caches.
///
/// # Safety
/// As for [`realloc`]; not null.
#[inline(never)]
unsafe fn realloc_other(ptr: *mut u8, size: usize) -> *mut u8 {
    if size == 0 {
        let before = errno::get();
        beside_fork::pass(|| release("realloc", ptr), || beside_fork::leave(ptr as usize));
        errno::set(before);
        return core::ptr::null_mut();
    }
    if size > isize::MAX as usize {
        errno::set(errno::ENOMEM);
        return core::ptr::null_mut();
    }
    let beside_fork = || check::bytes_without_locks(ptr as usize).map_or(Resized::Failed, Resized::Not);
    // SAFETY: passed on.
    match beside_fork::pass(|| unsafe { resize(ptr, size) }, beside_fork) {
        // SAFETY: passed on; so many bytes were found there.
        Resized::Not(old) => unsafe { relocate(ptr, old, size) },
        Resized::At(at) => at,
        Resized::Failed => core::ptr::null_mut(),
    }
}

/// What became of an attempt to change the size of an allocation without a copy.
enum Resized {
    /// It has its new size, at this address.
    At(*mut u8),
    /// It is as it was, and has so many bytes.
    Not(usize),
    /// There is none.
    Failed,
}

/// Changes the size of what is no object of malloc's caches, if that can be done without a copy.
///
/// # Safety
/// As for [`realloc`]; not null.
unsafe fn resize(ptr: *mut u8, size: usize) -> Resized {
    let Some(found) = check::find("realloc", ptr as usize) else { return Resized::Failed };
    Resized::Not(match found {
        Found::Object(_) | Found::Other(_) | Found::Sized(..) | Found::Island(_) => {
            let have = found.bytes();
            if stays(size, have) {
                return Resized::At(ptr);
            }
            have
        }
        Found::Large(page, pages) => {
            if size > MALLOC_MAX_CACHE_SIZE && size <= DIRECT_BYTES && resize_run(page, pages, size.div_ceil(PAGE_SIZE))
            {
                return Resized::At(ptr);
            }
            pages * PAGE_SIZE
        }
        Found::Direct(bytes) => {
            if size <= bytes && size > bytes - bytes / 8 {
                return Resized::At(ptr);
            }
            if size > DIRECT_BYTES
                && let Some(at) = NonNull::new(ptr)
                // SAFETY: a direct mapping starts there and the caller lets it move.
                && let Some(moved) = unsafe { direct::remap(at, size) }
            {
                return Resized::At(moved.as_ptr());
            }
            bytes
        }
    })
}

/// Gives a run another length without moving it.
fn resize_run(page: PageIndex, old: usize, new: usize) -> bool {
    if new > old && !ZONE.extend(page, old, new) {
        return false;
    }
    MEMMAP.head(page).state.store(new as u64, Ordering::Relaxed);
    if new < old && ZONE.free(page.add(new), old - new) {
        crate::base::background::wake();
    }
    true
}
