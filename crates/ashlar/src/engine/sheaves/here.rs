//! From a cache to its barns.

use super::barn::Barn;
use super::node::SheafNode;
use crate::base::units::{CpuId, NodeId};
use crate::engine::RawCache;
use crate::percpu::area::PERCPU;

/// The barns of all nodes.
pub(super) fn barns_of(cache: &RawCache) -> impl Iterator<Item = &'static Barn> {
    cache.state.sheaf_nodes.iter().flat_map(|node| node.barns)
}

/// The node entry of a CPU.
#[inline]
pub(super) fn node_of_cpu(cache: &'static RawCache, cpu: CpuId) -> (NodeId, &'static SheafNode) {
    let node = PERCPU.node_of(cpu);
    (node, &cache.state.sheaf_nodes[usize::from(node.0) % cache.state.sheaf_nodes.len()])
}
