//! Allocation from the default engine.
//!
//! Sources in order of cost: the main sheaf, the spare, a full sheaf of this CPU's barn or of
//! another CPU's ([`exchange`](super::exchange)), and a sheaf filled from slabs
//! ([`refill`]).
#![allow(unsafe_code, reason = "takes ownership of sheaves out of slots")]

use super::drain::check_capacity;
use super::exchange::{empty, empty_sheaf, put_empty, return_sheaf, rob_full, store_full, take_full};
use super::here::node_of_cpu;
use super::node::SheafNode;
use super::refill;
use super::remote_free::{FreedFor, sheaf_capacity};
use crate::base::units::{CACHE_LINE, NodeId};
use crate::engine::RawCache;
use crate::percpu::area::null_top;
use crate::percpu::sheaf::Sheaf;
use crate::percpu::{self, View};
use ashlar_macros::place;

/// See [`crate::engine::alloc`].
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    let object = alloc_once(cache);
    crate::base::background::settle_letter();
    // Barns may hold the last free memory, even of this cache: a CPU without an area never takes
    // from them.
    if object.is_null() { crate::engine::after_all(|| alloc_once(cache)) } else { object }
}

fn alloc_once(cache: &'static RawCache) -> *mut u8 {
    percpu::adopt_thread();
    for _ in 0..percpu::ATTEMPTS {
        let Some(view) = percpu::read(cache.sheaf_slot()) else { break };
        if !percpu::is_empty(view.main) {
            let object = percpu::pop(cache.sheaf_slot());
            if object != 0 {
                return object as *mut u8;
            }
            continue;
        }
        match refresh_main(cache, &view) {
            Refreshed::Again => {}
            Refreshed::Object(object) => return object as *mut u8,
            Refreshed::Nothing => break,
        }
    }
    alloc_from_slab(cache)
}

pub(super) enum Refreshed {
    /// The main sheaf has objects now, or the slot changed under us. Retry.
    Again,
    /// Got an object while refilling.
    Object(usize),
    /// No sheaf with objects is to be had: the cache has no sheaves, or there is no memory for one
    /// more, or none for objects.
    Nothing,
}

/// Replaces this CPU's empty main sheaf with one that holds objects.
fn refresh_main(cache: &'static RawCache, view: &View) -> Refreshed {
    if let Some(swapped) = use_good_spare(cache, view) {
        return swapped;
    }
    // The spare is empty, or holds only a few objects of other CPUs (see `free_remote`). It is used
    // once it is half full, or when no other memory is left.
    let (id, node) = node_of_cpu(cache, view.cpu);
    node.barn(view.cpu).count_alloc();
    if let Some(full) = take_full(cache, node, view.cpu) {
        return use_full(cache, node, view, full);
    }
    if refill::has_own(cache, node, view.cpu)
        && let Some(refreshed) = refill_main(cache, id, node, view, true)
    {
        return refreshed;
    }
    if let Some(full) = rob_full(cache, node, view.cpu) {
        return use_full(cache, node, view, full);
    }
    let refreshed = refill_main(cache, id, node, view, false).or_else(|| use_spare(cache, view));
    refreshed.unwrap_or(Refreshed::Nothing)
}

/// Makes a full sheaf the main sheaf, or stores it again if the slot has changed.
fn use_full(cache: &'static RawCache, node: &SheafNode, view: &View, full: Sheaf) -> Refreshed {
    if let Err(full) = install(cache, node, view, full) {
        store_full(cache, node, view.cpu, full, FreedFor::ThisCpu);
    }
    Refreshed::Again
}

