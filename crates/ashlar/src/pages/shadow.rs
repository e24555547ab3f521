//! The shadow of the zone: a table of one byte for each few bytes of it, which a layer above keeps.
//!
//! The zone owns the memory of the table. The owner of what is in it, a [`Shadow`], decides where
//! in the table the byte of an address lies, and learns where the table is and how far it reaches.

use core::ops::Range;

/// Most ranges of the table for one part of the zone.
pub(crate) const RANGES: usize = 4;

/// What the owner of the table tells the zone, and learns from it.
pub(crate) struct Shadow {
    /// Bytes of the zone for each byte of the table.
    pub(crate) grain: usize,
    /// Learns where the zone begins and where the table lies. Called once, before `grown`.
    pub(crate) placed: fn(zone_base: usize, table: usize),
    /// Learns that the table covers this many bytes of the zone from now on.
    pub(crate) grown: fn(zone_bytes: usize),
    /// Takes the first part off a range of addresses of the zone, and returns the ranges of its
    /// bytes in the table. Ranges are those of a table in its best place, which is the address of
    /// the zone divided by `grain`.
    pub(crate) take_ranges: fn(addresses: &mut Range<usize>) -> [Range<usize>; RANGES],
}
