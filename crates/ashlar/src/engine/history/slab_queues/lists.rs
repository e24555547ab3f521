//! A node's slabs: full, partial and free lists under one list_lock, and the index array of each
//! slab.
//!
//! A slab's state word holds the number of objects in use, its *active* count, and the place of its
//! index array:
//!
//! | bits | field |
//! |---|---|
//! | 0..16 | active; [`QUARANTINED`] for a slab that failed a check and stays off all lists |
//! | 16..64 | signed distance from the slab to the index array; [`NO_ARRAY`] for none |
//!
//! Entries from `active` on are the indices of the free objects. An allocation takes the entry at
//! `active`; a free stores its index just before. No other entry is accessed.
//!
//! An array inside an object lies in the object of the last entry, which is allocated last. So a
//! full slab has no array, and the first free to it makes the freed object the new place of the
//! array.
//!
//! Lock: the word and the lists change under list_lock alone.
#![allow(unsafe_code, reason = "reads and writes index arrays")]

use super::array::ArrayCache;
use super::index::index_bytes;
use crate::base::sync::Ordering;
use crate::base::units::PageIndex;
use crate::slab::partial::{Heads, Partial};
#[cfg(not(ashlar_loom))]
use crate::{
    base::report,
    pages::{head::PageHead, memmap::MEMMAP},
    slab::{cache::CacheSlabs, geometry::IndexArray},
};

/// The active count of a slab in quarantine.
const QUARANTINED: usize = 0xffff;
const ARRAY: u32 = 16;
/// Objects that a refill brings to a CPU whose array was unused lately.
const BATCH_REFILL_LIMIT: usize = 16;
/// Free objects of a slab that a double free is compared with: a cache line of indices.
const LOOK_BACK: usize = 64;
/// The distance of a slab without an array. It is odd, and distances of arrays are even.
const NO_ARRAY: isize = 1;

/// The slabs of a cache, as lists need them: the cache itself, or a few slabs of a model.
pub(crate) trait Slabs: Heads {
    /// Objects in a slab.
    fn objects(&self) -> usize;
    /// Bytes from one object to the next.
    fn stride(&self) -> usize;
    /// Whether index arrays lie in free objects.
    fn in_object(&self) -> bool;
    /// The address of a slab.
    fn address_of(&self, page: PageIndex) -> usize;
    /// The address of its first object.
    fn first_object(&self, page: PageIndex) -> usize;
    /// The slab and the index of an object.
    fn find(&self, object: usize) -> Option<(PageIndex, usize)>;
}

#[cfg(not(ashlar_loom))]
impl Heads for CacheSlabs {
    fn head(&self, page: PageIndex) -> &PageHead {
        MEMMAP.head(page)
    }
}

#[cfg(not(ashlar_loom))]
impl Slabs for CacheSlabs {
    fn objects(&self) -> usize {
        usize::from(self.geometry.max_objects)
    }

    fn stride(&self) -> usize {
        self.geometry.stride
    }

    fn in_object(&self) -> bool {
        self.geometry.array == IndexArray::InObject
    }

    fn address_of(&self, page: PageIndex) -> usize {
        MEMMAP.address_of(page)
    }

    fn first_object(&self, page: PageIndex) -> usize {
        MEMMAP.address_of(page) + MEMMAP.head(page).colour()
    }

    fn find(&self, object: usize) -> Option<(PageIndex, usize)> {
        let page = MEMMAP.page_of(object)?;
        let page = PageIndex(page.0 - MEMMAP.class_of(page).back());
        let index = self.geometry.index_of(object - self.first_object(page))?;
        Some((page, usize::from(index)))
    }
}

/// Returns the active count of a slab and the address of its index array, 0 for none.
fn read_word(slabs: &impl Slabs, page: PageIndex) -> (usize, usize) {
    decode(slabs.head(page).state.load(Ordering::Relaxed), slabs.address_of(page))
}

fn write_word(slabs: &impl Slabs, page: PageIndex, active: usize, array: usize) {
    slabs.head(page).state.store(encode(active, array, slabs.address_of(page)), Ordering::Relaxed);
}

