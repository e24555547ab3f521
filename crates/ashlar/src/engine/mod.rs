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
//! | [`flush`] | brings every cached object back to its slab; false if some CPU could not be reached |
//! | [`trim`] | gives free slabs back to the zone; the number of slabs left |
//! | [`usage`] | slabs, objects, live objects |
//! | [`reap`] | what the background thread does each half second; true while the cache is in use |
//! | [`held_bytes`], [`release`] | what could be given back when memory is short, and doing so; never waits for a CPU |
//! | [`sparse_bytes`], [`hollow`], [`come_home`] | free pages of slabs that are in use: an estimate, giving them back, and slabs that this keeps |
//! | [`EngineState::open`], [`close`] | begin and end of a cache |
//! | [`counts`], [`slow_path_stats`] | locks taken, slow paths entered |
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
//!    [`slub::node`] and the functions around them ([`slub::Node`] is no more than a partial list, counts, and barns that an
//!    engine without sheaves leaves empty). Owner and class word of every slab page are set as `slub::refill` does, so
//!    that [`RawCache::locate`], kfree and ksize find the object. An engine whose objects of several sizes share pages needs
//!    a kind of page of its own in [`crate::page::memmap::PageKind`], and an answer for it in the functions `find` of
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

pub(crate) mod cpu_slab;
mod figures;
pub(crate) mod segregated;
pub(crate) mod select;
pub(crate) mod slab;
pub(crate) mod slob;
pub(crate) mod slub;
mod state;
pub(crate) mod tally;
mod tunables;

pub use cpu_slab::Stage;
pub use figures::{Counts, Search, Usage};
pub use select::Engine;
pub(crate) use state::{EMPTY_STATE, EngineState};
pub use tunables::Tunable;

use crate::page::memmap::MEMMAP;
use crate::page::meta::META;
use crate::page::zone::ZONE;
use crate::slab::geometry::Geometry;
use crate::sync::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, Visit};
use crate::units::{NodeId, PageIndex};

/// Longest cache name in bytes.
pub const MAX_NAME: usize = 47;

/// Whose cache it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The program made it, and may destroy it.
    Program,
    /// One of kmalloc's size classes.
    Kmalloc,
    /// One of malloc's: its live objects stand in the object map.
    Malloc,
}

/// What constructs an object of a cache: its argument is memory of the cache's size and alignment.
pub(crate) type Construct = unsafe extern "C" fn(*mut u8);

/// Everything about a cache that an engine needs. Lives in metadata memory for ever; reused after destroy.
pub(crate) struct RawCache {
    pub(crate) geometry: Geometry,
    /// Offset of this cache's slot in every per-CPU area.
    pub(crate) slot: u16,
    pub(crate) engine: Engine,
    /// Key of the free links.
    pub(crate) secret: u64,
    pub(crate) ctor: Option<Construct>,
    /// Objects in a sheaf; 0: no sheaves.
    pub(crate) sheaf_capacity: AtomicUsize,
    /// Full sheaves that a barn may hold.
    pub(crate) barn_limit: AtomicUsize,
    /// Empty slabs that a node's list keeps.
    pub(crate) min_partial: AtomicUsize,
    /// Free objects that a CPU's partial slabs may have; 0: it keeps none. Of one stage of SLUB.
    pub(crate) cpu_partial: AtomicUsize,
    /// How readily partial slabs of other nodes are taken before a slab is new, in thousandths.
    pub(crate) defrag_ratio: AtomicU16,
    /// What the reaper saw when it looked last, cut to its low half, for engines that tell their use by their counts.
    pub(crate) looked: AtomicU32,
    /// What the engines keep for it.
    pub(crate) state: EngineState,
    pub(crate) origin: Origin,
    /// What other caches must be like to share its slabs.
    pub(crate) merge: Merge,
    /// Handles that the program has of it, its aliases' among them. Changed under the registry lock.
    pub(crate) refcount: AtomicU32,
    /// Bytes that the user may use: of the largest of the caches that share it. See [`Self::object_size`].
    object_size: AtomicU32,
    name: [u8; MAX_NAME],
    name_len: u8,
    /// Creation number; 0 while the entry is free.
    pub(crate) serial: AtomicU32,
}

impl core::fmt::Debug for RawCache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({} bytes)", self.name(), self.object_size())
    }
}

/// Whether and with which others a cache may be merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// At all.
    pub(crate) mergeable: bool,
    /// Only with caches of the same group.
    pub(crate) group: u8,
}

