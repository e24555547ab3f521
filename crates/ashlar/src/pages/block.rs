//! State of one 2 MiB block: which of its pages are free, and which free pages may be resident.
//!
//! This is a buddy allocator kept as a bitmap. A run of order k starts at a multiple of 2^k pages.
//! Two free buddies form one free run because their bits are adjacent, so nothing is merged.
//! `word_order` caches the largest run inside each 64-page word, so that a search reads eight
//! bytes. Larger pages than 4 KiB need fewer words. The entries of `word_order` and the bits that
//! belong to no page are 0 then.
//!
//! Invariants, which every function of [`Block`] restores before it returns:
//! * `free_count` is the number of set bits of `free`, and `dirty_count` that of `dirty`.
//! * `dirty` is a subset of `free`. A *dirty* page is free and may be resident. A free page that is
//!   not dirty reads as zeros.
//! * `aged` is a subset of `dirty`: pages that were dirty at the last [`Block::age`].
//! * `word_order[i]` is 0 if word i has no free page, else one more than the order of its largest
//!   run.
//!
//! Lock: the zone lock of the block's node.

use crate::base::units::{BLOCK_PAGES, PageIndex};

const WORDS: usize = BLOCK_PAGES.div_ceil(64);
/// Bits of the last word that belong to no page.
const UNUSED: u32 = (WORDS * 64 - BLOCK_PAGES) as u32;
/// Words of a block of pages of 4 KiB, the most that there may be.
const MOST_WORDS: usize = 8;
const _: () = assert!(WORDS <= MOST_WORDS);
/// A word with 1 in every byte.
const EACH_BYTE: u64 = u64::from_ne_bytes([1; 8]);
/// Bits at multiples of 2^k for k from 0 to 6, where a run of order k may start inside a word.
static STARTS: [u64; 7] = [
    !0,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
    1,
];
/// Number of fullness levels; level 0 is the fullest.
pub(crate) const LEVELS: usize = 8;

/// State of one block; see the module's invariants.
pub(crate) struct Block {
    free: [u64; WORDS],
    dirty: [u64; WORDS],
    aged: [u64; WORDS],
    word_order: [u8; MOST_WORDS],
    free_count: u16,
    dirty_count: u16,
    /// One more than the order of the largest free run; 0 if the block is full.
    pub(crate) max_order: u8,
    /// The fullness level of the zone's list that holds the block.
    pub(crate) level: u8,
    /// Whether the zone's table of empty blocks includes this block.
    pub(crate) in_empties: bool,
    /// Whether the block is on its node's list of blocks with dirty pages.
    pub(crate) in_dirty: bool,
    /// The reaper tick at which the block was put on that list or was aged.
    pub(crate) stamp: u32,
    pub(crate) next: u32,
    pub(crate) prev: u32,
    /// Neighbours on the list of blocks with dirty pages.
    pub(crate) older: u32,
    pub(crate) younger: u32,
}

/// Selects dirty pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dirty {
    All,
    /// Pages that were dirty when the block was aged.
    Aged,
}

/// Returns the positions in `word` where an aligned run of 2^order set bits starts.
#[inline]
fn run_starts(word: u64, order: u8) -> u64 {
    let mut w = word;
    for k in 0..order {
        w &= w >> (1 << k) & STARTS[usize::from(k) + 1];
    }
    w
}

/// Returns one more than the largest order of a run inside `word`, 0 if it has no set bit.
#[inline]
fn largest_run(word: u64) -> u8 {
    let mut w = word;
    let mut order = 0;
    while w != 0 {
        order += 1;
        if order == 7 {
            break;
        }
        w &= w >> (1 << (order - 1)) & STARTS[usize::from(order)];
    }
    order
}

/// Bytes of the state of a block.
pub(crate) const BLOCK_STATE_BYTES: usize = size_of::<Block>();

