//! Layer 4, engines: the strategies behind a cache, a closed set.
//!
//! [`RawCache`] is what an engine knows of a cache; [`EngineState`] is what engines keep for it. [`Engine`] (in
//! [`select`]) names the strategies; each implements the same small contract, and only slow paths ever look at it:
//!
//! | function | contract |
//! |---|---|
//! | [`alloc`] | one object, or null when memory ends |
//! | [`alloc_sized`] | the same for kmalloc, told the size that was asked for |
//! | [`alloc_on`] | the same, from a slab of a node |
//! | [`free`] | takes an object of this cache back; checks and reports what is none |
//! | [`free_in`] | the same, told the first page of the object's slab, whose owner is this cache |
//! | [`alloc_bulk`] | fills a slice or takes nothing |
//! | [`free_bulk`] | takes objects of this cache back |
//! | [`drain_cpus`] | brings every cached object back to its slab; false if some CPU could not be reached |
//! | [`trim`] | gives free slabs back to the zone; the number of slabs left |
//! | [`usage`] | slabs, objects, live objects |
//! | [`reap`] | what the background thread does each half second; true while the cache is in use |
//! | [`held_bytes`], [`release_held`] | what could be given back when memory is short, and doing so; never waits for a CPU |
//! | [`sparse_bytes`], [`evict_free_pages`], [`restore_emptied`] | free pages of slabs that are in use: an estimate, giving them back, and slabs that this keeps |
//! | [`EngineState::open`], [`close`] | begin and end of a cache |
//! | [`counts`], [`slow_path_stats`], [`barn_stats`] | locks taken, slow paths entered |
//!
//! ## To add an engine
//! 1. An arm of [`Engine`] with its id in `engines!` (select.rs), and what each function there says of it. The option, the
//!    suite of `tests/engines.rs` and the error for unknown ids follow the list by themselves.
//! 2. A folder `engine/NAME/` whose `mod.rs` has the functions that the macro `of_engine!` below calls, and an arm there.
//! 3. What it keeps for a cache: a field of [`EngineState`] (a slice of its own entries a node, made by [`meta_slice`] in
//!    [`EngineState::open`] when it is empty, brought to its first state otherwise), and its locks in
//!    [`EngineState::for_each_lock`], in lock order. Metadata memory is never given back and an
//!    entry of the registry is used again by caches of any engine, so nothing in it may be assumed to be new.
//! 4. Slabs: use the geometry, the state word and the freelists of [`crate::slab`], and where they fit the partial lists of
//!    [`sheaves::node`] and the functions around them ([`sheaves::Node`] is no more than a partial list, counts, and barns that an
//!    engine without sheaves leaves empty). Owner and class word of every slab page are set as `sheaves::refill` does, so
//!    that [`RawCache::locate`], kfree and ksize find the object. An engine whose objects of several sizes share pages needs
//!    a kind of page of its own in [`crate::pages::memmap::PageKind`], and an answer for it in the functions `find` of
//!    `kmalloc` and `malloc::check`.
//! 5. A line in ARCHITECTURE.md's table of engines, and a chapter in docs/engines.md.
//!
//! ## How calls reach an engine
//! An engine whose caches keep sheaves in their per-CPU slot has its fast path in the entry points. All others leave the
//! slot at the null sheaf and see every call here. Where such an engine is the process's, the entry points are shut
//! (their limits are 0), so that `kmalloc` is two instructions, one look-up of the class, and one `match`; `kfree` is the
//! look-up of the page and that `match`. `tests/fastpath.rs` counts them. An inlined [`crate::KmemCache::alloc`] runs
//! through its section in vain first.
//!
//! ## Lock order
//! drain lock, then CPU lock, then slab_lock or alien lock, then list_lock or barn lock (never both), then pool lock or zone
//! lock, then meta lock.

mod figures;
pub(crate) mod history;
mod policy;
mod raw_cache;
pub(crate) mod select;
pub(crate) mod sheaves;
mod spec;
mod state;
pub(crate) mod tally;
mod tunables;

pub use figures::{Counts, Search, Usage};
pub use history::slub::Stage;
pub(crate) use policy::Policy;
pub(crate) use raw_cache::RawCache;
pub use select::Engine;
pub(crate) use spec::{CacheSpec, Merge};
pub(crate) use state::{EMPTY_STATE, EngineState};
pub use tunables::Tunable;

use history::{slab_queues, slob, slob_pools, slub};

use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, Visit};
use crate::base::units::{NodeId, PageIndex};
use crate::pages::zone::ZONE;
use crate::slab::counters::SlowPathStats;

/// Calls a function of the module of the cache's engine.
macro_rules! of_engine {
    ($cache:expr, $function:ident($($argument:expr),*)) => {
        match $cache.engine {
            Engine::Sheaves => sheaves::$function($($argument),*),
            Engine::Slub(_) => slub::$function($($argument),*),
            Engine::Slab => slab_queues::$function($($argument),*),
            Engine::Slob => slob::$function($($argument),*),
            Engine::SlobSeg | Engine::SlobCache => slob_pools::$function($($argument),*),
        }
    };
}

