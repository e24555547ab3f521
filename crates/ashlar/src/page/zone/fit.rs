//! Where long runs go: into the shortest stretch of free pages that holds them, whichever blocks it lies in.
//!
//! The lists of [`super::lists`] know a block by the largest run inside it, so what they find never crosses the border of a block. For
//! slabs and short runs that is right: they are many, and keep to the fullest blocks. A large object that keeps to one block, though,
//! leaves a rest at its end which the next cannot use, and memory grows by a quarter. So the blocks themselves are looked at here, from
//! the lowest address on. That costs some nanoseconds a block, beside the filling of 64 KiB and more.
//!
//! The stretch at the end comes last, however well it fits: most of it was never used, and what is taken from it is memory that was not
//! resident before.

use super::{NodeBlocks, Zone};
use crate::page::block::Block;
use crate::units::BLOCK_PAGES;

/// Runs of so many pages and more are long: 64 KiB.
pub(super) const LONG_RUN: usize = 16;
/// Blocks that are looked at for a run that fits into one; the lists know the others.
const MOST_BLOCKS: u32 = 256;

/// The first page of the shortest stretch of free pages that holds `pages` pages, in blocks that are neighbours, with their numbers; the
/// last of them if there is no other.
fn shortest<'a>(blocks: impl Iterator<Item = (u32, &'a Block)>, pages: usize) -> Option<usize> {
    // Any run of so many pages has an aligned one inside that is a quarter as long, or longer.
    let least = (pages.ilog2() as u8).saturating_sub(1) + 1;
    let mut best: Option<(usize, usize)> = None;
    let mut consider = |length: usize, first: usize| {
        if length >= pages && best.is_none_or(|(l, _)| length < l) {
            best = Some((length, first));
        }
    };
    // The stretch that reaches up to the block in hand.
    let (mut open, mut end) = (0, 0);
    for (number, block) in blocks {
        let start = number as usize * BLOCK_PAGES;
        end = start + BLOCK_PAGES;
        if block.free_count() == BLOCK_PAGES {
            open += BLOCK_PAGES;
            continue;
        }
        let (head, tail) = block.edges();
        consider(open + head, start - open);
        if block.max_order >= least
            && let Some((length, at)) = block.find_run(pages, head..BLOCK_PAGES - tail)
        {
            consider(length, start + at);
        }
        open = tail;
    }
    let last = (open >= pages).then(|| end - open);
    best.map(|(_, first)| first).or(last)
}

impl Zone {
    /// The first page of the shortest stretch of free pages that holds `pages` of them.
    pub(super) fn fit(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        let most = if pages > BLOCK_PAGES { blocks.committed } else { blocks.committed.min(MOST_BLOCKS) };
        let found = self.fit_in(blocks.first..blocks.first + most, pages);
        if found.is_some() || most == blocks.committed {
            return found;
        }
        let (number, first) = blocks.pick_run(self, pages)?;
        Some(number as usize * BLOCK_PAGES + first)
    }

    fn fit_in(&self, numbers: core::ops::Range<u32>, pages: usize) -> Option<usize> {
        shortest(numbers.map(|number| (number, &*self.block(number))), pages)
    }

    /// The first page of `pages` free pages at the end of the node's committed part, after `grow` made as many blocks more as they need
    /// beside those that are free there.
    pub(super) fn fit_at_end(
        &self,
        blocks: &mut NodeBlocks,
        pages: usize,
        grow: impl FnOnce(&mut NodeBlocks, usize) -> Option<()>,
    ) -> Option<usize> {
        let mut from = blocks.first + blocks.committed;
        let mut free = 0;
        while from > blocks.first {
            from -= 1;
            let block = self.block(from);
            free += block.edges().1;
            if block.free_count() < BLOCK_PAGES {
                break;
            }
        }
        if free < pages {
            grow(blocks, (pages - free).div_ceil(BLOCK_PAGES))?;
        }
        self.fit_in(from..blocks.first + blocks.committed, pages)
    }
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
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
