//! The default engine: sheaves, barns, partial slabs.
//!
//! ```text
//!  CPU slot:  main sheaf, spare sheaf          critical sections, no lock
//!  node:      barns of full and empty sheaves  barn lock, once a sheaf; one barn a CPU, others are robbed
//!             partial slabs                    list_lock, once a refill, once a slab
//!             evicted objects                   evicted lock, once a sheaf of them; free, but their pages went back to the system
//!  zone:      pages                            zone lock, once a batch of slabs
//! ```
//!
//! An allocation pops the main sheaf. When it is empty the spare takes its place, then a full sheaf of the
//! barn, then a sheaf refilled from slabs. A free pushes, whatever slab the object is from; when the main
//! sheaf is full the spare takes its place, then an empty sheaf, and the full one goes to the barn, or, when
//! the barn holds enough, or the objects lie scattered (`locality`), its objects to their slabs. Two sheaves a CPU
//! are what keeps a program that allocates and frees around a boundary from thrashing. Source: the kernel's sheaves of
//! 6.18 and 7.0.
//!
//! What malloc gave another CPU is freed to the spare (see [`crate::malloc::entry`]), and goes back by sheaves (`remote_free`). For objects that
//! share cache lines a spare that is less than half full is passed over while there is memory.
//!
//! Objects of another NUMA node are not put on sheaves: they go straight to their slab.
//!
//! A sheaf has one owner at any time: a CPU's slot, a barn, the pool, or the thread that holds the [`Sheaf`].
#![allow(unsafe_code, reason = "takes ownership of sheaves out of slots")]

pub(crate) mod barn;
mod bulk;
mod exchange;
mod locality;
mod refill;
mod remote_free;
mod sparse;

pub(crate) use bulk::{alloc_bulk, free_bulk};
pub(crate) use exchange::{SheafNode, for_each_lock, held_bytes, open, reap, release_held};
pub(crate) use sparse::{evict_free_pages, restore_emptied, sparse_bytes};

use crate::base::sync::Ordering;
use crate::base::units::{CACHE_LINE, CpuId, NodeId, PageIndex};
use crate::engine::{Counts, RawCache, Usage, tunable};
use crate::pages::memmap::MEMMAP;
use crate::pages::zone::ZONE;
use crate::percpu::area::{PERCPU, null_top};
use crate::percpu::sheaf::Sheaf;
use crate::percpu::{self, View};
use crate::slab::counters::SlowPathStats;
use crate::slab::return_objects::return_objects;
use barn::{Barn, BarnStats};
use exchange::{empty_sheaf, put_empty, return_sheaf, store_full, take_full};
use remote_free::{FreedFor, sheaf_capacity};

/// Attempts at the slot before an operation does without it; each failure means that somebody else on this
/// CPU made progress.
const ATTEMPTS: usize = 8;

/// See [`crate::engine::alloc`].
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    let object = alloc_once(cache);
    // Barns may hold the last memory there is, also of this cache: a CPU without an area never looks there.
    if object.is_null() { crate::engine::after_all(|| alloc_once(cache)) } else { object }
}

fn alloc_once(cache: &'static RawCache) -> *mut u8 {
    percpu::adopt_thread();
    for _ in 0..ATTEMPTS {
        let Some(view) = percpu::read(cache.slot) else { break };
        if !is_empty(view.main) {
            let object = percpu::pop(cache.slot);
            if object != 0 {
                return object as *mut u8;
            }
            continue;
        }
        match refresh_main(cache, &view) {
            Refreshed::Again => {}
            Refreshed::Object(object) => return object as *mut u8,
            Refreshed::OutOfMemory => return core::ptr::null_mut(),
            Refreshed::NoSheaves => break,
        }
    }
    alloc_from_slab(cache)
}

enum Refreshed {
    /// The main sheaf has objects now, or somebody else changed the slot.
    Again,
    /// An object was had on the way.
    Object(usize),
    OutOfMemory,
    /// The cache works without sheaves.
    NoSheaves,
}