/// What goes into a new [`RawCache`]; the rest is derived.
pub(crate) struct Plan<'a> {
    pub(crate) name: &'a str,
    pub(crate) geometry: Geometry,
    pub(crate) slot: u16,
    pub(crate) secret: u64,
    pub(crate) ctor: Option<Construct>,
    pub(crate) sheaf_capacity: usize,
    pub(crate) barn_limit: usize,
    pub(crate) min_partial: usize,
    pub(crate) cpu_partial: usize,
    pub(crate) defrag_ratio: u16,
    pub(crate) engine: Engine,
    pub(crate) state: EngineState,
    pub(crate) origin: Origin,
    pub(crate) merge: Merge,
}

impl RawCache {
    pub(crate) fn new(plan: &Plan<'_>, serial: u32) -> RawCache {
        let mut name = [0; MAX_NAME];
        let len = plan.name.len().min(MAX_NAME);
        name[..len].copy_from_slice(&plan.name.as_bytes()[..len]);
        RawCache {
            geometry: plan.geometry,
            slot: plan.slot,
            engine: plan.engine,
            secret: plan.secret,
            ctor: plan.ctor,
            sheaf_capacity: AtomicUsize::new(plan.sheaf_capacity),
            barn_limit: AtomicUsize::new(plan.barn_limit),
            min_partial: AtomicUsize::new(plan.min_partial),
            cpu_partial: AtomicUsize::new(plan.cpu_partial),
            defrag_ratio: AtomicU16::new(plan.defrag_ratio),
            looked: AtomicU32::new(0),
            state: plan.state,
            origin: plan.origin,
            merge: plan.merge,
            refcount: AtomicU32::new(1),
            object_size: AtomicU32::new(plan.geometry.object_size as u32),
            name,
            name_len: len as u8,
            serial: AtomicU32::new(serial),
        }
    }

    pub(crate) fn name(&self) -> &str {
        // Cut at a character boundary by the check at creation; an empty name would be a bug, not a crash.
        core::str::from_utf8(&self.name[..usize::from(self.name_len)]).unwrap_or("?")
    }

    /// Bytes of an object that the user may use; the most that was asked for by one of the caches that are merged in it.
    #[inline]
    pub(crate) fn object_size(&self) -> usize {
        self.object_size.load(Ordering::Relaxed) as usize
    }

    /// Another cache is merged into this one, and its objects have `bytes` bytes.
    pub(crate) fn raise_object_size(&self, bytes: usize) {
        self.object_size.fetch_max(bytes as u32, Ordering::Relaxed);
    }

    /// The slot offset that this cache's pages carry in the memmap: 0, the slow path, where frees must look
    /// at the node, or at the object map, first, and where the engine has no sheaves.
    pub(crate) fn page_slot(&self) -> u16 {
        let by_map = self.origin == Origin::Malloc && !cfg!(ashlar_unchecked);
        let fast = ZONE.nodes() == 1 && !by_map && self.engine.has_sheaves();
        if fast { self.slot } else { 0 }
    }

    /// The head page and index of an object of this cache, or why it is none.
    pub(crate) fn locate(&self, address: usize) -> Result<(PageIndex, u16), BadObject> {
        let page = MEMMAP.page_of(address).ok_or(BadObject::Foreign)?;
        let class = MEMMAP.class_of(page);
        if class.kind() != crate::page::memmap::PageKind::Slab {
            return Err(BadObject::Foreign);
        }
        let first = PageIndex(page.0 - class.back());
        let head = MEMMAP.head(first);
        if head.owner() != core::ptr::from_ref(self) as usize {
            return Err(BadObject::OtherCache);
        }
        let offset = (address - MEMMAP.address_of(first)).checked_sub(head.colour());
        match offset.and_then(|offset| self.geometry.index_of(offset)) {
            Some(index) if index < head.objects() => Ok((first, index)),
            _ => Err(BadObject::Misaligned),
        }
    }
}

/// Why an address is no object of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadObject {
    /// No page of the zone, or no slab page.
    Foreign,
    /// An object of another cache.
    OtherCache,
    /// Inside a slab, but no object starts there.
    Misaligned,
}

/// What an engine must know of a cache that is about to be, beside its geometry.
pub(crate) struct Opening {
    pub(crate) engine: Engine,
    pub(crate) origin: Origin,
    /// It shares pages with no other, where its engine leaves it the choice.
    pub(crate) alone: bool,
    /// With which others it may share pages.
    pub(crate) group: u8,
    /// Of SLAB.
    pub(crate) queues: slab::QueueOptions,
}

