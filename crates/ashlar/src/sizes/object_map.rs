//! The object map of malloc: which live object starts at an address, found by a subtraction and two
//! rotations.
//!
//! The map has one byte for each 16 bytes of the zone. It is the *code* of malloc's size class
//! while a live object of malloc starts there, and 0 everywhere else: inside objects, in free
//! objects, and in memory outside malloc. So one load tells `free` whether a live object starts at
//! the address, and its cache. Unlike a mark inside the object, the map does not require a free to
//! touch the object.
//!
//! # Planes
//! Objects whose size is a multiple of 64 start at most at every fourth multiple of 16, so three of
//! four entries on the same pages would be unused. Therefore the entries for each MiB of the zone,
//! a *stretch* of 64 KiB of the map, are sorted into four *planes* of 16 KiB, by bits 4 and 5 of
//! the address. A class of multiples of 64 uses only the first plane, and a class of odd multiples
//! of 32 uses two. Pages of unused planes have no memory. A page of the map then describes 256 KiB
//! of objects, and a cache line one page of them, so no two slabs share a line of the map.
//!
//! With planes of this size, one instruction computes the place of an entry: the address divided by
//! 16, with the low 16 bits rotated by two. Larger planes, further apart, would take several
//! instructions and four ranges of addresses.
//!
//! # Its place
//! The address of an entry is the address of the object, divided by 16 and rotated as above. Zones
//! on Linux lie where this is between 2 and 4 TiB, which hardly any program uses. The fast paths of
//! malloc assume this place, which saves the load of a base address. If the place is taken, the map
//! lies elsewhere, the fast paths stay closed, and all calls take the slow paths. That is the case
//! under valgrind, which has few addresses, and on page sources that do not choose addresses, such
//! as arenas.
//!
//! # Its cost
//! For each plane that is used, the map costs a 64th of the memory of malloc's slabs: a 64th for
//! objects of 64 bytes, a 32nd for 96 bytes, a sixteenth for 48 bytes or for mixed neighbours. With
//! system pages of 64 KiB, which hold all four planes of a stretch, it is always a sixteenth. The
//! map exists from the first call of malloc on, so a program that uses only caches and kmalloc has
//! none. It is the *shadow* of the zone ([`crate::pages::shadow`]), which commits its memory as the
//! zone grows.
//!
//! Only the thread that owns the object writes its entry: `malloc` before it hands the object out,
//! `free` before it puts the object on a sheaf. Two threads that free the same object at the same
//! moment may both find it live. Every later double free is caught.
#![allow(unsafe_code, reason = "indexes a raw array over the zone")]
#![cfg_attr(
    not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))),
    allow(unreachable_pub, reason = "no macro needs them")
)]

use core::ops::Range;

use crate::base::sync::{AtomicU8, AtomicU32, AtomicUsize, Bound, Ordering};
use crate::pages::memmap::FastFrees;
use crate::pages::shadow::{RANGES, Shadow};
use crate::pages::zone::ZONE;

/// The bytes that one entry describes: the alignment of malloc's objects.
pub(crate) const GRAIN: usize = 16;
/// The planes of a stretch.
const PLANES: usize = RANGES;
/// The number of bits that select the plane. The low 16 bits of an address divided by [`GRAIN`] are
/// rotated right by them.
pub(crate) const TURN: u32 = PLANES.ilog2();
/// The entries of a stretch: as many as 16 bits can number.
const STRETCH_ENTRIES: usize = 1 << u16::BITS;
/// The bytes of the zone that a stretch describes. Zones start and end at multiples of it.
const STRETCH: usize = STRETCH_ENTRIES * GRAIN;
const PLANE_ENTRIES: usize = STRETCH_ENTRIES / PLANES;

/// Returns the address of the entry for an address divided by [`GRAIN`], in a map at its place.
#[inline]
const fn place_of(grain: usize) -> usize {
    grain & !(STRETCH_ENTRIES - 1) | (grain as u16).rotate_right(TURN) as usize
}

