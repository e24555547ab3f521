//! The shadow of the zone: a table with one byte for each grain of it, kept by a layer above.
//!
//! The zone owns the memory of the table. The layer above owns its contents. By a [`Shadow`], that
//! layer decides which byte of the table describes an address, and receives the place and the
//! length of the table.

use core::ops::Range;

/// The most ranges of the table for one part of the zone.
pub(crate) const RANGES: usize = 4;

/// The contract between the zone and the owner of the table's contents.
pub(crate) struct Shadow {
    /// The bytes of the zone that one byte of the table describes.
    pub(crate) grain: usize,
    /// Receives the start of the zone and the address of the table. Called once, before `grown`.
    pub(crate) placed: fn(zone_base: usize, table: usize),
    /// Receives the number of bytes of the zone that the table covers from now on.
    pub(crate) grown: fn(zone_bytes: usize),
    /// Takes the first part off a range of addresses of the zone, and returns the ranges of the
    /// table that describe it. The ranges assume a table in its best place, which is the address of
    /// the zone divided by `grain`.
    pub(crate) take_ranges: fn(addresses: &mut Range<usize>) -> [Range<usize>; RANGES],
}
