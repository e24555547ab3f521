//! Returns free memory of the zone to the system.
//!
//! Each node has a list of its blocks with dirty pages, the oldest first, so a purge visits only
//! blocks that are due. A block is due when its stamp is older than the caller's tick. Pages that
//! were dirty at the last visit and stayed free are released. Pages that are dirty now are marked
//! for the next visit. So a page is released after one to two periods, regardless of what is freed
//! beside it.
#![allow(unsafe_code, reason = "releases ranges of the page source")]

use core::ptr::NonNull;

use super::{MEMMAP, NO_BLOCK, NodeBlocks, PageSource, Zone};
use crate::base::sync::{Ordering, SpinLock};
use crate::base::units::{BLOCK_PAGES, PAGE_SIZE, PageIndex};
use crate::pages::block::Dirty;

/// The number of runs that are released between two holds of the zone lock.
const AT_ONCE: usize = 16;

/// The pages that a purge releases.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purge {
    /// All dirty pages.
    All,
    /// In blocks with a stamp below this tick, the pages that were dirty at the last visit already.
    Before(u32),
}

/// The progress of a purge of a node.
struct Walk {
    /// The number of blocks not visited yet.
    left: usize,
    /// The next page in the block at the head of the list.
    from: usize,
}

/// A run that was taken out of its block: first page, pages.
type Taken = (PageIndex, usize);

impl Zone {
    /// Returns free pages to the system. Returns the number released, and the number of free pages
    /// that are still resident.
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

    /// Waits until no purge holds a run, because such runs are free memory that other threads do
    /// not find. Returns true if a purge held one.
    pub(super) fn wait_for_purge(&self) -> bool {
        crate::base::sync::wait_while(|| self.in_hand.load(Ordering::Acquire) != 0)
    }

    /// Forgets the runs that a purge held. In the child of a fork, the purging thread may not
    /// exist, and the runs that it held are lost.
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

    /// Takes dirty runs out of their blocks, so that no thread can allocate them. Returns their
    /// number.
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
                // All other blocks are younger.
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
        // Counted before the lock is released, so that a thread that then finds no memory sees that
        // a purge holds runs.
        self.in_hand.fetch_add(count as u32, Ordering::Relaxed);
        count
    }

    /// Releases the memory of pages that the caller holds. Returns true if they now read as zeros.
    fn release(&self, source: &dyn PageSource, page: PageIndex, pages: usize) -> bool {
        let zero = NonNull::new(MEMMAP.address_of(page) as *mut u8).is_some_and(|at| {
            // SAFETY: the caller took the pages out of their blocks, so they are committed and no
            // thread uses them.
            unsafe { source.release(at, pages * PAGE_SIZE) }
        });
        if zero {
            self.release_shadow(source, page, pages);
        }
        zero
    }
}
