//! Layer 3, slabs: runs of pages that hold objects of one cache, and each node's partial list.
//!
//! All of this serves every engine whose slabs have a state word.
//!
//! * [`geometry`]: how objects lie in a slab.
//! * [`cache`]: the part of a cache that its slabs use.
//! * [`state`]: the packed 64-bit word with the number of objects in use and the head of the
//!   freelist.
//! * [`freelist`]: the encoded links through free objects.
//! * [`partial`]: a node's partial slabs, and every state change that involves them.
//! * [`node`]: a partial list with its counters.
//! * [`carve`], [`discard`]: turn pages into a slab, and back.
//! * [`return_objects`]: returns objects to their slabs.
//! * [`counters`]: statistics of the slow paths.
//!
//! A slab has no lock of its own. Its state word changes by compare-and-swap alone; the list_lock
//! of its node protects its place on the partial list.

#[cfg(not(ashlar_loom))]
pub(crate) mod cache;
#[cfg(not(ashlar_loom))]
mod carve;
#[cfg(not(ashlar_loom))]
pub(crate) mod counters;
#[cfg(not(ashlar_loom))]
pub(crate) mod discard;
pub(crate) mod freelist;
pub(crate) mod geometry;
#[cfg(not(ashlar_loom))]
pub(crate) mod node;
pub(crate) mod partial;
#[cfg(not(ashlar_loom))]
pub(crate) mod return_objects;
pub(crate) mod state;

#[cfg(not(ashlar_loom))]
pub(crate) use geometry::OrderRule;
#[cfg(not(ashlar_loom))]
pub use geometry::{IndexArray, MAX_OBJECT_SIZE};
