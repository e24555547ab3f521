//! The index array of a slab: the indices of its free objects.
//!
//! Entries from the active count on are the indices of the free objects. An allocation takes the
//! entry at that place; a free stores its index just before. No other entry is accessed.
//!
//! An array inside an object lies in the object of the last entry, which is allocated last. So a
//! full slab has no array, and the first free to it makes the freed object the new place of the
//! array.
//!
//! Lock: the array changes under list_lock alone.
#![allow(unsafe_code, reason = "reads and writes index arrays")]

use super::record::{Put, QUARANTINED, SlabRef, Taken};

/// Free objects of a slab that a double free is compared with: a cache line of indices.
const LOOK_BACK: usize = 64;

/// Bytes of an entry of the index array of a slab of `objects` objects.
pub(super) const fn index_bytes(objects: usize) -> usize {
    if objects <= 256 { 1 } else { 2 }
}

/// Bytes of the index array of a slab of `objects` objects.
#[place(cold)]
pub(super) const fn array_bytes(objects: usize) -> usize {
    objects * index_bytes(objects)
}

/// Makes `array` the index array of a slab, with all objects free.
#[place(cold)]
pub(super) fn fill(slab: SlabRef<'_>, array: usize) {
    for index in 0..slab.objects {
        set_entry(slab.objects, array, index, index);
    }
    slab.write_word(0, array);
}

/// Takes up to `want` objects, and passes the index of each to `take`. If arrays lie in objects
/// (`in_object`), a slab whose last object is taken has none.
#[place(cold)]
pub(super) fn take(slab: SlabRef<'_>, want: usize, in_object: bool, mut take: impl FnMut(usize)) -> Taken {
    let (before, mut array) = slab.word();
    let mut active = before;
    while active < slab.objects && active - before < want {
        let index = entry(slab.objects, array, active);
        if index >= slab.objects {
            slab.write_word(QUARANTINED, array);
            return Taken { before, active, corrupt: true };
        }
        take(index);
        active += 1;
    }
    if active == slab.objects && in_object {
        array = 0;
    }
    slab.write_word(active, array);
    Taken { before, active, corrupt: false }
}

/// Returns an object. It is certainly free if all are, or if it is among those freed last.
#[place(cold)]
pub(super) fn put(slab: SlabRef<'_>, index: usize, object: usize) -> Put {
    let (active, mut array) = slab.word();
    if active == QUARANTINED {
        return Put::Quarantined;
    }
    if active == 0 || came_lately(slab.objects, array, active, index) {
        return Put::Twice;
    }
    if array == 0 {
        array = object;
    }
    set_entry(slab.objects, array, active - 1, index);
    slab.write_word(active - 1, array);
    Put::Active(active - 1)
}

/// The indices of the free objects, for models that check them.
#[cfg(ashlar_loom)]
pub(super) fn free_indices(slab: SlabRef<'_>) -> std::vec::Vec<usize> {
    let (active, array) = slab.word();
    (active..slab.objects).map(|at| entry(slab.objects, array, at)).collect()
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
