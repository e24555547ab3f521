//! `KmemCache`: a cache of objects of one size, as programs see it.
//!
//! Its fast paths are inlined into the program; [`CacheRef`] holds the values that they need.

use core::ptr::NonNull;

#[cfg(feature = "os")]
use super::kmalloc::profiled;
use super::kmalloc::profiled::freed;
use crate::base::error::{CreateError, DestroyError, TuneError};
use crate::boot;
use crate::cache::{Alias, CacheArgs, CacheInfo, check_wishes, create_or_merge, info, registry, tune};
#[cfg(feature = "os")]
use crate::engine::debug::Trace;
use crate::engine::history::slab_queues::QueueTunables;
use crate::engine::route::Route;
use crate::engine::{self, DebugFlags, Engine, Object, Objects, Policy, RawCache, Tunable};
use crate::pages::zone::ZONE;
use crate::percpu;
#[cfg(feature = "os")]
use crate::sizes::profile;

/// A cache of objects of one size: the kernel's `struct kmem_cache`.
///
/// Caches of similar objects may be merged (see [`CacheArgs::no_merge`]). Then each has its own
/// name, and all share slabs, figures and tunables, as in the kernel.
///
/// Any thread may allocate and free. Dropping the handle leaks the cache and its objects, as in C;
/// [`destroy`](KmemCache::destroy) destroys it. A [`Cache`](crate::Cache) is destroyed when it
/// drops.
#[derive(Debug)]
pub struct KmemCache {
    raw: &'static RawCache,
    hot: Hot,
    /// The name, unless it is the first one of the shared cache.
    alias: Option<&'static Alias>,
    /// Whether the cache was destroyed, and every call is a mistake: see
    /// [`destroy_in_place`](KmemCache::destroy_in_place).
    is_gone: bool,
}

/// The constants that the critical sections of one cache need.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    all(feature = "os", not(any(target_arch = "x86_64", target_arch = "aarch64"))),
    expect(dead_code, reason = "for sections")
)]
struct Hot {
    /// Address of CPU 0's slot, or in a kernel its offset. It is slot 0, which is always empty, in
    /// a hardened process.
    slot: usize,
    /// The same for frees. It is slot 0, which is always full, if frees must examine the node
    /// first. In a kernel, the section examines it.
    free_slot: usize,
    /// Offset of the rseq area from the thread pointer.
    #[cfg(feature = "os")]
    rseq_offset: isize,
}

/// Returns what the sections of this file take: the address of CPU 0's slot at an offset. In a
/// kernel, the offset.
#[inline]
fn slot_at(offset: u16) -> usize {
    if cfg!(feature = "os") { percpu::slot0(offset) } else { usize::from(offset) }
}

impl Hot {
    fn of(raw: &RawCache) -> Hot {
        debug_assert!(!percpu::area::is_sided(raw.slot), "the sections of this file know main and spare in order");
        let free_slot = if ZONE.nodes() == 1 || cfg!(not(feature = "os")) { raw.slabs.class_slot } else { 0 };
        // Slot 0 is also always empty.
        let slot = if raw.route == Route::Hardened { 0 } else { raw.slot };
        Hot {
            slot: slot_at(slot),
            free_slot: slot_at(free_slot),
            #[cfg(feature = "os")]
            rseq_offset: percpu::area::PERCPU.rseq_offset.load(crate::base::sync::Ordering::Relaxed),
        }
    }
}

/// A cache borrowed for a loop: a copy of the values that the fast paths need, which the compiler
/// can keep in registers.
#[derive(Clone, Copy, Debug)]
pub struct CacheRef<'a> {
    cache: &'a KmemCache,
    #[cfg_attr(
        all(feature = "os", not(any(target_arch = "x86_64", target_arch = "aarch64"))),
        expect(dead_code, reason = "for sections")
    )]
    hot: Hot,
}

