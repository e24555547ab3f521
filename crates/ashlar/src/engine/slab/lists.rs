//! A node's slabs: full, partial and free lists under one list_lock, and the index array of each slab.
//!
//! A slab's state word holds the number of objects that are in use, its *active* count, and the place of its index array:
//!
//! | bits | field |
//! |---|---|
//! | 0..16 | active; [`QUARANTINED`] for a slab that failed a check and is on no list for ever |
//! | 16..64 | bytes from the slab's start to the index array, signed; [`NO_ARRAY`] while a full slab has none, because it lies in a free object |
//!
//! Entries from `active` on are the indices of the free objects. An allocation takes the entry at `active`, a free puts
//! its object just before; nothing else of the array is ever touched. An array inside an object lies in the one whose index
//! is the last entry, which is the last to be allocated: it is gone when the slab is full, and the first free to a full slab
//! makes the object that comes back its new place. The word changes under list_lock alone.
#![allow(unsafe_code, reason = "reads and writes index arrays")]

use super::array::{self, ArrayCache};
use super::layout::index_bytes;
use crate::engine::RawCache;
use crate::engine::slub::{self, node::Partial};
use crate::page::memmap::MEMMAP;
use crate::report;
use crate::slab::geometry::IndexArray;
use crate::sync::Ordering;
use crate::units::PageIndex;

/// The active count of a slab that nothing is taken from any more.
const QUARANTINED: usize = 0xffff;
const ARRAY: u32 = 16;
/// Free objects of a slab among which a second free is looked for: a cache line of their indices.
const LOOK_BACK: usize = 64;
/// The distance of a slab without an array: odd, as none of an array is.
const NO_ARRAY: isize = 1;

/// The active count of a slab and the address of its index array, 0 for none.
fn read_word(page: PageIndex) -> (usize, usize) {
    decode(MEMMAP.head(page).state.load(Ordering::Relaxed), MEMMAP.address_of(page))
}

fn write_word(page: PageIndex, active: usize, array: usize) {
    MEMMAP.head(page).state.store(encode(active, array, MEMMAP.address_of(page)), Ordering::Relaxed);
}

/// A distance fits where an address may not: on some machines addresses have more than 48 bits, or their upper half set.
fn encode(active: usize, array: usize, slab: usize) -> u64 {
    let distance = if array == 0 { NO_ARRAY } else { array.wrapping_sub(slab) as isize };
    active as u64 | (distance as i64 as u64) << ARRAY
}

fn decode(word: u64, slab: usize) -> (usize, usize) {
    let distance = (word as i64 >> ARRAY) as isize;
    let array = if distance == NO_ARRAY { 0 } else { slab.wrapping_add_signed(distance) };
    ((word & 0xffff) as usize, array)
}

/// Entry `at` of an array.
fn entry(cache: &RawCache, array: usize, at: usize) -> usize {
    // SAFETY: the array has an entry for every object, `at` is below their number, and it is written under list_lock
    // only, which the caller holds. Two-byte entries are aligned: arrays start at even addresses.
    unsafe {
        match index_bytes(usize::from(cache.geometry.max_objects)) {
            1 => usize::from((array as *const u8).add(at).read()),
            _ => usize::from((array as *const u16).add(at).read()),
        }
    }
}

fn set_entry(cache: &RawCache, array: usize, at: usize, index: usize) {
    // SAFETY: as in `entry`.
    unsafe {
        match index_bytes(usize::from(cache.geometry.max_objects)) {
            1 => (array as *mut u8).add(at).write(index as u8),
            _ => (array as *mut u16).add(at).write(index as u16),
        }
    }
}

/// Whether the object of this index is among the [`LOOK_BACK`] that came back to their slab last.
fn came_lately(cache: &RawCache, array: usize, active: usize, index: usize) -> bool {
    let objects = usize::from(cache.geometry.max_objects);
    let count = (objects - active).min(LOOK_BACK);
    // SAFETY: as in `entry`; a slab without an array has `active` of its objects, so that nothing is read.
    count > 0
        && unsafe {
            match index_bytes(objects) {
                1 => core::slice::from_raw_parts((array as *const u8).add(active), count).contains(&(index as u8)),
                _ => core::slice::from_raw_parts((array as *const u16).add(active), count).contains(&(index as u16)),
            }
        }
}

/// Address of the first object of a slab.
fn first_object(page: PageIndex) -> usize {
    MEMMAP.address_of(page) + MEMMAP.head(page).colour()
}

/// Bytes of the index array of a slab.
fn array_bytes(cache: &RawCache) -> usize {
    let objects = usize::from(cache.geometry.max_objects);
    objects * index_bytes(objects)
}

