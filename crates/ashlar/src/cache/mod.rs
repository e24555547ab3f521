//! Layer 5, caches: `kmem_cache` as programs see it.
//!
//! * [`KmemCache`]: a cache of objects of one size.
//! * [`Cache`]: the same for one Rust type, with [`CacheBox`] that drops back into it.
//! * [`info`]: what a cache looks like from outside. [`merge`]: caches of objects alike that are one.
//! * [`tune`]: what can be changed at run time.
//! * [`registry`]: all caches; [`reaper`]: giving memory back in the background.

mod constructor;
mod info;
mod merge;
mod nesting;
pub(crate) mod reaper;
pub(crate) mod registry;
pub(crate) mod settings;
mod tune;
mod typed;

pub use constructor::Constructor;
pub use info::{CacheInfo, for_each_cache, total_counts};
pub use merge::{AliasInfo, for_each_alias};
#[cfg(feature = "os")]
pub use reaper::{start_reaper, start_reaper_by, stop_reaper};
pub use typed::{Cache, CacheBox, Constructed, LazyCache};

use core::ptr::NonNull;

use crate::base::error::{CreateError, DestroyError};
use crate::cache::settings::{Candidate, Own};
use crate::engine::history::slab_queues;
use crate::engine::{self, CacheSpec, Engine, Policy, RawCache, Tunable};
use crate::percpu;
use crate::percpu::sheaf::MAX_SHEAF_CAPACITY;
use crate::slab::OrderRule;
use crate::slab::cache::MAX_NAME;
use crate::slab::geometry::Geometry;
use merge::Alias;

/// How a cache is made; the kernel's `kmem_cache_args` and flags. Options of the process stand in for what is `None`, and those for a
/// cache of this name (`cache.NAME.KEY=VALUE`) for what is not, too: so a user can tune a program of somebody else's.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheArgs {
    /// Alignment of objects in bytes, a power of two up to 4096; 0 for the default of 8.
    pub align: usize,
    /// Align to cache lines, to a fraction of one for small objects (`SLAB_HWCACHE_ALIGN`).
    pub hwcache_align: bool,
    /// Called once for each object when it is first carved; for each allocation by the engines
    /// `slob`, `slob-seg` and `slob-cache`. Objects must come back in constructed state.
    pub ctor: Option<Constructor>,
    /// Objects in a sheaf, 1 to 254; `None`: by object size.
    pub sheaf_capacity: Option<usize>,
    /// Empty slabs that each node keeps, 0 to 1048576; `None`: by object size.
    pub min_partial: Option<usize>,
    /// Free objects that a CPU's partial slabs may have, 0 to 1048576, of the engine `slub-bulk`; `None`: by object size.
    pub cpu_partial: Option<usize>,
    /// See [`Tunable::RemoteNodeDefragRatio`], 0 to 100; `None`: the option of the process.
    pub remote_node_defrag_ratio: Option<usize>,
    /// Smallest order of slabs, 0 to 9; `None`: the option of the process.
    pub min_order: Option<u8>,
    /// Largest order of slabs, 0 to 9; `None`: the option of the process.
    pub max_order: Option<u8>,
    /// The strategy; `None`: the option `engine` of the process.
    pub engine: Option<Engine>,
    /// The cache shares its slabs with no other (`SLAB_NO_MERGE`). Without, caches of objects alike are one cache with several
    /// names, unless the option of the process says `merge=off`. Never merged is a cache with `ctor`, `sheaf_capacity`, `min_partial`,
    /// `cpu_partial`, `remote_node_defrag_ratio`, `min_order` or `max_order`, or with options for its name. The engines `slob` and
    /// `slob-seg` share pages all the same: they know no caches.
    pub no_merge: bool,
    /// Only caches with the same number here are merged: what the kernel has in flags that must be equal.
    pub merge_group: u8,
}

impl CacheArgs {
    /// All defaults, for constants.
    pub const DEFAULT: CacheArgs = CacheArgs {
        align: 0,
        hwcache_align: false,
        ctor: None,
        sheaf_capacity: None,
        min_partial: None,
        cpu_partial: None,
        remote_node_defrag_ratio: None,
        min_order: None,
        max_order: None,
        engine: None,
        no_merge: false,
        merge_group: 0,
    };
}

