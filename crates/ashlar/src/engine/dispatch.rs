//! Calls of the layers above, led to the engine of the cache.
//!
//! Each function of [`Strategy`] is described there. The hot ones are written out, because where
//! their `match` stands decides how many instructions an engine without sheaves pays:
//! `tests/fastpath.rs` counts them.

use super::hardened::{self, Hardened};
use super::history::{slab_queues, slob, slob_pools, slub};
use super::route::Route;
use super::sheaves::barn::BarnStats;
use super::{CacheSpec, Counts, Engine, EngineState, Object, Objects, RawCache, Strategy, Usage, Wish, debug, sheaves};
use crate::base::error::CreateError;
use crate::base::sync::Visit;
#[cfg(not(feature = "os"))]
use crate::base::units::CpuId;
use crate::base::units::{NodeId, PageIndex};
#[cfg(not(feature = "os"))]
use crate::percpu::remote::Cause;
use crate::slab::OrderRule;
use crate::slab::counters::SlowPathStats;
use crate::slab::geometry::Geometry;
use ashlar_macros::place;
use debug::Debug;
use sheaves::Sheaves;
use slab_queues::{Edition, SlabQueues};
use slob::Slob;
use slob_pools::SlobPools;
use slub::Slub;

/// Calls a function that takes or returns objects: the one of the engine, or that of
/// [`hardened`](super::hardened).
macro_rules! of_route {
    ($cache:expr, $function:ident($($argument:expr),*)) => {
        match $cache.route {
            Route::Own(Engine::Sheaves) => Sheaves::$function($($argument),*),
            Route::Own(Engine::Slub(_)) => Slub::$function($($argument),*),
            Route::Own(Engine::Slab | Engine::Slab24) => SlabQueues::$function($($argument),*),
            Route::Own(Engine::Slob) => Slob::$function($($argument),*),
            Route::Own(Engine::SlobSeg | Engine::SlobCache) => SlobPools::$function($($argument),*),
            Route::Own(Engine::Debug) => Debug::$function($($argument),*),
            #[cfg(test)]
            Route::Own(Engine::Toy) => super::toy::Toy::$function($($argument),*),
            Route::Hardened => Hardened::$function($($argument),*),
        }
    };
}

/// Returns one object of `cache`, or null.
#[inline(always)]
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    #[inline(never)]
    fn others(cache: &'static RawCache) -> *mut u8 {
        of_route!(cache, alloc(cache))
    }
    // The stages of SLUB and SLAB have a fast path, which counts: a comparison for each, and the
    // rest out of line.
    match cache.route {
        Route::Own(Engine::Slub(_)) => Slub::alloc(cache),
        Route::Own(engine) if engine.has_queues() => SlabQueues::alloc(cache),
        _ => others(cache),
    }
}

/// Returns one object of `cache`, of a size class, for a request of `size` bytes, which is at most
/// that of the cache's objects.
#[inline]
pub(crate) fn alloc_sized(cache: &'static RawCache, size: usize) -> *mut u8 {
    match cache.route {
        Route::Own(Engine::Slob) => slob::alloc_sized(cache, size),
        Route::Own(Engine::Debug) => debug::alloc_sized(cache, size),
        Route::Hardened => hardened::alloc_sized(cache, size),
        Route::Own(_) => alloc(cache),
    }
}

/// As [`alloc_sized`], for caches whose objects are freed by an address that says their class.
#[inline]
pub(crate) fn alloc_of_class(cache: &'static RawCache, size: usize) -> *mut u8 {
    match cache.route {
        Route::Own(Engine::Debug) => debug::alloc_sized(cache, size),
        Route::Hardened => hardened::alloc_sized(cache, size),
        Route::Own(_) => alloc(cache),
    }
}

/// Returns the bytes that the object at `address` may be used for.
#[inline]
pub(crate) fn bytes_of(cache: &'static RawCache, address: usize) -> usize {
    if cache.engine == Engine::Debug { debug::size_of(cache, address) } else { cache.object_size() }
}

/// Checks every slab of a debugged cache, and the guarded objects of a cache that has some, and
/// reports what is wrong. Returns the number of defects and repairs; `None` for other caches.
#[place(cold)]
pub(crate) fn validate_debugged(cache: &'static RawCache) -> Option<usize> {
    let defects = (cache.engine == Engine::Debug).then(|| debug::validate(cache).0);
    #[cfg(feature = "os")]
    if cache.guarded {
        return Some(defects.unwrap_or(0) + super::guard::validate(cache));
    }
    defects
}

/// Returns whether the engine knows that the object of `cache` that starts at `address` is free.
#[inline]
pub(crate) fn is_known_free(cache: &'static RawCache, address: usize) -> bool {
    cache.engine == Engine::Debug && debug::is_free(cache, address)
}

