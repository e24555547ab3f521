//! The free blocks of one page: first fit by address, with coalescing.
//!
//! A page of 4 KiB is 2048 units of 2 bytes; one of 64 KiB has units of 4 bytes, as in the kernel,
//! because links have 16 bits with a sign. Its free blocks form a list in address order, each
//! stored in its own first bytes. A block of two units or more holds its length and the unit of the
//! next block; a block of one unit holds the negative of the latter. The successor of the last
//! block is [`UNITS`], the end of the page. Two free blocks never touch. So an allocated object has
//! no overhead, and the page does not record where objects start.
//!
//! Every word read is checked. A write to a free block shows when its length and successor are
//! impossible, and no link is followed out of the page.
//!
//! The caller holds slob_lock, or owns the page.
#![allow(unsafe_code, reason = "reads and writes free blocks")]

use crate::base::units::PAGE_SIZE;

/// Bytes of a unit.
pub(crate) const UNIT: usize = if PAGE_SIZE <= 2 * i16::MAX as usize { 2 } else { 4 };
/// Units of a page; also the successor of the last free block.
pub(crate) const UNITS: u16 = (PAGE_SIZE / UNIT) as u16;

/// Returns the units that `bytes` need.
pub(crate) const fn units_for(bytes: usize) -> u16 {
    bytes.div_ceil(UNIT) as u16
}

/// The free space of a page: its units, and the first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) units: u16,
    pub(crate) first: u16,
}

/// The request of an allocation: units, of which the one `offset` units behind the start is
/// aligned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) units: u16,
    /// In units, a power of two.
    pub(crate) align: u16,
    pub(crate) offset: u16,
}

/// Why a free block cannot be followed, or units not be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// The free block at this address was overwritten.
    Corrupt(usize),
    /// Some of the units are free already.
    Overlap,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    at: u16,
    units: u16,
    next: u16,
}

impl Block {
    const fn end(self) -> u16 {
        self.at + self.units
    }
}

fn place(base: usize, unit: u16) -> *mut i16 {
    (base + usize::from(unit) * UNIT) as *mut i16
}

/// Reads the free block at `at`, which is below [`UNITS`].
///
/// # Safety
/// `base` is a page whose free blocks the caller may read.
#[place(cold)]
unsafe fn read(base: usize, at: u16) -> Result<Block, Bad> {
    let corrupt = Bad::Corrupt(base + usize::from(at) * UNIT);
    // SAFETY: inside the page, which the caller may read.
    let first = unsafe { place(base, at).read() };
    let (units, next) = if first < 0 {
        (1, first.unsigned_abs())
    } else if first > 1 && at + 1 < UNITS {
        // SAFETY: `at + 1` is inside the page, which the caller may read.
        (first as u16, unsafe { place(base, at + 1).read() } as u16)
    } else {
        return Err(corrupt);
    };
    let end = u32::from(at) + u32::from(units);
    let sound = end < u32::from(next) && next < UNITS || next == UNITS && end <= u32::from(UNITS);
    if sound { Ok(Block { at, units, next }) } else { Err(corrupt) }
}

/// Writes a free block.
///
/// # Safety
/// The units of the block are free, the caller owns them, and the block ends inside the page.
#[place(cold)]
unsafe fn write(base: usize, block: Block) {
    // SAFETY: inside the block, which the caller owns.
    unsafe {
        if block.units == 1 {
            place(base, block.at).write(-(block.next as i16));
        } else {
            place(base, block.at).write(block.units as i16);
            place(base, block.at + 1).write(block.next as i16);
        }
    }
}

/// Makes the whole page one free block.
///
/// # Safety
/// The caller owns the page at `base`.
pub(crate) unsafe fn fresh(base: usize) -> Space {
    // SAFETY: the caller owns the page.
    unsafe { write(base, Block { at: 0, units: UNITS, next: UNITS }) };
    Space { units: UNITS, first: 0 }
}

/// Makes `next` the successor of `previous`, or the first block where there is none.
///
/// # Safety
/// As for [`write()`].
unsafe fn link(base: usize, space: &mut Space, previous: Option<Block>, next: u16) {
    match previous {
        // SAFETY: a free block of this page.
        Some(block) => unsafe { write(base, Block { next, ..block }) },
        None => space.first = next,
    }
}

