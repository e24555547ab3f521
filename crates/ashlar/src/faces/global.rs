//! `Ashlar`: the allocator as Rust's global allocator, and behind `allocator-api2`.
#![allow(unsafe_code, reason = "implements unsafe traits")]

use core::alloc::{GlobalAlloc, Layout};

use super::kmalloc::{self, KMALLOC_MAX_CACHE_SIZE, kfree, kmalloc_aligned, kzalloc};

/// The allocator as a value without state.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: ashlar::Ashlar = ashlar::Ashlar;
/// assert_eq!(vec![1, 2, 3].len(), 3);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ashlar;

// SAFETY: kmalloc returns null or memory of the requested size and alignment, which no other caller
// gets until it is freed. No call unwinds.
unsafe impl GlobalAlloc for Ashlar {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        kmalloc_aligned(layout.size(), layout.align())
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, _layout: Layout) {
        // SAFETY: `ptr` came from `alloc`, and the caller gives it up.
        unsafe { kfree(ptr) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= 8 {
            return kzalloc(layout.size());
        }
        let ptr = kmalloc_aligned(layout.size(), layout.align());
        if !ptr.is_null() {
            // SAFETY: the memory is fresh and has the layout's size.
            unsafe { ptr.write_bytes(0, layout.size()) };
        }
        ptr
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller owns `ptr`.
        let have = unsafe { kmalloc::ksize(ptr) };
        let keeps = new_size <= have && (new_size >= have / 2 || have <= 64);
        if keeps && layout.align() <= 8 {
            return ptr;
        }
        if layout.align() <= 8 && new_size > have && have > KMALLOC_MAX_CACHE_SIZE {
            // SAFETY: the caller owns `ptr` and lets it move.
            return unsafe { kmalloc::krealloc(ptr, new_size) };
        }
        let new = kmalloc_aligned(new_size, layout.align());
        if !new.is_null() {
            // SAFETY: both are live and at least that long, and the caller gives up the old one.
            unsafe {
                new.copy_from_nonoverlapping(ptr, layout.size().min(new_size));
                kfree(ptr);
            }
        }
        new
    }
}

#[cfg(feature = "allocator-api2")]
// SAFETY: as for GlobalAlloc; `Ashlar` has no state, so every copy frees what any other allocated.
unsafe impl allocator_api2::alloc::Allocator for Ashlar {
    fn allocate(&self, layout: Layout) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
        use core::ptr::NonNull;
        let start = if layout.size() == 0 {
            NonNull::new(core::ptr::without_provenance_mut(layout.align()))
        } else {
            NonNull::new(kmalloc_aligned(layout.size(), layout.align()))
        };
        start.map(|at| NonNull::slice_from_raw_parts(at, layout.size())).ok_or(allocator_api2::alloc::AllocError)
    }

    unsafe fn deallocate(&self, ptr: core::ptr::NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: `ptr` came from `allocate` for a nonzero layout, and the caller gives it up.
            unsafe { kfree(ptr.as_ptr()) };
        }
    }
}