/// Gives this CPU, whose main sheaf is empty, one with objects in it.
fn refresh_main(cache: &'static RawCache, view: &View) -> Refreshed {
    if let Some(swapped) = use_good_spare(cache, view) {
        return swapped;
    }
    // What else the spare holds came from other CPUs (see `free_remote`): it waits until there is more of it, or until
    // nothing else is left.
    let (id, node) = node_of_cpu(cache, view.cpu);
    node.barn(view.cpu).count_alloc();
    if let Some(full) = take_full(cache, node, view.cpu) {
        if let Err(full) = install(cache, node, view, full) {
            store_full(cache, node, view.cpu, full, FreedFor::ThisCpu);
        }
        return Refreshed::Again;
    }
    let capacity = sheaf_capacity(cache, FreedFor::ThisCpu);
    if capacity == 0 {
        return use_spare(cache, view).unwrap_or(Refreshed::NoSheaves);
    }
    let Some(mut sheaf) = empty_sheaf(cache, node, view.cpu, capacity) else {
        return use_spare(cache, view).unwrap_or(Refreshed::NoSheaves);
    };
    let room = sheaf.room();
    let wanted = refill::share(cache, node).min(room.len());
    // Objects must end at the sentinel.
    let start = room.len() - wanted;
    let place = &mut room[start..];
    let got = refill::refill(cache, id, place);
    if got < wanted {
        place.copy_within(..got, wanted - got);
    }
    sheaf.set_len(got);
    let Some(object) = sheaf.pop() else {
        put_empty(node, view.cpu, sheaf);
        return use_spare(cache, view).unwrap_or(Refreshed::OutOfMemory);
    };
    if let Err(mut sheaf) = install(cache, node, view, sheaf) {
        // Moved to another CPU meanwhile, which has objects of its own.
        return_objects(&cache.slabs, sheaf.objects());
        sheaf.set_len(0);
        put_empty(node, view.cpu, sheaf);
    }
    Refreshed::Object(object)
}

/// Makes the spare the main sheaf, and the empty main the spare.
fn swap(cache: &'static RawCache, view: &View) -> Refreshed {
    percpu::exchange(cache.slot, view, view.spare, view.main);
    Refreshed::Again
}

/// Whether the cache's objects are so small that they have neighbours in their cache line.
fn shares_lines(cache: &'static RawCache) -> bool {
    cache.slabs.geometry.stride < 2 * CACHE_LINE
}

/// As [`swap`], if the spare holds anything.
fn use_spare(cache: &'static RawCache, view: &View) -> Option<Refreshed> {
    (!is_empty(view.spare)).then(|| swap(cache, view))
}

/// As [`use_spare`], if there is enough on it: see the module.
fn use_good_spare(cache: &'static RawCache, view: &View) -> Option<Refreshed> {
    if percpu::has_half(view.spare) || !shares_lines(cache) { use_spare(cache, view) } else { None }
}

/// Makes `sheaf` the main sheaf; the old main, empty, becomes the spare if there is none. Gives the
/// sheaf back when the slot has changed.
fn install(cache: &'static RawCache, node: &SheafNode, view: &View, sheaf: Sheaf) -> Result<(), Sheaf> {
    let capacity = sheaf.capacity();
    let top = sheaf.into_top();
    let has_spare = view.spare != null_top();
    let spare = if has_spare { view.spare } else { view.main };
    if !percpu::exchange(cache.slot, view, top, spare) {
        // SAFETY: the sheaf came from `into_top` and was not stored.
        return Err(unsafe { Sheaf::from_top(top) });
    }
    if has_spare {
        // SAFETY: the exchange took the old main out of the slot and did not put it back.
        if let Some(empty) = unsafe { percpu::owned(view.main) } {
            // The same top can only stand for objects if the capacity was changed in between.
            if empty.len() == 0 {
                put_empty(node, view.cpu, empty);
            } else {
                return_sheaf(cache, empty);
            }
        }
    }
    check_capacity(cache, capacity);
    Ok(())
}

/// Called when a sheaf of `capacity` objects has just gone into a slot. If less was asked for after the sheaf was chosen,
/// the drain of that change may have come before the sheaf did: then another is due. One of the two sees the other:
/// the change stores the capacity, and all CPUs pass a barrier before it looks at slots; here the slot is written first.
#[inline]
fn check_capacity(cache: &'static RawCache, capacity: usize) {
    if tunable(&cache.sheaf_capacity) < capacity {
        drain_cpus(cache);
    }
}

/// Gives the cache sheaves of another capacity, 0 for none, and barns of so many of them. Those that exist go home; what a thread
/// has in hand and is larger follows when it comes back (`check_capacity`, `exchange::fits`). A smaller one may stay: it gets the capacity that is
/// asked for when it is empty and taken next.
pub(crate) fn set_sheaf_capacity(cache: &'static RawCache, capacity: usize, barn_limit: usize) {
    cache.barn_limit.store(barn_limit, Ordering::Relaxed);
    cache.sheaf_capacity.store(capacity, Ordering::SeqCst);
    drain_cpus(cache);
    for node in cache.state.sheaf_nodes {
        node.barns.iter().for_each(exchange::retire_empty);
    }
}