/// Encodes the array as a distance, because an address may not fit: some machines have more than 48
/// address bits, or set the upper bits.
fn encode(active: usize, array: usize, slab: usize) -> u64 {
    let distance = if array == 0 { NO_ARRAY } else { array.wrapping_sub(slab) as isize };
    active as u64 | (distance as i64 as u64) << ARRAY
}

fn decode(word: u64, slab: usize) -> (usize, usize) {
    let distance = (word as i64 >> ARRAY) as isize;
    let array = if distance == NO_ARRAY { 0 } else { slab.wrapping_add_signed(distance) };
    ((word & 0xffff) as usize, array)
}

/// Returns entry `at` of an array.
#[place(cold)]
fn entry(objects: usize, array: usize, at: usize) -> usize {
    // SAFETY: the array has an entry for every object, and `at` is below their number. The caller
    // holds list_lock, under which all entries are written. Two-byte entries are aligned, because
    // arrays start at even addresses.
    unsafe {
        match index_bytes(objects) {
            1 => usize::from((array as *const u8).add(at).read()),
            _ => usize::from((array as *const u16).add(at).read()),
        }
    }
}

#[place(cold)]
fn set_entry(objects: usize, array: usize, at: usize, index: usize) {
    // SAFETY: as in `entry`.
    unsafe {
        match index_bytes(objects) {
            1 => (array as *mut u8).add(at).write(index as u8),
            _ => (array as *mut u16).add(at).write(index as u16),
        }
    }
}

/// Whether the object of this index is among the [`LOOK_BACK`] objects freed to the slab last.
#[place(cold)]
fn came_lately(objects: usize, array: usize, active: usize, index: usize) -> bool {
    let count = (objects - active).min(LOOK_BACK);
    // SAFETY: as in `entry`. In a slab without an array all objects are active, so nothing is read.
    count > 0
        && unsafe {
            match index_bytes(objects) {
                1 => core::slice::from_raw_parts((array as *const u8).add(active), count).contains(&(index as u8)),
                _ => core::slice::from_raw_parts((array as *const u16).add(active), count).contains(&(index as u16)),
            }
        }
}

/// Bytes of the index array of a slab.
#[cfg(not(ashlar_loom))]
fn array_bytes(cache: &CacheSlabs) -> usize {
    let objects = cache.objects();
    objects * index_bytes(objects)
}

/// Sets up the index array of a fresh slab with all objects free; false when there is no memory for
/// it.
#[cfg(not(ashlar_loom))]
#[place(cold)]
pub(super) fn open_slab(cache: &CacheSlabs, page: PageIndex) -> bool {
    let objects = cache.objects();
    let bytes = array_bytes(cache);
    let array = match cache.geometry.array {
        IndexArray::OffSlab => match super::pool::take_indices(bytes) {
            Some(array) => array,
            None => return false,
        },
        IndexArray::OnSlab => {
            (cache.address_of(page) + cache.geometry.order.bytes() - bytes) & !(index_bytes(objects) - 1)
        }
        IndexArray::InObject | IndexArray::None => cache.first_object(page) + (objects - 1) * cache.stride(),
    };
    fill_array(cache, page, array);
    true
}

/// Makes `array` the index array of a slab whose objects are all free.
pub(crate) fn fill_array(slabs: &impl Slabs, page: PageIndex, array: usize) {
    let objects = slabs.objects();
    for index in 0..objects {
        set_entry(objects, array, index, index);
    }
    write_word(slabs, page, 0, array);
}

/// The indices of a slab's free objects, for models that check them.
#[cfg(ashlar_loom)]
pub(crate) fn free_indices(slabs: &impl Slabs, page: PageIndex) -> std::vec::Vec<usize> {
    let (active, array) = read_word(slabs, page);
    (active..slabs.objects()).map(|at| entry(slabs.objects(), array, at)).collect()
}

/// Work left for after all locks are dropped: slabs to destroy, misuse to report.
pub(crate) struct After {
    pub(crate) empty: Partial,
    /// The first double free and the first slab with a corrupt array; 0 for none.
    pub(crate) twice: usize,
    pub(crate) corrupt: usize,
}

impl After {
    pub(crate) const NOTHING: After = After { empty: Partial::EMPTY, twice: 0, corrupt: 0 };
}

