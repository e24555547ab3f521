//! Crossing: objects that one CPU hands out and another frees.
//!
//! ```text
//!  CPU that allocates                               CPU that frees
//!  main sheaf <- own barn <- robbed, some at a time <- barn <- spare sheaf
//! ```
//!
//! The sides of [`crate::malloc::entry`] tell such objects from the CPU's own: they gather on the spare sheaf. When that is full it
//! waits in the barn of the CPU that freed them until the one that allocates robs it. Every cache line that goes this way has to change
//! CPUs, and here stands what makes that cheap.
//!
//! * **Lines go over written.** A line that one CPU wrote and another only read is in the caches of both. Whoever writes it next has to wait
//!   until the other has dropped its copy, which costs more than taking over a line that only the other has. The program of a CPU that frees
//!   has mostly only read its objects. So the objects of a full sheaf are written before it goes to the barn ([`hand_over`]), in the caches
//!   where they lie; a program that frees without having looked pays for that, as on allocators that link free objects. And a sheaf that
//!   was robbed, which would only be read until it goes back empty, is written by the robber ([`Sheaf::move_here`]).
//! * **Sheaves for others are larger.** Each sheaf that goes over costs both CPUs a meeting at a barn. What a CPU frees for itself may gather on smaller
//!   ones, of malloc's caches, which hold less then ([`sheaf_capacity`]).
//! * **Several at a time, and empty ones for full ones.** See [`super::barn::ROBBED_AT_ONCE`] and [`super::store`]; and none is looked at before all are asked for: [`SheafList`](crate::percpu::sheaf::SheafList).
//! * **They need not be in order.** See [`super::locality`].
#![allow(unsafe_code, reason = "writes free objects")]

use crate::engine::{RawCache, tunable};
use crate::percpu::area::is_sided;
use crate::percpu::sheaf::Sheaf;

/// Which CPUs had handed out the objects of a full sheaf, and will probably do so again: see [`crate::malloc::entry`] on sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// That which freed them.
    Own,
    /// Another one, which will rob the sheaf.
    Other,
}

/// Bytes of objects that a CPU's own sheaf covers at most, of malloc's caches, and their fewest objects.
const OWN_BYTES: usize = 15 << 10;
const FEWEST: usize = 2;
/// Largest stride whose sheaves all hold the same: of the smallest objects programs have most.
const SMALL: usize = 128;

/// Objects that a new sheaf of `cache` holds; 0 if the cache works without sheaves.
#[inline]
pub(super) fn sheaf_capacity(cache: &RawCache, side: Side) -> usize {
    let (capacity, stride) = (tunable(&cache.sheaf_capacity), cache.geometry.stride);
    match side {
        Side::Own if stride > SMALL && is_sided(cache.slot) => capacity.min((OWN_BYTES / stride).max(FEWEST)),
        _ => capacity,
    }
}

/// Takes the first line of each object of a full sheaf for this CPU alone, before another one robs it; of constructed objects, which must
/// stay as they are, the line of the free link.
pub(super) fn hand_over(cache: &RawCache, full: &Sheaf) {
    let geometry = &cache.geometry;
    let offset = if geometry.link_offset < geometry.object_size { 0 } else { geometry.link_offset };
    for &object in full.objects() {
        // SAFETY: the objects of a sheaf are free, and whoever has the sheaf has them. They are as long as a link at least, and aligned
        // for it; what is in them, or behind them in place of a link, means nothing.
        unsafe { ((object + offset) as *mut u64).write(0) };
    }
}
