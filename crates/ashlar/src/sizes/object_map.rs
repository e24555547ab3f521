//! The object map of malloc: which live object starts at an address, found by a subtraction and two
//! rotations.
//!
//! One byte for each 16 bytes of the zone. It is the *code* of malloc's size class while a live
//! object of malloc starts there, and 0 otherwise: inside objects, in free objects, and in all
//! memory that is none of malloc's. So one load answers all that `free` must know: whether an
//! object starts at the address, whether it is live, and which cache it is of. Free objects need
//! not be touched for that, which a mark inside them would ask for.
//!
//! # Planes
//! Objects whose size is a multiple of 64 start at each fourth 16 bytes at most, so three of four
//! entries would be between theirs and never used, on the same pages. So the entries for each MiB
//! of the zone, a *stretch* of 64 KiB of the map, are sorted into four *planes* of 16 KiB, by bits
//! 4 and 5 of the address: a class of multiples of 64 uses the first plane only, one of odd
//! multiples of 32 every other, and pages of planes without use stay without memory. A page of
//! the map stands for 256 KiB of objects then, and a cache line for one page of them: no two slabs
//! share a line of the map.
//!
//! The size of a plane lets one instruction find the place of an entry. The place is the address
//! divided by 16, with the low 16 bits rotated by two. Larger planes, which lie further apart,
//! would take several instructions, and four ranges of addresses.
//!
//! # Its place
//! The place of an entry is the one that the address of the object, divided by 16 and rotated so,
//! points to. Zones on Linux lie where that is between 2 and 4 TiB, which hardly any program uses.
//! The fast paths of malloc take it for granted, which saves them the load of an address. Where it
//! cannot be had the map lies elsewhere, and they stay closed: everything works, by the slow paths.
//! So it is under valgrind, which has few addresses, and on page sources that do not choose them,
//! arenas among them.
//!
//! # Its cost
//! The map costs a 64th of the memory that malloc's slabs use for each plane that their objects
//! need: a 64th for objects of 64 bytes, a 32nd for objects of 96, a sixteenth for objects of 48,
//! or where objects of several kinds are neighbours. System pages of 64 KiB hold all four planes of
//! a stretch: there it is a sixteenth. It exists from the first call of malloc on: a program that
//! uses caches and kmalloc only has none. It is the *shadow* of the zone
//! ([`crate::pages::shadow`]), which commits its memory as the zone grows.
//!
//! Writers: the thread that owns the object, in `malloc` before it hands the object out, `free`
//! before it puts the object on a sheaf. Two threads that free the same object at the same moment
//! may both find it live; everything later is caught.
#![allow(unsafe_code, reason = "indexes a raw array over the zone")]
#![cfg_attr(not(all(target_arch = "x86_64", feature = "os")), allow(unreachable_pub, reason = "no macro needs them"))]

use core::ops::Range;

use crate::base::sync::{AtomicBool, AtomicU8, AtomicUsize, Bound, Ordering};
use crate::pages::shadow::{RANGES, Shadow};
use crate::pages::zone::ZONE;

/// Bytes that one entry stands for: the alignment of malloc's objects.
pub(crate) const GRAIN: usize = 16;
/// Planes of a stretch.
const PLANES: usize = RANGES;
/// How far the low 16 bits of an address divided by [`GRAIN`] are rotated to the right: by those
/// that tell the planes apart.
pub(crate) const TURN: u32 = PLANES.ilog2();
/// Entries of a stretch: as many as 16 bits tell apart.
const STRETCH_ENTRIES: usize = 1 << u16::BITS;
/// Bytes of the zone that a stretch stands for. Zones begin and end at multiples of it.
const STRETCH: usize = STRETCH_ENTRIES * GRAIN;
const PLANE_ENTRIES: usize = STRETCH_ENTRIES / PLANES;

/// The place of the entry for an address divided by [`GRAIN`], in a map that has its place.
#[inline]
const fn place_of(grain: usize) -> usize {
    grain & !(STRETCH_ENTRIES - 1) | (grain as u16).rotate_right(TURN) as usize
}

/// What the zone, which owns the memory of the map, has to know of it.
static SHADOW: Shadow = Shadow {
    grain: GRAIN,
    placed: |zone_base, map| OBJECTS.publish(zone_base, map),
    grown: |zone_bytes| OBJECTS.grow_to(zone_bytes),
    take_ranges,
};

/// Makes the map, if there is none yet; false when memory for it is refused.
pub(super) fn start() -> bool {
    ZONE.start_shadow(&SHADOW)
}

/// Takes the first part off `addresses`, which are multiples of 64, and returns the ranges of its
/// entries in a map that has its place. Some may be empty.
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

