//! `KmemCache`: a cache of objects of one size, as programs see it.
//!
//! Its fast paths are inlined into the program: [`CacheRef`] has what they need.

use core::ptr::NonNull;

use crate::base::error::{CreateError, DestroyError, TuneError};
use crate::boot;
use crate::cache::{Alias, CacheArgs, CacheInfo, check_wishes, create_or_merge, info, registry, tune};
use crate::engine::history::slab_queues::QueueTunables;
use crate::engine::{self, Engine, Object, Objects, Policy, RawCache, Tunable};
use crate::percpu;

/// A cache of objects of one size: the kernel's `struct kmem_cache`.
///
/// Caches of objects alike may be merged: [`CacheArgs::no_merge`]. Then each has its name, and all
/// have the slabs, figures and tunables of one, as in the kernel.
///
/// Any thread may allocate and free. Dropping the handle leaves the cache and its objects as they
/// are, for ever, as in C; [`destroy`](KmemCache::destroy) ends it. A [`Cache`](crate::Cache) ends
/// when it drops.
#[derive(Debug)]
pub struct KmemCache {
    raw: &'static RawCache,
    hot: Hot,
    /// The name, where that is not the first one of the slabs.
    alias: Option<&'static Alias>,
}

/// What the critical sections of one cache need; constant.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(all(feature = "os", target_arch = "x86_64")), expect(dead_code, reason = "for rseq"))]
struct Hot {
    /// Address of CPU 0's slot.
    slot: usize,
    /// The same for frees: slot 0, which is always full, where frees must look at the node first.
    free_slot: usize,
    /// Offset of the rseq area from the thread pointer.
    rseq_offset: isize,
}

impl Hot {
    fn of(raw: &RawCache) -> Hot {
        debug_assert!(!percpu::area::is_sided(raw.slot), "the sections of this file know main and spare in order");
        Hot {
            slot: percpu::slot0(raw.slot),
            free_slot: percpu::slot0(raw.slabs.class_slot),
            rseq_offset: percpu::area::PERCPU.rseq_offset.load(crate::base::sync::Ordering::Relaxed),
        }
    }
}

/// A cache borrowed for a loop: a copy of what the fast paths need, which the compiler can keep in
/// registers.
#[derive(Clone, Copy, Debug)]
pub struct CacheRef<'a> {
    cache: &'a KmemCache,
    #[cfg_attr(not(all(feature = "os", target_arch = "x86_64")), expect(dead_code, reason = "for rseq"))]
    hot: Hot,
}

impl CacheRef<'_> {
    /// As [`KmemCache::alloc`].
    #[inline(always)]
    pub fn alloc(&self) -> Option<NonNull<u8>> {
        #[cfg(all(feature = "os", target_arch = "x86_64"))]
        if let Some(object) = NonNull::new(percpu::sections::pop(self.hot.slot, self.hot.rseq_offset) as *mut u8) {
            return Some(object);
        }
        self.cache.alloc_slow()
    }

    /// As [`KmemCache::free`].
    ///
    /// # Safety
    /// As for [`KmemCache::free`].
    #[inline(always)]
    #[expect(unsafe_code, reason = "an object may be freed only once")]
    pub unsafe fn free(&self, object: NonNull<u8>) {
        #[cfg(all(feature = "os", target_arch = "x86_64"))]
        if percpu::sections::push(self.hot.free_slot, self.hot.rseq_offset, object.as_ptr() as usize) {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.cache.free_slow(object) };
    }

    /// As [`KmemCache::alloc_bulk`].
    #[inline(always)]
    pub fn alloc_bulk(&self, out: &mut [*mut u8]) -> bool {
        #[cfg(all(feature = "os", target_arch = "x86_64"))]
        if let [one] = out {
            *one = percpu::sections::pop(self.hot.slot, self.hot.rseq_offset) as *mut u8;
            if !one.is_null() {
                return true;
            }
        } else if percpu::bulk::pop_all(self.hot.slot, self.hot.rseq_offset, as_addresses_mut(out)) {
            return true;
        }
        self.cache.alloc_bulk_slow(out)
    }

    /// As [`KmemCache::free_bulk`].
    ///
    /// # Safety
    /// As for [`KmemCache::free_bulk`].
    #[inline(always)]
    #[expect(unsafe_code, reason = "objects may be freed only once")]
    pub unsafe fn free_bulk(&self, objects: &[*mut u8]) {
        let objects = as_addresses(objects);
        #[cfg(all(feature = "os", target_arch = "x86_64"))]
        if let [one] = objects {
            if percpu::sections::push(self.hot.free_slot, self.hot.rseq_offset, *one) {
                return;
            }
        } else if percpu::bulk::push_all(self.hot.free_slot, self.hot.rseq_offset, objects) {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.cache.free_bulk_slow(objects) };
    }
}

