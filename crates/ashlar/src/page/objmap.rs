//! The object map of malloc: which live object starts at an address, found by a subtraction and a rotation.
//!
//! One byte for each 16 bytes of the zone. It is the *code* of malloc's size class while a live object of malloc starts
//! there, and 0 otherwise: inside objects, in free objects, and in all memory that is none of malloc's. So one load
//! answers all that `free` must know: whether an object starts at the address, whether it is live, and which cache it is
//! of. Free objects need not be touched for that, which a mark inside them would ask for.
//!
//! # Its place
//! An entry lies where the address of the object, divided by 16, points to. That is below 8 TiB, where Linux maps
//! little but what asks to lie there, so the place is nearly always free. The fast paths of malloc take it for granted, which saves them the
//! load of an address. Where it cannot be had the map lies elsewhere, and they stay closed: everything works, by the slow paths. So it is
//! under valgrind, which maps low, and on page sources that do not choose addresses, arenas among them.
//!
//! # Its cost
//! The map costs a sixteenth of the memory that malloc's slabs use. It exists from the first call of malloc on: a program
//! that uses caches and kmalloc only has none. Like the memmap it can be read for the whole zone and is writable where
//! the zone is committed; both are the zone's work (`zone/objects.rs`).
//!
//! Writers: whoever owns the object, that is `malloc` before it hands the object out, `free` before it puts the object
//! on a sheaf. Two threads that free the same object at the same moment may both find it live; everything later is
//! caught.
#![allow(unsafe_code, reason = "indexes a raw array over the zone")]
#![cfg_attr(not(all(target_arch = "x86_64", feature = "os")), allow(unreachable_pub, reason = "no macro needs them"))]

use crate::sync::{AtomicU8, AtomicUsize, Ordering};

/// Bytes that one entry stands for: the alignment of malloc's objects.
pub(crate) const GRAIN: usize = 16;

/// What the fast paths of malloc read, in one cache line. All zero until the map is there: then no address is inside,
/// and every call takes the slow path.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ObjectMap {
    /// The zone's first grain: the address of page 0 divided by [`GRAIN`].
    pub(crate) first: AtomicUsize,
    /// Entries in the map.
    pub(crate) entries: AtomicUsize,
    /// Entries that `free` may use on its fast path: all, or none where frees must look at the node first.
    pub(crate) fast_entries: AtomicUsize,
    /// What leads from an address divided by [`GRAIN`] to its entry: 0 where the map has its place.
    bias: AtomicUsize,
    /// What leads from a code to the slot of its cache on CPU 0: slots are 16 bytes and codes even, so eight times the
    /// code is added.
    pub(crate) slots: AtomicUsize,
}

/// The one object map of the process.
pub static OBJECTS: ObjectMap = ObjectMap {
    first: AtomicUsize::new(0),
    entries: AtomicUsize::new(0),
    fast_entries: AtomicUsize::new(0),
    bias: AtomicUsize::new(0),
    slots: AtomicUsize::new(0),
};

impl ObjectMap {
    /// Publishes the map at `map` for a zone of `bytes` bytes from `zone_base`; called once.
    pub(crate) fn publish(&self, zone_base: usize, bytes: usize, map: usize) {
        self.first.store(zone_base / GRAIN, Ordering::Relaxed);
        self.bias.store(map.wrapping_sub(zone_base / GRAIN), Ordering::Relaxed);
        self.entries.store(bytes / GRAIN, Ordering::Release);
    }

    /// Whether the map has the place that the fast paths take for granted.
    pub(crate) fn is_in_place(&self) -> bool {
        self.entries.load(Ordering::Relaxed) != 0 && self.bias.load(Ordering::Relaxed) == 0
    }

    /// Opens the fast paths: `slots` is what leads from eight times a code to its slot, `frees` tells whether frees may
    /// take theirs.
    pub(crate) fn open(&self, slots: usize, frees: bool) {
        self.slots.store(slots, Ordering::Relaxed);
        if frees {
            self.fast_entries.store(self.entries.load(Ordering::Relaxed), Ordering::Release);
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
        let entry = grain.wrapping_add(self.bias.load(Ordering::Relaxed)) as *const AtomicU8;
        // SAFETY: `publish` was told of an array of `entries` bytes that are readable for ever; this is one of them.
        Some(unsafe { &*entry })
    }

    /// The code of the live object of malloc that starts at `address`; 0 when there is none.
    #[inline]
    pub(crate) fn code_at(&self, address: usize) -> u8 {
        self.entry(address).map_or(0, |entry| entry.load(Ordering::Relaxed))
    }

    /// Makes the object at `address`, which the caller is about to hand out, a live one of class `code`.
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

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_multiples_of_sixteen_inside_the_zone_have_an_entry() {
        static BYTES: [AtomicU8; 8] = [const { AtomicU8::new(0) }; 8];
        let map = ObjectMap {
            first: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            fast_entries: AtomicUsize::new(0),
            bias: AtomicUsize::new(0),
            slots: AtomicUsize::new(0),
        };
        assert_eq!(map.code_at(0), 0, "before it is published nothing is inside");
        map.publish(0x10_0000, 128, BYTES.as_ptr() as usize);
        for address in 0x0f_ff00..0x10_0200 {
            let inside = (0x10_0000..0x10_0080).contains(&address) && address % 16 == 0;
            assert_eq!(map.entry(address).is_some(), inside, "{address:#x}");
        }
        map.enter(0x10_0030, 7);
        assert_eq!(BYTES[3].load(Ordering::Relaxed), 7);
        assert!(!map.is_in_place(), "no static lies at 0x10000");
        assert_eq!((map.code_at(0x10_0030), map.code_at(0x10_0031), map.code_at(0x10_0040)), (7, 0, 0));
        assert_eq!((map.take(0x10_0030), map.take(0x10_0030)), (7, 0));
    }
}
