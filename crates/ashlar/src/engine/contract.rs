//! [`Strategy`]: the contract of an engine.
//!
//! An engine is a type that implements it, in a folder of its own. The three required functions are
//! the hot ones; each call of them is a `match` on the closed enum [`Engine`](super::Engine) in
//! [`dispatch`](super::dispatch). All others have a default, which is right for an engine that
//! takes objects straight from slabs.

use super::{CacheSpec, Counts, EngineState, Object, Objects, RawCache, Usage, Wish};
use crate::base::error::CreateError;
use crate::base::sync::Ordering;
#[cfg(not(feature = "os"))]
use crate::base::units::CpuId;
use crate::base::units::{LARGEST_CLASS, NodeId, PageIndex};
#[cfg(not(feature = "os"))]
use crate::percpu::remote::Cause;
use crate::slab::OrderRule;
use crate::slab::counters::SlowPathStats;
use crate::slab::geometry::Geometry;

/// What an engine does for its caches, and what it is like. A value of the type is the engine with
/// its variant: its stage, for example.
pub(crate) trait Strategy: Copy {
    // Objects.

    /// Returns one object, or null when memory has ended.
    fn alloc(cache: &'static RawCache) -> *mut u8;

    /// Takes an object back; checks and reports what is not one.
    fn free(object: Object);

    /// Returns one object from a slab of `node`, or of another node if that has no memory; null
    /// when memory has ended.
    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8;

    /// As [`Self::free`], where the caller found that the object's cache owns the slab that starts
    /// at `slab` and that the object lies in.
    #[inline(always)]
    fn free_in(object: Object, _slab: PageIndex) {
        Self::free(object);
    }

    /// Fills `out` with objects. Returns false, and takes nothing, when memory has ended.
    fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
        for got in 0..out.len() {
            let object = Self::alloc(cache);
            if object.is_null() {
                Self::free_bulk(Objects { cache, addresses: &out[..got] });
                return false;
            }
            out[got] = object as usize;
        }
        true
    }

    /// Takes objects back.
    fn free_bulk(objects: Objects<'_>) {
        objects.for_each(Self::free);
    }

    // The life of a cache. Under the registry lock.

    /// Brings what the engine keeps for a cache into its first state. Metadata memory is never
    /// given back, and an entry of the registry serves later caches of any engine: so `state` may
    /// hold what an earlier cache left, and what was made stays there if this fails. `geometry` may
    /// become that of the pages, where objects share them with those of other caches.
    fn open(self, state: &mut EngineState, _spec: &CacheSpec<'_>, _geometry: &mut Geometry) -> Result<(), CreateError> {
        state.open_nodes()
    }

    /// Tells the engine of a cache that is where it stays, before any thread uses it.
    fn attach(_cache: &'static RawCache) {}

    /// Ends a cache that has no slab: what it had beside its entry of the registry goes back.
    fn close(_cache: &'static RawCache) {}

    // Free objects that are kept in front of slabs.

    /// Returns every cached object to its slab. False if some CPU could not be reached.
    fn drain_cpus(_cache: &'static RawCache) -> bool {
        true
    }

    /// Returns to slabs what one CPU has: this one, for what it was asked for, or one that is dead.
    #[cfg(not(feature = "os"))]
    fn drain_cpu(_cache: &'static RawCache, _cpu: CpuId, _cause: Cause) {}

    /// Returns to slabs what the stocks of nodes held without need since the last call. True if the
    /// cache was in use since then.
    fn reap(cache: &'static RawCache) -> bool {
        let counts = Self::counts(cache);
        let calls = (counts.alloc_slow + counts.free_slow) as u32;
        cache.looked.swap(calls, Ordering::Relaxed) != calls
    }

    /// Returns the bytes of free objects that [`Self::release_held`] would return to slabs.
    fn held_bytes(_cache: &'static RawCache) -> usize {
        0
    }

    /// Returns to slabs what the stocks of nodes hold. Never waits for a CPU: allocation paths call
    /// it when memory is short.
    fn release_held(_cache: &'static RawCache) {}

    // Free memory of slabs.

    /// Gives empty slabs back to the zone. Returns the number of slabs that remain.
    fn trim(cache: &'static RawCache) -> usize {
        cache.slabs.trim()
    }

    /// Estimates the bytes of free objects on whose pages [`Self::evict_free_pages`] could work.
    fn sparse_bytes(_cache: &'static RawCache) -> usize {
        0
    }

    /// Gives free pages of slabs that are in use back to the system. Returns the number of bytes.
    fn evict_free_pages(_cache: &'static RawCache) -> usize {
        0
    }

    /// Makes slabs empty whose objects in use are all evicted ones. True if there were some.
    fn restore_emptied(_cache: &'static RawCache) -> bool {
        false
    }

    /// The cache under whose name the pages of this one are counted, if it shares them with that
    /// and has none of its own.
    fn home(_cache: &'static RawCache) -> Option<&'static RawCache> {
        None
    }

    /// Whether two caches of this engine take objects from the same pages.
    fn share_pages(_one: &RawCache, _other: &RawCache) -> bool {
        false
    }

    // Figures.

    /// Slabs, objects, live objects.
    fn usage(cache: &'static RawCache) -> Usage {
        Usage::of_slabs(&cache.slabs, 0)
    }

    /// What happened at the cache.
    fn counts(cache: &'static RawCache) -> Counts {
        Counts::of_lists(&cache.slabs)
    }

    /// What happened between its slabs and whatever stands in front of them.
    fn slow_path_stats(cache: &'static RawCache) -> SlowPathStats {
        cache.slabs.slow_path_stats()
    }

    /// Whether a list_lock that guards its objects is held at this moment, of any node.
    fn list_lock_held(cache: &'static RawCache) -> bool {
        cache.slabs.list_lock_held()
    }

    // What the engine is like.

    /// Largest size class that has a cache, in bytes; larger objects are runs of pages.
    fn max_class(self) -> usize {
        LARGEST_CLASS
    }

    /// Whether there is a size class of `size` bytes.
    fn has_class(self, _size: usize) -> bool {
        true
    }

    /// Bytes that are set aside for a request of `size` bytes in the class of `class` bytes.
    fn round_up(self, _size: usize, class: usize) -> usize {
        class
    }

    /// Whether an object freed by address alone is given the size that was asked for, whatever its
    /// class.
    fn wants_size(self) -> bool {
        false
    }

    /// Whether caches of objects alike are merged into one. Other engines decide by themselves
    /// which caches share pages.
    fn merges(self) -> bool {
        true
    }

    /// Empty slabs that a node keeps by default, for objects of `stride` bytes, where `by_size` is
    /// the kernel's rule of today.
    fn min_partial(self, by_size: usize, _stride: usize) -> usize {
        by_size
    }

    /// Free objects that a CPU's partial slabs may have by default, for objects of `stride` bytes;
    /// 0 where CPUs have none.
    fn cpu_partial(self, _stride: usize) -> usize {
        0
    }

    /// The order rule of its caches, where `rule` is that of the process.
    fn order_rule(self, rule: OrderRule) -> OrderRule {
        rule
    }

    /// Whether free objects hold a link, so that constructed objects need room for one beside them.
    fn links_objects(self) -> bool {
        true
    }

    /// How objects lie in slabs, from the general geometry; `None` if not even one fits.
    fn lay_out(self, geometry: Geometry, _wish: Wish) -> Option<Geometry> {
        Some(geometry)
    }
}
