//! The `slub` engine in its default form: sheaves, barns, partial slabs.
//!
//! ```text
//!  CPU slot:  main sheaf, spare sheaf          critical sections, no lock
//!  node:      barns of full and empty sheaves  barn lock, once a sheaf; one barn a CPU, others are robbed
//!             partial slabs                    list_lock, once a refill, once a slab
//!             hollow objects                   hollow lock, once a sheaf of them; free, but their pages went back to the system
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
//! What malloc gave another CPU is freed to the spare (see [`crate::malloc::entry`]), and goes back by sheaves (`crossing`). For objects that
//! share cache lines a spare that is less than half full is passed over while there is memory.
//!
//! Objects of another NUMA node are not put on sheaves: they go straight to their slab.
//!
//! A sheaf has one owner at any time: a CPU's slot, a barn, the pool, or the thread that holds the [`Sheaf`].
#![allow(unsafe_code, reason = "takes ownership of sheaves out of slots")]

pub(crate) mod barn;
mod bulk;
pub(crate) mod counters;
mod crossing;
pub(crate) mod flush;
mod hollow;
mod locality;
pub(crate) mod node;
mod refill;
mod store;

pub(crate) use bulk::{alloc_bulk, free_bulk};
pub(crate) use hollow::{all_come_home, hollow, sparse_bytes};
pub(crate) use store::{Node, for_each_lock, held_bytes, open, reap, release};

pub(crate) use refill::{carve, class_word, has_to_spare};

use super::{Counts, RawCache, Usage, tunable};
use crate::page::head::PageHead;
use crate::page::memmap::{ClassWord, MEMMAP, MemMap};
use crate::page::zone::ZONE;
use crate::percpu::area::{PERCPU, null_top};
use crate::percpu::sheaf::Sheaf;
use crate::percpu::{self, View};
use crate::slab::state::SlabState;
use crate::sync::Ordering;
use crate::units::{CACHE_LINE, CpuId, NodeId, Order, PageIndex};
use crossing::{Side, sheaf_capacity};
use node::Heads;
use store::{empty_sheaf, flush_sheaf, put_empty, store_full, take_full};

/// Attempts at the slot before an operation does without it; each failure means that somebody else on this
/// CPU made progress.
const ATTEMPTS: usize = 8;

impl Heads for MemMap {
    #[inline]
    fn head(&self, page: PageIndex) -> &PageHead {
        MemMap::head(self, page)
    }
}

/// See [`super::alloc`].
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    let object = alloc_once(cache);
    // Barns may hold the last memory there is, also of this cache: a CPU without an area never looks there.
    if object.is_null() { super::after_all(|| alloc_once(cache)) } else { object }
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
    // What else the spare holds came from other CPUs (see `free_foreign`): it waits until there is more of it, or until
    // nothing else is left.
    let (id, node) = node_of_cpu(cache, view.cpu);
    node.barn(view.cpu).count_alloc();
    if let Some(full) = take_full(cache, node, view.cpu) {
        if let Err(full) = install(cache, node, view, full) {
            store_full(cache, node, view.cpu, full, Side::Own);
        }
        return Refreshed::Again;
    }
    let capacity = sheaf_capacity(cache, Side::Own);
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
        flush::flush(cache, sheaf.objects());
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
    cache.geometry.stride < 2 * CACHE_LINE
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
fn install(cache: &'static RawCache, node: &Node, view: &View, sheaf: Sheaf) -> Result<(), Sheaf> {
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
                flush_sheaf(cache, empty);
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
        flush_all(cache);
    }
}