/// Sets up the index array of a fresh slab with all objects free; false when there is no memory for it.
pub(super) fn open_slab(cache: &RawCache, page: PageIndex) -> bool {
    let objects = usize::from(cache.geometry.max_objects);
    let bytes = array_bytes(cache);
    let array = match cache.geometry.array {
        IndexArray::OffSlab => match array::take_indices(bytes) {
            Some(array) => array,
            None => return false,
        },
        IndexArray::OnSlab => {
            (MEMMAP.address_of(page) + cache.geometry.order.bytes() - bytes) & !(index_bytes(objects) - 1)
        }
        IndexArray::InObject | IndexArray::None => first_object(page) + (objects - 1) * cache.geometry.stride,
    };
    for index in 0..objects {
        set_entry(cache, array, index, index);
    }
    write_word(page, 0, array);
    true
}

/// What is left to do when no lock is held any more: slabs to destroy, misuse to report.
pub(super) struct After {
    empty: Partial,
    /// Objects that were free already, and slabs with a corrupt array: the first of each.
    twice: usize,
    corrupt: usize,
}

impl After {
    pub(super) const NOTHING: After = After { empty: Partial::EMPTY, twice: 0, corrupt: 0 };

    /// Does it.
    #[inline]
    pub(super) fn settle(self, cache: &'static RawCache) {
        if self.empty.count > 0 || self.twice != 0 || self.corrupt != 0 {
            self.settle_now(cache);
        }
    }

    #[cold]
    fn settle_now(mut self, cache: &'static RawCache) {
        while self.empty.count > 0 {
            let page = self.empty.first();
            self.empty.unlink(&MEMMAP, page);
            destroy_slab(cache, page);
        }
        if self.corrupt != 0 {
            report::corrupt_freelist(cache.name(), self.corrupt);
        }
        if self.twice != 0 {
            report::double_free(cache.name(), self.twice);
        }
    }
}

/// Gives a slab without live objects, which is on no list, back to the zone.
fn destroy_slab(cache: &'static RawCache, page: PageIndex) {
    let (_, array) = read_word(page);
    if cache.geometry.array == IndexArray::OffSlab {
        // SAFETY: the array came from `take_indices` with as many bytes when the slab was opened; the slab ends here.
        unsafe { array::give_indices(array, array_bytes(cache)) };
    }
    let node = usize::from(MEMMAP.head(page).node()) % cache.state.nodes.len();
    slub::discard(&cache.state.nodes[node], &[page]);
}

/// What list_lock guards.
pub(crate) struct Lists {
    pub(super) partial: Partial,
    full: Partial,
    pub(super) free: Partial,
    /// Objects for all CPUs of the node; `None` where it has no room.
    pub(super) shared: Option<&'static ArrayCache>,
    /// Free objects in slabs.
    pub(super) free_objects: usize,
    /// Free objects above which free slabs are given back.
    pub(super) free_limit: usize,
    /// Set when an allocation had to take a free slab.
    pub(super) free_touched: bool,
    /// The colour of the next slab.
    colour_next: usize,
    /// Time of the reaper's next visit.
    pub(super) next_reap: u32,
    /// The remote node whose objects the reaper sends home next.
    pub(super) next_alien: usize,
    /// Refills of a CPU's array out of the shared one.
    pub(super) shared_refills: u64,
    /// Objects that the reaper took out of arrays.
    pub(super) reaped: u64,
}

impl Lists {
    pub(super) const NEW: Lists = Lists {
        partial: Partial::EMPTY,
        full: Partial::EMPTY,
        free: Partial::EMPTY,
        shared: None,
        free_objects: 0,
        free_limit: 0,
        free_touched: false,
        colour_next: 0,
        next_reap: 0,
        next_alien: 0,
        shared_refills: 0,
        reaped: 0,
    };

    /// The bytes before the first object of the next slab.
    pub(super) fn next_colour(&mut self, cache: &RawCache) -> usize {
        let colour = self.colour_next;
        self.colour_next = (colour + 1) % cache.geometry.colours;
        colour * cache.geometry.colour_off
    }

    /// The list that a slab with `active` objects in use stands on.
    fn list_of(&mut self, cache: &RawCache, active: usize) -> &mut Partial {
        if active == 0 {
            &mut self.free
        } else if active == usize::from(cache.geometry.max_objects) {
            &mut self.full
        } else {
            &mut self.partial
        }
    }

    /// Enters a fresh slab, out of which `take` takes up to `want` objects first; how many.
    pub(super) fn add_slab(
        &mut self,
        cache: &RawCache,
        page: PageIndex,
        want: usize,
        take: impl FnMut(usize),
        after: &mut After,
    ) -> usize {
        self.free_objects += usize::from(cache.geometry.max_objects);
        self.free.push_front(&MEMMAP, page);
        self.take_from(cache, page, want, take, after)
    }

