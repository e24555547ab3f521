//! Giving free memory of the zone back to the system.
//!
//! Each node has a list of its blocks with dirty pages, the oldest first: so a purge looks at those
//! alone that are due. A block is visited each time that its stamp is as old as the caller says.
//! What was dirty at the visit before, and stayed free, goes back; what is dirty now is remembered
//! for the next one. So a page goes back after one to two of these times, whatever is freed beside
//! it meanwhile.
#![allow(unsafe_code, reason = "releases ranges of the page source")]

use core::ptr::NonNull;

use super::{MEMMAP, NO_BLOCK, NodeBlocks, PageSource, Zone};
use crate::base::sync::{Ordering, SpinLock};
use crate::base::units::{BLOCK_PAGES, PAGE_SIZE, PageIndex};
use crate::pages::block::Dirty;

/// Runs of pages that are released between two times that the zone lock is held.
const AT_ONCE: usize = 16;

/// Which pages a purge wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purge {
    /// All that are dirty.
    All,
    /// Those that were dirty already when their block was visited last, of blocks whose stamp is
    /// below this tick.
    #[cfg_attr(not(feature = "os"), expect(dead_code, reason = "ticks need a clock"))]
    Before(u32),
}

/// Where a purge of a node stands.
struct Walk {
    /// Blocks that were not visited yet.
    left: usize,
    /// The next page in the block at the head of the list.
    from: usize,
}

/// A run that was taken out of its block: first page, pages.
type Taken = (PageIndex, usize);

impl Zone {
    /// Gives free pages back to the system. Returns how many, and how many free pages are still
    /// resident.
    #[place(background)]
    pub(crate) fn purge(&self, which: Purge) -> (usize, usize) {
        let Some(source) = self.source() else { return (0, 0) };
        let (mut given, mut left) = (0, 0);
        for node in &self.node[..self.nodes()] {
            given += self.purge_node(source, node, which);
            left += node.lock().dirty_pages;
        }
        (given, left)
    }

    /// Waits until no purge has a run in hand, which is free memory that no other thread finds;
    /// true if there was one.
    pub(super) fn wait_for_purge(&self) -> bool {
        crate::base::sync::wait_while(|| self.in_hand.load(Ordering::Acquire) != 0)
    }

    /// In the child of a fork the thread that purged may be gone, and what it had in hand with it.
    pub(crate) fn after_fork_in_child(&self) {
        self.in_hand.store(0, Ordering::Relaxed);
    }

    fn purge_node(&self, source: &dyn PageSource, node: &SpinLock<NodeBlocks>, which: Purge) -> usize {
        let granule = (source.page_size() / PAGE_SIZE).max(1);
        let mut walk = Walk { left: node.lock().dirty_blocks, from: 0 };
        let mut given = 0;
        loop {
            let mut runs = [(PageIndex::NONE, 0); AT_ONCE];
            let count = self.take_dirty(&mut node.lock(), which, granule, &mut walk, &mut runs);
            if count == 0 {
                return given;
            }
            let mut clean = [false; AT_ONCE];
            for (&(page, pages), clean) in runs[..count].iter().zip(&mut clean) {
                *clean = self.release(source, page, pages);
            }
            let mut blocks = node.lock();
            for (&(page, pages), &clean) in runs[..count].iter().zip(&clean) {
                self.put_locked(&mut blocks, page, pages, !clean);
                given += if clean { pages } else { 0 };
            }
            drop(blocks);
            self.in_hand.fetch_sub(count as u32, Ordering::Release);
        }
    }

    /// Takes dirty runs out of their blocks, so that no thread can allocate them; returns how many.
    fn take_dirty(
        &self,
        blocks: &mut NodeBlocks,
        which: Purge,
        granule: usize,
        walk: &mut Walk,
        out: &mut [Taken; AT_ONCE],
    ) -> usize {
        let now = self.tick.load(Ordering::Relaxed);
        let mut count = 0;
        while count < AT_ONCE && walk.left > 0 && blocks.oldest != NO_BLOCK {
            let number = blocks.oldest;
            let block = self.block(number);
            let pages = match which {
                Purge::All => Dirty::All,
                Purge::Before(tick) if block.stamp < tick => Dirty::Aged,
                // All others are younger.
                Purge::Before(_) => break,
            };
            if let Some((at, pages)) = block.dirty_run(walk.from, granule, pages) {
                self.take_in_block(blocks, number, at, pages);
                out[count] = (PageIndex(number * BLOCK_PAGES as u32 + at as u32), pages);
                count += 1;
                walk.from = at + pages;
                // The block leaves the list with its last dirty page.
                if self.block(number).in_dirty {
                    continue;
                }
            } else {
                blocks.unlink_dirty(self, number);
                let block = self.block(number);
                if which != Purge::All {
                    block.age();
                }
                block.stamp = now;
                blocks.link_youngest(self, number);
            }
            walk.left -= 1;
            walk.from = 0;
        }
        // Before the lock is released: a thread that finds no memory behind it sees that runs are
        // away.
        self.in_hand.fetch_add(count as u32, Ordering::Relaxed);
        count
    }

    /// Gives the contents of pages back, which the caller holds; true if they read as zeros now.
    fn release(&self, source: &dyn PageSource, page: PageIndex, pages: usize) -> bool {
        let zero = NonNull::new(MEMMAP.address_of(page) as *mut u8).is_some_and(|at| {
            // SAFETY: the caller took the pages out of their blocks, so they are committed and
            // nothing uses them.
            unsafe { source.release(at, pages * PAGE_SIZE) }
        });
        if zero {
            self.release_shadow(source, page, pages);
        }
        zero
    }
}
