//! The entry points `kmalloc`, `kfree` and `kfree_sized` with their fast paths.
//!
//! On x86-64 and aarch64 they are naked functions, so that their number of instructions does not
//! depend on the compiler. Their sections are those of [`crate::percpu::sections`]. Each looks up
//! the slot of the cache (by size, or by page), enters the section, takes or puts one pointer, and
//! returns. In all other cases (a size too large, an address outside the zone, an empty or full
//! sheaf, a closed gate, an allocator that has not started) it jumps to the slow path with its
//! arguments unchanged.
//!
//! # Several nodes
//! A sheaf holds objects of its CPU's node only. If CPUs are on several nodes, the bound of `kfree`
//! is 0 and it jumps to `kfree_on_nodes`, a second fast path, which compares the node of the
//! object's block with the CPU's. So machines with one node do not pay for the comparison.
#![allow(unsafe_code, reason = "naked functions")]

/// The items that the macros of the entry points refer to; see [`crate::malloc::parts`].
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[expect(missing_docs, reason = "named as the operands of the macro are")]
pub(crate) mod parts {
    pub use crate::percpu::area::PERCPU;

    use crate::percpu::area;
    use crate::percpu::area::PerCpu;
    use core::mem::offset_of;

    pub const RSEQ: usize = offset_of!(PerCpu, rseq_offset);
    pub const GATE: usize = area::GATE;
    pub const AREA_SHIFT: u32 = area::AREA_SHIFT;
}

#[cfg(all(feature = "os", target_arch = "aarch64"))]
mod aarch64;
#[cfg(not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) mod plain;
#[cfg(all(feature = "os", target_arch = "x86_64"))]
mod x86_64;

#[cfg(all(feature = "os", target_arch = "aarch64"))]
pub use aarch64::{kfree, kfree_sized, kmalloc};
#[cfg(not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub use plain::{kfree, kfree_sized, kmalloc};
#[cfg(all(feature = "os", target_arch = "x86_64"))]
pub use x86_64::{kfree, kfree_sized, kmalloc};