/// Takes units out of the first block in which they fit. Returns their first unit, or `None` if no
/// block has room. Adds the number of blocks visited to `looked`.
///
/// # Safety
/// `space` is that of the page at `base`, and only the caller accesses its free blocks.
#[place(cold)]
pub(crate) unsafe fn alloc(base: usize, space: &mut Space, want: Want, looked: &mut u64) -> Result<Option<u16>, Bad> {
    let mut previous: Option<Block> = None;
    let mut at = space.first;
    while at < UNITS {
        *looked += 1;
        // SAFETY: only the caller accesses the free blocks, and `at` is inside the page.
        let block = unsafe { read(base, at)? };
        let start = ((at + want.offset + want.align - 1) & !(want.align - 1)) - want.offset;
        if start + want.units <= block.end() {
            // The parts before the aligned start and behind the end stay free blocks.
            let end = start + want.units;
            let mut next = block.next;
            // SAFETY: both parts lie in the free block, and linked blocks are free.
            unsafe {
                if end < block.end() {
                    write(base, Block { at: end, units: block.end() - end, next });
                    next = end;
                }
                if start > at {
                    write(base, Block { at, units: start - at, next });
                } else {
                    link(base, space, previous, next);
                }
            }
            space.units -= want.units;
            return Ok(Some(start));
        }
        previous = Some(block);
        at = block.next;
    }
    Ok(None)
}

/// Returns the free block before `start` and the unit of the one behind. Adds the number of blocks
/// visited to `looked`.
///
/// # Safety
/// As for [`alloc`].
#[place(cold)]
unsafe fn around(base: usize, space: &Space, start: u16, looked: &mut u64) -> Result<(Option<Block>, u16), Bad> {
    let mut previous = None;
    let mut at = space.first;
    while at < start {
        *looked += 1;
        // SAFETY: only the caller accesses the free blocks; `at` is below `start`, which is inside
        // the page.
        let block = unsafe { read(base, at)? };
        previous = Some(block);
        at = block.next;
    }
    Ok((previous, at))
}

/// True if one of the units is free.
///
/// # Safety
/// As for [`alloc`].
pub(crate) unsafe fn is_free(base: usize, space: &Space, start: u16, units: u16) -> Result<bool, Bad> {
    // SAFETY: passed on from the caller.
    let (previous, next) = unsafe { around(base, space, start, &mut 0)? };
    Ok(previous.is_some_and(|block| block.end() > start) || next < start + units)
}

/// True if all units of the page but these are free, and these are not. Visits one block at most:
/// the free units around form a block before and a block behind, or one of them.
///
/// # Safety
/// As for [`alloc`]. The units are inside the page.
#[place(cold)]
pub(crate) unsafe fn is_all_else_free(base: usize, space: &Space, start: u16, units: u16) -> bool {
    let end = start + units;
    if space.units + units != UNITS {
        return false;
    }
    // What is free behind the units lies in `end..UNITS`, and is as many units.
    if start == 0 {
        return space.units == 0 || space.first == end;
    }
    // SAFETY: only the caller accesses the free blocks.
    space.first == 0 && unsafe { read(base, 0) }.is_ok_and(|block| (block.units, block.next) == (start, end))
}

