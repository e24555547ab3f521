//! Counts of a cache whose objects share pages with those of other caches.
//!
//! A shared page does not record which cache its objects belong to. So each cache has a tally for
//! each node. Every allocation and free bumps it, by a load and a store, under the lock that it
//! holds anyway.

use super::{Counts, Search};
use crate::base::sync::{AtomicUsize, Ordering, bump};
use crate::pages::meta::meta_slice;
use crate::pages::zone::ZONE;

/// Counts of one cache and node, written under the lock of the object's page.
#[derive(Default)]
pub(crate) struct Tally {
    allocs: AtomicUsize,
    frees: AtomicUsize,
    /// In the order of [`parts`].
    search: [AtomicUsize; 5],
}

fn parts(search: &Search) -> [u64; 5] {
    [search.pages, search.walked, search.blocks, search.free_blocks, search.waits]
}

impl Tally {
    /// Where a reader outside of the process finds the counts.
    #[cfg(feature = "os")]
    pub(crate) const LAYOUT: crate::base::window::TallyAt = crate::base::window::TallyAt {
        bytes: size_of::<Tally>() as u32,
        allocs: core::mem::offset_of!(Tally, allocs) as u32,
        frees: core::mem::offset_of!(Tally, frees) as u32,
    };

    /// Counts an allocation; the caller holds the lock.
    #[inline]
    pub(crate) fn count_alloc(&self) {
        bump(&self.allocs);
    }

    /// Counts a free; the caller holds the lock.
    #[inline]
    pub(crate) fn count_free(&self) {
        bump(&self.frees);
    }

    /// Adds the search lengths of one call; the caller holds the lock.
    pub(crate) fn count_search(&self, search: &Search) {
        for (sum, part) in self.search.iter().zip(parts(search)) {
            sum.store(sum.load(Ordering::Relaxed).wrapping_add(part as usize), Ordering::Relaxed);
        }
    }

    fn search(&self) -> Search {
        let [pages, walked, blocks, free_blocks, waits] =
            core::array::from_fn(|part| self.search[part].load(Ordering::Relaxed) as u64);
        Search { pages, walked, blocks, free_blocks, waits }
    }
}

/// Makes the tallies of a cache, or resets those of an earlier cache.
pub(crate) fn open(tallies: &mut &'static [Tally]) -> Option<()> {
    if tallies.is_empty() {
        *tallies = meta_slice(ZONE.nodes(), || Some(Tally::default()))?;
    }
    for tally in *tallies {
        tally.allocs.store(0, Ordering::Relaxed);
        tally.frees.store(0, Ordering::Relaxed);
        tally.search.iter().for_each(|part| part.store(0, Ordering::Relaxed));
    }
    Some(())
}

/// Returns allocations less frees. Exact while no thread allocates or frees. Negative where objects
/// of other caches were freed here.
pub(crate) fn balance(tallies: &[Tally]) -> isize {
    // Read frees first: what is freed between the two loads was allocated before.
    let frees = tallies.iter().fold(0, |sum: usize, tally| sum.wrapping_add(tally.frees.load(Ordering::Acquire)));
    let allocs = tallies.iter().fold(0, |sum: usize, tally| sum.wrapping_add(tally.allocs.load(Ordering::Acquire)));
    allocs.wrapping_sub(frees) as isize
}

/// Returns the number of live objects: the balance, or 0 if that is negative.
pub(crate) fn live(tallies: &[Tally]) -> usize {
    balance(tallies).max(0) as usize
}

/// Adds the counts of `of` to `to`; the caller holds the lock of both.
pub(crate) fn add(to: &Tally, of: &Tally) {
    let move_on = |to: &AtomicUsize, of: &AtomicUsize| {
        to.store(to.load(Ordering::Relaxed).wrapping_add(of.load(Ordering::Relaxed)), Ordering::Relaxed);
    };
    move_on(&to.allocs, &of.allocs);
    move_on(&to.frees, &of.frees);
}

/// The figures of [`super::counts`]: there is no fast path, and every call takes one lock.
pub(crate) fn counts(tallies: &[Tally]) -> Counts {
    let mut sum = Counts::default();
    for tally in tallies {
        sum.alloc_slow += tally.allocs.load(Ordering::Relaxed) as u64;
        sum.free_slow += tally.frees.load(Ordering::Relaxed) as u64;
        tally.search().add_to(&mut sum.search);
    }
    sum.list_locks = sum.alloc_slow + sum.free_slow;
    sum
}
