//! Layer 3, slabs: runs of pages that hold objects of one cache, and a node's list of those with free objects.
//!
//! Everything here serves every engine whose slabs have a state word.
//!
//! * [`geometry`]: how objects lie in a slab. [`cache`]: what slabs know of their cache.
//! * [`state`]: the packed 64-bit word that says how many are in use and where the freelist starts.
//! * [`freelist`]: the encoded links through free objects.
//! * [`partial`]: a node's partial slabs, and every change of a state that involves them. [`node`]: that list with its counters.
//! * [`carve`], [`discard`]: from pages to a slab, and back. [`return_objects`]: from objects to their slabs.
//! * [`counters`]: what happened on the slow paths.
//!
//! A slab has no lock of its own. Its state word changes by compare-and-swap alone; its place on a partial
//! list is guarded by the list_lock of its node.

#[cfg(not(ashlar_loom))]
pub(crate) mod cache;
#[cfg(not(ashlar_loom))]
mod carve;
#[cfg(not(ashlar_loom))]
pub(crate) mod counters;
#[cfg(not(ashlar_loom))]
pub(crate) mod discard;
pub(crate) mod freelist;
#[cfg(not(ashlar_loom))]
pub(crate) mod geometry;
#[cfg(not(ashlar_loom))]
pub(crate) mod node;
pub(crate) mod partial;
#[cfg(not(ashlar_loom))]
pub(crate) mod return_objects;
pub(crate) mod state;

#[cfg(not(ashlar_loom))]
pub use geometry::{IndexArray, MAX_OBJECT_SIZE, OrderRule};