/// Fills a sheaf from slabs, those of this CPU alone if `own` is set, and makes it the main sheaf.
/// `None` if there is no object, or no sheaf.
#[inline(never)]
fn refill_main(
    cache: &'static RawCache,
    id: NodeId,
    node: &'static SheafNode,
    view: &View,
    own: bool,
) -> Option<Refreshed> {
    let capacity = sheaf_capacity(cache, node, FreedFor::ThisCpu);
    if capacity == 0 {
        return None;
    }
    let mut sheaf = empty_sheaf(cache, node, view.cpu, capacity)?;
    let room = sheaf.room();
    let wanted = refill::share(cache, node).min(room.len());
    // Objects must end at the sentinel.
    let start = room.len() - wanted;
    let place = &mut room[start..];
    let got =
        if own { refill::from_own(cache, node, view.cpu, place) } else { refill::refill(cache, id, view.cpu, place) };
    if got < wanted {
        place.copy_within(..got, wanted - got);
    }
    // SAFETY: the refill wrote this many objects, which end at the end of the room now.
    unsafe { sheaf.set_len(got) };
    let Some(object) = sheaf.pop() else {
        put_empty(node, view.cpu, sheaf);
        return None;
    };
    if let Err(sheaf) = install(cache, node, view, sheaf) {
        // The thread migrated, or the slot changed: this CPU has objects of its own.
        empty(cache, node, view.cpu, sheaf);
    }
    Some(Refreshed::Object(object))
}

/// Makes the spare the main sheaf, and the empty main sheaf the spare.
fn swap(cache: &'static RawCache, view: &View) -> Refreshed {
    percpu::exchange(cache.sheaf_slot(), view, view.spare, view.main);
    Refreshed::Again
}

/// Whether the cache's objects are small enough to share a cache line.
fn shares_lines(cache: &'static RawCache) -> bool {
    cache.slabs.geometry.stride < 2 * CACHE_LINE
}

/// As [`swap`], if the spare holds objects.
fn use_spare(cache: &'static RawCache, view: &View) -> Option<Refreshed> {
    (!percpu::is_empty(view.spare)).then(|| swap(cache, view))
}

/// As [`use_spare`], but skips a spare that is less than half full if objects share cache lines.
pub(super) fn use_good_spare(cache: &'static RawCache, view: &View) -> Option<Refreshed> {
    if percpu::has_half(view.spare) || !shares_lines(cache) { use_spare(cache, view) } else { None }
}

/// Makes `sheaf` the main sheaf. The old, empty main sheaf becomes the spare if there is none; else
/// it goes to the barn. Returns the sheaf if the slot has changed.
fn install(cache: &'static RawCache, node: &SheafNode, view: &View, sheaf: Sheaf) -> Result<(), Sheaf> {
    let capacity = sheaf.capacity();
    let top = sheaf.into_top();
    let has_spare = view.spare != null_top();
    let spare = if has_spare { view.spare } else { view.main };
    if !percpu::exchange(cache.sheaf_slot(), view, top, spare) {
        // SAFETY: `top` came from `into_top` just above, and the exchange failed, so it was not
        // stored.
        return Err(unsafe { Sheaf::from_top(top) });
    }
    if has_spare {
        // SAFETY: the exchange took the old main sheaf out of the slot and did not store it again.
        if let Some(empty) = unsafe { percpu::owned(view.main) } {
            // The sheaf was empty when the slot was read. The same top stands for objects only if
            // the capacity changed in between.
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

/// Allocates one object from a slab, without a sheaf.
#[place(background)]
#[inline(never)]
fn alloc_from_slab(cache: &'static RawCache) -> *mut u8 {
    let (id, _) = node_of_cpu(cache, percpu::this_cpu());
    one_from_slab(cache, id)
}

fn one_from_slab(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    let mut one = [0usize];
    refill::refill(cache, node, percpu::this_cpu(), &mut one);
    one[0] as *mut u8
}

/// See [`crate::engine::alloc_on`].
pub(crate) fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    percpu::adopt_thread();
    let object = one_from_slab(cache, node);
    if object.is_null() { crate::engine::after_all(|| one_from_slab(cache, node)) } else { object }
}