impl Block {
    /// A block without free pages.
    #[cfg(test)]
    pub(crate) const EMPTY: Block = Block {
        free: [0; WORDS],
        dirty: [0; WORDS],
        aged: [0; WORDS],
        word_order: [0; MOST_WORDS],
        free_count: 0,
        dirty_count: 0,
        max_order: 0,
        level: 0,
        in_empties: false,
        in_dirty: false,
        stamp: 0,
        next: PageIndex::NONE.0,
        prev: PageIndex::NONE.0,
        older: PageIndex::NONE.0,
        younger: PageIndex::NONE.0,
    };

    /// Frees all pages of `range`. The other pages are never allocated.
    pub(crate) fn init(&mut self, range: core::ops::Range<usize>) {
        // Assigned field by field. A copy of an empty block would be read from the pages of the
        // messages, and make them resident.
        let Block { free, dirty, aged, word_order, .. } = self;
        (*free, *dirty, *aged, *word_order) = ([0; WORDS], [0; WORDS], [0; WORDS], [0; MOST_WORDS]);
        (self.dirty_count, self.max_order, self.level, self.stamp) = (0, 0, 0, 0);
        (self.in_empties, self.in_dirty) = (false, false);
        (self.next, self.prev) = (PageIndex::NONE.0, PageIndex::NONE.0);
        (self.older, self.younger) = (PageIndex::NONE.0, PageIndex::NONE.0);
        each_word(range.start, range.len(), |word, mask| self.free[word] |= mask);
        self.free_count = range.len() as u16;
        self.refresh(0, WORDS - 1);
    }

    /// Returns the number of free pages.
    pub(crate) fn free_count(&self) -> usize {
        usize::from(self.free_count)
    }

    /// Returns the number of free pages that may be resident.
    pub(crate) fn dirty_count(&self) -> usize {
        usize::from(self.dirty_count)
    }

    /// Returns whether all pages are free.
    pub(crate) fn is_empty(&self) -> bool {
        self.free_count() == BLOCK_PAGES
    }

    /// Records which pages are dirty now.
    pub(crate) fn age(&mut self) {
        self.aged = self.dirty;
    }

    /// Returns the fullness level: 0 for nearly full, `LEVELS - 1` for nearly empty.
    pub(crate) fn fullness_level(&self) -> u8 {
        ((self.free_count() * LEVELS).saturating_sub(1) / BLOCK_PAGES) as u8
    }

    /// Returns the first page of a free run of 2^order pages; `None` if there is none.
    pub(crate) fn find(&self, order: u8) -> Option<usize> {
        if order <= 6 {
            // Best fit among the words: the smallest run that suffices leaves large runs whole.
            let mut best: Option<(u8, usize)> = None;
            for (i, &has) in self.word_order.iter().enumerate() {
                if has > order && best.is_none_or(|(b, _)| has < b) {
                    best = Some((has, i));
                    if has == order + 1 {
                        break;
                    }
                }
            }
            let (_, i) = best?;
            return Some(i * 64 + run_starts(self.free[i], order).trailing_zeros() as usize);
        }
        let full = self.full_words();
        let starts = match order {
            7 => full & full >> 1 & 0x55,
            8 => {
                let pairs = full & full >> 1 & 0x55;
                pairs & pairs >> 2 & 0x11
            }
            _ => u8::from(full == 0xff),
        };
        (starts != 0).then(|| starts.trailing_zeros() as usize * 64)
    }

    /// Returns the shortest run of at least `count` free pages in `within`, at any start: its
    /// length and its first page.
    pub(crate) fn find_run(&self, count: usize, within: core::ops::Range<usize>) -> Option<(usize, usize)> {
        if count <= 64 {
            return self.find_short_run(count, within);
        }
        let mut best: Option<(usize, usize)> = None;
        let mut at = within.start;
        while at < within.end {
            at += self.same_from(at, false);
            let length = self.same_from(at, true).min(within.end.saturating_sub(at));
            if length >= count && best.is_none_or(|(l, _)| length < l) {
                best = Some((length, at));
            }
            at += length;
        }
        best
    }

