//! Layer 6, malloc: C's allocator, on caches of finer classes than kmalloc's.
//!
//! Sizes up to 32 KiB come from caches named `malloc-16` to `malloc-32768` (see `classes`), larger ones are runs of
//! pages, those above 32 MiB mappings of their own, as for [`crate::kmalloc`]. The caches are made at the first
//! call, so a program that only uses kmalloc never has them. The rules are those of glibc's manual: everything is
//! aligned to 16 bytes, a size of 0 gets memory of its own, failure sets `errno`, success and `free` leave it alone.
//!
//! * `entry`: `malloc` and `free` with their fast paths.
//! * `check`: what pointers are; misuse of `free`.
//! * `resize` is `realloc`.
//! * this file: everything else behind the fast paths.
//!
//! The C names, with their exact argument rules, are in the crate `ashlar-malloc`; here are Rust functions.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

mod check;
mod classes;
pub(crate) mod entry;
mod resize;

use core::fmt::Write;
use core::ptr::NonNull;

use crate::cache::{CacheArgs, create_raw};
use crate::engine::{self, RawCache};
use crate::kmalloc::{alloc_large, free_large};
use crate::page::direct;
use crate::report;
use crate::slab::OrderRule;
use crate::sync::{AtomicPtr, AtomicU16, AtomicU32, Ordering};
use crate::units::{BLOCK_SIZE, PAGE_SIZE};
use check::Found;
pub use classes::MALLOC_MAX_CACHE_SIZE;
use classes::{CLASSES, STEP, aligned_class, class_of, size_of_class};
pub use entry::{free, malloc};
pub use resize::realloc;

static CACHES: [AtomicPtr<RawCache>; CLASSES] = [const { AtomicPtr::new(core::ptr::null_mut()) }; CLASSES];
/// For each size up to 32 KiB, in steps of 16 rounded up, the slot offset of its cache; 0 until the layer is up.
pub(crate) static SIZE_SLOT: [AtomicU16; MALLOC_MAX_CACHE_SIZE / STEP + 1] =
    [const { AtomicU16::new(0) }; MALLOC_MAX_CACHE_SIZE / STEP + 1];

const DOWN: u32 = 0;
const STARTING: u32 = 1;
const UP: u32 = 2;
const FAILED: u32 = 3;
static STATE: AtomicU32 = AtomicU32::new(DOWN);
/// Objects above this size lie in slabs of up to this order, so that a slab holds several and wastes little of itself.
const LARGE_CLASS: usize = 4 << 10;
const LARGE_CLASS_ORDER: u8 = 5;

/// Makes sure that the caches of malloc exist; false when memory for them is refused.
#[inline]
fn ensure() -> bool {
    STATE.load(Ordering::Acquire) == UP || ensure_slow()
}

#[cold]
fn ensure_slow() -> bool {
    if !crate::boot::ensure() {
        return false;
    }
    if STATE.compare_exchange(DOWN, STARTING, Ordering::Acquire, Ordering::Acquire).is_ok() {
        let made = create_caches();
        STATE.store(if made { UP } else { FAILED }, Ordering::Release);
        return made;
    }
    let mut waited = 0u32;
    loop {
        match STATE.load(Ordering::Acquire) {
            UP => return true,
            FAILED => return false,
            _ => {
                waited = waited.saturating_add(1);
                crate::sync::relax(waited);
            }
        }
    }
}

