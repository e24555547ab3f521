//! Places long runs: each in the shortest stretch of free pages that holds it, across blocks.
//!
//! The lists of [`super::lists`] sort blocks by the largest run inside one, so no run that they
//! yield crosses the border of a block. That suits slabs and short runs, which are many and keep to
//! the fullest blocks. A large object, however, would leave a rest at the end of its block that the
//! next object cannot use, and memory would grow by a quarter. So this module scans the blocks
//! themselves, from the lowest address on. The scan costs a few nanoseconds per block, far less
//! than to fill 64 KiB. In a zone of many blocks it is bounded: it covers the first blocks, those
//! that the lists offer, and the ends of runs of empty blocks.
//!
//! The stretch at the end of the zone is used last, even if it fits best, because most of its pages
//! were never resident.

use super::extents::Stretch;
use super::{NodeBlocks, Zone};
use crate::base::units::BLOCK_PAGES;
use crate::pages::block::Block;

/// The number of blocks that are scanned one by one.
const MOST_BLOCKS: u32 = 256;
/// The number of ends of runs of empty blocks that are examined.
const MOST_ENDS: usize = 64;

/// The shortest of the offered stretches of at least `pages` pages.
struct Shortest {
    pages: usize,
    best: Option<(usize, usize)>,
}

impl Shortest {
    fn of(pages: usize) -> Shortest {
        Shortest { pages, best: None }
    }

    fn consider(&mut self, length: usize, first: usize) {
        if length >= self.pages && self.best.is_none_or(|(best, _)| length < best) {
            self.best = Some((length, first));
        }
    }

    fn first(&self) -> Option<usize> {
        self.best.map(|(_, first)| first)
    }
}

/// Returns the first page of the shortest stretch of at least `pages` free pages. The blocks come
/// in rising order. The stretch up to the end of the last block is used only if there is no other.
fn shortest<'a>(blocks: impl Iterator<Item = (u32, &'a Block)>, pages: usize) -> Option<usize> {
    // Any run of `pages` pages contains an aligned run at least a quarter as long.
    let least = (pages.ilog2() as u8).saturating_sub(1) + 1;
    let mut found = Shortest::of(pages);
    // The stretch that reaches up to `end`, the end of the previous block.
    let (mut open, mut end) = (0, 0);
    for (number, block) in blocks {
        let start = number as usize * BLOCK_PAGES;
        if start != end {
            found.consider(open, end - open);
            open = 0;
        }
        end = start + BLOCK_PAGES;
        if block.is_empty() {
            open += BLOCK_PAGES;
            continue;
        }
        let (head, tail) = block.edges();
        found.consider(open + head, start - open);
        if block.max_order >= least
            && let Some((length, at)) = block.find_run(pages, head..BLOCK_PAGES - tail)
        {
            found.consider(length, start + at);
        }
        open = tail;
    }
    let last = (open >= pages).then(|| end - open);
    found.first().or(last)
}

impl Zone {
    /// Returns the first page of the shortest stretch of at least `pages` free pages.
    pub(super) fn fit(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        if blocks.extents.blocks() > MOST_BLOCKS {
            return self.fit_in_many(blocks, pages);
        }
        self.shortest(blocks, pages)
    }

    /// [`Self::fit`] for a node with more blocks than are scanned.
    #[cold]
    #[inline(never)]
    #[place(background)]
    fn fit_in_many(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        let found = if pages > BLOCK_PAGES {
            self.fit_around_empties(blocks, pages)
        } else {
            self.shortest(blocks, pages).or_else(|| {
                let (number, first) = blocks.pick_run(self, pages)?;
                Some(number as usize * BLOCK_PAGES + first)
            })
        };
        found.or_else(|| self.fit_at_end(blocks, pages))
    }

    /// Applies [`shortest`] to the node's first [`MOST_BLOCKS`] blocks.
    #[inline(never)]
    fn shortest(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        let some = blocks.extents.numbers().take(MOST_BLOCKS as usize).map(|number| (number, &*self.block(number)));
        shortest(some, pages)
    }

