//! What happened on the slow paths of one cache and node. The fast paths count nothing.

use crate::sync::{AtomicU64, Ordering};

/// The counters of one node; each is written with one relaxed addition for a whole sheaf or slab.
pub(crate) struct Counters {
    pub(super) sheaf_refill: AtomicU64,
    pub(super) sheaf_flush: AtomicU64,
    pub(crate) alloc_slab: AtomicU64,
    pub(crate) free_slab: AtomicU64,
    pub(crate) order_fallback: AtomicU64,
}

impl Counters {
    pub(super) const fn new() -> Counters {
        Counters {
            sheaf_refill: AtomicU64::new(0),
            sheaf_flush: AtomicU64::new(0),
            alloc_slab: AtomicU64::new(0),
            free_slab: AtomicU64::new(0),
            order_fallback: AtomicU64::new(0),
        }
    }

    /// Starts from zero, for a new cache in an old place.
    pub(crate) fn reset(&self) {
        let all = [&self.sheaf_refill, &self.sheaf_flush, &self.alloc_slab, &self.free_slab, &self.order_fallback];
        all.into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    /// Adds this node's figures to `sum`.
    pub(crate) fn add_to(&self, sum: &mut SlowPathStats) {
        sum.sheaf_refill += self.sheaf_refill.load(Ordering::Relaxed);
        sum.sheaf_flush += self.sheaf_flush.load(Ordering::Relaxed);
        sum.alloc_slab += self.alloc_slab.load(Ordering::Relaxed);
        sum.free_slab += self.free_slab.load(Ordering::Relaxed);
        sum.order_fallback += self.order_fallback.load(Ordering::Relaxed);
    }
}

/// Counts one more.
#[inline]
pub(crate) fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

/// What happened on the slow paths of a cache since it was created; the names are the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowPathStats {
    /// Sheaves filled from slabs.
    pub sheaf_refill: u64,
    /// Batches of objects brought back to slabs.
    pub sheaf_flush: u64,
    /// Slabs taken from the page layer.
    pub alloc_slab: u64,
    /// Slabs given back to the page layer.
    pub free_slab: u64,
    /// Slabs of the smallest order, because the wanted one was refused.
    pub order_fallback: u64,
}
