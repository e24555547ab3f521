//! The exchange of sheaves between CPUs and the barns of a node, which stand in front of its slabs.

use super::barn::{Barn, ROBBED_AT_ONCE};
use super::locality;
use super::node::SheafNode;
use super::remote_free::{self, FreedFor};
use crate::base::units::CpuId;
use crate::engine::{RawCache, tunable};
use crate::percpu::sheaf::{Sheaf, SheafList, SheafSize, new_sheaf, retire_sheaf};
use crate::slab::return_objects::return_objects;

/// Bytes of objects in one barn above which the reaper is woken.
const BARN_BYTES_WORTH_REAPING: usize = 1 << 20;

/// Whether a sheaf has no more than the capacity that is asked for now. One that has more is nobody's any more: its objects go home.
pub(super) fn fits(cache: &RawCache, sheaf: &Sheaf) -> bool {
    sheaf.capacity() <= tunable(&cache.sheaf_capacity)
}

/// Puts a full sheaf into the CPU's barn, or its objects back to their slabs when the barn holds enough, of scattered objects soon.
pub(super) fn store_full(cache: &'static RawCache, node: &SheafNode, cpu: CpuId, full: Sheaf, freed_for: FreedFor) {
    if !fits(cache, &full) {
        return return_sheaf(cache, full);
    }
    let stride = cache.slabs.geometry.stride;
    let mut limit = tunable(&cache.barn_limit) * tunable(&cache.sheaf_capacity);
    if locality::is_scattered(cache, &full, freed_for) {
        limit = limit.min(locality::SCATTERED_BYTES / stride);
    }
    if freed_for == FreedFor::OtherCpu {
        remote_free::hand_over(cache, &full);
    }
    match node.barn(cpu).put_full(full, limit) {
        Ok(objects) => {
            if objects * stride > BARN_BYTES_WORTH_REAPING {
                crate::base::background::wake();
            }
        }
        Err(mut full) => {
            return_objects(&cache.slabs, full.objects());
            full.set_len(0);
            put_empty(node, cpu, full);
        }
    }
}

/// Takes a full sheaf out of the CPU's barn, or robs another CPU's.
pub(super) fn take_full(cache: &'static RawCache, node: &SheafNode, cpu: CpuId) -> Option<Sheaf> {
    loop {
        let full = node.barn(cpu).get_full().or_else(|| rob_full(node, cpu))?;
        if fits(cache, &full) {
            return Some(full);
        }
        return_sheaf(cache, full);
    }
}

/// Robs another CPU's barn of some full sheaves and moves them here; what is more than one goes to the CPU's own barn. The other gets as many
/// empty ones for them: it will need them, and would come and rob those.
fn rob_full(node: &SheafNode, cpu: CpuId) -> Option<Sheaf> {
    let own = node.barn(cpu);
    others(node, cpu).find_map(|barn| {
        let robbed = barn.rob_full(ROBBED_AT_ONCE);
        if robbed.len() == 0 {
            return None;
        }
        // At once, while the lock's line is here; and what was robbed is on its way meanwhile.
        robbed.prefetch();
        barn.keep_empty(own.give_empty(robbed.len()));
        let one = |list: &mut SheafList| list.pop_full().map(|(full, _)| full);
        move_here(robbed, one, own, Barn::keep_full)
    })
}

/// Robs another CPU's barn of some empty sheaves, as [`rob_full`].
fn rob_empty(node: &SheafNode, cpu: CpuId) -> Option<Sheaf> {
    others(node, cpu).find_map(|barn| {
        let robbed = barn.rob_empty(ROBBED_AT_ONCE);
        robbed.prefetch();
        move_here(robbed, SheafList::pop_empty, node.barn(cpu), Barn::keep_empty)
    })
}

/// Moves sheaves of another CPU to this one, in the order in which their own CPU would have used them: the one that came last now, the others
/// come to this CPU's barn. So objects that were freed in a row are handed out in a row, the last one first, across the ends of sheaves: see
/// [`locality`].
#[inline(never)]
fn move_here(
    mut robbed: SheafList,
    one: fn(&mut SheafList) -> Option<Sheaf>,
    own: &Barn,
    keep: fn(&Barn, SheafList),
) -> Option<Sheaf> {
    // Whoever takes sheaves from one list to another turns their order round: who robbed them has the oldest on top.
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

/// The barns of the other CPUs, the next one first.
fn others(node: &SheafNode, cpu: CpuId) -> impl Iterator<Item = &Barn> {
    let own = cpu.0 as usize % node.barns.len();
    let (before, after) = (&node.barns[..own], &node.barns[own + 1..]);
    after.iter().chain(before)
}

/// An empty sheaf of the given capacity: where one CPU only frees what another allocates, the empty sheaves pile up
/// at the other's barn.
pub(super) fn empty_sheaf(cache: &RawCache, node: &SheafNode, cpu: CpuId, capacity: usize) -> Option<Sheaf> {
    match node.barn(cpu).get_empty().or_else(|| rob_empty(node, cpu)) {
        Some(mut sheaf) if capacity <= sheaf.size().most() => {
            if sheaf.capacity() != capacity {
                sheaf.set_capacity(capacity);
            }
            Some(sheaf)
        }
        small => {
            // The capacity of the cache was raised beyond what its sheaves had room for.
            if let Some(small) = small {
                retire_sheaf(small);
            }
            new_sheaf(capacity, sheaf_size(cache))
        }
    }
}

/// The size of a cache's sheaves. Only malloc's have some that are smaller than a sheaf page: it has many caches, of which a program uses dozens, each
/// with two sheaves on each CPU; and the sections for many objects at a time, which others have, know one size.
fn sheaf_size(cache: &RawCache) -> SheafSize {
    if cache.policy.sided { SheafSize::for_capacity(tunable(&cache.sheaf_capacity)) } else { SheafSize::WHOLE }
}

/// Puts an empty sheaf into the CPU's barn, or into the pool.
pub(super) fn put_empty(node: &SheafNode, cpu: CpuId, sheaf: Sheaf) {
    if let Err(sheaf) = node.barn(cpu).put_empty(sheaf) {
        retire_sheaf(sheaf);
    }
}

/// Flushes one sheaf that was taken from a CPU or a barn.
pub(super) fn return_sheaf(cache: &'static RawCache, mut sheaf: Sheaf) {
    return_objects(&cache.slabs, sheaf.objects());
    sheaf.set_len(0);
    retire_sheaf(sheaf);
}