#[cfg(not(ashlar_loom))]
#[place(cold)]
impl After {
    /// Does the work.
    #[inline]
    pub(super) fn settle(self, cache: &'static CacheSlabs) {
        if self.empty.count > 0 || self.twice != 0 || self.corrupt != 0 {
            self.settle_now(cache);
        }
    }

    #[cold]
    fn settle_now(mut self, cache: &'static CacheSlabs) {
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
#[cfg(not(ashlar_loom))]
#[place(cold)]
fn destroy_slab(cache: &'static CacheSlabs, page: PageIndex) {
    let (_, array) = read_word(cache, page);
    if cache.geometry.array == IndexArray::OffSlab {
        // SAFETY: the array came from `take_indices` with the same number of bytes when the slab
        // was opened, and the slab ends here.
        unsafe { super::pool::give_indices(array, array_bytes(cache)) };
    }
    crate::slab::discard::discard_one(cache.node_of(page), page);
}

/// The data that list_lock guards.
pub(crate) struct Lists {
    pub(crate) partial: Partial,
    pub(crate) full: Partial,
    pub(crate) free: Partial,
    /// Objects for all CPUs of the node; `None` if the tunables set no shared array.
    pub(crate) shared: Option<&'static ArrayCache>,
    /// Free objects in slabs.
    pub(crate) free_objects: usize,
    /// Free objects above which free slabs are given back.
    pub(crate) free_limit: usize,
    /// Set when an allocation had to take a free slab.
    pub(super) free_touched: bool,
    /// The colour of the next slab.
    colour_next: usize,
    /// Time of the reaper's next round.
    pub(super) next_reap: u32,
    /// The remote node whose alien cache the reaper drains next.
    pub(super) next_alien: usize,
    /// Refills of a CPU's array out of the shared one.
    pub(super) shared_refills: u64,
    /// Objects that the reaper took out of arrays.
    pub(super) reaped: u64,
}

#[place(cold)]
impl Lists {
    pub(crate) const NEW: Lists = Lists {
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

    /// Returns the next of `colours` colours, in turn.
    pub(super) fn next_colour(&mut self, colours: usize) -> usize {
        let colour = self.colour_next;
        self.colour_next = (colour + 1) % colours;
        colour
    }

    /// Fills a CPU's array by a batch, from the shared array or from slabs with free objects. The
    /// caller has locked the array and found it empty.
    pub(crate) fn refill(&mut self, slabs: &impl Slabs, array: &ArrayCache, after: &mut After) {
        let mut batch = array.batchcount();
        if !array.is_touched() {
            batch = batch.min(BATCH_REFILL_LIMIT);
        }
        if let Some(shared) = self.shared
            && shared.transfer(array, batch) > 0
        {
            self.shared_refills += 1;
            return;
        }
        self.take(slabs, batch.min(array.room()), |object| _ = array.push(object), after);
    }

    /// Moves the oldest batch of a CPU's array to the shared array as far as that has room. If it
    /// has none, returns the batch to slabs.
    pub(crate) fn flush(&mut self, slabs: &impl Slabs, array: &ArrayCache, after: &mut After) {
        let batch = array.batchcount();
        if let Some(shared) = self.shared
            && shared.room() > 0
        {
            let moved = array.oldest_to(shared, batch);
            array.shift(moved);
            return;
        }
        self.drain(slabs, array, batch, after);
    }

    /// Replaces the shared array. Returns the objects of the old one to slabs, and the old one to
    /// the caller.
    pub(crate) fn replace_shared(
        &mut self,
        slabs: &impl Slabs,
        new: Option<&'static ArrayCache>,
        after: &mut After,
    ) -> Option<&'static ArrayCache> {
        let old = core::mem::replace(&mut self.shared, new)?;
        self.drain(slabs, old, usize::MAX, after);
        Some(old)
    }

    /// Returns the list for a slab with `active` objects in use.
    fn list_of(&mut self, objects: usize, active: usize) -> &mut Partial {
        if active == 0 {
            &mut self.free
        } else if active == objects {
            &mut self.full
        } else {
            &mut self.partial
        }
    }

    /// Enters a fresh slab after `take` has taken up to `want` objects. Returns the number taken.
    pub(crate) fn add_slab(
        &mut self,
        slabs: &impl Slabs,
        page: PageIndex,
        want: usize,
        take: impl FnMut(usize),
        after: &mut After,
    ) -> usize {
        self.free_objects += slabs.objects();
        self.free.push_front(slabs, page);
        self.take_from(slabs, page, want, take, after)
    }

    /// Takes up to `want` objects from slabs, partial ones first. Returns the number taken.
    pub(crate) fn take(
        &mut self,
        slabs: &impl Slabs,
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
            had += self.take_from(slabs, page, want - had, &mut take, after);
        }
        had
    }

    /// Takes up to `want` objects from a slab of the partial or free list, then moves it to the
    /// list where it belongs. A slab whose array holds an impossible index is quarantined.
    fn take_from(
        &mut self,
        slabs: &impl Slabs,
        page: PageIndex,
        want: usize,
        mut take: impl FnMut(usize),
        after: &mut After,
    ) -> usize {
        let objects = slabs.objects();
        let (before, mut array) = read_word(slabs, page);
        self.list_of(objects, before).unlink(slabs, page);
        let (first, stride) = (slabs.first_object(page), slabs.stride());
        let mut active = before;
        while active < objects && active - before < want {
            let index = entry(objects, array, active);
            if index >= objects {
                self.free_objects -= objects - before;
                write_word(slabs, page, QUARANTINED, array);
                after.corrupt = slabs.address_of(page);
                return active - before;
            }
            take(first + index * stride);
            active += 1;
        }
        if active == objects && slabs.in_object() {
            array = 0;
        }
        write_word(slabs, page, active, array);
        self.free_objects -= active - before;
        self.list_of(objects, active).push_front(slabs, page);
        active - before
    }

    /// Returns an object to its slab, which belongs to this node, and moves the slab to the end of
    /// its list. There it has the most time to become empty.
    fn put(&mut self, slabs: &impl Slabs, object: usize, after: &mut After) {
        let Some((page, index)) = slabs.find(object) else { return };
        let (active, mut array) = read_word(slabs, page);
        if active == QUARANTINED {
            return;
        }
        let objects = slabs.objects();
        // An object is certainly free if all are, or if it is among those freed last.
        if active == 0 || came_lately(objects, array, active, index) {
            after.twice = object;
            return;
        }
        self.list_of(objects, active).unlink(slabs, page);
        if array == 0 {
            array = object;
        }
        set_entry(objects, array, active - 1, index);
        write_word(slabs, page, active - 1, array);
        self.free_objects += 1;
        if active == 1 {
            self.free.push_front(slabs, page);
        } else {
            self.partial.push_back(slabs, page);
        }
    }

    /// Returns objects of this node to their slabs, and moves free slabs above the limit to
    /// `after`.
    pub(crate) fn free_block(&mut self, slabs: &impl Slabs, objects: &[usize], after: &mut After) {
        for &object in objects {
            self.put(slabs, object, after);
        }
        while self.free_objects > self.free_limit && self.free.count > 0 {
            self.drop_free(slabs, 1, after);
        }
    }

    /// Moves up to `count` free slabs to `after`, the oldest first.
    pub(crate) fn drop_free(&mut self, slabs: &impl Slabs, count: usize, after: &mut After) {
        for _ in 0..count {
            let page = self.free.last();
            if page == PageIndex::NONE {
                break;
            }
            self.free.unlink(slabs, page);
            self.free_objects -= slabs.objects();
            after.empty.push_back(slabs, page);
        }
    }

    /// Returns the `count` oldest objects of an array to their slabs. The caller has locked the
    /// array.
    pub(crate) fn drain(&mut self, slabs: &impl Slabs, array: &ArrayCache, count: usize, after: &mut After) {
        const STEP: usize = 64;
        let mut left = count.min(array.avail());
        while left > 0 {
            let mut objects = [0; STEP];
            let had = array.oldest(&mut objects[..left.min(STEP)]);
            self.free_block(slabs, &objects[..had], after);
            array.shift(had);
            left -= had;
        }
    }
}

#[cfg(all(test, not(ashlar_loom)))]
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
