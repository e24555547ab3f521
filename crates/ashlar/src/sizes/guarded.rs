//! Guard sampling ([`guard`]) of malloc and kmalloc: which calls count, and where.
//!
//! With the option `guard=N`, calls of malloc are diverted to the copy of the fast path that counts
//! (`faces::malloc::counted`). It counts calls then, and not bytes. kmalloc counts in its slow
//! path, if any of its classes is to be guarded. While a profile runs as well, malloc does without
//! the copy.
//!
//! With `guard=Nms` nothing is diverted but while the gate is open, which is for one call. Slow
//! paths look at the clock, and so does a tick of the background thread, if there is one.

use core::ptr::NonNull;

use super::diversion::{self, By};
use super::kmalloc;
use super::malloc;
use super::malloc::classes::{MALLOC_MAX_CACHE_SIZE, STEP, class_of};
use crate::base::background;
use crate::engine::RawCache;
use crate::engine::guard::{self, MOST_BYTES};
use ashlar_macros::place;

/// Has guard sampling include what has started of malloc and kmalloc.
#[place(cold)]
#[inline(never)]
pub(crate) fn include() {
    if kmalloc::is_guarded() {
        kmalloc::close_sized_frees();
    }
    if guard::is_timed() {
        background::wake();
        diversion::apply();
    } else {
        diversion::divert(By::Guard);
    }
}

/// Counts again as before a profile.
#[place(cold)]
pub(crate) fn resume() {
    guard::restart_counts();
}

/// Opens the gate in a tick of the background. Returns whether there will be more to do.
#[place(cold)]
#[inline(never)]
pub(crate) fn tick() -> bool {
    if !guard::is_timed() {
        return false;
    }
    guard::open_in_time();
    follow_gate();
    // Without the thread, slow paths look at the clock themselves.
    background::is_this_thread()
}

/// Diverts calls if the gate is open, and no longer if it is shut.
#[place(cold)]
fn follow_gate() {
    match (guard::is_open(), diversion::has(By::Gate)) {
        (true, false) => diversion::divert(By::Gate),
        (false, true) => diversion::go_back(By::Gate),
        _ => {}
    }
}

/// Returns a guarded object for an allocation of malloc of `size` bytes, if it is to have one.
#[place(cold)]
#[inline(never)]
pub(crate) fn in_place_of_malloc(size: usize) -> Option<NonNull<u8>> {
    if guard::is_timed() {
        let class = (size <= MALLOC_MAX_CACHE_SIZE).then(|| class_of(size))?;
        return behind_gate(size, STEP, malloc::cache(class));
    }
    if size > MOST_BYTES || !guard::is_on() || !guard::is_due() {
        return None;
    }
    let cache = malloc::cache(class_of(size)).filter(|cache| cache.guarded)?;
    guard::alloc(cache, size, STEP)
}

/// The same for kmalloc, and the cache that would serve the request.
#[place(cold)]
#[inline(never)]
pub(crate) fn in_place_of_kmalloc(size: usize, cache: Option<&'static RawCache>) -> Option<NonNull<u8>> {
    // The kernel promises the largest power of two that divides the size. An object at the end of
    // its page has it, and one at the start, too.
    const ALIGN: usize = 8;
    if guard::is_timed() {
        return behind_gate(size, ALIGN, cache);
    }
    if size > MOST_BYTES || !guard::is_on() {
        return None;
    }
    let cache = cache.filter(|cache| cache.guarded && guard::is_due())?;
    guard::alloc(cache, size, ALIGN)
}

/// Returns a guarded object of a cache if the gate is open, and shuts it. The call that opens it is
/// not the one that goes through: slow paths are too few to stand for all calls.
#[place(cold)]
fn behind_gate(size: usize, align: usize, cache: Option<&'static RawCache>) -> Option<NonNull<u8>> {
    let object = match cache.filter(|cache| cache.guarded && size <= MOST_BYTES) {
        Some(cache) if guard::is_due() => guard::alloc(cache, size, align),
        Some(_) => None,
        None => {
            guard::pass_by();
            None
        }
    };
    guard::open_in_time();
    follow_gate();
    object
}