/// What the fast paths of malloc read, in one cache line. All zero until the map is there: then no
/// address is inside, and every call takes the slow path.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ObjectMap {
    /// The zone's first grain: the address of page 0 divided by [`GRAIN`].
    pub(crate) first: AtomicUsize,
    /// Entries in the map so far.
    pub(crate) entries: AtomicUsize,
    /// Entries that `free` may use on its fast path: all, or none where frees must look at the node
    /// first. The derived forms are those of C++'s `delete`.
    pub(crate) fast_entries: Bound,
    /// What leads from the place of an entry to where it is: 0 where the map has its place.
    bias: AtomicUsize,
    /// What leads from a code to the slot of its cache on CPU 0: slots are 16 bytes and codes even,
    /// so eight times the code is added.
    pub(crate) slots: AtomicUsize,
    /// Frees may take their fast path.
    frees_open: AtomicBool,
}

/// The one object map of the process.
pub static OBJECTS: ObjectMap = ObjectMap {
    first: AtomicUsize::new(0),
    entries: AtomicUsize::new(0),
    fast_entries: Bound::new(),
    bias: AtomicUsize::new(0),
    slots: AtomicUsize::new(0),
    frees_open: AtomicBool::new(false),
};

impl ObjectMap {
    /// Publishes that there is a map, at `map`, for a zone that begins at `zone_base`; called once.
    pub(crate) fn publish(&self, zone_base: usize, map: usize) {
        debug_assert!(zone_base.is_multiple_of(STRETCH), "whole blocks");
        self.first.store(zone_base / GRAIN, Ordering::Relaxed);
        self.bias.store(map.wrapping_sub(zone_base / GRAIN), Ordering::Relaxed);
    }

    /// Lets everybody know that the map covers the zone's first `bytes` bytes: see
    /// [`MemMap::grow_to`](crate::pages::memmap::MemMap::grow_to).
    pub(crate) fn grow_to(&self, bytes: usize) {
        debug_assert!(bytes.is_multiple_of(STRETCH), "whole blocks");
        self.entries.store(bytes / GRAIN, Ordering::Release);
        if self.frees_open.load(Ordering::Relaxed) {
            self.fast_entries.raise(bytes / GRAIN);
        }
    }

    /// Whether the map has the place that the fast paths take for granted.
    pub(crate) fn is_in_place(&self) -> bool {
        self.first.load(Ordering::Relaxed) != 0 && self.bias.load(Ordering::Relaxed) == 0
    }

    /// Opens the fast paths, while the zone does not grow: `slots` is what leads from eight times a
    /// code to its slot, `frees` tells whether frees may take theirs.
    pub(crate) fn open(&self, slots: usize, frees: bool) {
        self.slots.store(slots, Ordering::Relaxed);
        if frees {
            self.frees_open.store(true, Ordering::Relaxed);
            self.fast_entries.raise(self.entries.load(Ordering::Relaxed));
        }
    }

    /// The entry of an address of the zone at which an object may start.
    #[inline]
    fn entry(&self, address: usize) -> Option<&'static AtomicU8> {
        // Addresses that are no multiple of 16 rotate into grains beyond every zone.
        let grain = address.rotate_right(GRAIN.ilog2());
        if grain.wrapping_sub(self.first.load(Ordering::Relaxed)) >= self.entries.load(Ordering::Acquire) {
            return None;
        }
        let entry = place_of(grain).wrapping_add(self.bias.load(Ordering::Relaxed)) as *const AtomicU8;
        // SAFETY: the map is committed for `entries` bytes before that number is raised, for ever;
        // this is one of them, as they are whole stretches, inside which entries change places.
        Some(unsafe { &*entry })
    }

    /// The code of the live object of malloc that starts at `address`; 0 when there is none.
    #[inline]
    pub(crate) fn code_at(&self, address: usize) -> u8 {
        self.entry(address).map_or(0, |entry| entry.load(Ordering::Relaxed))
    }

    /// Makes the object at `address`, which the caller is about to hand out, a live one of class
    /// `code`.
    #[inline]
    pub(crate) fn enter(&self, address: usize, code: u8) {
        if let Some(entry) = self.entry(address) {
            entry.store(code, Ordering::Relaxed);
        }
    }

    /// Takes the live object that starts at `address` off the map; its code, 0 when there is none.
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
            bias: AtomicUsize::new(0),
            slots: AtomicUsize::new(0),
            frees_open: AtomicBool::new(false),
        }
    }

    /// A map for a zone of two stretches, and its entries.
    fn map() -> (ObjectMap, &'static [AtomicU8]) {
        let entries: &[AtomicU8] = (0..BYTES / GRAIN).map(|_| AtomicU8::new(0)).collect::<Vec<_>>().leak();
        let map = empty();
        map.publish(BASE, entries.as_ptr() as usize);
        map.grow_to(BYTES);
        (map, entries)
    }

    /// Which of the entries is that of an address.
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
            // What the text of `malloc` and `free` does.
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
