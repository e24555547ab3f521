//! Far sheaves: objects of other nodes that a CPU of a kernel has freed.
//!
//! ```text
//!  CPU of one node         CPUs of another node
//!  far sheaf ------------> barn -> main sheaf
//! ```
//!
//! A free of an object of another node puts it on the main sheaf of the far slot
//! ([`far_slot`](crate::percpu::area::far_slot)), on the fast path, as one of the CPU's node is put
//! on its main sheaf. The CPU never allocates from there. A full far sheaf whose objects are all of
//! one node goes to a barn of that node, the one of the freeing CPU's number. The CPUs of the node
//! rob it there: two list operations for a sheaf. Where objects of several nodes gathered, or the
//! barn has enough, they are returned to their slabs in one batch.
//!
//! The spare word of a far slot is always the null sheaf. Drains empty far slots as they do others.
#![allow(unsafe_code, reason = "takes ownership of sheaves out of slots")]

use super::drain::check_capacity;
use super::exchange::{empty, empty_sheaf, put_empty, store_full};
use super::here::node_of_cpu;
use super::inspect;
use super::node::SheafNode;
use super::remote_free::{FreedFor, sheaf_capacity};
use crate::base::report;
use crate::base::units::{BLOCK_SIZE, CpuId, NodeId, PageIndex};
use crate::engine::{Object, RawCache, tunable};
use crate::pages::memmap::MEMMAP;
use crate::percpu;
use crate::percpu::area::{PERCPU, far_slot};
use crate::percpu::sheaf::Sheaf;

fn entry(cache: &RawCache, node: NodeId) -> &'static SheafNode {
    &cache.state.sheaf_nodes[usize::from(node.0) % cache.state.sheaf_nodes.len()]
}

/// Puts an object of `slab`, of another node than this CPU, on the far sheaf. False if there is no
/// sheaf for it.
#[inline(never)]
pub(super) fn put(freed: &Object, slab: PageIndex) -> bool {
    let (cache, object) = (freed.cache, freed.address);
    let slot = far_slot(cache.sheaf_slot());
    let node = entry(cache, NodeId(MEMMAP.node_of_block(slab)));
    for _ in 0..percpu::ATTEMPTS {
        if tunable(&cache.sheaf_capacity) == 0 {
            break;
        }
        let Some(view) = percpu::read(slot) else { break };
        if inspect::is_on_top(&view, object) {
            report::double_free(cache.name(), object);
            return true;
        }
        if !percpu::is_full(view.main) {
            if percpu::push(slot, object) {
                return true;
            }
            continue;
        }
        let capacity = sheaf_capacity(cache, node, FreedFor::OtherCpu);
        let Some(mut sheaf) = empty_sheaf(cache, node, view.cpu, capacity) else { break };
        sheaf.push(object);
        let top = sheaf.into_top();
        if percpu::exchange(slot, &view, top, view.spare) {
            // SAFETY: the exchange took it out of the slot.
            if let Some(full) = unsafe { percpu::owned(view.main) } {
                store(cache, view.cpu, full);
            }
            check_capacity(cache, capacity);
            return true;
        }
        // SAFETY: `top` came from `into_top` above, and the exchange failed, so it was not stored.
        let mut sheaf = unsafe { Sheaf::from_top(top) };
        sheaf.pop();
        put_empty(node, view.cpu, sheaf);
    }
    false
}

/// Stores a full far sheaf of `cpu` in a barn of its node, or returns its objects to their slabs.
fn store(cache: &'static RawCache, cpu: CpuId, full: Sheaf) {
    match node_of_all(&full) {
        Some(node) if PERCPU.has_cpus(node) => {
            let node = entry(cache, node);
            node.barn(cpu).count_free();
            store_full(cache, node, cpu, full, FreedFor::OtherCpu);
        }
        _ => {
            cache.slabs.count_remote_frees(full.len());
            let (_, node) = node_of_cpu(cache, cpu);
            empty(cache, node, cpu, full);
        }
    }
}

/// Returns the node that all objects of a sheaf are of; `None` if they are of several.
fn node_of_all(full: &Sheaf) -> Option<NodeId> {
    // Objects in a row are mostly of one block.
    let (mut block, mut first) = (usize::MAX, None);
    for &object in full.objects() {
        if object / BLOCK_SIZE == block {
            continue;
        }
        block = object / BLOCK_SIZE;
        let node = MEMMAP.node_of_block(MEMMAP.page_of(object)?);
        if *first.get_or_insert(node) != node {
            return None;
        }
    }
    first.map(NodeId)
}
