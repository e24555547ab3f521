//! Memory of a given NUMA node.

use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null_mut};

use core_ashlar::NodeId;
use libc::EINVAL;

use crate::cache::{kmem_cache, kmem_cache_alloc, may_zero};
use crate::flags::{__GFP_THISNODE, allocate, gfp_t};
use crate::kmalloc::kmalloc;
use crate::report::{null, warn};

/// No wish for a node.
pub const NUMA_NO_NODE: c_int = -1;

/// The node of a number, which is said to be wrong if there is none.
fn node_id(function: &str, node: c_int) -> Option<NodeId> {
    let nodes = core_ashlar::nodes();
    let id = u8::try_from(node).ok().filter(|&id| usize::from(id) < nodes);
    if id.is_none() {
        warn(format_args!("{function}: node {node}: expected NUMA_NO_NODE or 0 to {}", nodes - 1));
    }
    id.map(NodeId)
}

/// True for memory that `__GFP_THISNODE` does not allow.
fn elsewhere(object: *mut u8, node: NodeId, flags: gfp_t) -> bool {
    flags & __GFP_THISNODE != 0 && core_ashlar::node_of(object) != Some(node)
}

/// As kmem_cache_alloc, of a NUMA node if that has memory; with __GFP_THISNODE of that node or not
/// at all. A node that does not exist is refused with EINVAL.
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
            // SAFETY: a fresh object of that many bytes.
            unsafe { object.as_ptr().write_bytes(0, cache.inner.object_size()) };
        }
        object.as_ptr()
    })
}

/// As kmalloc, of a NUMA node if that has memory; with __GFP_THISNODE of that node or not at all. A
/// node that does not exist is refused with EINVAL. Above 32 MiB the system decides.
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
            // SAFETY: fresh memory; its class, or its pages, have that many bytes.
            unsafe { object.as_ptr().write_bytes(0, bytes) };
        }
        object.as_ptr()
    })
}
