//! Guard sampling ([`guard`]) of malloc and kmalloc: which calls count, and where.
//!
//! With the option `guard`, the bound of malloc's fast path is 0, as while a heap profile runs, and
//! the slow path starts with the copy of the fast path that counts (`faces::malloc::counted`). It
//! counts calls then, and not bytes. kmalloc counts in its slow path, if any of its classes is to
//! be guarded. While a profile runs as well, malloc does without the copy.

use core::ptr::NonNull;

use super::kmalloc;
use super::malloc::classes::{MALLOC_MAX_CACHE_SIZE, STEP, class_of};
use super::malloc::{self, LIMIT};
use crate::base::sync::{AtomicU32, Ordering};
use crate::engine::guard::{self, MOST_BYTES};

/// 1 where the copy of malloc's fast path counts calls.
pub(crate) static BY_CALLS: AtomicU32 = AtomicU32::new(0);

/// Diverts the calls of malloc and kmalloc, as far as these have started.
#[place(cold)]
#[inline(never)]
pub(crate) fn divert() {
    if kmalloc::is_guarded() {
        kmalloc::close_sized_frees();
        kmalloc::close_fast_path();
    }
    if LIMIT.is_open() {
        BY_CALLS.store(1, Ordering::Relaxed);
        malloc::count_below(MALLOC_MAX_CACHE_SIZE + 1);
    }
    LIMIT.close();
}

/// Counts again as before a profile.
#[place(cold)]
pub(crate) fn resume() {
    if guard::is_on() {
        guard::restart_counts();
        divert();
    }
}

/// Returns a guarded object for an allocation of malloc of `size` bytes, if it is to have one.
#[place(cold)]
#[inline(never)]
pub(crate) fn in_place_of_malloc(size: usize) -> Option<NonNull<u8>> {
    if size > MOST_BYTES || !guard::is_on() || !guard::is_due() {
        return None;
    }
    let cache = malloc::cache(class_of(size)).filter(|cache| cache.guarded)?;
    guard::alloc(cache, size, STEP)
}

/// The same for kmalloc.
#[place(cold)]
#[inline(never)]
pub(crate) fn in_place_of_kmalloc(size: usize) -> Option<NonNull<u8>> {
    if size > MOST_BYTES || !guard::is_on() {
        return None;
    }
    let cache = kmalloc::class_cache(size).filter(|cache| cache.guarded && guard::is_due())?;
    // The kernel promises the largest power of two that divides the size. An object at the end of
    // its page has it, and one at the start, too.
    guard::alloc(cache, size, 8)
}