/// One object of `cache`, or null.
#[inline(always)]
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    #[inline(never)]
    fn others(cache: &'static RawCache) -> *mut u8 {
        of_engine!(cache, alloc(cache))
    }
    // The stages of SLUB and SLAB have a fast path, which counts: a comparison for each, and the rest out of line.
    match cache.engine {
        Engine::Slub(_) => slub::alloc(cache),
        Engine::Slab => slab_queues::alloc(cache),
        _ => others(cache),
    }
}

/// One object of `cache`, of kmalloc's, for a request of `size` bytes, which is at most that of the cache's objects.
#[inline]
pub(crate) fn alloc_sized(cache: &'static RawCache, size: usize) -> *mut u8 {
    match cache.engine {
        Engine::Slob => slob::alloc_sized(cache, size),
        _ => alloc(cache),
    }
}

/// Visits the locks that engines have beside those of their caches, for a fork.
pub(crate) fn for_each_shared_lock(visit: Visit<'_>) {
    slob_pools::for_each_lock(visit);
    slob::for_each_lock(visit);
}

/// A key that other processes do not know, for what an engine writes beside objects.
pub(crate) fn process_secret() -> u64 {
    static SECRET: AtomicU64 = AtomicU64::new(0);
    let secret = SECRET.load(Ordering::Relaxed);
    if secret != 0 {
        return secret;
    }
    #[cfg(feature = "os")]
    let random = crate::base::os::random_u64();
    #[cfg(not(feature = "os"))]
    let random = (&raw const SECRET as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // The first to store wins: all use the same.
    match SECRET.compare_exchange(0, random | 1, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => random | 1,
        Err(stored) => stored,
    }
}

/// The object that `take` finds after it found none: see [`Zone::take_after_all`](crate::pages::zone::Zone::take_after_all). Null when
/// memory has ended.
#[cold]
fn after_all(mut take: impl FnMut() -> *mut u8) -> *mut u8 {
    let found = ZONE.take_after_all(|| Some(take()).filter(|object| !object.is_null()));
    found.unwrap_or(core::ptr::null_mut())
}

/// One object of `cache` from a slab of `node`, or of another if that has none; null when memory ends.
pub(crate) fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    of_engine!(cache, alloc_on(cache, node))
}

/// Takes the object at `address` back.
#[inline]
pub(crate) fn free(cache: &'static RawCache, address: usize) {
    #[inline(never)]
    fn others(cache: &'static RawCache, address: usize) {
        of_engine!(cache, free(cache, address));
    }
    match cache.engine {
        Engine::Slub(_) => slub::free(cache, address),
        Engine::Slab => slab_queues::free(cache, address),
        _ => others(cache, address),
    }
}

/// As [`free`], of an object that another CPU was given: it should not be the next that this CPU hands out.
pub(crate) fn free_remote(cache: &'static RawCache, address: usize) {
    match cache.engine {
        Engine::Sheaves => sheaves::free_remote(cache, address),
        _ => free(cache, address),
    }
}

/// As [`free`], for whoever knows that `address` lies in the slab that starts at `slab`, and that this cache owns it.
#[inline]
pub(crate) fn free_in(cache: &'static RawCache, slab: PageIndex, address: usize) {
    #[inline(never)]
    fn others(cache: &'static RawCache, slab: PageIndex, address: usize) {
        of_engine!(cache, free_in(cache, slab, address));
    }
    match cache.engine {
        Engine::Slub(_) => slub::free_in(cache, slab, address),
        Engine::Slab => slab_queues::free_in(cache, slab, address),
        _ => others(cache, slab, address),
    }
}

/// Fills `out` with objects; false, and nothing taken, when memory ends.
pub(crate) fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
    of_engine!(cache, alloc_bulk(cache, out))
}

/// [`alloc_bulk`] of engines that have no better way.
fn alloc_one_by_one(cache: &'static RawCache, out: &mut [usize]) -> bool {
    for got in 0..out.len() {
        let object = alloc(cache);
        if object.is_null() {
            free_bulk(cache, &out[..got]);
            return false;
        }
        out[got] = object as usize;
    }
    true
}

/// Takes objects back.
pub(crate) fn free_bulk(cache: &'static RawCache, objects: &[usize]) {
    of_engine!(cache, free_bulk(cache, objects));
}

/// Brings cached objects back to their slabs.
#[place(background)]
pub(crate) fn drain_cpus(cache: &'static RawCache) -> bool {
    of_engine!(cache, drain_cpus(cache))
}

/// Gives the slabs that are empty back, without bringing cached objects home first; the slabs that remain.
#[place(background)]
pub(crate) fn trim(cache: &'static RawCache) -> usize {
    of_engine!(cache, trim_slabs(cache))
}

