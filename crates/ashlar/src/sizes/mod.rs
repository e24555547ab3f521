//! Layer 6, sizes: from a size or an address to a cache.
//!
//! | module | what it owns |
//! |---|---|
//! | [`kmalloc`] | the size classes of the kernel, their caches, and the bounds of their fast paths |
//! | `call_site` | copies of kmalloc's caches that call sites choose |
//! | [`malloc`] | finer size classes for C programs, their caches, and the bound of their fast path |
//! | [`object_map`] | which live object of [`malloc`]'s caches starts at an address |
//! | [`large`] | objects too large for any cache: runs of pages |
//! | [`beside_fork`] | blocks that are allocated and freed while another thread forks |
//! | `diversion` | which paths their calls take while something counts them |
//! | [`guarded`] | the samples of malloc and kmalloc that lie between pages without access |
//! | [`mod@profile`] | samples of malloc's objects, with backtraces |
//! | [`owner`] | the look-up "what lies at this address", over all of these |
//!
//! This layer does not start the allocator; the faces do, by `boot`.

pub(crate) mod beside_fork;
#[cfg(feature = "os")]
pub(crate) mod call_site;
#[cfg(feature = "os")]
pub(crate) mod diversion;
#[cfg(feature = "os")]
pub(crate) mod guarded;
pub(crate) mod kmalloc;
pub(crate) mod large;
pub(crate) mod malloc;
pub(crate) mod object_map;
pub(crate) mod owner;
#[cfg(feature = "os")]
pub(crate) mod profile;
