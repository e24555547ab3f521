//! Memory of a given NUMA node.
//!
//! Other allocations take memory of the calling CPU's node, if it has some. These functions take a
//! node, as the kernel's `kmem_cache_alloc_node` and `kmalloc_node` do. The node is a preference.
//! Another node serves if it has no memory, and [`node_of`] returns the node of an object. These
//! functions bypass the sheaves, which hold only objects of the CPU's own node, and take one object
//! from a slab of the given node under its list_lock. So they are meant for long-lived memory.
#![allow(unsafe_code, reason = "hands out raw memory")]

use core::ptr::NonNull;

use super::kmalloc::{kmalloc, profiled::counted};
use super::kmem_cache::KmemCache;
use crate::base::units::NodeId;
use crate::boot;
use crate::engine;
use crate::pages::direct::Fill;
use crate::pages::memmap::MEMMAP;
use crate::pages::zone::ZONE;
use crate::percpu::{self, area::PERCPU};
use crate::sizes::kmalloc::{class_cache, natural_align};
use crate::sizes::large;

/// Returns the number of NUMA nodes, real or fake, which are numbered from 0 without gaps. Starts
/// the allocator if needed.
pub fn nodes() -> usize {
    boot::ensure_base();
    ZONE.nodes().max(1)
}

/// Returns the node of the memory at `ptr`; `None` for addresses outside the zone, such as objects
/// above 32 MiB.
pub fn node_of(ptr: *const u8) -> Option<NodeId> {
    MEMMAP.page_of(ptr as usize).map(|page| ZONE.node_of(page))
}

/// Returns whether ordinary allocations here use `node`, or there is no such node.
fn is_here(node: NodeId) -> bool {
    let nodes = ZONE.nodes();
    nodes <= 1 || usize::from(node.0) >= nodes || PERCPU.node_of(percpu::this_cpu()) == node
}

impl KmemCache {
    /// Allocates one object, from `node` if it has memory (`kmem_cache_alloc_node`). A node that
    /// does not exist is ignored. Returns `None` without memory.
    pub fn alloc_on(&self, node: NodeId) -> Option<NonNull<u8>> {
        if is_here(node) {
            return self.alloc();
        }
        self.counted(engine::alloc_on(self.raw_cache(), node))
    }
}

/// As [`kmalloc`], from `node` if it has memory (`kmalloc_node`). A node that does not exist is
/// ignored. Above 32 MiB, the system chooses the node. With the option `random_kmalloc` all calls
/// count as one call site.
pub fn kmalloc_on(size: usize, node: NodeId) -> *mut u8 {
    if size == 0 || !boot::ensure() || is_here(node) {
        return kmalloc(size);
    }
    match class_cache(size) {
        Some(cache) => {
            #[cfg(feature = "os")]
            let cache = crate::sizes::call_site::cache_of_caller(cache, size, kmalloc_on as *const () as usize);
            counted(engine::alloc_on(cache, node), size)
        }
        None => {
            let large = large::alloc_on(node, size, natural_align(size), Fill::Any);
            counted(large.map_or(core::ptr::null_mut(), NonNull::as_ptr), size)
        }
    }
}
