//! Bulk calls that outgrow the main sheaf: whole sheaves at a time.
//!
//! What fits into the main sheaf, or is on it, never comes here: see [`crate::percpu::sections`]. Of what is left, as much as a sheaf
//! holds is copied to or from a sheaf of the barn, without a detour over the CPU's slot; the rest goes the way of single objects,
//! which leaves a main sheaf with room or with objects, and then that again takes all it can.
//!
//! Allocations look at the barn before slabs, also for many objects: what frees brought there would pile up otherwise.

use super::alloc::{alloc, use_good_spare};
use super::exchange::{empty_sheaf, put_empty, store_full, take_full};
use super::free::{free, swap_full};
use super::here::node_of_cpu;
use super::refill;
use super::remote_free::FreedFor;
use crate::engine::{RawCache, tunable};
use crate::pages::zone::ZONE;
use crate::percpu;
use crate::slab::return_objects::return_objects;

/// See [`crate::engine::alloc_bulk`].
pub(crate) fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
    let mut got = 0;
    let mut attempts = 0;
    while got < out.len() {
        got += percpu::pop_batch(cache.slot, &mut out[got..]);
        let rest = &mut out[got..];
        let capacity = tunable(&cache.sheaf_capacity);
        if rest.is_empty() {
            break;
        }
        // Somebody may be quicker each time; single objects do not depend on that.
        if attempts < percpu::ATTEMPTS && next_main(cache) {
            attempts += 1;
            continue;
        }
        attempts = 0;
        if rest.len() < capacity {
            let object = alloc(cache);
            if !object.is_null() {
                rest[0] = object as usize;
                got += 1;
                continue;
            }
        } else {
            let mut take = || Some(many(cache, rest)).filter(|&had| had > 0);
            if let Some(had) = take().or_else(|| ZONE.take_after_all(take)) {
                got += had;
                continue;
            }
        }
        free_bulk(cache, &out[..got]);
        return false;
    }
    true
}

/// Makes the spare this CPU's main sheaf, if the main is empty and the spare is worth it, as for single objects.
#[inline]
fn next_main(cache: &'static RawCache) -> bool {
    percpu::read(cache.slot).is_some_and(|view| percpu::is_empty(view.main) && use_good_spare(cache, &view).is_some())
}

/// Fills the start of `out`, which has room for a sheaf, from the barn or from slabs; how many, 0 when memory ends.
fn many(cache: &'static RawCache, out: &mut [usize]) -> usize {
    percpu::adopt_thread();
    let cpu = percpu::this_cpu();
    let (id, node) = node_of_cpu(cache, cpu);
    node.barn(cpu).count_alloc();
    if let Some(mut full) = take_full(cache, node, cpu) {
        // A sheaf that was filled when the capacity was larger may hold more than there is room for.
        let had = full.len().min(out.len());
        out[..had].copy_from_slice(&full.objects()[..had]);
        return_objects(&cache.slabs, &full.objects()[had..]);
        full.set_len(0);
        put_empty(node, cpu, full);
        return had;
    }
    refill::refill(cache, id, out)
}

/// See [`crate::engine::free_bulk`].
pub(crate) fn free_bulk(cache: &'static RawCache, objects: &[usize]) {
    if ZONE.nodes() > 1 || tunable(&cache.sheaf_capacity) == 0 {
        for &object in objects {
            free(cache, object);
        }
        return;
    }
    let mut rest = objects;
    let mut attempts = 0;
    while !rest.is_empty() {
        let given = percpu::push_batch(cache.slot, rest);
        rest = &rest[given..];
        let Some((&first, others)) = rest.split_first() else { break };
        if attempts < percpu::ATTEMPTS
            && percpu::read(cache.slot).is_some_and(|view| percpu::is_full(view.main) && swap_full(cache, &view))
        {
            attempts += 1;
            continue;
        }
        attempts = 0;
        match whole_sheaf(cache, rest) {
            0 => {
                free(cache, first);
                rest = others;
            }
            gone => rest = &rest[gone..],
        }
    }
    crate::base::background::settle();
}

/// Puts the first of `objects` on a sheaf of the barn, if they fill it; how many.
fn whole_sheaf(cache: &'static RawCache, objects: &[usize]) -> usize {
    let capacity = tunable(&cache.sheaf_capacity);
    if capacity == 0 || objects.len() < capacity {
        return 0;
    }
    let cpu = percpu::this_cpu();
    let (_, node) = node_of_cpu(cache, cpu);
    let Some(mut sheaf) = empty_sheaf(cache, node, cpu, capacity) else { return 0 };
    node.barn(cpu).count_free();
    let room = sheaf.room();
    let held = room.len();
    room.copy_from_slice(&objects[..held]);
    sheaf.set_len(held);
    store_full(cache, node, cpu, sheaf, FreedFor::ThisCpu);
    held
}
