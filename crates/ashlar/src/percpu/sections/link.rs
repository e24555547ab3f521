//! The links of a CPU slab, whose freelist is linked through the free objects, as its critical
//! sections take them.
//!
//! A per-CPU slot describes the CPU slab by two words: the index of the first free object
//! ([`NO_OBJECT`] for none) and the address of the slab (0 for none). `pop` follows the link of the
//! first object, `push` writes one. They replace `cmpxchg_local` of the kernel's SLUB. They take no
//! lock and execute no atomic read-modify-write; one store commits.
//!
//! The rules are those of [`crate::percpu::sections`]. Links are encoded as in
//! [`crate::slab::freelist`] and decoded in the same way with one exception: an index is compared
//! with 2^16, not with the slab's number of objects. A link that does not decode ends the section
//! without a commit. Then the slow path reads it again and reports it.

/// How a cache encodes its links and where its objects hold them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) secret: u64,
    pub(crate) stride: usize,
    pub(crate) link_offset: usize,
}

/// An object to be put on a freelist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    /// Address of its slab.
    pub(crate) slab: usize,
    pub(crate) index: u16,
    /// Address of its link.
    pub(crate) link: usize,
    /// Key that encodes a link at that address, by exclusive or.
    pub(crate) key: u64,
}
