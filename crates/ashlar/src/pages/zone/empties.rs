//! The table of empty blocks: a bit for each block of which all pages are free.
//!
//! A search for several whole blocks reads 64 of them at a time, so it costs little in a zone of
//! many GiB. The bits of one word belong to blocks of one node: nodes get their numbers in
//! multiples of 64.

use super::extents::Stretch;
use super::{Table, Zone};
use crate::base::sync::{AtomicU64, Ordering};

impl Zone {
    /// The word that has a block's bit.
    fn empties(&self, number: u32) -> &AtomicU64 {
        let table = self.tables[Table::Empties as usize].load(Ordering::Relaxed) as *const AtomicU64;
        // SAFETY: the table is committed for every block that a node has.
        unsafe { &*table.add(number as usize / 64) }
    }

    /// Notes that a block is empty now, or is no more. The caller holds the zone lock.
    pub(super) fn note_empty(&self, number: u32, empty: bool) {
        let word = self.empties(number);
        let bit = 1 << (number % 64);
        let bits = word.load(Ordering::Relaxed);
        word.store(if empty { bits | bit } else { bits & !bit }, Ordering::Relaxed);
    }

    /// The runs of empty blocks in a stretch, by rising numbers. The caller holds the zone lock.
    pub(super) fn empty_runs(&self, stretch: Stretch) -> impl Iterator<Item = Stretch> + '_ {
        let mut at = stretch.start;
        core::iter::from_fn(move || {
            let start = self.next_with(at, stretch.end, true)?;
            let end = self.next_with(start, stretch.end, false).unwrap_or(stretch.end);
            at = end;
            Some(Stretch { start, end })
        })
    }

    /// How many blocks at the end of a stretch are empty. The caller holds the zone lock.
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

    /// The first block in `from..to` that is empty, or the first that is not.
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
