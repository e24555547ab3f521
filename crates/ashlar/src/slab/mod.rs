//! Layer 2, one slab: a run of pages that holds objects of one cache.
//!
//! * [`geometry`]: how objects lie in it.
//! * [`state`]: the packed 64-bit word that says how many are in use and where the freelist starts.
//! * [`freelist`]: the encoded links through free objects.
//!
//! A slab has no lock of its own. Its state word changes by compare-and-swap alone; its place on a partial
//! list is guarded by the list_lock of its node, which belongs to the engine (see [`crate::engine`]).

pub(crate) mod freelist;
#[cfg(not(ashlar_loom))]
pub(crate) mod geometry;
pub(crate) mod state;

#[cfg(not(ashlar_loom))]
pub use geometry::{IndexArray, MAX_OBJECT_SIZE, OrderRule};
