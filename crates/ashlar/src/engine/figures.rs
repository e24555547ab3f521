//! The figures that every engine reports of a cache: its size, and event counts.

use crate::slab::cache::CacheSlabs;
use ashlar_macros::place;

/// Figures of a cache at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Slabs in existence.
    pub slabs: usize,
    /// Objects that those slabs can hold.
    pub objects: usize,
    /// Objects allocated and not freed. Exact while no thread allocates or frees.
    pub live: usize,
    /// Free objects held by CPUs and nodes in front of slabs: on sheaves, or the engine's
    /// counterpart.
    pub cached: usize,
    /// Bytes of slab space.
    pub bytes: usize,
    /// Slabs on partial lists.
    pub partial: usize,
}

/// Events at a cache since it was created; the columns of the comparison of engines. The fast paths
/// of the default engine count nothing. Per-CPU counters are raised without a lock, so two threads
/// on one CPU may count as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Allocations that went beyond the fast path.
    pub alloc_slow: u64,
    /// Frees that went beyond the fast path.
    pub free_slow: u64,
    /// CPU locks taken: the stand-in for disabling interrupts.
    pub cpu_locks: u64,
    /// slab_locks taken.
    pub slab_locks: u64,
    /// list_locks taken.
    pub list_locks: u64,
    /// Barn locks taken.
    pub barn_locks: u64,
    /// Alien locks taken.
    pub alien_locks: u64,
    /// Times that a list_lock or barn lock had to be waited for.
    pub lock_waits: u64,
    /// Zone locks taken. They belong to no single cache, so only [`crate::total_counts`] has them.
    pub zone_locks: u64,
    /// Search lengths of the engine `slob`; zero for all others, which do not search.
    #[doc(hidden)]
    pub search: Search,
}

/// How far searches for free space went in the engine `slob`. Exact, because they are counted under
/// its one lock. As in the kernel's mm/slob.c, a page with too few free units is skipped and any
/// other is walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Listed pages that allocations visited, including those with too few free units.
    pub pages: u64,
    /// Pages among them whose free blocks were walked.
    pub walked: u64,
    /// Free blocks visited in those pages.
    pub blocks: u64,
    /// Free blocks that frees visited to find the place of the freed units.
    pub free_blocks: u64,
    /// Allocations and frees that had to wait for slob_lock.
    pub waits: u64,
}

impl Usage {
    /// Figures of a cache that has `cached` free objects outside of its slabs.
    #[place(cold)]
    pub(crate) fn of_slabs(cache: &CacheSlabs, cached: usize) -> Usage {
        let (mut usage, mut free) = (Usage { cached, ..Usage::default() }, 0);
        for node in cache.nodes {
            let (partial, free_here) = node.partial_and_free();
            usage.partial += partial;
            free += free_here;
            usage.slabs += node.counters.slabs();
            usage.objects += node.counters.objects();
        }
        usage.live = usage.objects.saturating_sub(free).saturating_sub(cached);
        usage.bytes = usage.slabs * cache.geometry.order.bytes();
        usage
    }
}

impl Search {
    /// Adds these figures to `sum`.
    pub(crate) fn add_to(&self, sum: &mut Search) {
        sum.pages += self.pages;
        sum.walked += self.walked;
        sum.blocks += self.blocks;
        sum.free_blocks += self.free_blocks;
        sum.waits += self.waits;
    }
}

impl Counts {
    /// The list_locks of a cache; nothing else.
    #[place(cold)]
    pub(crate) fn of_lists(cache: &CacheSlabs) -> Counts {
        Counts { list_locks: cache.list_locks_taken(), lock_waits: cache.list_lock_waits(), ..Counts::default() }
    }

    /// Locks of any kind.
    pub fn locks(&self) -> u64 {
        self.cpu_locks + self.slab_locks + self.list_locks + self.barn_locks + self.alien_locks + self.zone_locks
    }

    /// Adds these figures to `sum`.
    pub(crate) fn add_to(&self, sum: &mut Counts) {
        sum.alloc_slow += self.alloc_slow;
        sum.free_slow += self.free_slow;
        sum.cpu_locks += self.cpu_locks;
        sum.slab_locks += self.slab_locks;
        sum.list_locks += self.list_locks;
        sum.barn_locks += self.barn_locks;
        sum.alien_locks += self.alien_locks;
        sum.lock_waits += self.lock_waits;
        sum.zone_locks += self.zone_locks;
        self.search.add_to(&mut sum.search);
    }
}

/// What a check of the partial slabs of caches found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Validated {
    /// Slabs that were checked.
    pub(crate) slabs: u64,
    /// Free objects in those that are sound.
    pub(crate) objects: u64,
    /// Slabs that are not.
    pub(crate) corrupt: u64,
    /// The address of the first of these.
    pub(crate) first_corrupt: Option<usize>,
}

#[cfg(feature = "os")]
#[place(cold)]
impl Validated {
    /// Adds what was found in another cache.
    pub(crate) fn add(&mut self, other: Validated) {
        self.slabs += other.slabs;
        self.objects += other.objects;
        self.corrupt += other.corrupt;
        self.first_corrupt = self.first_corrupt.or(other.first_corrupt);
    }
}