/// Pointers as the engines see them.
#[inline(always)]
fn as_addresses(objects: &[*mut u8]) -> &[usize] {
    #[expect(unsafe_code, reason = "views pointers as addresses")]
    // SAFETY: a raw pointer and an address have the same size and alignment, and every value of one
    // is a value of the other.
    unsafe {
        core::slice::from_raw_parts(objects.as_ptr().cast(), objects.len())
    }
}

/// As [`as_addresses`].
#[inline(always)]
fn as_addresses_mut(objects: &mut [*mut u8]) -> &mut [usize] {
    #[expect(unsafe_code, reason = "views pointers as addresses")]
    // SAFETY: as above.
    unsafe {
        core::slice::from_raw_parts_mut(objects.as_mut_ptr().cast(), objects.len())
    }
}

/// Of caches that the program makes.
static PROGRAM: Policy = Policy { of_program: true, ..Policy::GENEROUS };

impl KmemCache {
    /// Creates a cache named `name` for objects of `size` bytes (`kmem_cache_create`).
    ///
    /// # Errors
    /// See [`CreateError`]; nothing is created then.
    pub fn create(name: &str, size: usize, args: &CacheArgs) -> Result<KmemCache, CreateError> {
        if !boot::ensure_base() {
            return Err(CreateError::OutOfMemory);
        }
        check_wishes(name, size, args)?;
        let (raw, alias) = create_or_merge(name, size, args, &PROGRAM, None)?;
        Ok(KmemCache { raw, hot: Hot::of(raw), alias })
    }

    /// The same handle once more. The caller gives up one of the two.
    pub(super) fn again(&self) -> KmemCache {
        KmemCache { raw: self.raw, hot: self.hot, alias: self.alias }
    }

