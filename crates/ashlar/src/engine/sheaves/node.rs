//! What the default engine keeps for one cache and node: barns and evicted objects.
//!
//! The kernel has one barn per node. Here a node has one per CPU, up to [`MAX_BARNS`]. Sheaves then
//! return to the CPU whose caches hold their objects. Two CPUs share a barn's line only when one
//! frees what the other allocates (`remote_free`), or runs dry and robs the other.

use super::barn::Barn;
use super::evicted::Evicted;
use crate::base::sync::{AtomicUsize, Ordering, Visit};
use crate::base::units::CpuId;
use crate::pages::meta::meta_slice;
use crate::percpu::area::PERCPU;
use crate::slab::node::Node;

/// Most barns of a node and cache; further CPUs share them.
pub(crate) const MAX_BARNS: usize = 16;
/// The sheaves of one cache on one node.
pub(crate) struct SheafNode {
    /// The slabs of the same node.
    pub(crate) slabs: &'static Node,
    pub(crate) barns: &'static [Barn],
    pub(super) evicted: Evicted,
    /// Objects in the slabs of the node, as of the last refill. The exact number is a sum over
    /// CPUs.
    pub(super) objects: AtomicUsize,
}

impl SheafNode {
    /// Where a reader outside of the process finds the barns.
    #[cfg(feature = "os")]
    pub(crate) const LAYOUT: crate::base::window::SheafNodeAt = crate::base::window::SheafNodeAt {
        bytes: size_of::<SheafNode>() as u32,
        barns: core::mem::offset_of!(SheafNode, barns) as u32,
        evicted: (core::mem::offset_of!(SheafNode, evicted) + Evicted::OBJECTS) as u32,
    };

    /// Returns the barn of a CPU.
    #[inline]
    pub(super) fn barn(&self, cpu: CpuId) -> &Barn {
        &self.barns[cpu.0 as usize % self.barns.len()]
    }
}

/// See [`crate::engine::Strategy::open`]. `slabs` are the nodes of the same registry entry,
/// which keeps them for ever.
pub(crate) fn open(nodes: &mut &'static [SheafNode], slabs: &'static [Node]) -> Option<()> {
    if nodes.is_empty() {
        let cpus = PERCPU.cpus.load(Ordering::Relaxed) as usize;
        let barns = cpus.clamp(1, MAX_BARNS);
        let mut of_node = slabs.iter();
        *nodes = meta_slice(slabs.len(), || {
            let barns = meta_slice(barns, || Some(Barn::new()))?;
            Some(SheafNode { slabs: of_node.next()?, barns, evicted: Evicted::new(), objects: AtomicUsize::new(0) })
        })?;
    }
    nodes.iter().flat_map(|node| node.barns).for_each(Barn::reset_stats);
    Some(())
}

/// Visits the locks of node entries, for fork.
pub(crate) fn for_each_lock(nodes: &[SheafNode], visit: Visit<'_>) {
    for node in nodes {
        node.barns.iter().for_each(|barn| visit(barn.lock_word()));
        visit(node.evicted.lock_word());
    }
}
