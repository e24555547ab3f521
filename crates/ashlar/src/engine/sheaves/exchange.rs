//! The exchange of sheaves between CPUs and the barns of a node, which stand in front of its slabs.
//!
//! The kernel has one barn a node. Here a node has one for each CPU, up to [`MAX_BARNS`]: sheaves come back to the CPU
//! that filled them, whose caches hold their objects, and two CPUs meet at a barn only when one runs dry and robs the
//! other's, as a consumer that frees feeds a producer that allocates (`remote_free`).

use super::barn::{Barn, ROBBED_AT_ONCE};
use super::locality;
use super::remote_free::{self, FreedFor};
use super::sparse::Evicted;
use crate::base::sync::{Ordering, Visit};
use crate::base::units::CpuId;
use crate::engine::{RawCache, tunable};
use crate::pages::meta::meta_slice;
use crate::percpu::area::{PERCPU, is_sided};
use crate::percpu::sheaf::{Sheaf, SheafList, SheafSize, new_sheaf, retire_sheaf};
use crate::slab::node::Node;
use crate::slab::return_objects::return_objects;

/// Most barns of a node and cache; CPUs beyond that share.
pub(crate) const MAX_BARNS: usize = 16;
/// Bytes of objects in one barn above which the reaper is woken.
const BARN_BYTES_WORTH_REAPING: usize = 1 << 20;

/// The sheaves of one cache on one node.
pub(crate) struct SheafNode {
    /// The slabs of the same node.
    pub(crate) slabs: &'static Node,
    pub(crate) barns: &'static [Barn],
    pub(super) evicted: Evicted,
}

impl SheafNode {
    /// The barn of a CPU.
    #[inline]
    pub(super) fn barn(&self, cpu: CpuId) -> &Barn {
        &self.barns[cpu.0 as usize % self.barns.len()]
    }
}

/// See [`crate::engine::EngineState::open`]. `slabs` are the nodes of the same entry of the registry, which it keeps for ever.
pub(crate) fn open(nodes: &mut &'static [SheafNode], slabs: &'static [Node]) -> Option<()> {
    if nodes.is_empty() {
        let cpus = PERCPU.cpus.load(Ordering::Relaxed) as usize;
        let barns = cpus.clamp(1, MAX_BARNS);
        let mut of_node = slabs.iter();
        *nodes = meta_slice(slabs.len(), || {
            let barns = meta_slice(barns, || Some(Barn::new()))?;
            Some(SheafNode { slabs: of_node.next()?, barns, evicted: Evicted::new() })
        })?;
    }
    nodes.iter().flat_map(|node| node.barns).for_each(Barn::reset_stats);
    Some(())
}

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
    if is_sided(cache.slot) { SheafSize::for_capacity(tunable(&cache.sheaf_capacity)) } else { SheafSize::WHOLE }
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

/// Brings the objects of up to `count` full sheaves of a barn back to their slabs.
fn return_sheaves(cache: &'static RawCache, barn: &Barn, count: usize) {
    for _ in 0..count {
        let Some(sheaf) = barn.get_full() else { break };
        return_sheaf(cache, sheaf);
    }
}

/// See [`crate::engine::release_held`]: the objects of all barns go back to their slabs, their empty sheaves to the pool.
pub(crate) fn release_held(cache: &'static RawCache) {
    for barn in cache.state.sheaf_nodes.iter().flat_map(|node| node.barns) {
        return_sheaves(cache, barn, usize::MAX);
        retire_empty(barn);
    }
}

/// Gives a barn's empty sheaves to the pool.
pub(super) fn retire_empty(barn: &Barn) {
    while let Some(sheaf) = barn.get_empty() {
        retire_sheaf(sheaf);
    }
}

/// See [`crate::engine::reap`]: what barns held without need goes back to slabs.
pub(crate) fn reap(cache: &'static RawCache) -> bool {
    let mut busy = false;
    for barn in cache.state.sheaf_nodes.iter().flat_map(|node| node.barns) {
        let (used, unused) = barn.take_surplus();
        busy |= used;
        if !used {
            retire_empty(barn);
        }
        if unused > 0 {
            return_sheaves(cache, barn, unused);
            // The flush itself is no use.
            barn.take_surplus();
        }
    }
    busy
}

/// See [`crate::engine::held_bytes`]: the full sheaves of barns.
pub(crate) fn held_bytes(cache: &RawCache) -> usize {
    let objects: usize = cache.state.sheaf_nodes.iter().flat_map(|node| node.barns).map(Barn::full_objects).sum();
    objects * cache.slabs.geometry.stride
}

/// Visits the locks of node entries, for a fork.
pub(crate) fn for_each_lock(nodes: &[SheafNode], visit: Visit<'_>) {
    for node in nodes {
        node.barns.iter().for_each(|barn| visit(barn.lock_word()));
        visit(node.evicted.lock_word());
    }
}
