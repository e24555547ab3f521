//! The slabs of a cache on one node, for every engine: the partial list behind list_lock, and
//! counters.

use super::cache::CacheSlabs;
use super::counters::{Counters, Line, SlowPathStats};
use super::partial::{Heads, NodeList};
use crate::base::sync::{Ordering, Visit};
use crate::base::units::PageIndex;
use crate::pages::head::PageHead;
use crate::pages::memmap::{MEMMAP, MemMap};
use crate::pages::meta::meta_slice;
use crate::pages::zone::ZONE;
use crate::percpu::area::PERCPU;
use crate::slab::state::SlabState;

/// Most CPUs with a line of counters of their own; more CPUs share lines.
const MAX_LINES: usize = 16;

impl Heads for MemMap {
    #[inline]
    fn head(&self, page: PageIndex) -> &PageHead {
        MemMap::head(self, page)
    }
}

/// The slabs of one cache on one node.
pub(crate) struct Node {
    pub(crate) list: NodeList,
    pub(crate) counters: Counters,
}

impl Node {
    /// Returns whether there are more partial slabs than the node keeps. Then other nodes may take
    /// from them, by the kernel's rule.
    pub(crate) fn has_to_spare(&self, min_partial: usize) -> bool {
        self.list.lock().count > min_partial
    }

    /// Returns the number of slabs on the partial list, and of free objects in them.
    pub(crate) fn partial_and_free(&self) -> (usize, usize) {
        let list = self.list.lock();
        let mut free = 0;
        let mut page = list.first();
        while page != PageIndex::NONE {
            let head = MEMMAP.head(page);
            free += usize::from(head.objects() - SlabState(head.state.load(Ordering::Relaxed)).inuse());
            page = head.next();
        }
        (list.count, free)
    }

    /// Returns all empty slabs of the list to the zone and sorts the rest. Returns the number of
    /// slabs that remain.
    pub(crate) fn trim(&self) -> usize {
        loop {
            let mut empty = [PageIndex::NONE; 16];
            let count = self.list.take_empty(&MEMMAP, &mut empty);
            super::discard::discard(self, &empty[..count]);
            if count < empty.len() {
                break;
            }
        }
        self.list.lock().promote_fullest(&MEMMAP);
        self.counters.slabs()
    }
}

/// Makes the nodes of a cache. If an earlier cache left nodes in this place, resets their counters.
pub(crate) fn open(nodes: &mut &'static [Node]) -> Option<()> {
    if nodes.is_empty() {
        let cpus = PERCPU.cpus.load(Ordering::Relaxed) as usize;
        *nodes = meta_slice(ZONE.nodes(), || {
            let lines = meta_slice(cpus.clamp(1, MAX_LINES), || Some(Line::default()))?;
            Some(Node { list: NodeList::new(), counters: Counters::new(lines) })
        })?;
    }
    for node in *nodes {
        node.counters.reset();
        node.list.raw().reset_taken();
    }
    Some(())
}

/// Visits the list_locks of nodes, for a fork.
pub(crate) fn for_each_lock(nodes: &[Node], visit: Visit<'_>) {
    nodes.iter().for_each(|node| visit(node.list.raw().word()));
}

impl CacheSlabs {
    /// Returns whether the list_lock of any node is held at this moment.
    pub(crate) fn list_lock_held(&self) -> bool {
        self.nodes.iter().any(|node| node.list.raw().is_held())
    }

    /// Returns how often the list_locks have been taken.
    pub(crate) fn list_locks_taken(&self) -> u64 {
        self.nodes.iter().map(|node| node.list.raw().taken() as u64).sum()
    }

    /// Returns the number of slabs.
    pub(crate) fn slab_count(&self) -> usize {
        self.nodes.iter().map(|node| node.counters.slabs()).sum()
    }

    /// Returns the statistics of the slow paths, summed over the nodes.
    pub(crate) fn slow_path_stats(&self) -> SlowPathStats {
        let mut sum = SlowPathStats::default();
        self.nodes.iter().for_each(|node| node.counters.add_to(&mut sum));
        sum
    }

    /// Returns the empty slabs of every node to the zone and sorts the partial lists. Returns the
    /// number of slabs that remain.
    pub(crate) fn trim(&self) -> usize {
        self.nodes.iter().map(Node::trim).sum()
    }
}