/// A cache of objects of one size: the kernel's `struct kmem_cache`.
///
/// Caches of objects alike may be merged: [`CacheArgs::no_merge`]. Then each has its name, and all have the slabs, figures and tunables
/// of one, as in the kernel.
///
/// Any thread may allocate and free. Dropping the handle leaves the cache and its objects as they
/// are, for ever, as in C; [`destroy`](KmemCache::destroy) ends it. A [`Cache`] ends when it drops.
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

/// A cache borrowed for a loop: a copy of what the fast paths need, which the compiler can keep in registers.
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
        self.cache.free_slow(object);
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
        self.cache.free_bulk_slow(objects);
    }
}

/// Pointers as the engines see them.
#[inline(always)]
fn as_addresses(objects: &[*mut u8]) -> &[usize] {
    #[expect(unsafe_code, reason = "views pointers as addresses")]
    // SAFETY: a raw pointer and an address have the same size and alignment, and every value of one is a value of the other.
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

/// Creates a cache and enters it, at `slot` if the caller has claimed one for it; or merges it into another.
fn create_or_merge(
    name: &str,
    size: usize,
    args: &CacheArgs,
    policy: &'static Policy,
    slot: Option<u16>,
) -> Result<(&'static RawCache, Option<&'static Alias>), CreateError> {
    let options = crate::cache::settings::options();
    let (rule, cpus) = crate::cache::settings::order_rule();
    let chosen = if policy.of_program { crate::cache::settings::own_engine(name) } else { None };
    let engine = chosen.or(args.engine).unwrap_or(options.engine);
    let own = crate::cache::settings::own_options(Candidate { name, of_program: policy.of_program, engine });
    let rule = order_rule(engine.order_rule(rule), args, &own)?;
    let constructed = args.ctor.is_some();
    let needs_link = constructed && engine.links_objects();
    let geometry = Geometry::new(size, args.align, args.hwcache_align, needs_link, rule, cpus)?;
    let geometry = engine.lay_out(geometry, constructed, rule).ok_or(CreateError::Size)?;
    // What the user wants of this cache, what its maker wants, what the user wants of all.
    let wanted = |which, args: Option<usize>, all: Option<usize>| own.tunable(which).or(args).or(all);
    let stride = geometry.stride;
    let capacity = wanted(Tunable::SheafCapacity, args.sheaf_capacity, options.sheaf_capacity);
    let capacity = capacity.unwrap_or_else(|| policy.sheaf_capacity(stride));
    let partial = wanted(Tunable::MinPartial, args.min_partial, options.min_partial);
    let cpu_partial = wanted(Tunable::CpuPartial, args.cpu_partial, options.cpu_partial);
    let ratio = wanted(Tunable::RemoteNodeDefragRatio, args.remote_node_defrag_ratio, Some(options.defrag_ratio));
    let barn_limit = policy.barn_limit(options.barn, capacity, stride);
    registry::register(&CacheSpec {
        name,
        geometry,
        ctor: args.ctor.map(Constructor::function),
        sheaf_capacity: capacity,
        barn_limit,
        min_partial: partial.unwrap_or_else(|| engine.min_partial(policy.min_partial(stride))),
        cpu_partial: cpu_partial.unwrap_or_else(|| engine.cpu_partial(stride)),
        defrag_ratio: ratio.unwrap_or(0) as u16 * 10,
        engine,
        queues: slab_queues::QueueOptions {
            limit: wanted(Tunable::Limit, None, options.limit),
            batchcount: wanted(Tunable::BatchCount, None, options.batchcount),
            shared: wanted(Tunable::Shared, None, options.shared),
            noaliencache: options.noaliencache,
        },
        policy,
        merge: merge::rule(args, policy, &options, &own),
        slot,
    })
}

/// Refuses what no cache of a program's can be called or have.
fn check_wishes(name: &str, size: usize, args: &CacheArgs) -> Result<(), CreateError> {
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(CreateError::Name);
    }
    if size > 0 && args.ctor.is_some_and(|ctor| !ctor.fits(size, args.align)) {
        return Err(CreateError::Option(Constructor::EXPECTED));
    }
    if args.sheaf_capacity.is_some_and(|n| n == 0 || n > MAX_SHEAF_CAPACITY) {
        return Err(CreateError::Option("sheaf_capacity: expected 1 to 254"));
    }
    for (which, value) in [
        (Tunable::MinPartial, args.min_partial),
        (Tunable::CpuPartial, args.cpu_partial),
        (Tunable::RemoteNodeDefragRatio, args.remote_node_defrag_ratio),
    ] {
        if value.is_some_and(|value| value > which.range().1) {
            return Err(CreateError::Option(which.expected()));
        }
    }
    Ok(())
}

