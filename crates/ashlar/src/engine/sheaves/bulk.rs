//! Bulk calls beyond the main sheaf: whole sheaves at a time.
//!
//! The main sheaf serves what it can first: see [`crate::percpu::sections`]. Of the rest, whole
//! sheaves are copied to or from sheaves of the barn, without passing through the CPU's slot. A
//! remainder smaller than a sheaf is handled as single objects. That leaves a main sheaf with room
//! or with objects, which then serves as much as it can.
//!
//! Bulk allocations take from the barn before slabs; else sheaves that frees put there would pile
//! up.

use super::alloc::{alloc, use_good_spare};
use super::exchange::{empty_sheaf, put_empty, rob_full, store_full, take_full};
use super::free::{free, swap_full};
use super::here::node_of_cpu;
use super::refill;
use super::remote_free::FreedFor;
use crate::engine::{Object, Objects, RawCache, tunable};
use crate::pages::zone::ZONE;
use crate::percpu;
use crate::slab::return_objects::return_objects;

/// See [`crate::engine::alloc_bulk`].
pub(crate) fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
    let mut got = 0;
    let mut attempts = 0;
    while got < out.len() {
        got += percpu::pop_batch(cache.sheaf_slot(), &mut out[got..]);
        let rest = &mut out[got..];
        let capacity = tunable(&cache.sheaf_capacity);
        if rest.is_empty() {
            break;
        }
        // The exchange may fail each time under contention; the single-object paths below always
        // make progress.
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
        free_bulk(Objects { cache, addresses: &out[..got] });
        return false;
    }
    true
}

/// Makes the spare the main sheaf if the main sheaf is empty and the spare is good enough: see
/// [`use_good_spare`].
#[inline]
fn next_main(cache: &'static RawCache) -> bool {
    percpu::read(cache.sheaf_slot())
        .is_some_and(|view| percpu::is_empty(view.main) && use_good_spare(cache, &view).is_some())
}

/// Fills the start of `out`, which has room for a sheaf, from the barn or from slabs. Returns the
/// number filled, 0 when out of memory.
fn many(cache: &'static RawCache, out: &mut [usize]) -> usize {
    percpu::adopt_thread();
    let cpu = percpu::this_cpu();
    let (id, node) = node_of_cpu(cache, cpu);
    node.barn(cpu).count_alloc();
    if let Some(mut full) = take_full(cache, node, cpu).or_else(|| rob_full(cache, node, cpu)) {
        // A sheaf filled under a larger capacity may hold more objects than fit.
        let had = full.len().min(out.len());
        out[..had].copy_from_slice(&full.objects()[..had]);
        return_objects(&cache.slabs, &full.objects()[had..]);
        full.clear();
        put_empty(node, cpu, full);
        return had;
    }
    refill::refill(cache, id, cpu, out)
}

/// See [`crate::engine::free_bulk`].
pub(crate) fn free_bulk(objects: Objects<'_>) {
    let Objects { cache, addresses } = objects;
    if ZONE.nodes() > 1 || tunable(&cache.sheaf_capacity) == 0 {
        return objects.for_each(free);
    }
    let mut rest = addresses;
    let mut attempts = 0;
    while !rest.is_empty() {
        let given = percpu::push_batch(cache.sheaf_slot(), rest);
        rest = &rest[given..];
        let Some((&first, others)) = rest.split_first() else { break };
        if attempts < percpu::ATTEMPTS
            && percpu::read(cache.sheaf_slot())
                .is_some_and(|view| percpu::is_full(view.main) && swap_full(cache, &view))
        {
            attempts += 1;
            continue;
        }
        attempts = 0;
        match whole_sheaf(cache, rest) {
            0 => {
                free(Object { cache, address: first });
                rest = others;
            }
            gone => rest = &rest[gone..],
        }
    }
    crate::base::background::settle();
}

/// Puts the first of `objects` on a sheaf and stores it in the barn, if they fill a sheaf. Returns
/// the number taken.
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
    // SAFETY: the caller gives these objects up; each was copied to one word of the room.
    unsafe { sheaf.set_len(held) };
    store_full(cache, node, cpu, sheaf, FreedFor::ThisCpu);
    held
}
