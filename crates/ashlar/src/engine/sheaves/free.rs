//! Free to the default engine.
//!
//! Targets in order of cost: the main sheaf, the spare, an empty sheaf
//! ([`exchange`](super::exchange)), and the object's slab. Objects allocated on a CPU of the other
//! side go to the spare ([`remote_free`](super::remote_free)). Objects of another node are returned
//! to their slab, in a kernel by way of a far sheaf (`far`).
#![allow(unsafe_code, reason = "takes ownership of sheaves out of slots")]

use super::drain::check_capacity;
use super::exchange::{empty_sheaf, put_empty, store_full};
use super::here::node_of_cpu;
use super::inspect;
use super::remote_free::{FreedFor, sheaf_capacity};
use crate::base::report;
use crate::base::units::PageIndex;
use crate::engine::{Object, RawCache, tunable};
use crate::pages::memmap::MEMMAP;
use crate::pages::zone::ZONE;
use crate::percpu::area::{PERCPU, null_top};
use crate::percpu::sheaf::Sheaf;
use crate::percpu::{self, View};
use crate::slab::return_objects::{return_object, slab_of};
use ashlar_macros::place;

/// See [`crate::engine::free`].
pub(crate) fn free(object: Object) {
    percpu::adopt_thread();
    if let Some(slab) = far_slab(object.cache, object.address) {
        return free_far(object, slab);
    }
    free_unsettled(object);
    crate::base::background::settle();
}

/// [`free`] of an object of this CPU's node.
fn free_unsettled(object: Object) {
    let Object { cache, address: object } = object;
    for _ in 0..percpu::ATTEMPTS {
        let Some(view) = percpu::read(cache.sheaf_slot()) else { break };
        if inspect::is_on_top(&view, object) {
            return report::double_free(cache.name(), object);
        }
        if !percpu::is_full(view.main) {
            if percpu::push(cache.sheaf_slot(), object) {
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
    free_to_slab(cache, object);
}

/// Frees an object without a sheaf.
#[place(background)]
#[inline(never)]
fn free_to_slab(cache: &'static RawCache, object: usize) {
    if let Some(slab) = slab_of(&cache.slabs, object) {
        return_object(&cache.slabs, slab, object);
    }
}

/// See [`crate::engine::free_in`].
pub(crate) fn free_in(freed: Object, slab: PageIndex) {
    if is_far(slab) { free_far(freed, slab) } else { free(freed) }
}

/// Frees an object of another node to its slab; in a kernel, to the far sheaf if there is one.
#[place(background)]
#[inline(never)]
fn free_far(freed: Object, slab: PageIndex) {
    #[cfg(not(feature = "os"))]
    if super::far::put(&freed, slab) {
        return crate::base::background::settle();
    }
    freed.cache.slabs.count_remote_frees(1);
    // Work for the reaper comes with a slab that goes back. To ask in every such free would cost
    // more than the free does.
    if return_object(&freed.cache.slabs, slab, freed.address) {
        crate::base::background::settle();
    }
}

/// See [`crate::engine::free_remote`].
pub(crate) fn free_remote(freed: Object) {
    let Object { cache, address: object } = freed;
    percpu::adopt_thread();
    if let Some(slab) = far_slab(cache, object) {
        return free_far(freed, slab);
    }
    for _ in 0..percpu::ATTEMPTS {
        let Some(view) = percpu::read(cache.sheaf_slot()) else { break };
        if !percpu::is_full(view.spare) {
            // The spare has room now, or the thread migrated to another CPU.
            break;
        }
        if renew_spare(cache, &view, object) {
            return crate::base::background::settle();
        }
        if tunable(&cache.sheaf_capacity) == 0 {
            break;
        }
    }
    free(freed);
}

/// Replaces this CPU's full or missing spare with a sheaf that holds `object`. False if the slot
/// changed or no sheaf can be had.
fn renew_spare(cache: &'static RawCache, view: &View, object: usize) -> bool {
    put_on_new_sheaf(cache, view, object, |new| (view.main, new), view.spare, FreedFor::OtherCpu)
}

/// Returns the slab of an object if it is of another node than this CPU.
#[inline]
fn far_slab(cache: &RawCache, object: usize) -> Option<PageIndex> {
    if ZONE.nodes() == 1 { None } else { far_slab_of_several_nodes(cache, object) }
}

#[place(background)]
#[inline(never)]
fn far_slab_of_several_nodes(cache: &RawCache, object: usize) -> Option<PageIndex> {
    MEMMAP.page_of(object).filter(|&page| is_far(page))?;
    cache.slabs.slab_at(object)
}

/// Returns whether a page is of another node than this CPU.
#[inline]
fn is_far(page: PageIndex) -> bool {
    ZONE.node_of(page) != PERCPU.node_of(percpu::this_cpu_quick())
}

/// Swaps the full main sheaf and the spare if the spare has room. True if it had room; the slot has
/// then changed, by this call or by another thread.
pub(super) fn swap_full(cache: &'static RawCache, view: &View) -> bool {
    if percpu::is_full(view.spare) {
        return false;
    }
    percpu::exchange(cache.sheaf_slot(), view, view.spare, view.main);
    true
}

/// Replaces this CPU's full main sheaf with one that has room. True if `object` is on it already.
fn make_room(cache: &'static RawCache, view: &View, object: usize) -> bool {
    if swap_full(cache, view) {
        return false;
    }
    // The main sheaf holds the hotter objects: it becomes the spare, and the old spare goes to the
    // barn.
    let (spare, leaving) = if view.main == null_top() { (view.spare, null_top()) } else { (view.main, view.spare) };
    put_on_new_sheaf(cache, view, object, |new| (new, spare), leaving, FreedFor::ThisCpu)
}

/// Puts `object` on an empty sheaf and stores the main and spare that `pair` makes of it; the sheaf
/// `leaving` goes to the barn. False if the slot changed or there is no sheaf.
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
    let capacity = sheaf_capacity(cache, node, freed_for);
    if capacity == 0 {
        return false;
    }
    let Some(mut sheaf) = empty_sheaf(cache, node, view.cpu, capacity) else { return false };
    sheaf.push(object);
    let top = sheaf.into_top();
    let (main, spare) = pair(top);
    if !percpu::exchange(cache.sheaf_slot(), view, main, spare) {
        // SAFETY: `top` came from `into_top` above, and the exchange failed, so it was not stored.
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