/// Reports that `function` was called with an object of `cache` that is free already.
#[cold]
#[place(cold)]
pub(crate) fn report_freed_twice(function: &str, address: usize, cache: &'static RawCache) {
    match cache.engine {
        Engine::Debug => debug::report_freed_twice(function, address, cache),
        _ => crate::base::report::freed_twice(function, address, cache.name()),
    }
}

/// Tells the engine that the object at `address` is used for `size` bytes from now on, which is at
/// most what objects have.
#[inline]
pub(crate) fn note_size(cache: &'static RawCache, address: usize, size: usize) {
    if cache.engine == Engine::Debug {
        hardened::note_size(cache, address, size);
    }
}

/// Takes an object back.
#[inline]
pub(crate) fn free(object: Object) {
    #[inline(never)]
    fn others(object: Object) {
        of_route!(object.cache, free(object));
    }
    match object.cache.route {
        Route::Own(Engine::Slub(_)) => Slub::free(object),
        Route::Own(engine) if engine.has_queues() => SlabQueues::free(object),
        _ => others(object),
    }
}

/// As [`free`], of an object that another CPU allocated: this CPU should not allocate it next.
pub(crate) fn free_remote(object: Object) {
    match object.cache.route {
        Route::Own(Engine::Sheaves) => sheaves::free_remote(object),
        _ => free(object),
    }
}

/// As [`free`], of an object of `size` bytes whose page, `page`, has objects of all sizes.
pub(crate) fn free_sized(object: Object, page: PageIndex, size: usize) {
    match object.cache.route {
        Route::Own(Engine::Slob) => slob::free_sized(object, page, size),
        _ => free(object),
    }
}

/// Takes several objects of a cache back.
pub(crate) fn free_bulk(objects: Objects<'_>) {
    of_route!(objects.cache, free_bulk(objects));
}

/// As [`free`], where the caller found that the object's cache owns the slab that starts at `slab`
/// and that the object lies in.
#[inline(always)]
pub(crate) fn free_in(object: Object, slab: PageIndex) {
    #[inline(never)]
    fn others(object: Object, slab: PageIndex) {
        of_route!(object.cache, free_in(object, slab));
    }
    match object.cache.route {
        Route::Own(Engine::Slub(_)) => Slub::free_in(object, slab),
        Route::Own(engine) if engine.has_queues() => SlabQueues::free_in(object, slab),
        _ => others(object, slab),
    }
}

/// See [`Strategy::alloc_on`].
pub(crate) fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    of_route!(cache, alloc_on(cache, node))
}

/// See [`Strategy::alloc_bulk`].
pub(crate) fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
    of_route!(cache, alloc_bulk(cache, out))
}

/// Makes functions that call the one of the same name of a cache's strategy.
macro_rules! cold {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            $(#[$about])*
            pub(crate) fn $name(cache: &'static RawCache $(, $argument: $type)*) $(-> $result)? {
                of_cache!(cache, $name(cache $(, $argument)*))
            }
        )*
    };
}

cold! {
    /// See [`Strategy::attach`].
    fn attach();
    /// See [`Strategy::close`].
    #[place(background)]
    fn close();
    /// See [`Strategy::reap`].
    #[place(background)]
    fn reap() -> bool;
    /// See [`Strategy::held_bytes`].
    fn held_bytes() -> usize;
    /// See [`Strategy::release_held`].
    fn release_held();
    /// See [`Strategy::trim`].
    #[place(background)]
    fn trim() -> usize;
    /// See [`Strategy::sparse_bytes`].
    fn sparse_bytes() -> usize;
    /// See [`Strategy::evict_free_pages`].
    #[place(background)]
    fn evict_free_pages() -> usize;
    /// See [`Strategy::restore_emptied`].
    fn restore_emptied() -> bool;
    /// See [`Strategy::home`].
    #[place(cold)]
    fn home() -> Option<&'static RawCache>;
    /// See [`Strategy::counts`].
    #[place(cold)]
    fn counts() -> Counts;
    /// See [`Strategy::slow_path_stats`].
    #[place(cold)]
    fn slow_path_stats() -> SlowPathStats;
    /// See [`Strategy::list_lock_held`].
    #[place(cold)]
    fn list_lock_held() -> bool;
}

/// See [`Strategy::drain_cpus`]. Objects that options hold back are returned, too.
#[place(background)]
pub(crate) fn drain_cpus(cache: &'static RawCache) -> bool {
    if cache.route == Route::Hardened {
        hardened::drain(cache);
    }
    of_cache!(cache, drain_cpus(cache))
}