/// True for the top of an empty sheaf that the view's owner may look at.
fn is_empty(top: usize) -> bool {
    // SAFETY: tops point to a word of a sheaf; sheaves are never unmapped, so the worst a stale top can give
    // is a stale answer, and every use of the answer is checked by the exchange that follows.
    unsafe { (top as *const usize).read_volatile() == 0 }
}

/// One object straight from a slab.
fn alloc_from_slab(cache: &'static RawCache) -> *mut u8 {
    let (id, _) = node_of_cpu(cache, percpu::this_cpu());
    one_from_slab(cache, id)
}

fn one_from_slab(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    let mut one = [0usize];
    refill::refill(cache, node, &mut one);
    one[0] as *mut u8
}

/// See [`crate::engine::alloc_on`].
pub(crate) fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    percpu::adopt_thread();
    let object = one_from_slab(cache, node);
    if object.is_null() { crate::engine::after_all(|| one_from_slab(cache, node)) } else { object }
}

/// See [`crate::engine::free`].
pub(crate) fn free(cache: &'static RawCache, object: usize) {
    free_unsettled(cache, object);
    crate::base::background::settle();
}

/// See [`crate::engine::free_in`].
pub(crate) fn free_in(cache: &'static RawCache, _slab: PageIndex, object: usize) {
    free(cache, object);
}

fn free_unsettled(cache: &'static RawCache, object: usize) {
    percpu::adopt_thread();
    if ZONE.nodes() > 1 && !is_local(cache, object) {
        return return_objects(&cache.slabs, &[object]);
    }
    for _ in 0..ATTEMPTS {
        let Some(view) = percpu::read(cache.slot) else { break };
        if !percpu::is_full(view.main) {
            if percpu::push(cache.slot, object) {
                return;
            }
            continue;
        }
        if make_room(cache, &view, object) {
            return;
        }
        if tunable(&cache.sheaf_capacity) == 0 {
            break;
        }
    }
    return_objects(&cache.slabs, &[object]);
}

/// See [`crate::engine::free_remote`].
pub(crate) fn free_remote(cache: &'static RawCache, object: usize) {
    percpu::adopt_thread();
    // Objects of other nodes are on no sheaf: `free` sends them home.
    let attempts = if ZONE.nodes() > 1 && !is_local(cache, object) { 0 } else { ATTEMPTS };
    for _ in 0..attempts {
        let Some(view) = percpu::read(cache.slot) else { break };
        if !percpu::is_full(view.spare) {
            // Somebody made room meanwhile, or the spare was looked at on another CPU.
            break;
        }
        if renew_spare(cache, &view, object) {
            return crate::base::background::settle();
        }
        if tunable(&cache.sheaf_capacity) == 0 {
            break;
        }
    }
    free(cache, object);
}

/// Gives this CPU, whose spare sheaf is full or missing, one with `object` on it; false when the slot has changed or there is
/// no sheaf.
fn renew_spare(cache: &'static RawCache, view: &View, object: usize) -> bool {
    put_on_new_sheaf(cache, view, object, |new| (view.main, new), view.spare, FreedFor::OtherCpu)
}

fn is_local(cache: &'static RawCache, object: usize) -> bool {
    let (here, _) = node_of_cpu(cache, percpu::this_cpu());
    MEMMAP.page_of(object).is_none_or(|page| ZONE.node_of(page) == here)
}

/// Makes the spare, if it has room, the main sheaf, and the full main the spare. True if there was such a spare: then the slot has
/// changed, by this or by somebody else.
fn swap_full(cache: &'static RawCache, view: &View) -> bool {
    if percpu::is_full(view.spare) {
        return false;
    }
    percpu::exchange(cache.slot, view, view.spare, view.main);
    true
}

/// Gives this CPU, whose main sheaf is full, one with room, with `object` on it already if that is true.
fn make_room(cache: &'static RawCache, view: &View, object: usize) -> bool {
    if swap_full(cache, view) {
        return false;
    }
    // The main sheaf holds the hotter objects: it becomes the spare, and the old spare leaves.
    let (spare, leaving) = if view.main == null_top() { (view.spare, null_top()) } else { (view.main, view.spare) };
    put_on_new_sheaf(cache, view, object, |new| (new, spare), leaving, FreedFor::ThisCpu)
}