    /// [`Self::fit`] for more than a block: examines runs of empty blocks, and the free pages
    /// before and behind each.
    fn fit_around_empties(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        let mut found = Shortest::of(pages);
        let end = blocks.extents.iter().next_back()?.end;
        let least = pages.saturating_sub(2 * (BLOCK_PAGES - 1)).div_ceil(BLOCK_PAGES).max(1);
        let runs = blocks.extents.iter().flat_map(|stretch| self.empty_runs(stretch).map(move |run| (stretch, run)));
        let long = runs.filter(|(_, run)| run.len() as usize >= least && run.end != end);
        for (stretch, run) in long.take(MOST_ENDS) {
            let before = if run.start > stretch.start { self.block(run.start - 1).edges().1 } else { 0 };
            let behind = if run.end < stretch.end { self.block(run.end).edges().0 } else { 0 };
            let length = before + run.len() as usize * BLOCK_PAGES + behind;
            found.consider(length, run.start as usize * BLOCK_PAGES - before);
        }
        found.first()
    }

    /// Returns the first of the free pages at the end of the node's last stretch, if there are
    /// `pages`.
    fn fit_at_end(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        let free = self.free_at_end(blocks);
        let end = blocks.extents.iter().next_back()?.end as usize * BLOCK_PAGES;
        (free >= pages).then(|| end - free)
    }

    /// Returns the number of free pages at the end of the node's last stretch.
    pub(super) fn free_at_end(&self, blocks: &NodeBlocks) -> usize {
        let Some(last) = blocks.extents.iter().next_back() else { return 0 };
        let empty = self.empty_at_end(last);
        let from = last.end - empty;
        let before = if from > last.start { self.block(from - 1).edges().1 } else { 0 };
        empty as usize * BLOCK_PAGES + before
    }

    /// Returns the first page of `pages` free pages that start at a block; `pages` exceeds a block.
    #[cold]
    #[inline(never)]
    #[place(background)]
    pub(super) fn whole_blocks(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        let (whole, rest) = ((pages / BLOCK_PAGES) as u32, pages % BLOCK_PAGES);
        let runs = blocks.extents.iter().flat_map(|stretch| self.empty_runs(stretch).map(move |run| (stretch, run)));
        let long = runs.filter(|(_, run)| run.len() >= whole);
        let holds = |stretch: Stretch, run: Stretch| {
            run.len() > whole || rest == 0 || (run.end < stretch.end && self.block(run.end).edges().0 >= rest)
        };
        // Most runs that are long enough are longer, so only a bounded number of others is
        // examined.
        let mut looks = 0;
        for (stretch, run) in long {
            if holds(stretch, run) {
                return Some(run.start as usize * BLOCK_PAGES);
            }
            looks += 1;
            if looks == MOST_ENDS {
                break;
            }
        }
        let (last, empty) = (blocks.extents.iter().next_back()?, self.free_at_end(blocks) / BLOCK_PAGES);
        (empty > whole as usize).then(|| (last.end as usize - empty) * BLOCK_PAGES)
    }
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::super::LONG_RUN;
    use super::*;
    use proptest::prelude::*;
    use std::prelude::rust_2024::*;

    proptest! {
        /// Compares the result with a scan of every page.
        #[test]
        fn the_shortest_stretch_is_found_across_blocks(
            taken in proptest::collection::vec(proptest::collection::vec((0..BLOCK_PAGES, 1..BLOCK_PAGES), 0..5), 1..7),
            first in 0u32..3,
            pages in LONG_RUN..3 * BLOCK_PAGES,
        ) {
            let mut free = vec![false; first as usize * BLOCK_PAGES];
            let mut blocks = Vec::new();
            for runs in taken {
                let mut block = Block::EMPTY;
                block.init(0..BLOCK_PAGES);
                let mut model = [true; BLOCK_PAGES];
                for (at, length) in runs {
                    let length = length.min(BLOCK_PAGES - at);
                    if model[at..at + length].iter().all(|f| *f) {
                        block.take(at, length);
                        model[at..at + length].fill(false);
                    }
                }
                free.extend(model);
                blocks.push(block);
            }
            let (mut best, mut last, mut at) = (None, None, 0);
            for run in free.chunk_by(|a, b| a == b) {
                if run[0] && run.len() >= pages {
                    if at + run.len() == free.len() {
                        last = Some(at);
                    } else if best.is_none_or(|(l, _)| run.len() < l) {
                        best = Some((run.len(), at));
                    }
                }
                at += run.len();
            }
            let found = shortest((first..).zip(&blocks), pages);
            // Of two equally long stretches inside one block, both searches take the first.
            prop_assert_eq!(found, best.map(|(_, at)| at).or(last));
        }
    }
}