/// See [`Strategy::drain_cpu`].
#[cfg(not(feature = "os"))]
pub(crate) fn drain_cpu(cache: &'static RawCache, cpu: CpuId, cause: Cause) {
    of_cache!(cache, drain_cpu(cache, cpu, cause));
}

/// See [`Strategy::usage`]. Objects that options hold back are not in use.
#[place(cold)]
pub(crate) fn usage(cache: &'static RawCache) -> Usage {
    let mut usage = of_cache!(cache, usage(cache));
    if cache.route == Route::Hardened {
        let held = hardened::held(cache).min(usage.live);
        usage.live -= held;
        usage.cached += held;
    }
    usage.live += guarded(cache);
    usage
}

/// Returns the number of objects of a cache that lie between pages without access.
#[place(cold)]
pub(crate) fn guarded(cache: &'static RawCache) -> usize {
    #[cfg(feature = "os")]
    if cache.guarded {
        return super::guard::live_of(cache);
    }
    let _ = cache;
    0
}

/// See [`Strategy::open`].
pub(crate) fn open(state: &mut EngineState, spec: &CacheSpec<'_>, geometry: &mut Geometry) -> Result<(), CreateError> {
    #[place(cold)]
    #[inline(never)]
    fn others(state: &mut EngineState, spec: &CacheSpec<'_>, geometry: &mut Geometry) -> Result<(), CreateError> {
        each!(spec.engine, strategy => strategy.open(state, spec, geometry))
    }
    if spec.engine == Engine::Sheaves {
        return Sheaves.open(state, spec, geometry);
    }
    others(state, spec, geometry)
}

/// Returns cached objects to their slabs and gives empty slabs back. Returns the number of slabs
/// that remain.
pub(crate) fn shrink(cache: &'static RawCache) -> usize {
    drain_cpus(cache);
    trim(cache)
}

/// Checks the free objects of a cache; `None` if its engine has no such check.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn validate(cache: &'static RawCache) -> Option<super::Validated> {
    match cache.engine {
        Engine::Sheaves => Some(sheaves::validate(cache)),
        Engine::Debug => Some(debug::validate(cache).1),
        _ => None,
    }
}

/// What happened at the barns of a cache, if its engine has some.
pub(crate) fn barn_stats(cache: &'static RawCache) -> BarnStats {
    if cache.engine == Engine::Sheaves { sheaves::barn_stats(cache) } else { BarnStats::default() }
}

/// Whether two caches take their objects from the same pages.
pub(crate) fn share_pages(one: &RawCache, other: &RawCache) -> bool {
    one.engine == other.engine && of_cache!(one, share_pages(one, other))
}

/// Visits the locks that engines have beside those of their caches, for a fork.
pub(crate) fn for_each_shared_lock(visit: Visit<'_>) {
    slob_pools::for_each_lock(visit);
    slob::for_each_lock(visit);
    #[cfg(feature = "os")]
    super::guard::for_each_lock(visit);
}

/// Makes methods of [`Engine`] that call the one of the same name of its strategy. That of the
/// default stands in the code that every program runs; the others lie apart.
macro_rules! properties {
    ($($(#[$about:meta])* fn $name:ident(self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        impl Engine {
            $(
                $(#[$about])*
                pub(crate) fn $name(self $(, $argument: $type)*) -> $result {
                    #[place(cold)]
                    #[inline(never)]
                    fn others(engine: Engine $(, $argument: $type)*) -> $result {
                        each!(engine, strategy => strategy.$name($($argument),*))
                    }
                    if self == Engine::Sheaves { Sheaves.$name($($argument),*) } else { others(self $(, $argument)*) }
                }
            )*
        }
    };
}

properties! {
    /// See [`Strategy::max_class`].
    fn max_class(self) -> usize;
    /// See [`Strategy::has_class`].
    fn has_class(self, size: usize) -> bool;
    /// See [`Strategy::round_up`].
    fn round_up(self, size: usize, class: usize) -> usize;
    /// See [`Strategy::wants_size`].
    fn wants_size(self) -> bool;
    /// See [`Strategy::merges`].
    fn merges(self) -> bool;
    /// See [`Strategy::min_partial`].
    fn min_partial(self, by_size: usize, stride: usize) -> usize;
    /// See [`Strategy::cpu_partial`].
    fn cpu_partial(self, stride: usize) -> usize;
    /// See [`Strategy::order_rule`].
    fn order_rule(self, rule: OrderRule) -> OrderRule;
    /// See [`Strategy::links_objects`].
    fn links_objects(self) -> bool;
    /// See [`Strategy::lay_out`].
    fn lay_out(self, geometry: Geometry, wish: Wish) -> Option<Geometry>;
}
