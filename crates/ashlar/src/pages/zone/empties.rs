//! The table of empty blocks: one bit for each block, set if all its pages are free.
//!
//! A search for several whole blocks reads 64 of them at a time, so it is cheap in a zone of many
//! GiB. The zone lock of a block's node guards its bit. In a small zone the blocks of one word may
//! belong to several nodes, so words are changed by atomic operations; a search skips the bits
//! outside of its stretch.

use super::extents::Stretch;
use super::{Table, Zone};
use crate::base::sync::{AtomicU64, Ordering};

impl Zone {
    /// Returns the word with the bit of a block.
    fn empties(&self, number: u32) -> &AtomicU64 {
        let table = self.tables[Table::Empties as usize].load(Ordering::Relaxed) as *const AtomicU64;
        // SAFETY: the table is committed for every block of a node.
        unsafe { &*table.add(number as usize / 64) }
    }

    /// Records whether a block is empty. The caller holds the zone lock.
    pub(super) fn note_empty(&self, number: u32, empty: bool) {
        let word = self.empties(number);
        let bit = 1 << (number % 64);
        if empty {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Returns the runs of empty blocks in a stretch, in ascending order. The caller holds the zone
    /// lock.
    pub(super) fn empty_runs(&self, stretch: Stretch) -> impl Iterator<Item = Stretch> + '_ {
        let mut at = stretch.start;
        core::iter::from_fn(move || {
            let start = self.next_with(at, stretch.end, true)?;
            let end = self.next_with(start, stretch.end, false).unwrap_or(stretch.end);
            at = end;
            Some(Stretch { start, end })
        })
    }

    /// Returns the number of empty blocks at the end of a stretch. The caller holds the zone lock.
    pub(super) fn empty_at_end(&self, stretch: Stretch) -> u32 {
        let mut end = stretch.end;
        while end > stretch.start {
            let last = end - 1;
            let full = !self.empties(last).load(Ordering::Relaxed) << (63 - last % 64);
            if full != 0 {
                end = (end - full.leading_zeros()).max(stretch.start);
                break;
            }
            end = last - last % 64;
        }
        stretch.end - end.max(stretch.start)
    }

    /// Returns the first block in `from..to` whose bit equals `empty`.
    fn next_with(&self, from: u32, to: u32, empty: bool) -> Option<u32> {
        let mut at = from;
        while at < to {
            let bits = self.empties(at).load(Ordering::Relaxed);
            let found = (if empty { bits } else { !bits }) & (!0 << (at % 64));
            if found != 0 {
                return Some(at - at % 64 + found.trailing_zeros()).filter(|&number| number < to);
            }
            at = at - at % 64 + 64;
        }
        None
    }
}
