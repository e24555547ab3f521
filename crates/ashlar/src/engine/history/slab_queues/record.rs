//! What the records of a slab's free objects have in common, [`index_array`](super::index_array)
//! and [`chain`](super::chain).
//!
//! A slab's state word holds the number of objects in use, its *active* count, and the place of its
//! record:
//!
//! | bits | field |
//! |---|---|
//! | 0..16 | active; [`QUARANTINED`] for a slab in quarantine |
//! | 16..64 | signed distance from the slab to the record; [`NO_RECORD`] for none |
//!
//! Lock: the word and the record change under list_lock alone.

use crate::base::sync::Ordering;
use crate::pages::head::PageHead;

/// Smallest block of metadata for a record, in bytes.
pub(super) const SMALLEST_BLOCK: usize = 16;
/// The active count of a slab that failed a check and stays off all lists.
pub(super) const QUARANTINED: usize = 0xffff;
const PLACE: u32 = 16;
/// The distance of a slab without a record. It is odd, and distances of records are even.
const NO_RECORD: isize = 1;

/// A slab.
#[derive(Clone, Copy)]
pub(crate) struct SlabRef<'a> {
    pub(super) head: &'a PageHead,
    pub(super) address: usize,
    pub(super) objects: usize,
}

/// What was taken from a slab.
pub(crate) struct Taken {
    /// Objects in use before, and after.
    pub(super) before: usize,
    pub(super) active: usize,
    /// The record holds an impossible index, and the slab is in quarantine.
    pub(super) corrupt: bool,
}

/// What became of a slab that an object was returned to.
pub(crate) enum Put {
    /// So many objects are in use now.
    Active(usize),
    /// The object is free already: nothing has changed.
    Twice,
    /// The slab is in quarantine: nothing has changed.
    Quarantined,
}

impl SlabRef<'_> {
    /// Returns the active count and the address of the record, 0 for none.
    #[inline]
    pub(super) fn word(self) -> (usize, usize) {
        decode(self.head.state.load(Ordering::Relaxed), self.address)
    }

    #[inline]
    pub(super) fn write_word(self, active: usize, record: usize) {
        self.head.state.store(encode(active, record, self.address), Ordering::Relaxed);
    }
}

/// Encodes the record as a distance, because an address may not fit: some machines have more than
/// 48 address bits, or set the upper bits.
fn encode(active: usize, record: usize, slab: usize) -> u64 {
    let distance = if record == 0 { NO_RECORD } else { record.wrapping_sub(slab) as isize };
    active as u64 | (distance as i64 as u64) << PLACE
}

fn decode(word: u64, slab: usize) -> (usize, usize) {
    let distance = (word as i64 >> PLACE) as isize;
    let record = if distance == NO_RECORD { 0 } else { slab.wrapping_add_signed(distance) };
    ((word & 0xffff) as usize, record)
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_hold_records_on_either_side_of_any_address() {
        for slab in [0x1000usize, 0x7f12_3456_7000, 0xffff_8000_1234_5000, usize::MAX - 0xfff] {
            for distance in [0isize, 2, 4094, -16, 1 << 40, -(1 << 40)] {
                let record = slab.wrapping_add_signed(distance);
                if record != 0 {
                    assert_eq!(decode(encode(409, record, slab), slab), (409, record), "{slab:#x} {distance:#x}");
                }
            }
            assert_eq!(decode(encode(64, 0, slab), slab), (64, 0));
        }
    }
}
