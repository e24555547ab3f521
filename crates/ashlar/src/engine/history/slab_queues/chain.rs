//! The descriptor of a slab, with the chain of its free objects: the record of SLAB of 2.6.24.
//!
//! | bytes | field |
//! |---|---|
//! | 0..36 | unused |
//! | 36..40 | index of the first free object |
//! | 40..44 | the node of the slab, constant |
//! | 44..48 | unused |
//! | 48.. | an entry of 4 bytes for each object |
//!
//! The entry of a free object is the index of the next one. That of an object in use is [`IN_USE`],
//! so a second free of it is detected.
//!
//! The unused bytes held the list links, the colour, the first object and the number of objects in
//! use in the kernel. They are kept because the number of objects in a slab follows from the size.
//! Their contents are in the page head, where no stray write of a program reaches them. For the
//! same reason every index is checked, and the node is compared with that of the page head.
//!
//! Lock: the descriptor changes under list_lock alone. Frees of objects of the slab read the node
//! without it.
#![allow(unsafe_code, reason = "reads and writes descriptors")]

use super::record::{Put, QUARANTINED, SlabRef, Taken};
use crate::base::units::MAX_OBJECTS_PER_SLAB;

/// Bytes of a descriptor without its entries.
pub(super) const DESCRIPTOR_BYTES: usize = 48;
/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = size_of::<u32>();
/// The fields, in words of 4 bytes.
const FIRST_FREE: usize = 9;
const NODE: usize = 10;
const ENTRIES: usize = DESCRIPTOR_BYTES / ENTRY_BYTES;

/// The entry of the last free object.
const END: u32 = u32::MAX;
/// The entry of an object in use.
const IN_USE: u32 = u32::MAX - 1;
// Neither of the two is the index of an object.
const _: () = assert!(MAX_OBJECTS_PER_SLAB < IN_USE as usize);

/// Returns the bytes of the descriptor of a slab of `objects` objects.
#[place(cold)]
pub(super) const fn descriptor_bytes(objects: usize) -> usize {
    DESCRIPTOR_BYTES + objects * ENTRY_BYTES
}

/// Makes `descriptor` the descriptor of a slab, with all objects free, in their order.
#[place(cold)]
pub(super) fn fill(slab: SlabRef<'_>, descriptor: usize) {
    slab.write_word(0, descriptor);
    set(descriptor, FIRST_FREE, 0);
    set(descriptor, NODE, u32::from(slab.head.node()));
    for index in 0..slab.objects {
        let last = index + 1 == slab.objects;
        set(descriptor, ENTRIES + index, if last { END } else { index as u32 + 1 });
    }
}

/// Takes up to `want` objects, and passes the index of each to `take`.
#[place(cold)]
pub(super) fn take(slab: SlabRef<'_>, want: usize, mut take: impl FnMut(usize)) -> Taken {
    let (before, descriptor) = slab.word();
    let (mut active, mut first) = (before, get(descriptor, FIRST_FREE));
    while active < slab.objects && active - before < want {
        let index = first as usize;
        let next = if index < slab.objects { get(descriptor, ENTRIES + index) } else { IN_USE };
        if next == IN_USE {
            slab.write_word(QUARANTINED, descriptor);
            return Taken { before, active, corrupt: true };
        }
        set(descriptor, ENTRIES + index, IN_USE);
        first = next;
        take(index);
        active += 1;
    }
    set(descriptor, FIRST_FREE, first);
    slab.write_word(active, descriptor);
    Taken { before, active, corrupt: false }
}

/// Returns an object.
#[place(cold)]
pub(super) fn put(slab: SlabRef<'_>, index: usize) -> Put {
    let (active, descriptor) = slab.word();
    if active == QUARANTINED {
        return Put::Quarantined;
    }
    if active == 0 || get(descriptor, ENTRIES + index) != IN_USE {
        return Put::Twice;
    }
    set(descriptor, ENTRIES + index, get(descriptor, FIRST_FREE));
    set(descriptor, FIRST_FREE, index as u32);
    slab.write_word(active - 1, descriptor);
    Put::Active(active - 1)
}

/// Returns the node of a slab, as its descriptor says.
#[inline]
pub(super) fn node(slab: SlabRef<'_>) -> u32 {
    let (_, descriptor) = slab.word();
    get(descriptor, NODE)
}