/// Metadata memory for `count` values, filled by `make`; never given back.
#[expect(unsafe_code, reason = "builds values in metadata memory")]
pub(crate) fn meta_slice<T>(count: usize, mut make: impl FnMut() -> Option<T>) -> Option<&'static [T]> {
    let memory = META.alloc(count * size_of::<T>(), align_of::<T>().max(128))?.as_ptr().cast::<T>();
    for i in 0..count {
        // SAFETY: fresh memory for `count` values, aligned for them.
        unsafe { memory.add(i).write(make()?) };
    }
    // SAFETY: all values were just initialised and the memory is never given back.
    Some(unsafe { core::slice::from_raw_parts(memory, count) })
}

/// Calls a function of the module of the cache's engine.
macro_rules! of_engine {
    ($cache:expr, $function:ident($($argument:expr),*)) => {
        match $cache.engine {
            Engine::Ashlar => slub::$function($($argument),*),
            Engine::Slub(_) => cpu_slab::$function($($argument),*),
            Engine::Slab => slab::$function($($argument),*),
            Engine::Slob => slob::$function($($argument),*),
            Engine::SlobSeg | Engine::SlobCache => segregated::$function($($argument),*),
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
        Engine::Slub(_) => cpu_slab::alloc(cache),
        Engine::Slab => slab::alloc(cache),
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
    segregated::for_each_lock(visit);
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
    let random = crate::os::random_u64();
    #[cfg(not(feature = "os"))]
    let random = (&raw const SECRET as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // The first to store wins: all use the same.
    match SECRET.compare_exchange(0, random | 1, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => random | 1,
        Err(stored) => stored,
    }
}

/// The object that `take` finds after it found none: see [`Zone::take_after_all`](crate::page::zone::Zone::take_after_all). Null when
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
        Engine::Slub(_) => cpu_slab::free(cache, address),
        Engine::Slab => slab::free(cache, address),
        _ => others(cache, address),
    }
}

/// As [`free`], of an object that another CPU was given: it should not be the next that this CPU hands out.
pub(crate) fn free_foreign(cache: &'static RawCache, address: usize) {
    match cache.engine {
        Engine::Ashlar => slub::free_foreign(cache, address),
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
        Engine::Slub(_) => cpu_slab::free_in(cache, slab, address),
        Engine::Slab => slab::free_in(cache, slab, address),
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
pub(crate) fn flush(cache: &'static RawCache) -> bool {
    of_engine!(cache, flush_all(cache))
}

/// Gives the slabs that are empty back, without bringing cached objects home first; the slabs that remain.
#[place(background)]
pub(crate) fn trim(cache: &'static RawCache) -> usize {
    of_engine!(cache, trim_slabs(cache))
}

/// Brings cached objects back and gives empty slabs back; the slabs that remain.
pub(crate) fn shrink(cache: &'static RawCache) -> usize {
    flush(cache);
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

/// Bytes of free objects in stores that [`release`] would bring back to slabs.
pub(crate) fn held_bytes(cache: &'static RawCache) -> usize {
    of_engine!(cache, held_bytes(cache))
}

/// Brings back to slabs what the stores of nodes hold, without stopping anybody: allocation paths call it.
pub(crate) fn release(cache: &'static RawCache) {
    of_engine!(cache, release(cache));
}

/// Bytes of free objects in slabs of which [`hollow`] might give pages back, of engines that can.
pub(crate) fn sparse_bytes(cache: &'static RawCache) -> usize {
    if cache.engine == Engine::Ashlar { slub::sparse_bytes(cache) } else { 0 }
}

/// Gives free pages of slabs that are in use back to the system; bytes given back.
#[place(background)]
pub(crate) fn hollow(cache: &'static RawCache) -> usize {
    if cache.engine == Engine::Ashlar { slub::hollow(cache) } else { 0 }
}

/// Makes slabs empty that nothing but what [`hollow`] did keeps; true if there were some.
pub(crate) fn come_home(cache: &'static RawCache) -> bool {
    cache.engine == Engine::Ashlar && slub::all_come_home(cache)
}

/// Tells the engine of a cache that is where it stays, before anybody uses it.
pub(crate) fn attach(cache: &'static RawCache) {
    if matches!(cache.engine, Engine::SlobSeg | Engine::SlobCache) {
        segregated::attach(cache);
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
        Engine::SlobSeg | Engine::SlobCache => segregated::home(cache),
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

/// What happened at its barns, and on the way between them and slabs.
pub(crate) fn slow_path_stats(cache: &'static RawCache) -> (slub::barn::BarnStats, slub::counters::SlowPathStats) {
    of_engine!(cache, stats(cache))
}

/// Reads a relaxed tunable.
#[inline]
pub(crate) fn tunable(value: &AtomicUsize) -> usize {
    value.load(Ordering::Relaxed)
}

// Metadata memory comes in lines, and a small arena has little of it.
const _: () = assert!(size_of::<RawCache>() <= 4 * crate::units::CACHE_LINE);
