//! What each live object holds of the free bytes of its slab.

use std::collections::HashMap;

use ashlar::window::Window;

use super::memory::{Fields, ReadError, Reader};

/// The addresses that have an entry in the object map: multiples of this.
const GRAIN: u64 = 16;
/// Neighbours have their entries in different planes of the map, as many as this.
const PLANES: u64 = 4;
/// The bytes whose entries lie beside each other: a stretch.
const STRETCH: u64 = GRAIN << 16;

/// Slabs that were read so far.
pub(super) struct Shares<'a> {
    reader: &'a Reader<'a>,
    window: &'a Window,
    /// What an object of the slab that starts with this page holds, in bytes.
    of_slab: HashMap<u64, f64>,
}

impl<'a> Shares<'a> {
    pub(super) fn new(reader: &'a Reader<'a>, window: &'a Window) -> Self {
        Self { reader, window, of_slab: HashMap::new() }
    }

    /// Returns the free bytes that the object at `address` holds: its share of those of its slab.
    pub(super) fn of(&mut self, address: u64) -> Result<f64, ReadError> {
        let places = &self.window.places;
        let page = address.wrapping_sub(places.zone) / self.window.page_bytes();
        if page >= self.reader.word(places.nr_pages)? {
            return Ok(0.0);
        }
        let class = self.reader.half(places.class.wrapping_add(4 * page))?;
        // A slab; and how many pages before this one it starts.
        if class >> 25 != 1 {
            return Ok(0.0);
        }
        let first = page.saturating_sub(u64::from(class >> 16 & 0x1ff));
        if let Some(&share) = self.of_slab.get(&first) {
            return Ok(share);
        }
        let share = self.of_slab(first)?;
        self.of_slab.insert(first, share);
        Ok(share)
    }

    /// Returns what each object holds in the slab that starts with this page.
    fn of_slab(&self, first: u64) -> Result<f64, ReadError> {
        let places = &self.window.places;
        let head = self.reader.bytes(places.heads.wrapping_add(32 * first), 32)?;
        let (state, shape) = (head.u64_at(0)?, head.u32_at(24)?);
        let (objects, in_use) = (u64::from(shape & 0xffff), state >> 16 & 0x7fff);
        let stride = self.reader.word(head.u64_at(16)?.wrapping_add(self.window.cache.stride.into()))?;
        let free = objects.saturating_sub(in_use);
        if in_use == 0 || free > 1 << 15 || stride > 1 << 26 {
            return Ok(0.0);
        }
        let start = places.zone.wrapping_add(first.wrapping_mul(self.window.page_bytes()));
        // Objects in front of slabs are in use for the slab, and hold nothing.
        let live = match self.live(start, objects.saturating_mul(stride))? {
            0 => in_use,
            live => live.min(in_use),
        };
        Ok(free as f64 * stride as f64 / live as f64)
    }

    /// Returns how many live objects of malloc start in these bytes, by the object map; 0 where it
    /// does not say.
    fn live(&self, start: u64, bytes: u64) -> Result<u64, ReadError> {
        let places = &self.window.places;
        let end = start.wrapping_sub(places.zone).saturating_add(bytes) / GRAIN;
        let in_a_stretch = start % STRETCH + bytes <= STRETCH;
        if places.object_entries == 0 || !in_a_stretch || end > self.reader.word(places.object_entries)? {
            return Ok(0);
        }
        let bias = self.reader.word(places.object_bias)?;
        let mut live = 0;
        for plane in 0..PLANES {
            let grain = start / GRAIN + plane;
            let place = grain & !0xffff | u64::from((grain as u16).rotate_right(2));
            let entries = (bytes / GRAIN).saturating_sub(plane).div_ceil(PLANES);
            match self.reader.bytes(place.wrapping_add(bias), entries as usize) {
                Ok(entries) => live += entries.iter().filter(|&&code| code != 0).count() as u64,
                // A plane that no object of this slab needs has no memory.
                Err(ReadError::Unmapped(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(live)
    }
}