    /// As [`Self::find_run`], for at most 64 pages. Visits only the runs that are long enough,
    /// because most runs of a block in use are shorter.
    fn find_short_run(&self, count: usize, within: core::ops::Range<usize>) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        // All runs before this page are examined.
        let mut seen = within.start;
        while seen < within.end {
            let (word, skip) = (seen / 64, seen % 64);
            let starts = self.starts(word, count) & !0 << skip;
            if starts == 0 {
                seen = (word + 1) * 64;
                continue;
            }
            let at = word * 64 + starts.trailing_zeros() as usize;
            let length = self.same_from(at, true).min(within.end.saturating_sub(at));
            if length >= count && best.is_none_or(|(l, _)| length < l) {
                best = Some((length, at));
            }
            seen = at + length.max(1);
        }
        best
    }

    /// Returns the pages of a word, as bits, at which `count` free pages start. `count` is at most
    /// 64, and the pages may extend into the next word.
    fn starts(&self, word: usize, count: usize) -> u64 {
        let next = self.free.get(word + 1).copied().unwrap_or(0);
        let mut free = u128::from(self.free[word]) | u128::from(next) << 64;
        let mut length = 1;
        while length < count {
            let more = length.min(count - length);
            free &= free >> more;
            length += more;
        }
        free as u64
    }

    /// Returns the number of free pages at the start and at the end of the block.
    pub(crate) fn edges(&self) -> (usize, usize) {
        let head = self.same_from(0, true);
        let mut tail = 0;
        for &word in self.free.iter().rev() {
            let free = (word << UNUSED).leading_ones();
            tail += free as usize;
            if free + UNUSED < 64 {
                break;
            }
        }
        (head, tail)
    }

    /// Returns the number of pages from `from` on that are all free, or all in use.
    fn same_from(&self, from: usize, free: bool) -> usize {
        let mut at = from;
        while at < BLOCK_PAGES {
            let word = self.free[at / 64];
            let bits = if free { word } else { !word } >> (at % 64);
            let same = (bits.trailing_ones() as usize).min((64 - at % 64).min(BLOCK_PAGES - at));
            at += same;
            if same == 0 || !at.is_multiple_of(64) {
                break;
            }
        }
        at - from
    }

    /// Returns the first run of dirty pages in `within`: its first page and its length.
    pub(crate) fn dirty_among(&self, within: core::ops::Range<usize>) -> Option<(usize, usize)> {
        let is_dirty = |page: &usize| self.dirty[page / 64] >> (page % 64) & 1 != 0;
        let first = within.clone().find(is_dirty)?;
        Some((first, (first..within.end).take_while(is_dirty).count()))
    }

    /// Returns whether `count` pages from `first` are all free.
    pub(crate) fn is_free(&self, first: usize, count: usize) -> bool {
        let mut all = true;
        each_word(first, count, |word, mask| all &= self.free[word] & mask == mask);
        all
    }

    /// Takes `count` free pages from `first`. Returns how many were dirty; if 0, all read as zeros.
    pub(crate) fn take(&mut self, first: usize, count: usize) -> usize {
        let mut was_dirty = 0;
        each_word(first, count, |word, mask| {
            debug_assert_eq!(self.free[word] & mask, mask, "taking pages that are not free");
            self.free[word] &= !mask;
            was_dirty += (self.dirty[word] & mask).count_ones() as usize;
            self.dirty[word] &= !mask;
            self.aged[word] &= !mask;
        });
        self.free_count -= count as u16;
        self.dirty_count -= was_dirty as u16;
        self.refresh(first / 64, (first + count - 1) / 64);
        was_dirty
    }

    /// Frees `count` pages from `first`. `dirty` is whether they may be resident.
    pub(crate) fn put(&mut self, first: usize, count: usize, dirty: bool) {
        each_word(first, count, |word, mask| {
            debug_assert_eq!(self.free[word] & mask, 0, "pages freed twice");
            self.free[word] |= mask;
            if dirty {
                self.dirty[word] |= mask;
            }
        });
        if dirty {
            self.dirty_count += count as u16;
        }
        self.free_count += count as u16;
        self.refresh(first / 64, (first + count - 1) / 64);
    }

    /// Returns the next run of such dirty pages at or after `from`, as (first, count). The run
    /// covers whole units of `granule` pages, which is the system's page size in our pages.
    pub(crate) fn dirty_run(&self, from: usize, granule: usize, which: Dirty) -> Option<(usize, usize)> {
        let dirty = if which == Dirty::All { &self.dirty } else { &self.aged };
        let whole = |unit: usize| {
            let mut all_free = true;
            let mut any_dirty = false;
            for page in unit * granule..(unit + 1) * granule {
                let bit = 1u64 << (page % 64);
                all_free &= self.free[page / 64] & bit != 0;
                any_dirty |= dirty[page / 64] & bit != 0;
            }
            all_free && any_dirty
        };
        let units = BLOCK_PAGES / granule;
        let mut unit = from.div_ceil(granule);
        while unit < units && !whole(unit) {
            unit += 1;
        }
        let first = unit;
        while unit < units && whole(unit) {
            unit += 1;
        }
        (unit > first).then_some((first * granule, (unit - first) * granule))
    }

    /// Returns the words that are entirely free, as bits.
    fn full_words(&self) -> u8 {
        // An entry is at most 7, so after adding one, bit 3 is set for full words only. The product
        // gathers these bits.
        let full = (u64::from_le_bytes(self.word_order) + EACH_BYTE) >> 3 & EACH_BYTE;
        (full.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
    }

    fn refresh(&mut self, first_word: usize, last_word: usize) {
        for word in first_word..=last_word {
            self.word_order[word] = largest_run(self.free[word]);
        }
        let max = self.word_order.iter().copied().max().unwrap_or(0);
        self.max_order = if max < 7 {
            max
        } else {
            let full = self.full_words();
            let pairs = full & full >> 1 & 0x55;
            match () {
                () if full == 0xff => 10,
                () if pairs & pairs >> 2 & 0x11 != 0 => 9,
                () if pairs != 0 => 8,
                () => 7,
            }
        };
    }
}

