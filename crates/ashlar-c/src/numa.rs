//! Memory of a given NUMA node.

use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null_mut};

use core_ashlar::NodeId;
use libc::EINVAL;

use crate::cache::{kmem_cache, kmem_cache_alloc, may_zero};
use crate::flags::{__GFP_THISNODE, allocate, gfp_t};
use crate::kmalloc::kmalloc;
use crate::report::{null, warn};

/// No preferred node.
pub const NUMA_NO_NODE: c_int = -1;

/// Returns the node of a number. Reports a number that is not a node.
fn node_id(function: &str, node: c_int) -> Option<NodeId> {
    let nodes = core_ashlar::nodes();
    let id = u8::try_from(node).ok().filter(|&id| usize::from(id) < nodes);
    if id.is_none() {
        warn(format_args!("{function}: node {node}: expected NUMA_NO_NODE or 0 to {}", nodes - 1));
    }
    id.map(NodeId)
}

/// Returns whether `__GFP_THISNODE` forbids this memory.
fn elsewhere(object: *mut u8, node: NodeId, flags: gfp_t) -> bool {
    flags & __GFP_THISNODE != 0 && core_ashlar::node_of(object) != Some(node)
}

/// As kmem_cache_alloc, from a NUMA node if it has memory. With __GFP_THISNODE, other nodes are not
/// used. A node that does not exist is refused with EINVAL.
///
/// # Safety
/// `s` is a live cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_alloc_node(s: *mut kmem_cache, flags: gfp_t, node: c_int) -> *mut c_void {
    const NAME: &str = "kmem_cache_alloc_node";
    if node == NUMA_NO_NODE {
        // SAFETY: by the caller's promise.
        return unsafe { kmem_cache_alloc(s, flags) };
    }
    // SAFETY: by the caller's promise.
    let cache = unsafe { &*s };
    let Some(node) = node_id(NAME, node) else { return null(EINVAL) };
    if !may_zero(cache, flags, NAME) {
        return null(EINVAL);
    }
    allocate(NAME, flags, |zero| {
        let Some(object) = cache.inner.alloc_on(node) else { return null_mut() };
        if elsewhere(object.as_ptr(), node, flags) {
            // SAFETY: allocated just above; no other thread has seen it.
            unsafe { cache.inner.free(object) };
            return null_mut();
        }
        if zero {
            // SAFETY: the object is fresh and has that many bytes.
            unsafe { object.as_ptr().write_bytes(0, cache.inner.object_size()) };
        }
        object.as_ptr()
    })
}

/// As kmalloc, from a NUMA node if it has memory. With __GFP_THISNODE, other nodes are not used. A
/// node that does not exist is refused with EINVAL. Above 32 MiB, the system chooses the node.
#[unsafe(no_mangle)]
pub extern "C" fn kmalloc_node(size: usize, flags: gfp_t, node: c_int) -> *mut c_void {
    const NAME: &str = "kmalloc_node";
    if node == NUMA_NO_NODE || size == 0 {
        return kmalloc(size, flags);
    }
    let Some(node) = node_id(NAME, node) else { return null(EINVAL) };
    let bytes = core_ashlar::kmalloc_size_roundup(size);
    allocate(NAME, flags, |zero| {
        let Some(object) = NonNull::new(core_ashlar::kmalloc_on(size, node)) else { return null_mut() };
        if elsewhere(object.as_ptr(), node, flags) {
            // SAFETY: allocated just above; no other thread has seen it.
            unsafe { core_ashlar::kfree(object.as_ptr()) };
            return null_mut();
        }
        if zero {
            // SAFETY: the memory is fresh, and its class or its pages have that many bytes.
            unsafe { object.as_ptr().write_bytes(0, bytes) };
        }
        object.as_ptr()
    })
}
