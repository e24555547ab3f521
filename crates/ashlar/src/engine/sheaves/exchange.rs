//! Moves sheaves between CPUs, the barns of a node, and its slabs.
//!
//! Owns no state: a sheaf here is held by the calling thread. Only the lock of one barn is held at
//! a time.

use super::barn::{Barn, ROBBED_AT_ONCE};
use super::inspect;
use super::locality;
use super::node::SheafNode;
use super::remote_free::{self, FreedFor};
use crate::base::units::CpuId;
use crate::engine::{RawCache, tunable};
use crate::percpu::sheaf::{Sheaf, SheafList, SheafSize, new_sheaf, retire_sheaf};
use crate::slab::return_objects::return_objects;

/// Bytes of objects in one barn above which the reaper is woken.
const BARN_BYTES_WORTH_REAPING: usize = 1 << 20;

/// Whether the sheaf's capacity is within the cache's current capacity. Larger sheaves are
/// obsolete: their objects are returned to their slabs.
pub(super) fn fits(cache: &RawCache, sheaf: &Sheaf) -> bool {
    sheaf.capacity() <= tunable(&cache.sheaf_capacity)
}

/// Puts a full sheaf into the barn of the CPU whose slabs its objects belong to. The objects are
/// returned to their slabs if they belong to several CPUs, or if the barn holds enough; for
/// scattered objects that limit is lower.
pub(super) fn store_full(cache: &'static RawCache, node: &SheafNode, cpu: CpuId, full: Sheaf, freed_for: FreedFor) {
    if !fits(cache, &full) {
        return return_sheaf(cache, full);
    }
    if !cache.policy.tracked && !inspect::is_sound(cache, node.barn(cpu), &full) {
        // The way to the slabs reports what is wrong, object by object.
        return empty(cache, node, cpu, full);
    }
    let Some(owner) = remote_free::owner(cache, &full, cpu) else { return empty(cache, node, cpu, full) };
    let stride = cache.slabs.geometry.stride;
    let mut limit = tunable(&cache.barn_limit) * tunable(&cache.sheaf_capacity);
    if locality::is_scattered(cache, &full, freed_for) {
        limit = limit.min(locality::SCATTERED_BYTES / stride);
    }
    if freed_for == FreedFor::OtherCpu {
        cache.slabs.count_remote_frees(full.len());
        remote_free::hand_over(cache, &full);
    }
    match node.barn(owner).put_full(full, limit) {
        Ok(objects) => {
            if objects * stride > BARN_BYTES_WORTH_REAPING {
                crate::base::background::wake();
            }
        }
        Err(full) => empty(cache, node, cpu, full),
    }
}

/// Returns the objects of a sheaf to their slabs, and the sheaf to this CPU's barn.
#[inline(never)]
pub(super) fn empty(cache: &'static RawCache, node: &SheafNode, cpu: CpuId, mut full: Sheaf) {
    return_objects(&cache.slabs, full.objects());
    full.clear();
    put_empty(node, cpu, full);
}

/// Takes a full sheaf from this CPU's barn.
pub(super) fn take_full(cache: &'static RawCache, node: &SheafNode, cpu: CpuId) -> Option<Sheaf> {
    fitting(cache, || node.barn(cpu).get_full())
}

/// Takes full sheaves from another CPU's barn, if it can spare them. Returns one of them.
#[inline(never)]
pub(super) fn rob_full(cache: &'static RawCache, node: &SheafNode, cpu: CpuId) -> Option<Sheaf> {
    let only_idle = cache.slabs.lists > 1;
    fitting(cache, || rob_some_full(node, cpu, only_idle))
}

/// Returns the first sheaf of `take` that is not obsolete.
fn fitting(cache: &'static RawCache, take: impl Fn() -> Option<Sheaf>) -> Option<Sheaf> {
    loop {
        let full = take()?;
        if fits(cache, &full) {
            return Some(full);
        }
        return_sheaf(cache, full);
    }
}

