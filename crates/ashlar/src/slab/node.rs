//! What a cache has on one node, whatever its engine: partial slabs behind list_lock, and counters.

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

/// Most CPUs that count in a line of their own; more share.
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
    /// Whether it has more partial slabs than it keeps: then other nodes may take of them, by the kernel's rule.
    pub(crate) fn has_to_spare(&self, min_partial: usize) -> bool {
        self.list.lock().count > min_partial
    }

    /// Slabs on the partial list, and the free objects in them.
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

    /// Takes all empty slabs off the list, gives them back to the zone, and orders the rest. Returns the number of slabs that remain.
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

/// Makes the nodes of a cache, or starts the counts of those of an earlier cache from zero.
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
    /// Whether a list_lock is held at this moment, of any node.
    pub(crate) fn list_lock_held(&self) -> bool {
        self.nodes.iter().any(|node| node.list.raw().is_held())
    }

    /// Times that its list_locks were taken.
    pub(crate) fn list_locks_taken(&self) -> u64 {
        self.nodes.iter().map(|node| node.list.raw().taken() as u64).sum()
    }

    /// Slabs in existence.
    pub(crate) fn slab_count(&self) -> usize {
        self.nodes.iter().map(|node| node.counters.slabs()).sum()
    }

    /// What happened on its slow paths.
    pub(crate) fn slow_path_stats(&self) -> SlowPathStats {
        let mut sum = SlowPathStats::default();
        self.nodes.iter().for_each(|node| node.counters.add_to(&mut sum));
        sum
    }

    /// Gives the empty slabs of every node back and orders the partial lists. Returns the number of slabs that remain.
    pub(crate) fn trim(&self) -> usize {
        self.nodes.iter().map(Node::trim).sum()
    }
}
