//! The blocks of a node, as an ascending list of stretches of block numbers.
//!
//! The zone of one node has one stretch, unless another mapping blocked its growth. Nodes that grow
//! in turn have one stretch for each growth. Adjacent stretches are merged.

use crate::pages::meta::META;

/// Blocks with consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Stretch {
    pub(super) fn len(self) -> u32 {
        self.end - self.start
    }

    pub(super) fn numbers(self) -> core::ops::Range<u32> {
        self.start..self.end
    }
}

/// The stretches of a node; see the module. The array is metadata memory, which is never freed.
pub(super) struct Extents {
    /// The array of stretches; `None` at first.
    room: Option<&'static mut [Stretch]>,
    count: usize,
    blocks: u32,
}

/// The first capacity of a node's array.
const LEAST: usize = 8;

impl Extents {
    /// The offset of the number of blocks, for a reader outside of the process.
    #[cfg(all(feature = "os", not(ashlar_loom)))]
    pub(super) const BLOCKS: usize = core::mem::offset_of!(Extents, blocks);
    pub(super) const NONE: Extents = Extents { room: None, count: 0, blocks: 0 };

    /// Returns the number of blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    fn all(&self) -> &[Stretch] {
        self.room.as_deref().map_or(&[], |room| &room[..self.count])
    }

    /// Returns the stretches in ascending order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Stretch> + '_ {
        self.all().iter().copied()
    }

    /// Returns the numbers of all blocks in ascending order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter().flat_map(Stretch::numbers)
    }

    /// Returns the stretch that contains a block.
    pub(super) fn around(&self, number: u32) -> Option<Stretch> {
        let at = self.all().partition_point(|stretch| stretch.end <= number);
        self.all().get(at).copied().filter(|stretch| stretch.start <= number)
    }

    /// Returns the capacity that the array needs before [`Self::add`]; 0 if there is room for one
    /// more.
    pub(super) fn room_wanted(&self) -> usize {
        let room = self.room.as_deref().map_or(0, <[Stretch]>::len);
        if self.count < room { 0 } else { (2 * self.count).max(LEAST) }
    }

    /// Moves the stretches to a larger array.
    #[cold]
    #[inline(never)]
    #[place(background)]
    pub(super) fn move_to(&mut self, larger: &'static mut [Stretch]) {
        if larger.len() > self.count {
            larger[..self.count].copy_from_slice(self.all());
            self.room = Some(larger);
        }
    }

    /// Adds blocks whose numbers are above all others. The caller has made room for a stretch.
    pub(super) fn add(&mut self, more: Stretch) {
        let Some(room) = self.room.as_deref_mut() else { return };
        self.blocks += more.len();
        match room[..self.count].last_mut() {
            Some(last) if last.end == more.start => last.end = more.end,
            _ => {
                room[self.count] = more;
                self.count += 1;
            }
        }
    }
}

/// Allocates memory for `count` stretches.
#[cold]
#[inline(never)]
#[place(background)]
pub(super) fn array(count: usize) -> Option<&'static mut [Stretch]> {
    let place = META.alloc_unlent(count * size_of::<Stretch>(), align_of::<Stretch>())?.cast::<Stretch>();
    #[expect(unsafe_code, reason = "makes an array of metadata memory")]
    // SAFETY: fresh zeroed memory of this size and alignment, which is never freed; zeros are valid
    // stretches.
    Some(unsafe { core::slice::from_raw_parts_mut(place.as_ptr(), count) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    #[test]
    fn stretches_that_meet_become_one_and_each_block_is_found_in_its_own() {
        let mut extents = Extents::NONE;
        assert!(extents.room_wanted() == LEAST && extents.around(0).is_none());
        extents.move_to(vec![Stretch { start: 0, end: 0 }; LEAST].leak());
        for (start, end) in [(3, 5), (5, 6), (10, 12), (12, 13), (20, 21)] {
            extents.add(Stretch { start, end });
        }
        let all: Vec<_> = extents.iter().map(|s| (s.start, s.end)).collect();
        assert_eq!((all, extents.blocks()), (vec![(3, 6), (10, 13), (20, 21)], 7));
        assert_eq!(extents.numbers().collect::<Vec<_>>(), [3, 4, 5, 10, 11, 12, 20]);
        for number in 0..30 {
            let around = extents.around(number).map(|s| s.start);
            let expected = [(3, 6), (10, 13), (20, 21)].into_iter().find(|s| (s.0..s.1).contains(&number));
            assert_eq!(around, expected.map(|s| s.0), "{number}");
        }
        for n in 0..LEAST as u32 {
            if extents.room_wanted() > 0 {
                extents.move_to(vec![Stretch { start: 0, end: 0 }; extents.room_wanted()].leak());
            }
            extents.add(Stretch { start: 100 + 2 * n, end: 101 + 2 * n });
        }
        assert_eq!((extents.iter().count(), extents.blocks()), (3 + LEAST, 7 + LEAST as u32));
    }
}