/// Calls `f(word, mask)` for the words that the pages `first..first + count` touch.
#[inline]
fn each_word(first: usize, count: usize, mut f: impl FnMut(usize, u64)) {
    let mut page = first;
    let end = first + count;
    while page < end {
        let bit = page % 64;
        let len = (64 - bit).min(end - page);
        let mask = if len == 64 { !0 } else { ((1u64 << len) - 1) << bit };
        f(page / 64, mask);
        page += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::BLOCK_ORDER;
    use proptest::prelude::*;
    use std::prelude::rust_2024::*;

    fn empty() -> Block {
        let mut b = Block::EMPTY;
        b.init(0..BLOCK_PAGES);
        b
    }

    #[test]
    fn an_empty_block_is_one_run() {
        let b = empty();
        assert_eq!(b.max_order, BLOCK_ORDER + 1);
        assert_eq!(b.find(BLOCK_ORDER), Some(0));
        assert_eq!(b.fullness_level(), 7);
    }

    #[test]
    fn buddies_are_one_run_again_when_both_are_free() {
        let mut b = empty();
        b.take(0, 1);
        assert_eq!(b.find(BLOCK_ORDER), None);
        assert_eq!(b.find(BLOCK_ORDER - 1), Some(BLOCK_PAGES / 2));
        b.put(0, 1, true);
        assert_eq!(b.find(BLOCK_ORDER), Some(0));
        assert_eq!(b.dirty_count(), 1);
        assert_eq!(b.take(0, BLOCK_PAGES), 1, "page 0 is dirty");
    }

    #[test]
    fn dirty_runs_cover_whole_system_pages_only() {
        let mut b = empty();
        b.take(0, 32);
        b.put(2, 9, true);
        assert_eq!(b.dirty_run(0, 1, Dirty::All), Some((2, 9)));
        assert_eq!(b.dirty_run(0, 4, Dirty::All), Some((4, 4)), "16 KiB system pages");
        assert_eq!(b.dirty_run(0, 16, Dirty::All), None, "64 KiB system pages");
        assert_eq!(b.dirty_run(11, 1, Dirty::All), None);
    }

    #[test]
    fn aged_pages_are_those_that_stayed_free_since() {
        let mut b = empty();
        b.take(0, 32);
        b.put(10, 4, true);
        assert_eq!(b.dirty_run(0, 1, Dirty::Aged), None);
        b.age();
        b.put(20, 4, true);
        assert_eq!(b.dirty_run(0, 1, Dirty::Aged), Some((10, 4)), "pages freed after the ageing are young");
        assert_eq!(b.take(12, 2), 2);
        b.put(12, 2, true);
        assert_eq!(b.dirty_run(0, 1, Dirty::Aged), Some((10, 2)), "pages reused since are young too");
        assert_eq!(b.dirty_run(0, 1, Dirty::All), Some((10, 4)));
        assert_eq!(b.dirty_count(), 8);
    }

    proptest! {
        #[test]
        fn the_shortest_run_that_is_long_enough_is_found(words in any::<[u64; WORDS]>(), fill in any::<[u8; WORDS]>(), count in prop_oneof![1usize..=64, 1usize..=BLOCK_PAGES]) {
            // Includes long runs: some words are all free or all in use.
            let mut b = empty();
            for (place, (word, fill)) in b.free.iter_mut().zip(words.into_iter().zip(fill)) {
                *place = match fill % 4 { 0 => 0, 1 => word, _ => !0 } << UNUSED >> UNUSED;
            }
            let free: Vec<bool> = (0..BLOCK_PAGES).map(|page| b.free[page / 64] >> (page % 64) & 1 == 1).collect();
            let mut runs = Vec::new();
            let mut at = 0;
            for run in free.chunk_by(|a, b| a == b) {
                if run[0] {
                    runs.push((run.len(), at));
                }
                at += run.len();
            }
            let best = runs.iter().filter(|run| run.0 >= count).min().copied();
            prop_assert_eq!(b.find_run(count, 0..BLOCK_PAGES), best);
            let head = free.iter().take_while(|f| **f).count();
            let tail = free.iter().rev().take_while(|f| **f).count();
            prop_assert_eq!(b.edges(), (head, tail));
            if tail < BLOCK_PAGES {
                let inner = runs.iter().filter(|run| run.0 >= count && run.1 >= head && run.1 + run.0 <= BLOCK_PAGES - tail).min();
                prop_assert_eq!(b.find_run(count, head..BLOCK_PAGES - tail), inner.copied());
            }
        }

        #[test]
        fn runs_found_are_aligned_free_and_as_large_as_claimed(
            ops in proptest::collection::vec((0u8..=BLOCK_ORDER, any::<bool>(), any::<proptest::sample::Index>()), 1..200)
        ) {
            let mut b = empty();
            let mut live: Vec<(usize, usize)> = Vec::new();
            let mut model = [true; BLOCK_PAGES];
            for (order, free, pick) in ops {
                if free && !live.is_empty() {
                    let (first, count) = live.swap_remove(pick.index(live.len()));
                    b.put(first, count, true);
                    model[first..first + count].fill(true);
                } else if let Some(first) = b.find(order) {
                    let count = 1usize << order;
                    prop_assert_eq!(first % count, 0);
                    prop_assert!(model[first..first + count].iter().all(|f| *f));
                    b.take(first, count);
                    model[first..first + count].fill(false);
                    live.push((first, count));
                } else {
                    let count = 1usize << order;
                    let any = (0..BLOCK_PAGES / count).any(|i| model[i * count..(i + 1) * count].iter().all(|f| *f));
                    prop_assert!(!any, "a run of order {} exists but was not found", order);
                }
                prop_assert_eq!(b.free_count(), model.iter().filter(|f| **f).count());
                let largest = (0..=BLOCK_ORDER).rev().find(|o| {
                    let count = 1usize << o;
                    (0..BLOCK_PAGES / count).any(|i| model[i * count..(i + 1) * count].iter().all(|f| *f))
                });
                prop_assert_eq!(b.max_order, largest.map_or(0, |o| o + 1));
            }
        }
    }
}
