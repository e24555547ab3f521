//! The end of the zone, and the committed ends of the tables beside it.
#![allow(unsafe_code, reason = "commits ranges of the page source")]

use super::Table;
use super::extents::Stretch;
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

    /// Returns the number of blocks that tables must have entries for.
    pub(super) fn blocks(&self) -> usize {
        self.next as usize
    }

    /// Blocks that there can be.
    pub(super) fn limit(&self) -> usize {
        self.limit as usize
    }
}

/// Commits a table further: from `done` up to `good` bytes after `start`, or up to `need` if that
/// is refused.
///
/// # Safety
/// As for [`Supply::commit`], for the range behind `done`.
#[inline(never)]
pub(super) unsafe fn commit_up_to(
    supply: Supply,
    start: usize,
    done: &mut usize,
    need: usize,
    good: usize,
) -> Option<()> {
    let page = supply.source().page_size();
    let [need, good] = [need, good.max(need)].map(|bytes| align_up(start + bytes, page));
    if need <= *done {
        return Some(());
    }
    // SAFETY: the caller keeps the same contract.
    let reached = [good, need].into_iter().find(|&end| unsafe { supply.commit(*done, end) }.is_ok())?;
    *done = reached;
    Some(())
}
