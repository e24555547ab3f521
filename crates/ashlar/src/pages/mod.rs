//! Layer 1, pages: the supply of slab space.
//!
//! * [`layout`] chooses the addresses of all ranges.
//! * [`zone`] cuts one range into nodes and 2 MiB blocks and hands out runs of pages.
//! * [`memmap`] gives the cache of every page of the zone; [`head`] is one entry of it.
//! * [`direct`] keeps the few objects that are too large for the zone.
//! * [`shadow`] is the contract for a table beside the zone, which a layer above keeps.
//! * [`meta`] is the memory of the allocator's own structures.
//! * [`arena`] is a page source over a fixed range, for machines without an operating system and
//!   for tests.
//!
//! Lock order inside the layer: growth lock, zone lock, direct lock, meta lock.

#[cfg(not(ashlar_loom))]
pub(crate) mod arena;
mod block;
#[cfg(not(ashlar_loom))]
pub(crate) mod direct;
pub(crate) mod head;
#[cfg(not(ashlar_loom))]
pub(crate) mod layout;
#[cfg(not(ashlar_loom))]
pub(crate) mod memmap;
#[cfg(not(ashlar_loom))]
pub(crate) mod meta;
pub(crate) mod shadow;
#[cfg(not(ashlar_loom))]
pub(crate) mod zone;