impl CacheRef<'_> {
    /// As [`KmemCache::alloc`].
    #[inline(always)]
    pub fn alloc(&self) -> Option<NonNull<u8>> {
        #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
        if let Some(object) = NonNull::new(percpu::sections::pop(self.hot.slot, self.hot.rseq_offset) as *mut u8) {
            return Some(object);
        }
        #[cfg(not(feature = "os"))]
        if let Some(object) =
            NonNull::new(core::ptr::with_exposed_provenance_mut(percpu::plain::pop(self.hot.slot as u16)))
        {
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
        #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
        if percpu::sections::push_trusted(self.hot.free_slot, self.hot.rseq_offset, object.as_ptr() as usize) {
            return;
        }
        #[cfg(not(feature = "os"))]
        {
            let address = object.as_ptr() as usize;
            let is_local = |cpu| super::kmalloc::entry::plain::has_local(address, cpu);
            if percpu::plain::push(self.hot.free_slot as u16, address, is_local) {
                return;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.cache.free_slow(object) };
    }

    /// As [`KmemCache::alloc_bulk`].
    #[inline(always)]
    pub fn alloc_bulk(&self, out: &mut [*mut u8]) -> bool {
        #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
        if let [one] = out {
            *one = percpu::sections::pop(self.hot.slot, self.hot.rseq_offset) as *mut u8;
            if !one.is_null() {
                return true;
            }
        } else if percpu::sections::bulk::pop_all(self.hot.slot, self.hot.rseq_offset, as_addresses_mut(out)) {
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
        #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
        if let [one] = objects {
            if percpu::sections::push(self.hot.free_slot, self.hot.rseq_offset, *one) {
                return;
            }
        } else if percpu::sections::bulk::push_all(self.hot.free_slot, self.hot.rseq_offset, objects) {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.cache.free_bulk_slow(objects) };
    }
}

/// Converts pointers to addresses for the engines.
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

/// The policy of caches that the program creates.
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
        #[cfg(feature = "os")]
        if args.debug.has(DebugFlags::STORE_USER) {
            // The program calls: an allocation could not load it.
            crate::base::os::load_unwinder();
        }
        let (raw, alias) = create_or_merge(name, size, args, &PROGRAM, None)?;
        Ok(KmemCache { raw, hot: Hot::of(raw), alias, is_gone: false })
    }

    /// Copies the handle. The caller gives up one of the two.
    pub(super) fn again(&self) -> KmemCache {
        KmemCache { raw: self.raw, hot: self.hot, alias: self.alias, is_gone: self.is_gone }
    }

    /// Returns the engine's side of this cache.
    pub(crate) fn raw_cache(&self) -> &'static RawCache {
        self.raw
    }

    /// Allocates one object (`kmem_cache_alloc`). Returns `None` without memory. The object holds
    /// the contents of its last use, or the state that the constructor left.
    #[inline(always)]
    pub fn alloc(&self) -> Option<NonNull<u8>> {
        self.borrowed().alloc()
    }

    /// Returns a copy of the values that the fast paths need, for loops.
    #[inline(always)]
    pub fn borrowed(&self) -> CacheRef<'_> {
        CacheRef { cache: self, hot: self.hot }
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&self) -> Option<NonNull<u8>> {
        if self.is_gone {
            self.report_use();
            return None;
        }
        #[cfg(feature = "os")]
        if profile::is_on() {
            return NonNull::new(profiled::alloc_in(self.raw));
        }
        NonNull::new(engine::alloc(self.raw))
    }

    /// Tells the heap profile of an object that was just allocated behind the fast path.
    #[inline]
    pub(super) fn counted(&self, object: *mut u8) -> Option<NonNull<u8>> {
        let object = NonNull::new(object)?;
        #[cfg(feature = "os")]
        if profile::is_on() {
            profile::count_in(self.raw, object);
        }
        Some(object)
    }

    /// Allocates one object with all bytes zero (`kmem_cache_zalloc`). Not for caches with a
    /// constructor, because it overwrites the constructed state.
    pub fn zalloc(&self) -> Option<NonNull<u8>> {
        let object = self.alloc()?;
        #[expect(unsafe_code, reason = "clears fresh memory")]
        // SAFETY: the object is `object_size` writable bytes that were just allocated.
        unsafe {
            object.as_ptr().write_bytes(0, self.raw.object_size());
        }
        Some(object)
    }

    /// Frees an object (`kmem_cache_free`).
    ///
    /// # Safety
    /// The object was allocated from this cache, was not freed since, and no thread uses it any
    /// more. If the cache has a constructor, the object is in constructed state.
    #[inline(always)]
    #[expect(unsafe_code, reason = "an object may be freed only once")]
    pub unsafe fn free(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { self.borrowed().free(object) };
    }

    /// As [`free`](Self::free), but if the object is the one that this CPU freed last, that is
    /// reported at once. C's `kmem_cache_free` is this function. The comparison costs two
    /// instructions, so `free` leaves it out. It finds a second free later, when the object goes to
    /// its slab.
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    #[inline(always)]
    #[expect(unsafe_code, reason = "an object may be freed only once")]
    pub unsafe fn free_checked(&self, object: NonNull<u8>) {
        #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
        if percpu::sections::push(self.hot.free_slot, self.hot.rseq_offset, object.as_ptr() as usize) {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.free_slow(object) };
    }

    /// # Safety
    /// As for [`free`](KmemCache::free).
    #[cold]
    #[inline(never)]
    #[expect(unsafe_code, reason = "an object may be freed only once")]
    unsafe fn free_slow(&self, object: NonNull<u8>) {
        if self.is_gone {
            return self.report_use();
        }
        #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
        if percpu::sections::push_of_node(self.hot.slot, object.as_ptr() as usize) {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.free_to_engine(object) };
    }

    /// # Safety
    /// As for [`free`](KmemCache::free).
    #[inline(never)]
    #[expect(unsafe_code, reason = "an object may be freed only once")]
    unsafe fn free_to_engine(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        let object = unsafe { Object::new(self.raw, object.as_ptr() as usize) };
        #[cfg(feature = "os")]
        if profile::ever_on() {
            return profiled::free_in(object);
        }
        engine::free(object);
    }

    /// Fills `out` with objects, or with none (`kmem_cache_alloc_bulk`). Returns false without
    /// memory; `out` then holds no allocated object.
    #[inline(always)]
    pub fn alloc_bulk(&self, out: &mut [*mut u8]) -> bool {
        self.borrowed().alloc_bulk(out)
    }

    #[cold]
    #[inline(never)]
    fn alloc_bulk_slow(&self, out: &mut [*mut u8]) -> bool {
        if self.is_gone {
            self.report_use();
            return false;
        }
        let done = engine::alloc_bulk(self.raw, as_addresses_mut(out));
        // Engines write bare addresses, without provenance. This loop restores it, and compiles to
        // no instruction.
        for object in out {
            *object = core::ptr::with_exposed_provenance_mut(object.addr());
            if done {
                self.counted(*object);
            }
        }
        done
    }

    /// Frees objects (`kmem_cache_free_bulk`).
    ///
    /// # Safety
    /// As for [`free`](KmemCache::free), for each object. None occurs twice, and none is null.
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
        if self.is_gone {
            return self.report_use();
        }
        objects.iter().for_each(|&object| freed(object));
        // SAFETY: the caller's promise.
        engine::free_bulk(unsafe { Objects::new(self.raw, objects) });
    }

    /// Checks every slab and every object of a debugged cache, and what lies beside the guarded
    /// objects of a cache, and reports what is wrong (the kernel's `validate_slab_cache`). Returns
    /// the number of defects that were reported and of repairs that were made; `None` for a cache
    /// with neither.
    #[place(cold)]
    pub fn validate(&self) -> Option<usize> {
        engine::validate_debugged(self.raw)
    }

    /// Calls `each` for every call stack that allocated objects which are in use, the most frequent
    /// first (the kernel's file `alloc_traces`). `each` may allocate. Returns the number of stacks;
    /// `None` for a cache without the flag `U`, or without memory for the table of stacks.
    #[cfg(feature = "os")]
    #[place(cold)]
    pub fn alloc_traces(&self, each: impl FnMut(&Trace)) -> Option<usize> {
        engine::debug::for_each_trace(self.raw, false, each)
    }

    /// As [`alloc_traces`](KmemCache::alloc_traces), for the stacks that freed objects which are
    /// free now (the kernel's file `free_traces`).
    #[cfg(feature = "os")]
    #[place(cold)]
    pub fn free_traces(&self, each: impl FnMut(&Trace)) -> Option<usize> {
        engine::debug::for_each_trace(self.raw, true, each)
    }

    /// Returns the debug flags of the cache.
    #[place(cold)]
    pub fn debug_flags(&self) -> DebugFlags {
        engine::debug::flags_of(self.raw)
    }

    /// Returns free slabs to the page layer (`kmem_cache_shrink`). Returns true if no slab is left.
    pub fn shrink(&self) -> bool {
        let left = engine::shrink(self.raw);
        crate::base::background::settle();
        left == 0
    }

    /// Destroys the cache (`kmem_cache_destroy`). If caches are merged, this removes only the
    /// handle and its name. All objects stay, because the shared cache does not record by which
    /// name each was allocated. The last handle destroys the shared cache.
    ///
    /// # Errors
    /// If objects are live, a line on standard error reports them, and the handle is returned.
    pub fn destroy(self) -> Result<(), (KmemCache, DestroyError)> {
        if !self.raw.policy.of_program {
            return Err((self, DestroyError::BuiltIn));
        }
        let mut drained = false;
        let _away = percpu::before_drains();
        let gone = registry::unregister_if(self.raw, self.alias, || {
            drained = engine::drain_cpus(self.raw);
            engine::trim(self.raw) == 0 && engine::guarded(self.raw) == 0
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
        if self.raw.engine == Engine::Debug {
            engine::debug::report_remaining(self.raw);
        }
        Err((self, DestroyError::LiveObjects(live)))
    }

    /// As [`destroy`](KmemCache::destroy), for languages in which the program may go on to use the
    /// handle. Every allocation and free by it, and another destruction, is then reported as a use
    /// after the destruction.
    ///
    /// # Errors
    /// As for [`destroy`](KmemCache::destroy); the handle is as before then.
    #[doc(hidden)]
    pub fn destroy_in_place(&mut self) -> Result<(), DestroyError> {
        if self.is_gone {
            self.report_use();
            return Ok(());
        }
        self.again().destroy().map_err(|(_, error)| error)?;
        self.is_gone = true;
        // Slot 0 is empty and full, so no fast path serves the handle.
        (self.hot.slot, self.hot.free_slot) = (slot_at(0), slot_at(0));
        Ok(())
    }

    /// Reports a use of the handle of a cache that was destroyed. The name is still known if there
    /// is no new cache in its place.
    #[place(cold)]
    #[inline(never)]
    #[cold]
    fn report_use(&self) {
        let is_free = self.raw.serial.load(crate::base::sync::Ordering::Relaxed) == 0;
        crate::base::report::gone(if is_free && self.alias.is_none() { self.raw.name() } else { "?" });
    }

    /// Returns the name that the cache was created with, merged or not.
    pub fn name(&self) -> &str {
        self.alias.map_or(self.raw.name(), Alias::name)
    }

    /// Returns the usable bytes of an object (`kmem_cache_size`). For merged caches, this is the
    /// largest requested size.
    pub fn object_size(&self) -> usize {
        self.raw.object_size()
    }

    /// Returns whether this cache and `other` share slabs, because they were merged or their engine
    /// lets caches share pages.
    pub fn shares_slabs_with(&self, other: &KmemCache) -> bool {
        core::ptr::eq(self.raw, other.raw) || engine::share_pages(self.raw, other.raw)
    }

    /// Returns the engine of the cache.
    pub fn engine(&self) -> Engine {
        self.raw.engine
    }

    /// Returns the present shape, tunables and figures.
    pub fn info(&self) -> CacheInfo {
        registry::with_lock(|| info::info(self.raw)).named(self.name())
    }

    /// Returns the value of a tunable; `None` if the cache's engine does not have it.
    pub fn tunable(&self, which: Tunable) -> Option<usize> {
        tune::tunable(self.raw, which)
    }

    /// Changes a tunable, at any time, also while other threads use the cache. The change applies
    /// to all names of merged caches.
    ///
    /// # Errors
    /// See [`TuneError`]: nothing has changed then.
    pub fn set_tunable(&self, which: Tunable, value: usize) -> Result<(), TuneError> {
        tune::set_tunable(self.raw, which, value)
    }

    /// Sets the three tunables of a cache of SLAB together.
    ///
    /// # Errors
    /// See [`TuneError`]: nothing has changed then.
    pub fn set_queue_tunables(&self, tunables: &QueueTunables) -> Result<(), TuneError> {
        tune::set_queue_tunables(self.raw, tunables)
    }
}
