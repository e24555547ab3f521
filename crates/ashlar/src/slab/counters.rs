//! What happened on the slow paths of one cache and node. The fast paths count nothing.
//!
//! Each CPU counts in a cache line of its own, up to a limit of CPUs: a line for all of them would move from CPU to CPU
//! with every slab. So a slab may be counted as taken on one CPU and as given back on another, and only sums mean something.
//! A sum that is taken while others count is a racy look; it is exact when nobody does.

use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::percpu;

/// The counters of one node, a line for each CPU; each is written with one relaxed addition for a whole sheaf or slab.
pub(crate) struct Counters(&'static [Line]);

/// What one CPU counted.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Line {
    sheaf_refill: AtomicU64,
    sheaf_flush: AtomicU64,
    alloc_slab: AtomicU64,
    free_slab: AtomicU64,
    order_fallback: AtomicU64,
    /// Places for objects in the slabs taken, less those in the slabs given back; wraps around.
    objects: AtomicUsize,
}

impl Counters {
    pub(super) const fn new(lines: &'static [Line]) -> Counters {
        Counters(lines)
    }

    fn here(&self) -> &Line {
        &self.0[percpu::this_cpu().0 as usize % self.0.len()]
    }

    /// A sheaf was filled from slabs.
    pub(crate) fn count_refill(&self) {
        self.here().sheaf_refill.fetch_add(1, Ordering::Relaxed);
    }

    /// A batch of objects went back to slabs.
    pub(super) fn count_flush(&self) {
        self.here().sheaf_flush.fetch_add(1, Ordering::Relaxed);
    }

    /// `slabs` slabs of the smallest order were had, because the wanted one was refused.
    pub(crate) fn count_fallback(&self, slabs: usize) {
        self.here().order_fallback.fetch_add(slabs as u64, Ordering::Relaxed);
    }

    /// `slabs` slabs with `objects` places came from the page layer. How many more this CPU took than it gave back.
    pub(crate) fn count_taken(&self, slabs: usize, objects: usize) -> usize {
        let line = self.here();
        line.objects.fetch_add(objects, Ordering::Relaxed);
        let taken = line.alloc_slab.fetch_add(slabs as u64, Ordering::Relaxed) + slabs as u64;
        taken.saturating_sub(line.free_slab.load(Ordering::Relaxed)) as usize
    }

    /// `slabs` slabs with `objects` places went back to the page layer.
    pub(super) fn count_given(&self, slabs: usize, objects: usize) {
        let line = self.here();
        line.objects.fetch_sub(objects, Ordering::Relaxed);
        line.free_slab.fetch_add(slabs as u64, Ordering::Release);
    }

    /// Slabs in existence.
    pub(crate) fn slabs(&self) -> usize {
        // Those given back first: who is counted there was taken before.
        let given: u64 = self.0.iter().map(|line| line.free_slab.load(Ordering::Acquire)).sum();
        let taken: u64 = self.0.iter().map(|line| line.alloc_slab.load(Ordering::Relaxed)).sum();
        taken.saturating_sub(given) as usize
    }

    /// Places for objects in those slabs.
    pub(crate) fn objects(&self) -> usize {
        let sum = self.0.iter().fold(0usize, |sum, line| sum.wrapping_add(line.objects.load(Ordering::Relaxed)));
        // A look in the middle of things may miss who came and see who went.
        if (sum as isize) < 0 { 0 } else { sum }
    }

    /// Starts from zero, for a new cache in an old place, when no slab is left.
    pub(super) fn reset(&self) {
        for line in self.0 {
            let all = [&line.sheaf_refill, &line.sheaf_flush, &line.alloc_slab, &line.free_slab, &line.order_fallback];
            all.into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
            line.objects.store(0, Ordering::Relaxed);
        }
    }

    /// Adds this node's figures to `sum`.
    pub(crate) fn add_to(&self, sum: &mut SlowPathStats) {
        for line in self.0 {
            sum.sheaf_refill += line.sheaf_refill.load(Ordering::Relaxed);
            sum.sheaf_flush += line.sheaf_flush.load(Ordering::Relaxed);
            sum.alloc_slab += line.alloc_slab.load(Ordering::Relaxed);
            sum.free_slab += line.free_slab.load(Ordering::Relaxed);
            sum.order_fallback += line.order_fallback.load(Ordering::Relaxed);
        }
    }
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