/// Brings cached objects back and gives empty slabs back; the slabs that remain.
pub(crate) fn shrink(cache: &'static RawCache) -> usize {
    drain_cpus(cache);
    trim(cache)
}

/// Figures of the cache.
#[place(cold)]
pub(crate) fn usage(cache: &'static RawCache) -> Usage {
    of_engine!(cache, usage(cache))
}

/// Gives back to slabs what the stores of nodes held without need since the last call; true if they were in use.
#[place(background)]
pub(crate) fn reap(cache: &'static RawCache) -> bool {
    of_engine!(cache, reap(cache))
}

/// Bytes of free objects in stores that [`release_held`] would bring back to slabs.
pub(crate) fn held_bytes(cache: &'static RawCache) -> usize {
    of_engine!(cache, held_bytes(cache))
}

/// Brings back to slabs what the stores of nodes hold, without stopping anybody: allocation paths call it.
pub(crate) fn release_held(cache: &'static RawCache) {
    of_engine!(cache, release_held(cache));
}

/// Bytes of free objects in slabs of which [`evict_free_pages`] might give pages back, of engines that can.
pub(crate) fn sparse_bytes(cache: &'static RawCache) -> usize {
    if cache.engine == Engine::Sheaves { sheaves::sparse_bytes(cache) } else { 0 }
}

/// Gives free pages of slabs that are in use back to the system; bytes given back.
#[place(background)]
pub(crate) fn evict_free_pages(cache: &'static RawCache) -> usize {
    if cache.engine == Engine::Sheaves { sheaves::evict_free_pages(cache) } else { 0 }
}

/// Makes slabs empty that nothing but what [`evict_free_pages`] did keeps; true if there were some.
pub(crate) fn restore_emptied(cache: &'static RawCache) -> bool {
    cache.engine == Engine::Sheaves && sheaves::restore_emptied(cache)
}

/// Tells the engine of a cache that is where it stays, before anybody uses it.
pub(crate) fn attach(cache: &'static RawCache) {
    if matches!(cache.engine, Engine::SlobSeg | Engine::SlobCache) {
        slob_pools::attach(cache);
    }
}

/// Ends a cache that has no slab: what it had beside its entry of the registry goes back.
pub(crate) fn close(cache: &'static RawCache) {
    of_engine!(cache, close(cache));
}

/// The cache under whose name the pages of this one stand, if it shares them with that and has none of its own.
#[place(cold)]
pub(crate) fn home(cache: &'static RawCache) -> Option<&'static RawCache> {
    match cache.engine {
        Engine::SlobSeg | Engine::SlobCache => slob_pools::home(cache),
        _ => None,
    }
}

/// Whether two caches take their objects from the same pages, as far as engines arrange that.
pub(crate) fn share_pages(one: &RawCache, other: &RawCache) -> bool {
    let segregated = matches!(one.engine, Engine::SlobSeg | Engine::SlobCache);
    one.engine == other.engine && (one.engine == Engine::Slob || (segregated && one.state.pool == other.state.pool))
}

/// Whether partial slabs of other nodes are to be looked at before a slab is new: in so many of 1000 cases as the cache's
/// ratio says. The kernel asks the cycle counter; here a counter of such questions is scattered, which is the same everywhere.
pub(crate) fn defrags_now(cache: &RawCache) -> bool {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let ratio = u32::from(cache.defrag_ratio.load(Ordering::Relaxed));
    if ratio == 0 {
        return false;
    }
    let asked = ASKED.load(Ordering::Relaxed);
    ASKED.store(asked.wrapping_add(1), Ordering::Relaxed);
    // The golden ratio spreads consecutive numbers evenly. As in the kernel, of 1024 parts.
    asked.wrapping_mul(0x9E37_79B9) >> 22 <= ratio
}

/// What happened at the cache.
pub(crate) fn counts(cache: &'static RawCache) -> Counts {
    of_engine!(cache, counts(cache))
}

/// Whether a list_lock that guards its objects is held at this moment, of any node.
pub(crate) fn list_lock_held(cache: &'static RawCache) -> bool {
    of_engine!(cache, list_lock_held(cache))
}

/// What happened at its barns, of an engine that has some.
pub(crate) fn barn_stats(cache: &'static RawCache) -> sheaves::barn::BarnStats {
    if cache.engine == Engine::Sheaves { sheaves::barn_stats(cache) } else { Default::default() }
}

/// What happened on the way between its slabs and whatever stands in front of them.
pub(crate) fn slow_path_stats(cache: &'static RawCache) -> SlowPathStats {
    of_engine!(cache, slow_path_stats(cache))
}

/// Reads a relaxed tunable.
#[inline]
pub(crate) fn tunable(value: &AtomicUsize) -> usize {
    value.load(Ordering::Relaxed)
}
