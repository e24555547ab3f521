//! Memory of a given NUMA node.
//!
//! Every allocation takes memory of the node it runs on, where there is some. These functions take
//! it of another: the kernel's `kmem_cache_alloc_node` and `kmalloc_node`. The node is a wish:
//! another serves where it has nothing left, and [`node_of`] tells which one did. They pass the
//! sheaves by, whose objects are all of the CPU's own node, and take one object of a slab of that
//! node under its list_lock; so they are for memory that lives long.
#![allow(unsafe_code, reason = "hands out raw memory")]

use core::ptr::NonNull;

use super::kmalloc::kmalloc;
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

/// NUMA nodes, real or fake, numbered from 0 without gaps. Starts the allocator if it is not up.
pub fn nodes() -> usize {
    boot::ensure_base();
    ZONE.nodes().max(1)
}

/// The node whose memory `ptr` points to; `None` for addresses outside the zone, objects above 32
/// MiB among them.
pub fn node_of(ptr: *const u8) -> Option<NodeId> {
    MEMMAP.page_of(ptr as usize).map(|page| ZONE.node_of(page))
}

/// True if memory of `node` is what every allocation gets here, or if there is no such node.
fn is_here(node: NodeId) -> bool {
    let nodes = ZONE.nodes();
    nodes <= 1 || usize::from(node.0) >= nodes || PERCPU.node_of(percpu::this_cpu()) == node
}

impl KmemCache {
    /// One object, of `node` if that has memory (`kmem_cache_alloc_node`); a node that does not
    /// exist is no wish. `None` when memory ends.
    pub fn alloc_on(&self, node: NodeId) -> Option<NonNull<u8>> {
        if is_here(node) {
            return self.alloc();
        }
        NonNull::new(engine::alloc_on(self.raw_cache(), node))
    }
}

/// As [`kmalloc`], of `node` if that has memory (`kmalloc_node`); a node that does not exist is no
/// wish. Above 32 MiB the system decides.
pub fn kmalloc_on(size: usize, node: NodeId) -> *mut u8 {
    if size == 0 || !boot::ensure() || is_here(node) {
        return kmalloc(size);
    }
    match class_cache(size) {
        Some(cache) => engine::alloc_on(cache, node),
        None => {
            large::alloc_on(node, size, natural_align(size), Fill::Any).map_or(core::ptr::null_mut(), NonNull::as_ptr)
        }
    }
}
