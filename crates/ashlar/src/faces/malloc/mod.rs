//! malloc: C's allocator, on caches of finer classes than kmalloc's.
//!
//! The rules are those of glibc's manual. All memory is aligned to 16 bytes, a size of 0 gets a
//! distinct pointer, failure sets `errno`, and success and `free` do not change it.
//!
//! * `entry`: `malloc` and `free` with their fast paths.
//! * `resize`: `realloc`.
//! * `slow`: what lies behind the fast paths.
//! * `counted`: the fast path of `malloc` while a profile runs.
//! * this file: the functions built on them.
//!
//! These are Rust functions. The C names, with their exact argument rules, are in the crate
//! `ashlar-malloc`.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod counted;
pub(crate) mod entry;
mod errno;
mod resize;
mod slow;
#[cfg(test)]
mod tests;

use crate::base::sync::Ordering;
use crate::base::units::{PAGE_SIZE, untagged};
use crate::boot;
#[doc(hidden)]
pub use crate::boot::when_up;
#[doc(hidden)]
pub use crate::cache::settings::DeepBind;
use crate::pages::direct::Fill;
use crate::percpu;
use crate::sizes::beside_fork;
pub use crate::sizes::malloc::classes::MALLOC_MAX_CACHE_SIZE;
use crate::sizes::malloc::classes::{STEP, aligned_class, size_of_class};
use crate::sizes::malloc::{CLEARED, LIMIT};
use crate::sizes::owner;
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use counted::malloc_slow;
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
pub use entry::parts;
pub use entry::{free, malloc};
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
pub use entry::{open_derived_allocs, open_derived_frees};
pub use resize::realloc;
pub use slow::free_slow;

/// `malloc` without a fast path; see the x86-64 version.
#[cfg(not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub extern "C" fn malloc_slow(size: usize) -> *mut u8 {
    slow::malloc_uncounted(size)
}

/// Returns how CPU-local sections are protected. Starts what malloc needs if it is not up, and no
/// more.
pub fn mode() -> percpu::Mode {
    boot::ensure_malloc();
    percpu::mode()
}

/// Returns the option `deepbind`, for a `dlopen` that stands before the C library's. Starts what
/// malloc needs if it is not up: options are read then.
#[doc(hidden)]
#[place(cold)]
pub fn deepbind() -> DeepBind {
    boot::ensure_malloc();
    crate::cache::settings::options().deepbind
}

/// Whether calls of `malloc` are served by their fast path, and those of `free` too unless the
/// machine has several nodes. False in the mode `lock`, for engines without sheaves, with options
/// such as `init_on_alloc`, and where something else lies at the place of the object map. Then each
/// call takes the slow path, which does the same. False before the first call, too.
pub fn has_fast_paths() -> bool {
    LIMIT.is_open() && percpu::mode() != percpu::Mode::Lock
}

/// Allocates `count * size` zeroed bytes, as C's `calloc` does.
pub fn calloc(count: usize, size: usize) -> *mut u8 {
    let Some(bytes) = count.checked_mul(size) else {
        errno::set(errno::ENOMEM);
        return core::ptr::null_mut();
    };
    if bytes < CLEARED.load(Ordering::Relaxed) {
        let ptr = malloc(bytes);
        if !ptr.is_null() {
            // SAFETY: the memory is fresh and has `bytes` bytes.
            unsafe { ptr.write_bytes(0, bytes) };
        }
        return ptr;
    }
    if bytes <= MALLOC_MAX_CACHE_SIZE {
        return malloc(bytes);
    }
    slow::allocate_large(bytes, STEP, Fill::Zeros)
}

/// Allocates at least `size` bytes at a multiple of `align`, a power of two. Fails with `EINVAL`
/// for another `align`.
pub fn malloc_aligned(align: usize, size: usize) -> *mut u8 {
    if !align.is_power_of_two() {
        errno::set(errno::EINVAL);
        return core::ptr::null_mut();
    }
    if align <= STEP {
        return malloc(size);
    }
    if align <= PAGE_SIZE
        && let Some(class) = aligned_class(size, align)
    {
        return malloc(size_of_class(class));
    }
    slow::allocate_large(size, align, Fill::Any)
}

/// Returns the usable bytes at `ptr`, at least the requested size; 0 for null.
///
/// # Safety
/// `ptr` is null or was allocated here and was not freed.
#[inline]
pub unsafe fn malloc_usable_size(ptr: *const u8) -> usize {
    match owner::tracked_bytes(ptr as usize) {
        0 if ptr.is_null() => 0,
        // SAFETY: passed on; the pointer leads to the same allocation.
        0 if untagged(ptr.cast_mut()).cast_const() != ptr => unsafe { malloc_usable_size(untagged(ptr.cast_mut())) },
        0 => {
            beside_fork::pass(|| slow::bytes_of("malloc_usable_size", ptr), || owner::bytes_without_locks(ptr as usize))
                .unwrap_or(0)
        }
        bytes => bytes,
    }
}