/// The indices of the free objects, for models that check them.
#[cfg(ashlar_loom)]
pub(super) fn free_indices(slab: SlabRef<'_>) -> std::vec::Vec<usize> {
    let (active, descriptor) = slab.word();
    let next = |&at: &usize| Some(get(descriptor, ENTRIES + at) as usize);
    let first = get(descriptor, FIRST_FREE) as usize;
    core::iter::successors(Some(first), next).take(slab.objects - active).collect()
}

#[inline]
fn get(descriptor: usize, word: usize) -> u32 {
    // SAFETY: `fill` wrote the descriptor, at an address that is a multiple of 4, with a word for
    // each field and for each object of the slab; callers pass the index of an object of the slab
    // to reach an entry. The memory is never unmapped. The first free object and the entries are
    // accessed under list_lock. The node is written before the slab has objects, and a caller that
    // reads it frees one of them.
    unsafe { (descriptor as *const u32).add(word).read() }
}

#[inline]
fn set(descriptor: usize, word: usize, value: u32) {
    // SAFETY: as in `get`. The caller holds list_lock, or has made the slab, so no other thread
    // accesses the word.
    unsafe { (descriptor as *mut u32).add(word).write(value) };
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::*;
    use crate::pages::head::PageHead;
    use std::vec::Vec;

    /// Runs `f` on a slab of `objects` objects at the address of its descriptor.
    fn with_slab(objects: usize, f: impl FnOnce(SlabRef<'_>)) {
        let head = PageHead::new();
        head.init(0, objects as u16, 0, 3);
        let mut words = std::vec![0u128; descriptor_bytes(objects).div_ceil(16)];
        let address = words.as_mut_ptr() as usize;
        let slab = SlabRef { head: &head, address, objects };
        fill(slab, address);
        f(slab);
    }

    fn taken(slab: SlabRef<'_>, want: usize) -> (Vec<usize>, bool) {
        let mut indices = Vec::new();
        let corrupt = take(slab, want, |index| indices.push(index)).corrupt;
        (indices, corrupt)
    }

    fn is_twice(put: &Put) -> bool {
        matches!(put, Put::Twice)
    }

    #[test]
    fn the_object_freed_last_is_taken_first() {
        with_slab(8, |slab| {
            assert_eq!(taken(slab, 5).0, [0, 1, 2, 3, 4]);
            for index in [1, 4, 0] {
                put(slab, index);
            }
            assert_eq!(slab.word().0, 2);
            assert_eq!(taken(slab, 100).0, [0, 4, 1, 5, 6, 7]);
            assert_eq!((taken(slab, 1).0.len(), slab.word().0), (0, 8));
        });
    }

    #[test]
    fn a_second_free_is_detected_however_long_ago_the_first_was() {
        with_slab(500, |slab| {
            taken(slab, 500);
            for index in 0..400 {
                assert!(!is_twice(&put(slab, index)));
            }
            assert!((0..400).all(|index| is_twice(&put(slab, index))));
            assert!(!is_twice(&put(slab, 400)));
        });
    }

    #[test]
    fn no_chain_is_followed_out_of_the_slab_or_to_an_object_in_use() {
        for bad in [8, END, IN_USE, 2] {
            with_slab(8, |slab| {
                taken(slab, 3);
                let (_, descriptor) = slab.word();
                // Object 3 is the next one; this is the one after it.
                set(descriptor, ENTRIES + 3, bad);
                let (indices, corrupt) = taken(slab, 8);
                assert!(corrupt && !indices.contains(&2), "{bad:#x}: {indices:?}");
                assert!(matches!(put(slab, 0), Put::Quarantined));
            });
        }
    }

    #[test]
    fn the_largest_slab_has_a_chain() {
        with_slab(MAX_OBJECTS_PER_SLAB, |slab| {
            let (indices, corrupt) = taken(slab, usize::MAX);
            assert!(!corrupt && indices.iter().copied().eq(0..MAX_OBJECTS_PER_SLAB));
            for index in (0..MAX_OBJECTS_PER_SLAB).rev() {
                assert!(matches!(put(slab, index), Put::Active(active) if active == index));
            }
            assert_eq!(taken(slab, usize::MAX).0.len(), MAX_OBJECTS_PER_SLAB);
        });
    }

    #[test]
    fn the_node_is_that_of_the_page() {
        with_slab(8, |slab| assert_eq!(node(slab), 3));
    }
}
