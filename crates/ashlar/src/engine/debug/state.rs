//! [`DebugState`]: what the engine keeps for a cache.

use super::flags::DebugFlags;
use crate::base::sync::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, Visit};
use crate::pages::meta::meta_slice;
use crate::pages::zone::ZONE;
use crate::slab::partial::NodeList;

/// What the engine keeps for a cache beside its slabs.
pub(crate) struct DebugState {
    pub(super) flags: AtomicU8,
    /// Objects are allocated for a size that may be less than theirs.
    pub(super) sized: AtomicBool,
    /// Defects reported and repairs made.
    pub(super) errors: AtomicUsize,
    pub(super) allocs: AtomicU64,
    pub(super) frees: AtomicU64,
    /// The full slabs of each node.
    pub(super) full: &'static [NodeList],
}

impl DebugState {
    pub(super) fn new() -> Option<DebugState> {
        let full = meta_slice(ZONE.nodes(), || Some(NodeList::new()))?;
        Some(DebugState {
            flags: AtomicU8::new(0),
            sized: AtomicBool::new(false),
            errors: AtomicUsize::new(0),
            allocs: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            full,
        })
    }

    pub(crate) fn flags(&self) -> DebugFlags {
        DebugFlags::of_bits(self.flags.load(Ordering::Relaxed))
    }

    pub(super) fn is_sized(&self) -> bool {
        self.sized.load(Ordering::Relaxed)
    }

    pub(super) fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many defects were reported and how many repairs were made.
    pub(super) fn errors(&self) -> usize {
        self.errors.load(Ordering::Relaxed)
    }

    /// Visits the locks of the lists of full slabs, for a fork.
    pub(crate) fn for_each_lock(&self, visit: Visit<'_>) {
        self.full.iter().for_each(|list| visit(list.raw().word()));
    }
}
