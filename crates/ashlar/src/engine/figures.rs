//! What every engine tells of a cache: its size, and what happened at it.

use crate::slab::cache::CacheSlabs;

/// Figures of a cache at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Slabs in existence.
    pub slabs: usize,
    /// Objects that those slabs can hold.
    pub objects: usize,
    /// Objects allocated and not freed. Exact while nobody allocates or frees.
    pub live: usize,
    /// Free objects in the stores of CPUs and nodes: sheaves, or whatever the engine has in their place.
    pub cached: usize,
    /// Bytes of slab space.
    pub bytes: usize,
    /// Slabs on partial lists.
    pub partial: usize,
}

/// What happened at a cache since it was created; the columns of the comparison of engines. The fast paths of the default
/// count nothing; counters of CPUs are added to without a lock, so that two threads that meet on a CPU may count as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Allocations that went beyond the fast path.
    pub alloc_slow: u64,
    /// Frees that went beyond the fast path.
    pub free_slow: u64,
    /// Locks of single CPUs taken: the stand-in for disabling interrupts.
    pub cpu_locks: u64,
    /// Locks of single slabs taken.
    pub slab_locks: u64,
    /// list_locks taken.
    pub list_locks: u64,
    /// Barn locks taken.
    pub barn_locks: u64,
    /// Locks of alien caches taken.
    pub alien_locks: u64,
    /// Zone locks taken; of no single cache, so only in [`crate::total_counts`].
    pub zone_locks: u64,
    /// How far the searches of the engine `slob` went; nothing for the others, which do not search.
    pub search: Search,
}

/// How far searches for free space went, in the engine whose allocations search: `slob`. Exact: counted under its one lock. Source: the rule of
/// the kernel's mm/slob.c, by which a page with too few free units is passed, and any other is walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Pages on the list that allocations came by, those with too few free units among them.
    pub pages: u64,
    /// Of those, the ones with enough free units, whose free blocks were walked.
    pub walked: u64,
    /// Free blocks that were looked at there.
    pub blocks: u64,
    /// Free blocks that frees went by to find the place of what is freed.
    pub free_blocks: u64,
    /// Allocations and frees that found slob_lock taken, and waited.
    pub waits: u64,
}

impl Usage {
    /// Of a cache that has `cached` free objects somewhere else than in its slabs.
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
        sum.zone_locks += self.zone_locks;
        self.search.add_to(&mut sum.search);
    }
}
