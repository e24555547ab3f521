//! Calls of the layers above, led to the engine of the cache.
//!
//! Each function of [`Strategy`] is described there. The hot ones are written out, because where
//! their `match` stands decides how many instructions an engine without sheaves pays:
//! `tests/fastpath.rs` counts them.

use super::history::{slab_queues, slob, slob_pools, slub};
use super::sheaves::barn::BarnStats;
use super::{CacheSpec, Counts, Engine, EngineState, Object, Objects, RawCache, Strategy, Usage, Wish, debug, sheaves};
use crate::base::error::CreateError;
use crate::base::sync::Visit;
use crate::base::units::{NodeId, PageIndex};
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

/// Calls a function of the strategy of an engine: `each!(engine, strategy => call)`.
macro_rules! each {
    ($engine:expr, $strategy:ident => $call:expr) => {
        match $engine {
            Engine::Sheaves => {
                let $strategy = Sheaves;
                $call
            }
            Engine::Slub(stage) => {
                let $strategy = Slub(stage);
                $call
            }
            Engine::Slab => {
                let $strategy = SlabQueues(Edition::V6_1);
                $call
            }
            Engine::Slab24 => {
                let $strategy = SlabQueues(Edition::V2_6_24);
                $call
            }
            Engine::Slob => {
                let $strategy = Slob;
                $call
            }
            Engine::SlobSeg => {
                let $strategy = SlobPools { of_powers_of_two: true };
                $call
            }
            Engine::SlobCache => {
                let $strategy = SlobPools { of_powers_of_two: false };
                $call
            }
            Engine::Debug => {
                let $strategy = Debug;
                $call
            }
            #[cfg(test)]
            Engine::Toy => {
                let $strategy = super::toy::Toy;
                $call
            }
        }
    };
}

/// As `each!`, of a function that needs a cache only.
macro_rules! of_cache {
    ($cache:expr, $function:ident($($argument:expr),*)) => {
        match $cache.engine {
            Engine::Sheaves => Sheaves::$function($($argument),*),
            Engine::Slub(_) => Slub::$function($($argument),*),
            Engine::Slab | Engine::Slab24 => SlabQueues::$function($($argument),*),
            Engine::Slob => Slob::$function($($argument),*),
            Engine::SlobSeg | Engine::SlobCache => SlobPools::$function($($argument),*),
            Engine::Debug => Debug::$function($($argument),*),
            #[cfg(test)]
            Engine::Toy => super::toy::Toy::$function($($argument),*),
        }
    };
}

/// Returns one object of `cache`, or null.
#[inline(always)]
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    #[inline(never)]
    fn others(cache: &'static RawCache) -> *mut u8 {
        of_cache!(cache, alloc(cache))
    }
    // The stages of SLUB and SLAB have a fast path, which counts: a comparison for each, and the
    // rest out of line.
    match cache.engine {
        Engine::Slub(_) => Slub::alloc(cache),
        engine if engine.has_queues() => SlabQueues::alloc(cache),
        _ => others(cache),
    }
}

/// Returns one object of `cache`, of a size class, for a request of `size` bytes, which is at most
/// that of the cache's objects.
#[inline]
pub(crate) fn alloc_sized(cache: &'static RawCache, size: usize) -> *mut u8 {
    match cache.engine {
        Engine::Slob => slob::alloc_sized(cache, size),
        Engine::Debug => debug::alloc_sized(cache, size),
        _ => alloc(cache),
    }
}

/// As [`alloc_sized`], for caches whose objects are freed by an address that says their class.
#[inline]
pub(crate) fn alloc_of_class(cache: &'static RawCache, size: usize) -> *mut u8 {
    if cache.engine == Engine::Debug { debug::alloc_sized(cache, size) } else { alloc(cache) }
}

/// Returns the bytes that the object at `address` may be used for.
#[inline]
pub(crate) fn bytes_of(cache: &'static RawCache, address: usize) -> usize {
    if cache.engine == Engine::Debug { debug::size_of(cache, address) } else { cache.object_size() }
}

/// Checks every slab of a debugged cache, and reports what is wrong. Returns the number of defects
/// and repairs; `None` for other caches.
#[place(cold)]
pub(crate) fn validate_debugged(cache: &'static RawCache) -> Option<usize> {
    (cache.engine == Engine::Debug).then(|| debug::validate(cache).0)
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
        debug::note_size(cache, address, size);
    }
}

/// Takes an object back.
#[inline]
pub(crate) fn free(object: Object) {
    #[inline(never)]
    fn others(object: Object) {
        of_cache!(object.cache, free(object));
    }
    match object.cache.engine {
        Engine::Slub(_) => Slub::free(object),
        engine if engine.has_queues() => SlabQueues::free(object),
        _ => others(object),
    }
}

/// As [`free`], of an object that another CPU allocated: this CPU should not allocate it next.
pub(crate) fn free_remote(object: Object) {
    match object.cache.engine {
        Engine::Sheaves => sheaves::free_remote(object),
        _ => free(object),
    }
}

/// As [`free`], of an object of `size` bytes whose page, `page`, has objects of all sizes.
pub(crate) fn free_sized(object: Object, page: PageIndex, size: usize) {
    match object.cache.engine {
        Engine::Slob => slob::free_sized(object, page, size),
        _ => free(object),
    }
}

/// Takes several objects of a cache back.
pub(crate) fn free_bulk(objects: Objects<'_>) {
    of_cache!(objects.cache, free_bulk(objects));
}

/// As [`free`], where the caller found that the object's cache owns the slab that starts at `slab`
/// and that the object lies in.
#[inline(always)]
pub(crate) fn free_in(object: Object, slab: PageIndex) {
    #[inline(never)]
    fn others(object: Object, slab: PageIndex) {
        of_cache!(object.cache, free_in(object, slab));
    }
    match object.cache.engine {
        Engine::Slub(_) => Slub::free_in(object, slab),
        engine if engine.has_queues() => SlabQueues::free_in(object, slab),
        _ => others(object, slab),
    }
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
    /// See [`Strategy::alloc_on`].
    fn alloc_on(node: NodeId) -> *mut u8;
    /// See [`Strategy::alloc_bulk`].
    fn alloc_bulk(out: &mut [usize]) -> bool;
    /// See [`Strategy::attach`].
    fn attach();
    /// See [`Strategy::close`].
    #[place(background)]
    fn close();
    /// See [`Strategy::drain_cpus`].
    #[place(background)]
    fn drain_cpus() -> bool;
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
    /// See [`Strategy::usage`].
    #[place(cold)]
    fn usage() -> Usage;
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