/// Frees units and merges them with the free blocks that they touch. Adds the number of blocks
/// visited to `looked`.
///
/// # Safety
/// As for [`alloc`]. The units `start..start + units` are inside the page, and the caller owns
/// those that are not free.
#[place(cold)]
pub(crate) unsafe fn free(base: usize, space: &mut Space, start: u16, units: u16, looked: &mut u64) -> Result<(), Bad> {
    if space.units == 0 {
        // A full page has no first block.
        space.first = UNITS;
    }
    // SAFETY: passed on from the caller.
    let (previous, next) = unsafe { around(base, space, start, looked)? };
    if previous.is_some_and(|block| block.end() > start) || next < start + units {
        return Err(Bad::Overlap);
    }
    let mut block = Block { at: start, units, next };
    if next < UNITS && block.end() == next {
        // SAFETY: the successor is a free block of the page.
        let after = unsafe { read(base, next)? };
        block = Block { units: units + after.units, next: after.next, ..block };
    }
    // SAFETY: all units of the block are free now, and the block before it was free before.
    unsafe {
        match previous {
            Some(before) if before.end() == start => {
                write(base, Block { units: before.units + block.units, next: block.next, ..before });
            }
            _ => {
                write(base, block);
                link(base, space, previous, start);
            }
        }
    }
    space.units += units;
    Ok(())
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    #[repr(align(4096))]
    struct Page([u8; PAGE_SIZE]);

    /// Returns the units that are free, by a walk over the blocks. Checks that blocks are in order
    /// and do not touch.
    fn walk(base: usize, space: Space) -> Vec<bool> {
        let mut free = vec![false; usize::from(UNITS)];
        let (mut at, mut end) = (space.first, None);
        while at < UNITS {
            // SAFETY: the page is the test's.
            let block = unsafe { read(base, at) }.expect("sound");
            assert!(end.is_none_or(|end| end < at), "two free blocks touch");
            free[usize::from(at)..usize::from(block.end())].fill(true);
            end = Some(block.end());
            at = block.next;
        }
        assert_eq!(free.iter().filter(|&&f| f).count(), usize::from(space.units));
        free
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 300 }))]
        /// Compares with a map of units: first fit by address, no overlap, everything coalesced,
        /// whole again at the end.
        #[test]
        fn blocks_are_as_the_map_of_units_says(
            steps in prop::collection::vec((0u16..400, 0u32..6, 0u16..5, any::<prop::sample::Index>()), 1..120)
        ) {
            let mut page = Box::new(Page([0xff; PAGE_SIZE]));
            let base = &raw mut *page as usize;
            // SAFETY: the page is the test's, here and below.
            let mut space = unsafe { fresh(base) };
            let mut map = vec![true; usize::from(UNITS)];
            let mut live: Vec<(u16, u16)> = Vec::new();
            for (units, align, offset, which) in steps {
                if units % 3 == 0 && !live.is_empty() {
                    let (start, units) = live.swap_remove(which.index(live.len()));
                    // SAFETY: as above.
                    prop_assert_eq!(unsafe { free(base, &mut space, start, units, &mut 0) }, Ok(()));
                    // SAFETY: as above.
                    prop_assert_eq!(unsafe { free(base, &mut space, start, units, &mut 0) }, Err(Bad::Overlap));
                    map[usize::from(start)..usize::from(start + units)].fill(true);
                } else {
                    let want = Want { units: units + 1, align: 1 << align, offset };
                    let fits = |start: usize| {
                        let end = start + usize::from(want.units);
                        (start + usize::from(offset)).is_multiple_of(1 << align)
                            && end <= map.len()
                            && map[start..end].iter().all(|&free| free)
                    };
                    let expected = (0..map.len()).find(|&start| fits(start)).map(|start| start as u16);
                    // SAFETY: as above.
                    let got = unsafe { alloc(base, &mut space, want, &mut 0) };
                    prop_assert_eq!(got, Ok(expected));
                    if let Some(start) = expected {
                        let bytes = usize::from(start) * UNIT..usize::from(start + want.units) * UNIT;
                        page.0[bytes].fill(0xee);
                        map[usize::from(start)..usize::from(start + want.units)].fill(false);
                        live.push((start, want.units));
                    }
                }
                prop_assert_eq!(&walk(base, space), &map);
            }
            for (start, units) in live {
                // SAFETY: as above.
                prop_assert_eq!(unsafe { free(base, &mut space, start, units, &mut 0) }, Ok(()));
            }
            prop_assert_eq!(space, Space { units: UNITS, first: 0 });
            prop_assert!(walk(base, space).iter().all(|&free| free));
        }

        /// Arbitrary words in free blocks: no link is followed out of the page, and no walk loops
        /// for ever.
        #[test]
        fn rubbish_is_refused_or_harmless(words in prop::collection::vec(any::<i16>(), 16), start in 0u16..UNITS - 8) {
            let mut page = Box::new(Page([0; PAGE_SIZE]));
            let base = &raw mut *page as usize;
            for (i, word) in words.iter().enumerate() {
                page.0[i * 256..i * 256 + 2].copy_from_slice(&word.to_ne_bytes());
            }
            let mut space = Space { units: 1000, first: 0 };
            // SAFETY: the page is the test's.
            let _ = unsafe { alloc(base, &mut space, Want { units: 8, align: 4, offset: 0 }, &mut 0) };
            // SAFETY: as above.
            let _ = unsafe { free(base, &mut space, start, 8, &mut 0) };
        }
    }
}
