//! ashlar itself: kmalloc as a called function, with plain and sized free, and an inlined cache for each size.

use core::ptr::NonNull;

use ashlar::{CacheArgs, CacheRef, KmemCache};

use super::{Calls, Handle, System};
use crate::bench::protocol::Setup;

/// See [`System::counts`].
fn counts() -> [u64; 2] {
    let all = ashlar::total_counts();
    [all.locks(), all.alloc_slow + all.free_slow]
}

/// See [`System::note`].
fn note() -> String {
    format!("{}, nodes: {}", ashlar::mode(), ashlar::nodes())
}

/// `kmalloc` and `kfree`.
#[derive(Debug)]
pub(crate) struct Kmalloc;

impl Calls for Kmalloc {
    #[inline(always)]
    fn alloc(size: usize) -> *mut u8 {
        ashlar::kmalloc(size)
    }

    #[inline(always)]
    unsafe fn free(object: *mut u8, _size: usize) {
        // SAFETY: by the contract of this function `object` is live and came from `kmalloc`.
        unsafe { ashlar::kfree(object) }
    }

    fn note() -> String {
        note()
    }

    fn counts() -> Option<[u64; 2]> {
        Some(counts())
    }
}

/// `kmalloc` and `kfree_sized`.
#[derive(Debug)]
pub(crate) struct KmallocSized;

impl Calls for KmallocSized {
    #[inline(always)]
    fn alloc(size: usize) -> *mut u8 {
        ashlar::kmalloc(size)
    }

    #[inline(always)]
    unsafe fn free(object: *mut u8, size: usize) {
        // SAFETY: by the contract of this function `object` is live and came from `kmalloc(size)`.
        unsafe { ashlar::kfree_sized(object, size) }
    }

    fn note() -> String {
        note()
    }

    fn counts() -> Option<[u64; 2]> {
        Some(counts())
    }
}

/// C's `malloc` and `free`, which check what they free.
#[derive(Debug)]
pub(crate) struct Malloc;

impl Calls for Malloc {
    #[inline(always)]
    fn alloc(size: usize) -> *mut u8 {
        ashlar::malloc::malloc(size)
    }

    #[inline(always)]
    unsafe fn free(object: *mut u8, _size: usize) {
        // SAFETY: by the contract of this function `object` is live and came from `malloc`.
        unsafe { ashlar::malloc::free(object) }
    }

    fn note() -> String {
        note()
    }

    fn counts() -> Option<[u64; 2]> {
        Some(counts())
    }
}

/// One named cache for each size, used through the inlined calls.
#[derive(Debug)]
pub(crate) struct Caches(Vec<(usize, KmemCache)>);

impl System for Caches {
    type Handle<'a> = CacheHandle<'a>;

    fn new(setup: &Setup, _threads: usize) -> Result<Self, String> {
        let create = |&size: &usize| {
            KmemCache::create(&format!("bench-{size}"), size, &CacheArgs::default())
                .map(|cache| (size, cache))
                .map_err(|error| format!("cannot create a cache for objects of {size} bytes: {error}"))
        };
        setup.sizes.iter().chain(&setup.holes).map(create).collect::<Result<_, _>>().map(Self)
    }

    fn handle(&self, _me: usize, size: usize) -> CacheHandle<'_> {
        // The parent asks only for sizes that it announced in the set-up.
        let at = self.0.iter().position(|(of, _)| *of == size).unwrap_or_default();
        CacheHandle(self.0[at].1.borrowed())
    }

    fn note(&self) -> String {
        note()
    }

    fn counts(&self) -> Option<[u64; 2]> {
        Some(counts())
    }
}

/// A cache in a timed loop.
#[derive(Debug)]
pub(crate) struct CacheHandle<'a>(CacheRef<'a>);

impl Handle for CacheHandle<'_> {
    #[inline(always)]
    fn alloc(&mut self) -> *mut u8 {
        self.0.alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline(always)]
    unsafe fn free(&mut self, object: *mut u8) {
        // SAFETY: `object` came from `alloc` of a handle on this same cache and was not null, as the contract of
        // `Handle::free` says; so it is non-null, live, and of this cache.
        unsafe { self.0.free(NonNull::new_unchecked(object)) }
    }
}
