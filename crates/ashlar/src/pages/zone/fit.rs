//! Where long runs go: into the shortest stretch of free pages that holds them, whichever blocks it
//! lies in.
//!
//! The lists of [`super::lists`] know a block by the largest run inside it, so what they find never
//! crosses the border of a block. For slabs and short runs that is right: they are many, and keep
//! to the fullest blocks. A large object that keeps to one block, though, leaves a rest at its end
//! which the next cannot use, and memory grows by a quarter. So the blocks themselves are looked at
//! here, from the lowest address on. That costs some nanoseconds a block, beside the filling of 64
//! KiB and more. In a zone of many blocks only some are looked at: the first ones, those that the
//! lists offer, and the ends of runs of empty blocks.
//!
//! The stretch at the end comes last, however well it fits: most of it was never used, and what is
//! taken from it is memory that was not resident before.

use super::extents::Stretch;
use super::{NodeBlocks, Zone};
use crate::base::units::BLOCK_PAGES;
use crate::pages::block::Block;

/// Blocks that are looked at one by one.
const MOST_BLOCKS: u32 = 256;
/// Ends of runs of empty blocks that are looked at.
const MOST_ENDS: usize = 64;

/// The shortest of the stretches of at least `pages` pages that it is told of.
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

/// The first page of the shortest stretch of free pages that holds `pages` pages, in these blocks,
/// with rising numbers; the stretch up to the end of the last one if there is no other.
fn shortest<'a>(blocks: impl Iterator<Item = (u32, &'a Block)>, pages: usize) -> Option<usize> {
    // Any run of so many pages has an aligned one inside that is a quarter as long, or longer.
    let least = (pages.ilog2() as u8).saturating_sub(1) + 1;
    let mut found = Shortest::of(pages);
    // The stretch that reaches up to `end`, the end of the block before the one in hand.
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
    /// The first page of the shortest stretch of free pages that holds `pages` of them.
    pub(super) fn fit(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        if blocks.extents.blocks() > MOST_BLOCKS {
            return self.fit_in_many(blocks, pages);
        }
        self.shortest(blocks, pages)
    }

    /// [`Self::fit`] in more blocks than it would look at.
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

    /// [`shortest`] of the node's first [`MOST_BLOCKS`].
    #[inline(never)]
    fn shortest(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        let some = blocks.extents.numbers().take(MOST_BLOCKS as usize).map(|number| (number, &*self.block(number)));
        shortest(some, pages)
    }

    /// [`Self::fit`] for more than a block, by runs of empty blocks and what is free before and
    /// behind them.
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

    /// The first page of the free pages at the end of the node's last stretch, if there are so
    /// many.
    fn fit_at_end(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        let free = self.free_at_end(blocks);
        let end = blocks.extents.iter().next_back()?.end as usize * BLOCK_PAGES;
        (free >= pages).then(|| end - free)
    }

    /// Free pages at the end of the node's last stretch.
    pub(super) fn free_at_end(&self, blocks: &NodeBlocks) -> usize {
        let Some(last) = blocks.extents.iter().next_back() else { return 0 };
        let empty = self.empty_at_end(last);
        let from = last.end - empty;
        let before = if from > last.start { self.block(from - 1).edges().1 } else { 0 };
        empty as usize * BLOCK_PAGES + before
    }

    /// The first page of `pages` free pages, more than a block has, from a block's start on.
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
        // Most runs that are long enough are longer: looks at what is behind the others are
        // bounded.
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
        /// Against a look at every page.
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
            // Of two inside one block that are as long the first is taken, as here.
            prop_assert_eq!(found, best.map(|(_, at)| at).or(last));
        }
    }
}
