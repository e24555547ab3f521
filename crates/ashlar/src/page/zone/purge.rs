//! Giving free memory of the zone back to the system.
#![allow(unsafe_code, reason = "releases ranges of the page source")]

use core::ptr::NonNull;

use super::{MEMMAP, PageSource, Zone};
use crate::sync::Ordering;
use crate::units::{BLOCK_PAGES, PAGE_SIZE, PageIndex};

impl Zone {
    /// Gives back to the system what has been free since before tick `before` (everything for `u32::MAX`).
    /// Returns pages given back and free pages that are still resident.
    pub(crate) fn purge(&self, before: u32) -> (usize, usize) {
        let Some(source) = self.source() else { return (0, 0) };
        let granule = (source.page_size() / PAGE_SIZE).max(1);
        let (mut given, mut left) = (0, 0);
        for node in 0..self.nodes() {
            let (first, count) = {
                let blocks = self.node[node].lock();
                if blocks.dirty_pages == 0 {
                    continue;
                }
                (blocks.first, blocks.committed)
            };
            for number in first..first + count {
                given += self.purge_block(source, node, number, before, granule);
            }
            left += self.node[node].lock().dirty_pages;
        }
        (given, left)
    }

    /// Waits until no purge has a run in hand, which is free memory that nobody finds; true if there was one.
    pub(super) fn wait_for_purge(&self) -> bool {
        crate::sync::wait_while(|| self.in_hand.load(Ordering::Acquire) != 0)
    }

    /// In the child of a fork the thread that purged may be gone, and what it had in hand with it.
    pub(crate) fn after_fork_in_child(&self) {
        self.in_hand.store(0, Ordering::Relaxed);
    }

    fn purge_block(&self, source: &dyn PageSource, node: usize, number: u32, before: u32, granule: usize) -> usize {
        let (mut given, mut from) = (0, 0);
        loop {
            // Take one dirty run out of the block, so that nobody can allocate it meanwhile.
            let (at, count) = {
                let mut blocks = self.node[node].lock();
                let block = self.block(number);
                if before != u32::MAX && block.freed_at >= before {
                    return given;
                }
                let Some((at, count)) = block.dirty_run(from, granule) else { return given };
                // Before the lock is released: who finds no memory behind it sees that a run is away.
                self.in_hand.fetch_add(1, Ordering::Relaxed);
                let dirty = block.take(at, count);
                blocks.dirty_pages -= dirty;
                self.dirty.fetch_sub(dirty, Ordering::Relaxed);
                blocks.free_pages -= count;
                self.relist(&mut blocks, number);
                (at, count)
            };
            let page = PageIndex(number * BLOCK_PAGES as u32 + at as u32);
            let address = MEMMAP.address_of(page) as *mut u8;
            let zero = NonNull::new(address).is_some_and(|a| {
                // SAFETY: the pages were taken above, so they are committed and nobody uses them.
                unsafe { source.release(a, count * PAGE_SIZE) }
            });
            if zero {
                self.release_objects(source, page, count);
            }
            let mut blocks = self.node[node].lock();
            let stamp = self.block(number).freed_at;
            self.put_locked(&mut blocks, page, count, !zero);
            self.block(number).freed_at = stamp;
            drop(blocks);
            self.in_hand.fetch_sub(1, Ordering::Release);
            given += if zero { count } else { 0 };
            from = at + count;
        }
    }
}
