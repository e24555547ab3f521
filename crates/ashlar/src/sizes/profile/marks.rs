//! Marks on the slabs that hold live samples.
//!
//! The object map marks samples of tracked caches. For an object of another cache, the head of its
//! slab counts the live samples there, and while there are any, the slot in the class words of the
//! slab is the one that leads frees by address to the slow path. So these notice the sample, and
//! frees in other slabs are as fast as ever.
//!
//! All writes happen under the lock of the table of samples, and only for samples that are in use
//! for certain, so that the slab is there. A free reads without the lock: the hand-over of the
//! object orders the mark of its own sample before that.

use crate::base::units::PageIndex;
use crate::cache::registry;
use crate::engine::{Engine, RawCache};
use crate::pages::memmap::MEMMAP;

/// Returns the slab whose head counts the samples, if `address` lies in one.
#[place(cold)]
fn slab(address: usize) -> Option<(&'static RawCache, PageIndex)> {
    registry::slab_of_address(address).filter(|(cache, _)| cache.engine == Engine::Sheaves && !cache.policy.tracked)
}

/// Marks the slab of a new sample. Returns false if it is in none.
#[place(cold)]
pub(super) fn add(address: usize) -> bool {
    let Some((cache, first)) = slab(address) else { return false };
    let head = MEMMAP.head(first);
    head.set_own(head.own().saturating_add(1));
    if head.own() == 1 {
        cache.slabs.set_slow_frees(first, true);
    }
    true
}

/// Takes back the mark of a sample that ends.
#[place(cold)]
pub(super) fn remove(address: usize) {
    let Some((cache, first)) = slab(address) else { return };
    let head = MEMMAP.head(first);
    if head.own() != 0 {
        head.set_own(head.own() - 1);
        if head.own() == 0 {
            cache.slabs.set_slow_frees(first, false);
        }
    }
}

/// Returns whether the object at `address`, which is not of a tracked cache, may be a sample.
#[place(cold)]
pub(super) fn is_marked(address: usize) -> bool {
    slab(address).is_none_or(|(_, first)| MEMMAP.head(first).own() != 0)
}