    /// What the engine knows of this cache.
    pub(crate) fn raw_cache(&self) -> &'static RawCache {
        self.raw
    }

    /// One object (`kmem_cache_alloc`); `None` when memory ends. Its contents are those of its last
    /// use, or what the constructor left.
    #[inline(always)]
    pub fn alloc(&self) -> Option<NonNull<u8>> {
        self.borrowed().alloc()
    }

    /// A copy of what the fast paths need, for loops.
    #[inline(always)]
    pub fn borrowed(&self) -> CacheRef<'_> {
        CacheRef { cache: self, hot: self.hot }
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&self) -> Option<NonNull<u8>> {
        NonNull::new(engine::alloc(self.raw))
    }

    /// One object, all bytes zero (`kmem_cache_zalloc`). Not for caches with a constructor.
    pub fn zalloc(&self) -> Option<NonNull<u8>> {
        let object = self.alloc()?;
        #[expect(unsafe_code, reason = "clears fresh memory")]
        // SAFETY: the object is `object_size` writable bytes that were just allocated.
        unsafe {
            object.as_ptr().write_bytes(0, self.raw.object_size());
        }
        Some(object)
    }

    /// Gives an object back (`kmem_cache_free`).
    ///
    /// # Safety
    /// The object was allocated from this cache, was not freed since, and no thread uses it any
    /// more. With a constructor it is in constructed state.
    #[inline(always)]
    #[expect(unsafe_code, reason = "an object may be freed only once")]
    pub unsafe fn free(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { self.borrowed().free(object) };
    }

    /// # Safety
    /// As for [`free`](KmemCache::free).
    #[cold]
    #[inline(never)]
    #[expect(unsafe_code, reason = "an object may be freed only once")]
    unsafe fn free_slow(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        engine::free(unsafe { Object::new(self.raw, object.as_ptr() as usize) });
    }

    /// Fills `out` with objects; all or nothing (`kmem_cache_alloc_bulk`). False when memory ends:
    /// then `out` holds nothing that is allocated.
    #[inline(always)]
    pub fn alloc_bulk(&self, out: &mut [*mut u8]) -> bool {
        self.borrowed().alloc_bulk(out)
    }

    #[cold]
    #[inline(never)]
    fn alloc_bulk_slow(&self, out: &mut [*mut u8]) -> bool {
        let done = engine::alloc_bulk(self.raw, as_addresses_mut(out));
        // Engines write addresses, which alone give no access. No instruction comes of this.
        for object in out {
            *object = core::ptr::with_exposed_provenance_mut(object.addr());
        }
        done
    }

    /// Gives objects back (`kmem_cache_free_bulk`).
    ///
    /// # Safety
    /// As for [`free`](KmemCache::free), for each of them; none occurs twice and none is null.
    #[inline(always)]
    #[expect(unsafe_code, reason = "objects may be freed only once")]
    pub unsafe fn free_bulk(&self, objects: &[*mut u8]) {
        // SAFETY: the caller's promise.
        unsafe { self.borrowed().free_bulk(objects) };
    }

    /// # Safety
    /// As for [`free_bulk`](KmemCache::free_bulk).
    #[cold]
    #[inline(never)]
    #[expect(unsafe_code, reason = "objects may be freed only once")]
    unsafe fn free_bulk_slow(&self, objects: &[usize]) {
        // SAFETY: the caller's promise.
        engine::free_bulk(unsafe { Objects::new(self.raw, objects) });
    }

    /// Gives free slabs back to the page layer (`kmem_cache_shrink`). True when no slab is left.
    pub fn shrink(&self) -> bool {
        let left = engine::shrink(self.raw);
        crate::base::background::settle();
        left == 0
    }

    /// Ends the cache (`kmem_cache_destroy`). Where caches are merged only this handle and its name
    /// go, and whatever objects they have stay as they are: it is not known which of them each
    /// object is from. The last handle ends the cache.
    ///
    /// # Errors
    /// With live objects nothing is lost: a line on standard error reports them and the handle
    /// comes back.
    pub fn destroy(self) -> Result<(), (KmemCache, DestroyError)> {
        if !self.raw.policy.of_program {
            return Err((self, DestroyError::BuiltIn));
        }
        let mut drained = false;
        let gone = registry::unregister_if(self.raw, self.alias, || {
            drained = engine::drain_cpus(self.raw);
            engine::trim(self.raw) == 0
        });
        crate::base::background::settle();
        if gone {
            return Ok(());
        }
        let live = engine::usage(self.raw).live;
        if !drained && live == 0 {
            return Err((self, DestroyError::CannotDrain));
        }
        crate::base::report::warn(format_args!(
            "cache {}: destroyed while {live} objects are in use: it stays",
            self.name()
        ));
        Err((self, DestroyError::LiveObjects(live)))
    }

    /// Name of the cache: that it was created with, merged or not.
    pub fn name(&self) -> &str {
        self.alias.map_or(self.raw.name(), Alias::name)
    }

    /// Bytes of an object that the user may use (`kmem_cache_size`); of merged caches the most that
    /// one of them asked for.
    pub fn object_size(&self) -> usize {
        self.raw.object_size()
    }

    /// Whether the objects of this cache and of `other` come from the same slabs: they were merged,
    /// or their engine lets caches share pages.
    pub fn shares_slabs_with(&self, other: &KmemCache) -> bool {
        core::ptr::eq(self.raw, other.raw) || engine::share_pages(self.raw, other.raw)
    }

    /// Its strategy.
    pub fn engine(&self) -> Engine {
        self.raw.engine
    }

    /// Shape, tunables and figures of this moment.
    pub fn info(&self) -> CacheInfo {
        registry::with_lock(|| info::info(self.raw)).named(self.name())
    }

    /// The value of a tunable; `None` where the cache's engine does not have it.
    pub fn tunable(&self, which: Tunable) -> Option<usize> {
        tune::tunable(self.raw, which)
    }

    /// Changes a tunable, at any time, while other threads use the cache. The change is for all
    /// names of merged caches.
    ///
    /// # Errors
    /// See [`TuneError`]: nothing has changed then.
    pub fn set_tunable(&self, which: Tunable, value: usize) -> Result<(), TuneError> {
        tune::set_tunable(self.raw, which, value)
    }

    /// Sets the three tunables of a cache of the engine `slab` together.
    ///
    /// # Errors
    /// See [`TuneError`]: nothing has changed then.
    pub fn set_queue_tunables(&self, tunables: &QueueTunables) -> Result<(), TuneError> {
        tune::set_queue_tunables(self.raw, tunables)
    }
}