/// Puts `object` on a sheaf that was empty and makes `pair` of it this CPU's main and spare; `leaving` of the view goes to the
/// barn. False when the slot has changed or there is no sheaf.
fn put_on_new_sheaf(
    cache: &'static RawCache,
    view: &View,
    object: usize,
    pair: impl FnOnce(usize) -> (usize, usize),
    leaving: usize,
    freed_for: FreedFor,
) -> bool {
    let (_, node) = node_of_cpu(cache, view.cpu);
    node.barn(view.cpu).count_free();
    let capacity = sheaf_capacity(cache, freed_for);
    if capacity == 0 {
        return false;
    }
    let Some(mut sheaf) = empty_sheaf(cache, node, view.cpu, capacity) else { return false };
    sheaf.push(object);
    let top = sheaf.into_top();
    let (main, spare) = pair(top);
    if !percpu::exchange(cache.slot, view, main, spare) {
        // SAFETY: the sheaf came from `into_top` and was not stored.
        let mut sheaf = unsafe { Sheaf::from_top(top) };
        sheaf.pop();
        put_empty(node, view.cpu, sheaf);
        return false;
    }
    // SAFETY: the exchange took it out of the slot.
    if let Some(full) = unsafe { percpu::owned(leaving) } {
        store_full(cache, node, view.cpu, full, freed_for);
    }
    check_capacity(cache, capacity);
    true
}

/// See [`crate::engine::drain_cpus`].
pub(crate) fn drain_cpus(cache: &'static RawCache) -> bool {
    let all = percpu::drain::drain(&[cache.slot], |_, _, sheaf| return_sheaf(cache, sheaf));
    release_held(cache);
    all
}

/// See [`crate::engine::trim`].
pub(crate) fn trim_slabs(cache: &'static RawCache) -> usize {
    cache.state.sheaf_nodes.iter().for_each(|node| _ = sparse::restore_emptied_of(cache, node));
    cache.slabs.trim()
}

/// See [`crate::engine::close`]: sheaves and barns are empty, and stay with the entry.
pub(crate) fn close(_cache: &'static RawCache) {}

/// See [`crate::engine::counts`].
pub(crate) fn counts(cache: &'static RawCache) -> Counts {
    let mut sum = Counts { list_locks: cache.slabs.list_locks_taken(), ..Counts::default() };
    barns_of(cache).for_each(|barn| barn.add_to(&mut sum));
    sum
}

/// See [`crate::engine::list_lock_held`].
pub(crate) fn list_lock_held(cache: &'static RawCache) -> bool {
    cache.slabs.list_lock_held()
}

/// See [`crate::engine::barn_stats`].
pub(crate) fn barn_stats(cache: &'static RawCache) -> BarnStats {
    let mut sum = BarnStats::default();
    barns_of(cache).for_each(|barn| barn.stats().add_to(&mut sum));
    sum
}

/// See [`crate::engine::slow_path_stats`].
pub(crate) fn slow_path_stats(cache: &'static RawCache) -> SlowPathStats {
    cache.slabs.slow_path_stats()
}

/// The barns of all nodes.
fn barns_of(cache: &RawCache) -> impl Iterator<Item = &'static Barn> {
    cache.state.sheaf_nodes.iter().flat_map(|node| node.barns)
}

/// The node entry of a CPU.
#[inline]
fn node_of_cpu(cache: &'static RawCache, cpu: CpuId) -> (NodeId, &'static SheafNode) {
    let node = PERCPU.node_of(cpu);
    (node, &cache.state.sheaf_nodes[usize::from(node.0) % cache.state.sheaf_nodes.len()])
}

/// See [`crate::engine::usage`].
pub(crate) fn usage(cache: &'static RawCache) -> Usage {
    let evicted: usize = cache.state.sheaf_nodes.iter().map(|node| node.evicted.objects()).sum();
    let in_barns: usize = barns_of(cache).map(Barn::full_objects).sum();
    let on_cpus: usize = (0..PERCPU.cpus.load(Ordering::Relaxed)).map(|cpu| cached_on(CpuId(cpu), cache.slot)).sum();
    Usage::of_slabs(&cache.slabs, evicted + in_barns + on_cpus)
}

/// Objects in the sheaves of one CPU; a racy look.
fn cached_on(cpu: CpuId, slot: u16) -> usize {
    let place = PERCPU.slot(cpu, slot);
    // SAFETY: reads the two words of a committed slot.
    let tops = unsafe { [place.read_volatile(), place.add(1).read_volatile()] };
    tops.into_iter()
        .filter(|&top| top != null_top())
        .map(|top| {
            // SAFETY: only the info word and the address are read, of sheaf memory that is never unmapped; the
            // handle is forgotten as it has no destructor.
            let sheaf = unsafe { Sheaf::from_top(top) };
            sheaf.len().min(sheaf.capacity())
        })
        .sum()
}
