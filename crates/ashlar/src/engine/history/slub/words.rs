//! Changes of a slab's words that both ways to protect them share: see [`slabs`](super::slabs).

use crate::base::sync::Ordering;
use crate::base::units::PageIndex;
use crate::pages::head::PageHead;
use crate::slab::partial::{Heads, Partial};
use crate::slab::state::SlabState;

/// The fate of a slab that its CPU gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thawed {
    Kept,
    /// It is empty and its node has enough empty slabs: the caller gives its pages back.
    Discard,
}

pub(super) fn load(head: &PageHead) -> SlabState {
    SlabState(head.state.load(Ordering::Acquire))
}

pub(super) fn swap(head: &PageHead, old: SlabState, new: SlabState) -> Result<(), SlabState> {
    let swapped = head.state.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire);
    swapped.map(|_| ()).map_err(SlabState)
}

/// Waits for a slab_lock.
#[cfg(not(ashlar_loom))]
pub(super) fn wait(waited: &mut u32) {
    *waited = waited.saturating_add(1);
    crate::base::sync::relax(*waited);
}
#[cfg(ashlar_loom)]
pub(super) fn wait(_waited: &mut u32) {
    loom::thread::yield_now();
}

/// Lists or discards a slab that was thawed and has free objects.
#[place(cold)]
pub(super) fn settle(
    list: &mut Partial,
    heads: &impl Heads,
    page: PageIndex,
    empty: bool,
    hot: bool,
    min_partial: usize,
) -> Thawed {
    if empty {
        // Empty slabs go behind partly used ones, so that those are filled first.
        if list.count >= min_partial {
            return Thawed::Discard;
        }
        list.push_back(heads, page);
    } else if hot {
        list.push_front(heads, page);
    } else {
        list.push_back(heads, page);
    }
    Thawed::Kept
}