/// Gives the cache sheaves of another capacity, 0 for none, and barns of so many of them. Those that exist go home; what a thread
/// has in hand and is larger follows when it comes back (`check_capacity`, `store::fits`). A smaller one may stay: it gets the capacity that is
/// asked for when it is empty and taken next.
pub(crate) fn set_sheaf_capacity(cache: &'static RawCache, capacity: usize, barn_limit: usize) {
    cache.barn_limit.store(barn_limit, Ordering::Relaxed);
    cache.sheaf_capacity.store(capacity, Ordering::SeqCst);
    flush_all(cache);
    for node in cache.state.nodes {
        node.barns.iter().for_each(store::retire_empty);
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

/// See [`super::alloc_on`].
pub(crate) fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    percpu::adopt_thread();
    let object = one_from_slab(cache, node);
    if object.is_null() { super::after_all(|| one_from_slab(cache, node)) } else { object }
}

/// See [`super::free`].
pub(crate) fn free(cache: &'static RawCache, object: usize) {
    free_unsettled(cache, object);
    crate::background::settle();
}

/// See [`super::free_in`].
pub(crate) fn free_in(cache: &'static RawCache, _slab: PageIndex, object: usize) {
    free(cache, object);
}

fn free_unsettled(cache: &'static RawCache, object: usize) {
    percpu::adopt_thread();
    if ZONE.nodes() > 1 && !is_local(cache, object) {
        return flush::flush(cache, &[object]);
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
    flush::flush(cache, &[object]);
}

/// See [`super::free_foreign`].
pub(crate) fn free_foreign(cache: &'static RawCache, object: usize) {
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
            return crate::background::settle();
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
    put_on_new_sheaf(cache, view, object, |new| (view.main, new), view.spare, Side::Other)
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
    put_on_new_sheaf(cache, view, object, |new| (new, spare), leaving, Side::Own)
}

/// Puts `object` on a sheaf that was empty and makes `pair` of it this CPU's main and spare; `leaving` of the view goes to the
/// barn. False when the slot has changed or there is no sheaf.
fn put_on_new_sheaf(
    cache: &'static RawCache,
    view: &View,
    object: usize,
    pair: impl FnOnce(usize) -> (usize, usize),
    leaving: usize,
    side: Side,
) -> bool {
    let (_, node) = node_of_cpu(cache, view.cpu);
    node.barn(view.cpu).count_free();
    let capacity = sheaf_capacity(cache, side);
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
        store_full(cache, node, view.cpu, full, side);
    }
    check_capacity(cache, capacity);
    true
}

/// Gives empty slabs, all of one node, back to the zone.
pub(crate) fn discard(node: &Node, pages: &[PageIndex]) {
    discard_to(node, pages, |runs| ZONE.free_many(runs));
}

/// Gives an empty slab back to the page list of this CPU: for engines that take their slabs there, one at a time.
#[place(cold)]
pub(crate) fn discard_one(node: &Node, page: PageIndex) {
    discard_to(node, &[page], |runs| {
        runs.iter().any(|&(page, pages)| percpu::pages::free(page, Order(pages.trailing_zeros() as u8)))
    });
}

fn discard_to(node: &Node, pages: &[PageIndex], to: impl Fn(&[(PageIndex, usize)]) -> bool) {
    if pages.is_empty() {
        return;
    }
    let mut runs = [(PageIndex::NONE, 0usize); 16];
    let mut objects = 0;
    for part in pages.chunks(runs.len()) {
        for (run, &page) in runs.iter_mut().zip(part) {
            let head = MEMMAP.head(page);
            let count = 1usize << head.order();
            objects += usize::from(head.objects());
            MEMMAP.set_class(page, count, ClassWord::FREE, |_| ClassWord::FREE);
            *run = (page, count);
        }
        if to(&runs[..part.len()]) {
            crate::background::wake();
        }
    }
    node.counters.count_given(pages.len(), objects);
}

/// See [`super::flush`].
#[place(background)]
pub(crate) fn flush_all(cache: &'static RawCache) -> bool {
    let all = percpu::drain::drain(&[cache.slot], |_, _, sheaf| flush_sheaf(cache, sheaf));
    release(cache);
    all
}

/// Gives the empty slabs of every node back and orders the partial lists; the slabs that remain.
#[place(background)]
pub(crate) fn trim_slabs(cache: &'static RawCache) -> usize {
    let mut left = 0;
    for node in cache.state.nodes {
        hollow::come_home(cache, node);
        loop {
            let mut empty = [PageIndex::NONE; 16];
            let count = node.list.take_empty(&MEMMAP, &mut empty);
            discard(node, &empty[..count]);
            if count < empty.len() {
                break;
            }
        }
        node.list.lock().promote_fullest(&MEMMAP);
        left += node.counters.slabs();
    }
    left
}

/// See [`super::close`]: sheaves and barns are empty, and stay with the entry.
pub(crate) fn close(_cache: &'static RawCache) {}

/// See [`super::counts`].
pub(crate) fn counts(cache: &'static RawCache) -> Counts {
    let mut sum = Counts::default();
    for node in cache.state.nodes {
        sum.list_locks += node.list.raw().taken() as u64;
        node.barns.iter().for_each(|barn| barn.add_to(&mut sum));
    }
    sum
}

/// See [`super::list_lock_held`].
pub(crate) fn list_lock_held(cache: &'static RawCache) -> bool {
    cache.state.nodes.iter().any(|node| node.list.raw().is_held())
}

/// See [`super::slow_path_stats`].
pub(crate) fn stats(cache: &'static RawCache) -> (barn::BarnStats, counters::SlowPathStats) {
    let (mut barns, mut slow) = Default::default();
    for node in cache.state.nodes {
        node.barns.iter().for_each(|barn| barn.stats().add_to(&mut barns));
        node.counters.add_to(&mut slow);
    }
    (barns, slow)
}

/// The node entry of a CPU.
#[inline]
fn node_of_cpu(cache: &'static RawCache, cpu: CpuId) -> (NodeId, &'static Node) {
    let node = PERCPU.node_of(cpu);
    (node, &cache.state.nodes[usize::from(node.0) % cache.state.nodes.len()])
}

/// See [`super::usage`].
#[place(cold)]
pub(crate) fn usage(cache: &'static RawCache) -> Usage {
    let mut usage = Usage::default();
    let mut free = 0;
    for node in cache.state.nodes {
        let list = node.list.lock();
        usage.partial += list.count;
        let mut page = list.first();
        while page != PageIndex::NONE {
            let head = MEMMAP.head(page);
            free += usize::from(head.objects() - SlabState(head.state.load(Ordering::Relaxed)).inuse());
            page = head.next();
        }
        drop(list);
        usage.slabs += node.counters.slabs();
        usage.objects += node.counters.objects();
        usage.cached += node.barns.iter().map(|barn| barn.full_objects()).sum::<usize>() + node.hollow.objects();
    }
    for cpu in 0..PERCPU.cpus.load(Ordering::Relaxed) {
        usage.cached += cached_on(CpuId(cpu), cache.slot);
    }
    usage.live = usage.objects.saturating_sub(free).saturating_sub(usage.cached);
    usage.bytes = usage.slabs * cache.geometry.order.bytes();
    usage
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