fn create_caches() -> bool {
    let rule = crate::boot::order_rule().0;
    let larger = rule.max_order == OrderRule::DEFAULT.max_order;
    let mut from = 0;
    for (class, place) in CACHES.iter().enumerate() {
        let size = size_of_class(class);
        let mut name = report::Line::new();
        let _ = write!(name, "malloc-{size}");
        let max_order = (larger && size > LARGE_CLASS).then_some(LARGE_CLASS_ORDER.max(rule.min_order));
        let args = CacheArgs { align: STEP, max_order, ..CacheArgs::default() };
        let Ok(raw) = create_raw(name.text(), size, &args, true) else { return false };
        place.store(core::ptr::from_ref(raw).cast_mut(), Ordering::Release);
        entry::enable(raw.slot, raw.geometry.order.bytes(), raw.geometry.stride);
        for entry in &SIZE_SLOT[from..=size / STEP] {
            entry.store(raw.slot, Ordering::Relaxed);
        }
        from = size / STEP + 1;
    }
    entry::LIMIT.store(MALLOC_MAX_CACHE_SIZE + 1, Ordering::Release);
    true
}

fn cache(class: usize) -> &'static RawCache {
    // SAFETY: callers are behind `ensure`, which stored a cache for every class; they are never destroyed.
    unsafe { &*CACHES[class].load(Ordering::Acquire) }
}

/// True for the caches of malloc, whose free objects are marked.
fn is_ours(raw: &RawCache) -> bool {
    let class = class_of(raw.geometry.object_size.min(MALLOC_MAX_CACHE_SIZE));
    core::ptr::eq(CACHES[class].load(Ordering::Relaxed), raw)
}

/// An object of a class, unmarked; null when memory ends.
fn alloc_class(class: usize) -> *mut u8 {
    let object = engine::alloc(cache(class));
    if !object.is_null() {
        // SAFETY: a fresh object of at least 16 bytes.
        unsafe { object.cast::<u64>().write(0) };
    }
    object
}

/// Runs `allocate` with what errno needs: `ENOMEM` on failure, untouched otherwise.
fn with_errno(allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
    let before = errno::get();
    let ptr = if ensure() { allocate() } else { core::ptr::null_mut() };
    errno::set(if ptr.is_null() { errno::ENOMEM } else { before });
    ptr
}

/// `malloc` when the fast path had nothing.
pub(crate) extern "C" fn malloc_slow(size: usize) -> *mut u8 {
    with_errno(|| {
        if size > MALLOC_MAX_CACHE_SIZE {
            return alloc_large(size, PAGE_SIZE).map_or(core::ptr::null_mut(), |(at, _)| at.as_ptr());
        }
        alloc_class(class_of(size))
    })
}

/// `free` of anything that is not a malloc object with a known start, without a mark.
pub(crate) extern "C" fn free_slow(ptr: *mut u8) {
    if !ptr.is_null() {
        release("free", ptr);
    }
}

/// `free` of an object that was checked and marked, but does not fit on this CPU's sheaf.
#[cfg(all(target_arch = "x86_64", feature = "os"))]
pub(crate) extern "C" fn free_marked(ptr: *mut u8) {
    let before = errno::get();
    if let Some(cache) = crate::cache::registry::cache_of_address(ptr as usize) {
        engine::free(cache, ptr as usize);
    }
    errno::set(before);
}

/// Frees what starts at `ptr`, for `function`; reports what is none.
fn release(function: &str, ptr: *mut u8) {
    let before = errno::get();
    match check::find(function, ptr as usize) {
        Some(Found::Object(cache)) => {
            if is_ours(cache) {
                // SAFETY: `find` says that a live object of this cache starts there; the caller gives it up.
                unsafe { check::set_mark(cache, ptr as usize) };
            }
            engine::free(cache, ptr as usize);
        }
        Some(Found::Large(page, pages)) => free_large(page, pages),
        Some(Found::Direct(_)) => {
            if let Some(at) = NonNull::new(ptr) {
                // SAFETY: the caller gives the mapping up; the table knows its size.
                unsafe { direct::unmap(at) };
            }
        }
        None => {}
    }
    errno::set(before);
}