/// The map's contract with the zone, which owns its memory.
static SHADOW: Shadow = Shadow {
    grain: GRAIN,
    placed: |zone_base, map| OBJECTS.publish(zone_base, map),
    grown: |zone_bytes| OBJECTS.grow_to(zone_bytes),
    take_ranges,
};

/// Creates the map if there is none yet. Returns false if memory for it is refused.
pub(super) fn start() -> bool {
    ZONE.start_shadow(&SHADOW)
}

/// Takes the first part off `addresses`, which are multiples of 64, and returns the ranges of its
/// entries in a map at its place. Some may be empty.
#[place(background)]
fn take_ranges(addresses: &mut Range<usize>) -> [Range<usize>; RANGES] {
    let start = addresses.start & !(STRETCH - 1);
    let whole = addresses.end & !(STRETCH - 1);
    // Whole stretches are one range.
    if addresses.start == start && start < whole {
        addresses.start = whole;
        return [start / GRAIN..whole / GRAIN, 0..0, 0..0, 0..0];
    }
    let part = addresses.start..addresses.end.min(start + STRETCH);
    addresses.start = part.end;
    core::array::from_fn(|plane| {
        let first = start / GRAIN + plane * PLANE_ENTRIES;
        first + (part.start - start) / (PLANES * GRAIN)..first + (part.end - start) / (PLANES * GRAIN)
    })
}

/// The words that the fast paths of malloc read, in one cache line. All are 0 until the map exists.
/// While they are 0, no address is inside, and every call takes the slow path.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ObjectMap {
    /// The zone's first grain: the address of page 0 divided by [`GRAIN`].
    pub(crate) first: AtomicUsize,
    /// The number of entries in the map so far.
    pub(crate) entries: AtomicUsize,
    /// The number of entries that `free` may use on its fast path: all, or 0 if frees must examine
    /// the node first. The derived forms are those of C++'s `delete`.
    pub(crate) fast_entries: Bound,
    /// The number of entries that frees may use after they have examined the node: all, or 0.
    pub(crate) checked_entries: AtomicUsize,
    /// The offset of the map from its place; 0 if it lies there.
    bias: AtomicUsize,
    /// The base of the slots on CPU 0, to which eight times a code is added, because slots have 16
    /// bytes and codes are even.
    pub(crate) slots: AtomicUsize,
    /// The value of [`FastFrees`].
    fast_frees: AtomicU32,
}

/// The one object map of the process.
pub static OBJECTS: ObjectMap = ObjectMap {
    first: AtomicUsize::new(0),
    entries: AtomicUsize::new(0),
    fast_entries: Bound::new(),
    checked_entries: AtomicUsize::new(0),
    bias: AtomicUsize::new(0),
    slots: AtomicUsize::new(0),
    fast_frees: AtomicU32::new(FastFrees::None as u32),
};

impl ObjectMap {
    /// Publishes the map at `map` for a zone that starts at `zone_base`. Called once.
    pub(crate) fn publish(&self, zone_base: usize, map: usize) {
        debug_assert!(zone_base.is_multiple_of(STRETCH), "whole blocks");
        self.first.store(zone_base / GRAIN, Ordering::Relaxed);
        self.bias.store(map.wrapping_sub(zone_base / GRAIN), Ordering::Relaxed);
    }

    /// Publishes that the map covers the zone's first `bytes` bytes; see
    /// [`MemMap::grow_to`](crate::pages::memmap::MemMap::grow_to).
    pub(crate) fn grow_to(&self, bytes: usize) {
        debug_assert!(bytes.is_multiple_of(STRETCH), "whole blocks");
        self.entries.store(bytes / GRAIN, Ordering::Release);
        match FastFrees::of(self.fast_frees.load(Ordering::Relaxed)) {
            FastFrees::None => {}
            // Malloc takes memory of a node without CPUs only if the CPU's own node has none left.
            FastFrees::All | FastFrees::ByAddress => self.fast_entries.raise(bytes / GRAIN),
            FastFrees::OfThisNode => self.checked_entries.store(bytes / GRAIN, Ordering::Release),
        }
    }