/// Robs another CPU's barn of a batch of full sheaves. Returns one and puts the rest into this
/// CPU's barn. The robbed barn gets as many empty sheaves in return; else its CPU would soon come
/// back and rob them.
///
/// Where slabs belong to CPUs, a barn that its own CPU uses is left alone (`only_idle`): the robbed
/// objects would return to it when they are freed, this CPU would rob them again in the next round,
/// and until then both would write to the same lines of the object map.
fn rob_some_full(node: &SheafNode, cpu: CpuId, only_idle: bool) -> Option<Sheaf> {
    let own = node.barn(cpu);
    others(node, cpu).find_map(|barn| {
        let robbed = barn.rob_full(ROBBED_AT_ONCE, only_idle);
        if robbed.len() == 0 {
            return None;
        }
        // Give back empty sheaves now, while this CPU's cache holds the barn's line; the prefetch
        // of the robbed sheaves runs meanwhile.
        robbed.prefetch();
        barn.keep_empty(own.give_empty(robbed.len()));
        let one = |list: &mut SheafList| list.pop_full().map(|(full, _)| full);
        move_here(robbed, one, own, Barn::keep_full)
    })
}

/// Robs another CPU's barn of some empty sheaves, as [`rob_some_full`].
fn rob_empty(node: &SheafNode, cpu: CpuId) -> Option<Sheaf> {
    others(node, cpu).find_map(|barn| {
        let robbed = barn.rob_empty(ROBBED_AT_ONCE);
        robbed.prefetch();
        move_here(robbed, SheafList::pop_empty, node.barn(cpu), Barn::keep_empty)
    })
}

/// Takes over robbed sheaves in the order in which their own CPU would have used them: returns the
/// newest, and puts the others into this CPU's barn. Objects freed in a row are then allocated in a
/// row, last one first, across sheaves. See [`locality`].
#[inline(never)]
fn move_here(
    mut robbed: SheafList,
    one: fn(&mut SheafList) -> Option<Sheaf>,
    own: &Barn,
    keep: fn(&Barn, SheafList),
) -> Option<Sheaf> {
    // Moving sheaves from list to list reverses their order. Robbing did so once: the oldest is on
    // top.
    let mut moved = SheafList::new();
    while let Some(mut sheaf) = one(&mut robbed) {
        sheaf.move_here();
        moved.push(sheaf);
    }
    let newest = one(&mut moved)?;
    let mut others = SheafList::new();
    while let Some(sheaf) = one(&mut moved) {
        others.push(sheaf);
    }
    if others.len() > 0 {
        keep(own, others);
    }
    Some(newest)
}

/// Returns the barns of the other CPUs, the next one first.
fn others(node: &SheafNode, cpu: CpuId) -> impl Iterator<Item = &Barn> {
    let own = cpu.0 as usize % node.barns.len();
    let (before, after) = (&node.barns[..own], &node.barns[own + 1..]);
    after.iter().chain(before)
}

/// Returns an empty sheaf of the given capacity. Robs other barns before making one: where one CPU
/// frees what another allocates, empty sheaves pile up in the barn of the allocating CPU.
pub(super) fn empty_sheaf(cache: &RawCache, node: &SheafNode, cpu: CpuId, capacity: usize) -> Option<Sheaf> {
    match node.barn(cpu).get_empty().or_else(|| rob_empty(node, cpu)) {
        Some(mut sheaf) if capacity <= sheaf.size().most() => {
            if sheaf.capacity() != capacity {
                sheaf.set_capacity(capacity);
            }
            Some(sheaf)
        }
        small => {
            // Sheaves have grown since it was made.
            if let Some(small) = small {
                retire_sheaf(small);
            }
            new_sheaf(capacity, sheaf_size(cache, capacity))
        }
    }
}

/// Returns the size of a sheaf for `capacity` objects. Sided caches have sheaves smaller than a
/// sheaf page: there are many of them, and a program uses dozens, each with two sheaves on each
/// CPU. The critical sections for bulk calls support whole sheaf pages only, and sided caches do
/// not use them.
fn sheaf_size(cache: &RawCache, capacity: usize) -> SheafSize {
    if cache.policy.sided { SheafSize::for_capacity(capacity) } else { SheafSize::WHOLE }
}

/// Puts an empty sheaf into this CPU's barn, or into the pool if the barn has enough.
pub(super) fn put_empty(node: &SheafNode, cpu: CpuId, sheaf: Sheaf) {
    if let Err(sheaf) = node.barn(cpu).put_empty(sheaf) {
        retire_sheaf(sheaf);
    }
}

/// Returns the objects of a sheaf to their slabs, and the sheaf to the pool.
#[inline(never)]
pub(super) fn return_sheaf(cache: &'static RawCache, mut sheaf: Sheaf) {
    return_objects(&cache.slabs, sheaf.objects());
    sheaf.clear();
    retire_sheaf(sheaf);
}
