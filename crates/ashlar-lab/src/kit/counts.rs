//! What an allocator counts of its own work, for one operation.

use serde::{Deserialize, Serialize};

/// What a system counts, for one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Locks taken, of any kind.
    pub(crate) locks: f64,
    /// Operations that went beyond the fast path.
    pub(crate) slow: f64,
    /// How far searches went, of a system that searches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) search: Option<Search>,
}

/// How far the searches of `slob` went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Search {
    /// Pages that one allocation came by.
    pub(crate) pages: f64,
    /// Of those, the ones whose free blocks it went through.
    pub(crate) walked: f64,
    /// Free blocks that one allocation looked at.
    pub(crate) blocks: f64,
    /// Free blocks that one free went by.
    pub(crate) free_blocks: f64,
    /// Share of all calls that waited for slob_lock.
    pub(crate) waits: f64,
}

impl Counts {
    /// What was counted between two looks, in which there were so many operations.
    pub(crate) fn between(before: &ashlar::Counts, after: &ashlar::Counts, operations: f64) -> Self {
        let of = |field: &dyn Fn(&ashlar::Counts) -> u64| field(after).wrapping_sub(field(before)) as f64;
        let (allocs, frees) = (of(&|c| c.alloc_slow), of(&|c| c.free_slow));
        // Every call of a system that searches is counted as a slow one.
        let search = (after.search != ashlar::Search::default()).then(|| Search {
            pages: of(&|c| c.search.pages) / allocs.max(1.0),
            walked: of(&|c| c.search.walked) / allocs.max(1.0),
            blocks: of(&|c| c.search.blocks) / allocs.max(1.0),
            free_blocks: of(&|c| c.search.free_blocks) / frees.max(1.0),
            waits: of(&|c| c.search.waits) / (allocs + frees).max(1.0),
        });
        Self { locks: of(&ashlar::Counts::locks) / operations, slow: (allocs + frees) / operations, search }
    }

    /// Mean of the counts of some turns, to four places; `None` for none.
    pub(crate) fn mean(counts: &[Self]) -> Option<Self> {
        let searches: Vec<Search> = counts.iter().filter_map(|counts| counts.search).collect();
        let search = (!searches.is_empty()).then(|| Search {
            pages: mean(&searches, |s| s.pages),
            walked: mean(&searches, |s| s.walked),
            blocks: mean(&searches, |s| s.blocks),
            free_blocks: mean(&searches, |s| s.free_blocks),
            waits: mean(&searches, |s| s.waits),
        });
        (!counts.is_empty()).then(|| Self { locks: mean(counts, |c| c.locks), slow: mean(counts, |c| c.slow), search })
    }
}

fn mean<T>(of: &[T], field: fn(&T) -> f64) -> f64 {
    let mean = of.iter().map(field).sum::<f64>() / of.len() as f64;
    (mean * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_for_one_operation_and_searches_for_one_allocation() {
        let search = ashlar::Search { pages: 5, walked: 3, blocks: 4, free_blocks: 7, waits: 1 };
        let before =
            ashlar::Counts { alloc_slow: 10, free_slow: 4, list_locks: 14, search, ..ashlar::Counts::default() };
        let search = ashlar::Search { pages: 25, walked: 13, blocks: 44, free_blocks: 12, waits: 4 };
        let after =
            ashlar::Counts { alloc_slow: 14, free_slow: 6, list_locks: 20, search, ..ashlar::Counts::default() };
        let counts = Counts::between(&before, &after, 12.0);
        let search = Search { pages: 5.0, walked: 2.5, blocks: 10.0, free_blocks: 2.5, waits: 0.5 };
        assert_eq!(counts, Counts { locks: 0.5, slow: 0.5, search: Some(search) });
        assert_eq!(Counts::mean(&[counts, Counts { locks: 1.5, ..counts }]), Some(Counts { locks: 1.0, ..counts }));
        assert_eq!(Counts::mean(&[]), None);
        // Who does not search says nothing of it.
        let none = ashlar::Counts { alloc_slow: 4, ..ashlar::Counts::default() };
        assert_eq!(Counts::between(&ashlar::Counts::default(), &none, 4.0).search, None);
    }
}