/// Memory of `size` bytes, all zero, as `calloc`.
pub fn calloc(count: usize, size: usize) -> *mut u8 {
    let Some(bytes) = count.checked_mul(size) else {
        errno::set(errno::ENOMEM);
        return core::ptr::null_mut();
    };
    if bytes <= MALLOC_MAX_CACHE_SIZE {
        let ptr = malloc(bytes);
        if !ptr.is_null() {
            // SAFETY: `bytes` fresh bytes.
            unsafe { ptr.write_bytes(0, bytes) };
        }
        return ptr;
    }
    with_errno(|| {
        let Some((at, zeroed)) = alloc_large(bytes, PAGE_SIZE) else { return core::ptr::null_mut() };
        if !zeroed {
            // SAFETY: `bytes` fresh bytes.
            unsafe { at.as_ptr().write_bytes(0, bytes) };
        }
        at.as_ptr()
    })
}

/// Memory of at least `size` bytes at a multiple of `align`, a power of two; anything else fails with `EINVAL`.
pub fn malloc_aligned(align: usize, size: usize) -> *mut u8 {
    if !align.is_power_of_two() {
        errno::set(errno::EINVAL);
        return core::ptr::null_mut();
    }
    if align <= STEP {
        return malloc(size);
    }
    with_errno(|| {
        if align <= PAGE_SIZE
            && let Some(class) = aligned_class(size, align)
        {
            return alloc_class(class);
        }
        let found = if align > BLOCK_SIZE {
            // The zone aligns to its blocks at most.
            size.checked_add(align)
                .filter(|&sum| sum <= isize::MAX as usize)
                .and_then(|_| direct::map(size.max(1), align))
        } else {
            alloc_large(size.max(1), align).map(|(at, _)| at)
        };
        found.map_or(core::ptr::null_mut(), NonNull::as_ptr)
    })
}

/// Bytes that may be used behind `ptr`, at least as many as were asked for; 0 for null.
///
/// # Safety
/// `ptr` is null or was allocated here and was not freed.
pub unsafe fn malloc_usable_size(ptr: *const u8) -> usize {
    if ptr.is_null() {
        return 0;
    }
    match check::find("malloc_usable_size", ptr as usize) {
        Some(Found::Object(cache)) => cache.geometry.object_size,
        Some(Found::Large(_, pages)) => pages * PAGE_SIZE,
        Some(Found::Direct(bytes)) => bytes,
        None => 0,
    }
}

/// The C library's error number of this thread.
#[cfg(feature = "os")]
mod errno {
    pub(super) use libc::{EINVAL, ENOMEM};

    pub(super) fn get() -> i32 {
        // SAFETY: the C library gives the address of this thread's errno, which is always valid.
        unsafe { *libc::__errno_location() }
    }

    pub(super) fn set(value: i32) {
        // SAFETY: as in `get`.
        unsafe { *libc::__errno_location() = value };
    }
}
/// Without a C library there is no error number.
#[cfg(not(feature = "os"))]
mod errno {
    pub(super) const EINVAL: i32 = 22;
    pub(super) const ENOMEM: i32 = 12;

    pub(super) fn get() -> i32 {
        0
    }

    pub(super) fn set(_value: i32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_multiplication_of_free_is_exact_for_every_class() {
        assert!(ensure());
        for class in 0..CLASSES {
            let raw = cache(class);
            let (slab, stride) = (raw.geometry.order.bytes(), raw.geometry.stride);
            assert_eq!(stride, size_of_class(class));
            for offset in (0..slab).step_by(8) {
                let expected = offset.is_multiple_of(stride);
                assert_eq!(entry::passes(raw.slot, 0x40_0000 + offset), expected, "{}: offset {offset}", raw.name());
            }
        }
    }

    #[test]
    fn slabs_of_large_classes_hold_several_objects_and_waste_little() {
        assert!(ensure());
        for class in 0..CLASSES {
            let geometry = cache(class).geometry;
            let slab = geometry.order.bytes();
            let used = usize::from(geometry.objects(geometry.order)) * geometry.stride;
            // The unused end is never touched, so it costs addresses, not memory.
            assert!((slab - used) * 5 <= slab, "{}: {} of {slab} bytes unused", cache(class).name(), slab - used);
        }
    }
}
