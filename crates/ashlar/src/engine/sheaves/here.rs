//! Finds the barns of a cache.

use super::barn::Barn;
use super::node::SheafNode;
use crate::base::units::{CpuId, NodeId};
use crate::engine::RawCache;
use crate::percpu::area::PERCPU;

/// Counts the objects in the full sheaves of all barns.
pub(super) fn objects_in_barns(cache: &RawCache) -> usize {
    let mut objects = 0;
    for node in cache.state.sheaf_nodes {
        for barn in node.barns {
            objects += barn.full_objects();
        }
    }
    objects
}

/// Iterates over the barns of all nodes.
pub(super) fn barns_of(cache: &RawCache) -> impl Iterator<Item = &'static Barn> {
    cache.state.sheaf_nodes.iter().flat_map(|node| node.barns)
}

/// Returns the node of a CPU and its entry.
#[inline]
pub(super) fn node_of_cpu(cache: &'static RawCache, cpu: CpuId) -> (NodeId, &'static SheafNode) {
    let node = PERCPU.node_of(cpu);
    (node, &cache.state.sheaf_nodes[usize::from(node.0) % cache.state.sheaf_nodes.len()])
}