    /// Returns the addresses of the number of entries and of the bias, for readers outside of the
    /// process.
    #[cfg(feature = "os")]
    #[place(cold)]
    pub(crate) fn words(&self) -> [usize; 2] {
        [(&raw const self.entries).addr(), (&raw const self.bias).addr()]
    }

    /// Returns whether the map lies at the place that the fast paths assume.
    pub(crate) fn is_in_place(&self) -> bool {
        self.first.load(Ordering::Relaxed) != 0 && self.bias.load(Ordering::Relaxed) == 0
    }

    /// Opens the fast paths, while the zone does not grow. `slots` is the base to which eight times
    /// a code is added; `frees` are those that have a fast path.
    pub(crate) fn open(&self, slots: usize, frees: FastFrees) {
        self.slots.store(slots, Ordering::Relaxed);
        self.fast_frees.store(frees as u32, Ordering::Relaxed);
        self.grow_to(self.entries.load(Ordering::Relaxed) * GRAIN);
    }

    /// Returns the entry of an address of the zone at which an object may start.
    #[inline]
    fn entry(&self, address: usize) -> Option<&'static AtomicU8> {
        // Addresses that are not multiples of 16 rotate to grains beyond every zone.
        let grain = address.rotate_right(GRAIN.ilog2());
        if grain.wrapping_sub(self.first.load(Ordering::Relaxed)) >= self.entries.load(Ordering::Acquire) {
            return None;
        }
        let entry = place_of(grain).wrapping_add(self.bias.load(Ordering::Relaxed)) as *const AtomicU8;
        // SAFETY: the map is committed before `entries` is raised, and never unmapped. The entry is
        // one of these, because they are whole stretches, and rotation moves entries only inside a
        // stretch.
        Some(unsafe { &*entry })
    }

    /// Returns the code of the live object of malloc that starts at `address`; 0 if there is none.
    #[inline]
    pub(crate) fn code_at(&self, address: usize) -> u8 {
        self.entry(address).map_or(0, |entry| entry.load(Ordering::Relaxed))
    }

    /// Enters the object at `address`, which the caller is about to hand out, as a live one of
    /// class `code`.
    #[inline]
    pub(crate) fn enter(&self, address: usize, code: u8) {
        if let Some(entry) = self.entry(address) {
            entry.store(code, Ordering::Relaxed);
        }
    }

    /// Removes the live object that starts at `address` from the map. Returns its code; 0 if there
    /// is none.
    #[inline]
    pub(crate) fn take(&self, address: usize) -> u8 {
        let Some(entry) = self.entry(address) else { return 0 };
        let code = entry.load(Ordering::Relaxed);
        if code != 0 {
            entry.store(0, Ordering::Relaxed);
        }
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    const BASE: usize = 0x7f12_3450_0000;
    const BYTES: usize = 2 * STRETCH;

    fn empty() -> ObjectMap {
        ObjectMap {
            first: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            fast_entries: Bound::new(),
            checked_entries: AtomicUsize::new(0),
            bias: AtomicUsize::new(0),
            slots: AtomicUsize::new(0),
            fast_frees: AtomicU32::new(FastFrees::None as u32),
        }
    }

    /// Returns a map for a zone of two stretches, and its entries.
    fn map() -> (ObjectMap, &'static [AtomicU8]) {
        let entries: &[AtomicU8] = (0..BYTES / GRAIN).map(|_| AtomicU8::new(0)).collect::<Vec<_>>().leak();
        let map = empty();
        map.publish(BASE, entries.as_ptr() as usize);
        map.grow_to(BYTES);
        (map, entries)
    }

    /// Returns the index of the entry of an address.
    fn number(map: &ObjectMap, entries: &[AtomicU8], address: usize) -> Option<usize> {
        map.entry(address).map(|entry| core::ptr::from_ref(entry) as usize - entries.as_ptr() as usize)
    }

    #[test]
    fn only_multiples_of_sixteen_inside_the_zone_have_an_entry() {
        assert_eq!(empty().code_at(0), 0, "before it is published nothing is inside");
        let (map, entries) = map();
        for address in BASE - 0x1000..BASE + BYTES + 0x1000 {
            let inside = (BASE..BASE + BYTES).contains(&address) && address % 16 == 0;
            assert_eq!(number(&map, entries, address).is_some(), inside, "{address:#x}");
        }
        assert_eq!((map.code_at(0), map.code_at(usize::MAX), map.code_at(usize::MAX & !15)), (0, 0, 0));
    }

    #[test]
    fn every_address_has_an_entry_of_its_own_in_the_plane_of_its_bits() {
        let (map, entries) = map();
        let mut seen = vec![false; entries.len()];
        for address in (BASE..BASE + BYTES).step_by(GRAIN) {
            let number = number(&map, entries, address).expect("inside");
            assert!(!core::mem::replace(&mut seen[number], true), "{address:#x} shares its entry");
            let (stretch, inside) = ((address - BASE) / STRETCH, (address - BASE) % STRETCH);
            let expected =
                stretch * STRETCH_ENTRIES + inside / GRAIN % PLANES * PLANE_ENTRIES + inside / (PLANES * GRAIN);
            assert_eq!(number, expected, "{address:#x}");
        }
        assert!(seen.into_iter().all(|seen| seen));
    }

    #[test]
    fn what_is_entered_is_found_there_and_nowhere_else_until_it_is_taken() {
        let (map, entries) = map();
        for address in [0x0, 0x10, 0x20, 0x30, 0x40, 0xf_fff0, 0x10_0000, 0x1f_fff0].map(|offset| BASE + offset) {
            map.enter(address, 7);
            assert_eq!(map.code_at(address), 7);
            let found = |from: usize, to| (from..to).filter(|&other| map.code_at(other) != 0).count();
            assert_eq!(found(address - 0x100, address + 0x100), 1);
            assert_eq!(entries.iter().filter(|entry| entry.load(Ordering::Relaxed) != 0).count(), 1);
            assert_eq!((map.take(address), map.take(address)), (7, 0));
        }
    }

    #[test]
    fn a_map_has_its_place_where_addresses_alone_lead_to_it() {
        let (elsewhere, in_place) = (map().0, empty());
        assert!(!elsewhere.is_in_place());
        in_place.publish(BASE, BASE / GRAIN);
        assert!(in_place.is_in_place());
        for address in (BASE..BASE + BYTES).step_by(GRAIN) {
            // The computation in the text of `malloc` and `free`.
            let low = (address / GRAIN) as u16;
            let place = (address / GRAIN) & !0xffff | usize::from(low / 4 + low % 4 * 0x4000);
            assert_eq!(place_of(address / GRAIN), place, "{address:#x}");
        }
    }

    fn ranges_of(mut addresses: Range<usize>) -> Vec<Range<usize>> {
        let mut all = Vec::new();
        while !addresses.is_empty() {
            all.extend(take_ranges(&mut addresses).into_iter().filter(|range| !range.is_empty()));
        }
        all
    }

    #[test]
    fn ranges_are_the_entries_of_their_addresses_and_no_others() {
        const PAGE: usize = 4096;
        let pages = 3 * STRETCH / PAGE;
        let some = [0, 1, 63, 64, 255, 256, 257, 300, 511, 512, 513, 767, pages];
        for (from, to) in some.iter().flat_map(|&from| some.map(|to| (from, to))).filter(|(from, to)| from <= to) {
            let (from, to) = (BASE + from * PAGE, BASE + to * PAGE);
            let mut told: Vec<_> = ranges_of(from..to).into_iter().flatten().collect();
            told.sort_unstable();
            let mut expected: Vec<_> = (from..to).step_by(GRAIN).map(|address| place_of(address / GRAIN)).collect();
            expected.sort_unstable();
            assert!(told == expected, "{from:#x}..{to:#x}");
        }
        assert_eq!(ranges_of(BASE..BASE + 3 * STRETCH).len(), 1, "whole stretches are one range");
    }
}
