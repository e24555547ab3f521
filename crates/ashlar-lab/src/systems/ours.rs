//! ashlar itself: kmalloc as a called function, with plain and sized free, and an inlined cache for
//! each size.

use core::ptr::NonNull;

use ashlar::{CacheArgs, CacheRef, KmemCache, MAX_SHEAF_CAPACITY};

use crate::systems::heap::{Heap, Kind};
use crate::systems::traits::{Calls, Handle, Setup, Slab, System};

/// See [`System::note`].
fn note() -> String {
    format!("{}, nodes: {}", ashlar::mode(), ashlar::nodes())
}

/// See [`Heap::slab`]. The kernel counts large kmallocs too.
fn slab() -> Slab {
    let zone = ashlar::zone_stats();
    let pages = zone.committed.saturating_sub(zone.free) * ashlar::PAGE_SIZE;
    Slab { bytes: pages + ashlar::direct_bytes(), metadata: ashlar::metadata_bytes() }
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

    fn counts() -> Option<ashlar::Counts> {
        Some(ashlar::total_counts())
    }

    fn slab() -> Option<Slab> {
        Some(slab())
    }

    const SHRINK: Option<&'static str> = Some("ashlar::reap()");

    fn shrink() {
        ashlar::reap();
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

    fn counts() -> Option<ashlar::Counts> {
        Some(ashlar::total_counts())
    }

    fn slab() -> Option<Slab> {
        Some(slab())
    }

    const SHRINK: Option<&'static str> = Some("ashlar::reap()");

    fn shrink() {
        ashlar::reap();
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

    fn counts() -> Option<ashlar::Counts> {
        Some(ashlar::total_counts())
    }

    fn slab() -> Option<Slab> {
        Some(slab())
    }

    const SHRINK: Option<&'static str> = Some("ashlar::reap()");

    fn shrink() {
        ashlar::reap();
    }
}

/// One named cache for each size, used through the inlined calls.
#[derive(Debug)]
pub(crate) struct Caches(Vec<(usize, KmemCache)>);

impl System for Caches {
    type Handle<'a> = CacheHandle<'a>;

    fn new(setup: &Setup, _threads: usize) -> Result<Self, String> {
        let create = |&size: &usize| {
            let mut args = CacheArgs::DEFAULT;
            args.sheaf_capacity = setup.large_sheaves.contains(&size).then_some(MAX_SHEAF_CAPACITY);
            KmemCache::create(&format!("bench-{size}"), size, &args)
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

    fn counts(&self) -> Option<ashlar::Counts> {
        Some(ashlar::total_counts())
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
        // SAFETY: `object` came from `alloc` of a handle on this same cache and was not null, as
        // the contract of `Handle::free` says; so it is non-null, live, and of this cache.
        unsafe { self.0.free(NonNull::new_unchecked(object)) }
    }

    const BULK: bool = true;

    #[inline(always)]
    fn alloc_bulk(&mut self, out: &mut [*mut u8]) -> bool {
        self.0.alloc_bulk(out)
    }

    #[inline(always)]
    unsafe fn free_bulk(&mut self, objects: &[*mut u8]) {
        // SAFETY: live objects of this cache, each once and none null, by the contract of
        // `Handle::free_bulk`.
        unsafe { self.0.free_bulk(objects) }
    }
}

/// The kernel's way: what has a name has a cache, all else comes from kmalloc.
#[derive(Debug)]
pub(crate) struct CachesAndKmalloc(Vec<Place>);

/// Where the objects of one kind come from.
#[derive(Debug)]
enum Place {
    Cache(KmemCache),
    Kmalloc(usize),
}

impl Heap for CachesAndKmalloc {
    fn open(kinds: &[Kind]) -> Result<Self, String> {
        let place = |kind: &Kind| match &kind.name {
            None => Ok(Place::Kmalloc(kind.size)),
            Some(name) => KmemCache::create(name, kind.size, &CacheArgs::DEFAULT.hwcache_align(kind.lines))
                .map(Place::Cache)
                .map_err(|error| format!("cannot create the cache {name} for objects of {} bytes: {error}", kind.size)),
        };
        kinds.iter().map(place).collect::<Result<_, _>>().map(Self)
    }

    #[inline(always)]
    fn alloc(&self, kind: usize) -> *mut u8 {
        match &self.0[kind] {
            Place::Cache(cache) => cache.alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr),
            Place::Kmalloc(size) => ashlar::kmalloc(*size),
        }
    }

    #[inline(always)]
    unsafe fn free(&self, kind: usize, object: *mut u8) {
        match &self.0[kind] {
            // SAFETY: `object` came from `alloc` of this kind and was not null (contract): live,
            // and of this cache.
            Place::Cache(cache) => unsafe { cache.free(NonNull::new_unchecked(object)) },
            // SAFETY: as above, from kmalloc.
            Place::Kmalloc(_) => unsafe { ashlar::kfree(object) },
        }
    }

    fn slab(&self) -> Option<Slab> {
        Some(slab())
    }

    fn shrink(&self) -> Option<&'static str> {
        for place in &self.0 {
            if let Place::Cache(cache) = place {
                cache.shrink();
            }
        }
        ashlar::reap();
        Some("kmem_cache_shrink of each cache, ashlar::reap()")
    }

    fn counts(&self) -> Option<ashlar::Counts> {
        Some(ashlar::total_counts())
    }

    fn note(&self) -> String {
        note()
    }
}
