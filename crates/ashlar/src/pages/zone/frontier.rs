//! The end of the zone, and the committed ends of the tables beside it.
#![allow(unsafe_code, reason = "commits ranges of the page source")]

use super::Table;
use super::extents::Stretch;
use crate::base::source::Refusal;
use crate::base::units::{MAX_NODES, align_up};
use crate::pages::layout::Supply;

/// Tables are committed for multiples of this many blocks, if the system has the memory.
pub(super) const TABLE_BLOCKS: usize = 4;

/// The end of the zone. Guarded by the growth lock.
pub(super) struct Frontier {
    /// The first block number not used yet. Lower blocks belong to a node, or other mappings occupy
    /// them.
    pub(super) next: u32,
    /// Blocks that there can be.
    pub(super) limit: u32,
    /// The committed end of each table.
    pub(super) committed: [usize; Table::ALL.len()],
    /// The committed end of the shadow.
    pub(super) shadow_committed: usize,
    /// The block numbers that each node has set aside, if there are several nodes.
    pub(super) set_aside: [Stretch; MAX_NODES],
}

impl Frontier {
    pub(super) const NEW: Frontier = Frontier {
        next: 0,
        limit: 0,
        committed: [0; Table::ALL.len()],
        shadow_committed: 0,
        set_aside: [Stretch { start: 0, end: 0 }; MAX_NODES],
    };

    /// Blocks that there can be.
    pub(super) fn limit(&self) -> usize {
        self.limit as usize
    }
}

/// A part of a table, in bytes from its start.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// Where the entries begin that are about to be used. If another mapping is in the way of those
    /// before, they stay without memory.
    pub(super) from: usize,
    /// Where they end.
    pub(super) need: usize,
    /// How far the table is better committed.
    pub(super) good: usize,
}

/// Commits a table further, from `done` up to `good`. If that is refused, it commits less: up to
/// `need`, or the part alone.
///
/// # Safety
/// As for [`Supply::commit`], for the range behind `done`.
#[inline(never)]
pub(super) unsafe fn commit_up_to(supply: Supply, start: usize, done: &mut usize, part: Part) -> Result<(), Refusal> {
    let page = supply.source().page_size();
    let [need, good] = [part.need, part.good.max(part.need)].map(|bytes| align_up(start + bytes, page));
    if need <= *done {
        return Ok(());
    }
    // SAFETY: the caller keeps the same contract.
    if unsafe { supply.commit(*done, good) }.is_ok() {
        *done = good;
        return Ok(());
    }
    // Only what is in the way of the table is left out.
    let behind = (*done).max((start + part.from) & !(page - 1));
    // SAFETY: the caller keeps the same contract.
    unsafe { commit_less(supply, done, [(*done, need), (behind, good), (behind, need)]) }
}

/// Commits the first of several ranges that the system gives.
///
/// # Safety
/// As for [`Supply::commit`], for each range.
#[cold]
#[inline(never)]
#[place(background)]
unsafe fn commit_less(supply: Supply, done: &mut usize, ranges: [(usize, usize); 3]) -> Result<(), Refusal> {
    let mut refusal = Ok(());
    for (from, end) in ranges {
        // SAFETY: the caller keeps the same contract.
        refusal = unsafe { supply.commit(from, end) };
        if refusal.is_ok() {
            *done = end;
            break;
        }
    }
    refusal
}