    /// Takes up to `want` objects out of slabs, partial ones first; how many.
    pub(super) fn take(
        &mut self,
        cache: &RawCache,
        want: usize,
        mut take: impl FnMut(usize),
        after: &mut After,
    ) -> usize {
        let mut had = 0;
        while had < want {
            let mut page = self.partial.first();
            if page == PageIndex::NONE {
                page = self.free.first();
                if page == PageIndex::NONE {
                    break;
                }
                self.free_touched = true;
            }
            had += self.take_from(cache, page, want - had, &mut take, after);
        }
        had
    }

    /// Takes up to `want` objects out of a slab of the partial or the free list and puts it on the list where it belongs
    /// then. A slab whose array holds no index is quarantined.
    fn take_from(
        &mut self,
        cache: &RawCache,
        page: PageIndex,
        want: usize,
        mut take: impl FnMut(usize),
        after: &mut After,
    ) -> usize {
        let objects = usize::from(cache.geometry.max_objects);
        let (before, mut array) = read_word(page);
        self.list_of(cache, before).unlink(&MEMMAP, page);
        let first = first_object(page);
        let mut active = before;
        while active < objects && active - before < want {
            let index = entry(cache, array, active);
            if index >= objects {
                self.free_objects -= objects - before;
                write_word(page, QUARANTINED, array);
                after.corrupt = MEMMAP.address_of(page);
                return active - before;
            }
            take(first + index * cache.geometry.stride);
            active += 1;
        }
        if active == objects && cache.geometry.array == IndexArray::InObject {
            array = 0;
        }
        write_word(page, active, array);
        self.free_objects -= active - before;
        self.list_of(cache, active).push_front(&MEMMAP, page);
        active - before
    }

    /// Puts an object back into its slab, of this node, and a slab at the end of its list: it has the most time there to
    /// be freed as a whole.
    fn put(&mut self, cache: &RawCache, object: usize, after: &mut After) {
        let Some(page) = MEMMAP.page_of(object) else { return };
        let page = PageIndex(page.0 - MEMMAP.class_of(page).back());
        let (active, mut array) = read_word(page);
        if active == QUARANTINED {
            return;
        }
        let Some(index) = cache.geometry.index_of(object - first_object(page)).map(usize::from) else { return };
        // An object is free for certain if all are, or if it is among those that came last.
        if active == 0 || came_lately(cache, array, active, index) {
            after.twice = object;
            return;
        }
        self.list_of(cache, active).unlink(&MEMMAP, page);
        if array == 0 {
            array = object;
        }
        set_entry(cache, array, active - 1, index);
        write_word(page, active - 1, array);
        self.free_objects += 1;
        if active == 1 {
            self.free.push_front(&MEMMAP, page);
        } else {
            self.partial.push_back(&MEMMAP, page);
        }
    }

    /// Puts objects back into their slabs, all of this node, and takes free slabs above the limit off for `after`.
    pub(super) fn free_block(&mut self, cache: &RawCache, objects: &[usize], after: &mut After) {
        for &object in objects {
            self.put(cache, object, after);
        }
        while self.free_objects > self.free_limit && self.free.count > 0 {
            self.drop_free(cache, 1, after);
        }
    }

    /// Takes up to `count` free slabs off their list for `after`, the oldest first.
    pub(super) fn drop_free(&mut self, cache: &RawCache, count: usize, after: &mut After) {
        for _ in 0..count {
            let page = self.free.last();
            if page == PageIndex::NONE {
                break;
            }
            self.free.unlink(&MEMMAP, page);
            self.free_objects -= usize::from(cache.geometry.max_objects);
            after.empty.push_back(&MEMMAP, page);
        }
    }

    /// Puts the `count` oldest objects of an array that the caller has locked back into their slabs.
    pub(super) fn drain(&mut self, cache: &RawCache, array: &ArrayCache, count: usize, after: &mut After) {
        const STEP: usize = 64;
        let mut left = count.min(array.avail());
        while left > 0 {
            let mut objects = [0; STEP];
            let had = array.oldest(&mut objects[..left.min(STEP)]);
            self.free_block(cache, &objects[..had], after);
            array.shift(had);
            left -= had;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_arrays_on_either_side_of_any_address() {
        for slab in [0x1000usize, 0x7f12_3456_7000, 0xffff_8000_1234_5000, usize::MAX - 0xfff] {
            for distance in [0isize, 2, 4094, -16, 1 << 40, -(1 << 40)] {
                let array = slab.wrapping_add_signed(distance);
                if array != 0 {
                    assert_eq!(decode(encode(409, array, slab), slab), (409, array), "{slab:#x} {distance:#x}");
                }
            }
            assert_eq!(decode(encode(64, 0, slab), slab), (64, 0));
        }
    }
}
