//! Statistics of the slow paths of one cache and node. The fast paths count nothing.
//!
//! Each CPU counts in a cache line of its own, up to a limit of CPUs, because a common line would
//! move between CPUs with every slab. A slab may be counted as taken on one CPU and as returned on
//! another, so only the sums mean something. A sum is exact if no CPU counts meanwhile, and
//! approximate otherwise.

use crate::base::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::percpu;

/// The counters of one node, a line for each CPU. One relaxed addition counts a whole sheaf or
/// slab.
pub(crate) struct Counters(&'static [Line]);

/// The counters of one CPU.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Line {
    sheaf_refill: AtomicU64,
    sheaf_flush: AtomicU64,
    alloc_slab: AtomicU64,
    free_slab: AtomicU64,
    order_fallback: AtomicU64,
    remote_free: AtomicU64,
    /// Capacity in objects of the slabs taken, minus that of the slabs returned; wraps around.
    objects: AtomicUsize,
}

#[cfg(all(feature = "os", not(ashlar_loom)))]
impl Counters {
    /// Where a reader outside of the process finds the counters of one CPU.
    pub(crate) const LAYOUT: crate::base::window::LineAt = {
        use core::mem::offset_of;
        crate::base::window::LineAt {
            bytes: size_of::<Line>() as u32,
            sheaf_refill: offset_of!(Line, sheaf_refill) as u32,
            sheaf_flush: offset_of!(Line, sheaf_flush) as u32,
            alloc_slab: offset_of!(Line, alloc_slab) as u32,
            free_slab: offset_of!(Line, free_slab) as u32,
            order_fallback: offset_of!(Line, order_fallback) as u32,
            remote_free: offset_of!(Line, remote_free) as u32,
            objects: offset_of!(Line, objects) as u32,
        }
    };
    /// The offset of the slice of lines.
    pub(super) const LINES: usize = core::mem::offset_of!(Counters, 0);
}

impl Counters {
    pub(super) const fn new(lines: &'static [Line]) -> Counters {
        Counters(lines)
    }

    fn here(&self) -> &Line {
        &self.0[percpu::this_cpu().0 as usize % self.0.len()]
    }

    /// Counts a sheaf that was filled from slabs.
    pub(crate) fn count_refill(&self) {
        self.here().sheaf_refill.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a batch of objects that was returned to slabs.
    pub(crate) fn count_flush(&self) {
        self.here().sheaf_flush.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts objects that another CPU or node had allocated.
    pub(super) fn count_remote(&self, objects: usize) {
        self.here().remote_free.fetch_add(objects as u64, Ordering::Relaxed);
    }

    /// Counts `slabs` slabs of the smallest order, allocated because the wanted order was refused.
    pub(crate) fn count_fallback(&self, slabs: usize) {
        self.here().order_fallback.fetch_add(slabs as u64, Ordering::Relaxed);
    }

    /// Counts `slabs` slabs, for `objects` objects, taken from the page layer. Returns how many
    /// more slabs this CPU has taken than returned.
    pub(crate) fn count_taken(&self, slabs: usize, objects: usize) -> usize {
        let line = self.here();
        line.objects.fetch_add(objects, Ordering::Relaxed);
        let taken = line.alloc_slab.fetch_add(slabs as u64, Ordering::Relaxed) + slabs as u64;
        taken.saturating_sub(line.free_slab.load(Ordering::Relaxed)) as usize
    }

    /// Counts `slabs` slabs, for `objects` objects, returned to the page layer.
    pub(super) fn count_given(&self, slabs: usize, objects: usize) {
        let line = self.here();
        line.objects.fetch_sub(objects, Ordering::Relaxed);
        line.free_slab.fetch_add(slabs as u64, Ordering::Release);
    }

    /// Returns the number of slabs.
    pub(crate) fn slabs(&self) -> usize {
        // Read the returned slabs first: each of them was counted as taken before, so the
        // sum of taken slabs includes it.
        let given: u64 = self.0.iter().map(|line| line.free_slab.load(Ordering::Acquire)).sum();
        let taken: u64 = self.0.iter().map(|line| line.alloc_slab.load(Ordering::Relaxed)).sum();
        taken.saturating_sub(given) as usize
    }

    /// Returns the number of objects that the slabs can hold.
    pub(crate) fn objects(&self) -> usize {
        let sum = self.0.iter().fold(0usize, |sum, line| sum.wrapping_add(line.objects.load(Ordering::Relaxed)));
        // A racy sum may miss a slab that was taken and include its return.
        if (sum as isize) < 0 { 0 } else { sum }
    }

    /// Resets the counters when no slab is left, for a new cache in the same place.
    pub(super) fn reset(&self) {
        for line in self.0 {
            let Line { sheaf_refill, sheaf_flush, alloc_slab, free_slab, order_fallback, remote_free, .. } = line;
            let all = [sheaf_refill, sheaf_flush, alloc_slab, free_slab, order_fallback, remote_free];
            all.into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
            line.objects.store(0, Ordering::Relaxed);
        }
    }

    /// Adds this node's counters to `sum`.
    pub(crate) fn add_to(&self, sum: &mut SlowPathStats) {
        for line in self.0 {
            sum.sheaf_refill += line.sheaf_refill.load(Ordering::Relaxed);
            sum.sheaf_flush += line.sheaf_flush.load(Ordering::Relaxed);
            sum.alloc_slab += line.alloc_slab.load(Ordering::Relaxed);
            sum.free_slab += line.free_slab.load(Ordering::Relaxed);
            sum.order_fallback += line.order_fallback.load(Ordering::Relaxed);
            sum.remote_free += line.remote_free.load(Ordering::Relaxed);
        }
    }
}

/// Statistics of the slow paths of a cache since its creation; the names are the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowPathStats {
    /// Sheaves filled from slabs.
    pub sheaf_refill: u64,
    /// Batches of objects returned to slabs.
    pub sheaf_flush: u64,
    /// Slabs taken from the page layer.
    pub alloc_slab: u64,
    /// Slabs returned to the page layer.
    pub free_slab: u64,
    /// Slabs of the smallest order, allocated because the wanted order was refused.
    pub order_fallback: u64,
    /// Objects that another CPU or another node than the freeing one had allocated. Of CPUs only in
    /// caches that keep such objects apart, where they are counted by the sheaf.
    pub remote_free: u64,
}
