//! The lists of a node's blocks: one by largest free run and fullness, one of blocks with dirty
//! pages, by age. The zone lock of the node guards both.

use super::{NO_BLOCK, NodeBlocks, Zone};
use crate::base::units::{BLOCK_ORDER, BLOCK_PAGES};
use crate::pages::block::LEVELS;

impl NodeBlocks {
    /// Returns the fullest block that has a free run of `order`.
    pub(super) fn pick(&self, order: u8) -> Option<u32> {
        let long_enough = !0 << (order + 1);
        let (level, runs) = self.nonempty.iter().enumerate().find(|(_, runs)| *runs & long_enough != 0)?;
        Some(self.lists[(runs & long_enough).trailing_zeros() as usize][level])
    }

    /// Returns a block, and the first page in it of `pages` free pages at any start. Examines the
    /// fullest blocks first, and only a few, because the caller can fall back to an aligned run.
    pub(super) fn pick_run(&self, zone: &Zone, pages: usize) -> Option<(u32, usize)> {
        const TRIES: usize = 16;
        // Any run of `pages` pages contains an aligned run at least a quarter as long.
        let least = (pages.ilog2() as usize).saturating_sub(1) + 1;
        let mut tries = 0;
        for level in 0..LEVELS {
            for run in least..=usize::from(BLOCK_ORDER) + 1 {
                let mut number = self.lists[run][level];
                while number != NO_BLOCK && tries < TRIES {
                    tries += 1;
                    let block = zone.block(number);
                    if block.free_count() >= pages
                        && let Some((_, first)) = block.find_run(pages, 0..BLOCK_PAGES)
                    {
                        return Some((number, first));
                    }
                    number = block.next;
                }
            }
        }
        None
    }

    pub(super) fn link(&mut self, zone: &Zone, number: u32, (run, level): (u8, u8)) {
        let head = self.lists[usize::from(run)][usize::from(level)];
        let block = zone.block(number);
        block.next = head;
        block.prev = NO_BLOCK;
        if head != NO_BLOCK {
            zone.block(head).prev = number;
        }
        self.lists[usize::from(run)][usize::from(level)] = number;
        self.nonempty[usize::from(level)] |= 1 << run;
    }

    pub(super) fn unlink(&mut self, zone: &Zone, number: u32, (run, level): (u8, u8)) {
        let (next, prev) = {
            let block = zone.block(number);
            (block.next, block.prev)
        };
        if next != NO_BLOCK {
            zone.block(next).prev = prev;
        }
        if prev != NO_BLOCK {
            zone.block(prev).next = next;
        } else {
            self.lists[usize::from(run)][usize::from(level)] = next;
            if next == NO_BLOCK {
                self.nonempty[usize::from(level)] &= !(1 << run);
            }
        }
    }

    /// Adds a block at the young end of the list of blocks with dirty pages.
    pub(super) fn link_youngest(&mut self, zone: &Zone, number: u32) {
        self.dirty_blocks += 1;
        let youngest = self.youngest;
        let block = zone.block(number);
        block.in_dirty = true;
        block.older = youngest;
        block.younger = NO_BLOCK;
        if youngest == NO_BLOCK {
            self.oldest = number;
        } else {
            zone.block(youngest).younger = number;
        }
        self.youngest = number;
    }

    /// Removes a block from that list.
    pub(super) fn unlink_dirty(&mut self, zone: &Zone, number: u32) {
        self.dirty_blocks -= 1;
        let (older, younger) = {
            let block = zone.block(number);
            block.in_dirty = false;
            (block.older, block.younger)
        };
        if older == NO_BLOCK {
            self.oldest = younger;
        } else {
            zone.block(older).younger = younger;
        }
        if younger == NO_BLOCK {
            self.youngest = older;
        } else {
            zone.block(younger).older = older;
        }
    }
}