/// Creates a cache of the library's own, which is never merged, at `slot` if the caller has claimed one for it.
pub(crate) fn create_raw(
    name: &str,
    size: usize,
    args: &CacheArgs,
    policy: &'static Policy,
    slot: Option<u16>,
) -> Result<&'static RawCache, CreateError> {
    create_or_merge(name, size, args, policy, slot).map(|(raw, _)| raw)
}

fn order_rule(rule: OrderRule, args: &CacheArgs, own: &Own) -> Result<OrderRule, CreateError> {
    let min_order = args.min_order.unwrap_or(rule.min_order);
    // Who asks only for the smallest order need not know the engine's largest.
    let max_order = args.max_order.unwrap_or(rule.max_order.max(min_order));
    if max_order > 9 {
        return Err(CreateError::Option("max_order: expected 0 to 9"));
    }
    if min_order > max_order {
        return Err(CreateError::Option("min_order: expected at most max_order"));
    }
    // An option of this cache takes the other limit with it, if that would leave nothing between them.
    let (low, high) = (own.min_order.unwrap_or(0), own.max_order.unwrap_or(9));
    Ok(OrderRule {
        min_order: own.min_order.unwrap_or(min_order.min(high)),
        max_order: own.max_order.unwrap_or(max_order).max(low),
        min_objects: own.min_objects.unwrap_or(rule.min_objects),
    })
}

impl KmemCache {
    /// Creates a cache named `name` for objects of `size` bytes (`kmem_cache_create`).
    ///
    /// # Errors
    /// See [`CreateError`]; nothing is created then.
    pub fn create(name: &str, size: usize, args: &CacheArgs) -> Result<KmemCache, CreateError> {
        if !crate::boot::ensure() {
            return Err(CreateError::OutOfMemory);
        }
        check_wishes(name, size, args)?;
        let (raw, alias) = create_or_merge(name, size, args, &PROGRAM, None)?;
        Ok(KmemCache { raw, hot: Hot::of(raw), alias })
    }

    /// The same handle once more. The caller gives up one of the two.
    fn again(&self) -> KmemCache {
        KmemCache { raw: self.raw, hot: self.hot, alias: self.alias }
    }

    /// What the engine knows of this cache.
    pub(crate) fn raw_cache(&self) -> &'static RawCache {
        self.raw
    }

    /// One object (`kmem_cache_alloc`); `None` when memory ends. Its contents are those of its last use, or
    /// what the constructor left.
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
    /// The object was allocated from this cache, was not freed since, and nobody uses it any more. With a
    /// constructor it is in constructed state.
    #[inline(always)]
    #[expect(unsafe_code, reason = "an object may be freed only once")]
    pub unsafe fn free(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { self.borrowed().free(object) };
    }

    #[cold]
    #[inline(never)]
    fn free_slow(&self, object: NonNull<u8>) {
        engine::free(self.raw, object.as_ptr() as usize);
    }

    /// Fills `out` with objects; all or nothing (`kmem_cache_alloc_bulk`). False when memory ends: then `out`
    /// holds nothing that is allocated.
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

    #[cold]
    #[inline(never)]
    fn free_bulk_slow(&self, objects: &[usize]) {
        engine::free_bulk(self.raw, objects);
    }

    /// Gives free slabs back to the page layer (`kmem_cache_shrink`). True when no slab is left.
    pub fn shrink(&self) -> bool {
        let left = engine::shrink(self.raw);
        crate::base::background::settle();
        left == 0
    }

    /// Ends the cache (`kmem_cache_destroy`). Where caches are merged only this handle and its name go, and whatever objects they
    /// have stay as they are: nobody can tell whose each is. The last handle ends the cache.
    ///
    /// # Errors
    /// With live objects nothing is lost: a line on standard error reports them and the handle comes back.
    pub fn destroy(self) -> Result<(), (KmemCache, DestroyError)> {
        if !self.raw.policy.of_program {
            return Err((self, DestroyError::BuiltIn));
        }
        let mut drained = false;
        let gone = registry::unregister_if(self.raw, self.alias, || {
            drained = engine::drain_cpus(self.raw);
            engine::shrink(self.raw) == 0
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

    /// Bytes of an object that the user may use (`kmem_cache_size`); of merged caches the most that one of them asked for.
    pub fn object_size(&self) -> usize {
        self.raw.object_size()
    }

    /// Whether the objects of this cache and of `other` come from the same slabs: they were merged, or their engine lets
    /// caches share pages.
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
}
