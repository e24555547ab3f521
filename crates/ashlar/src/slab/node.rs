//! The slabs of a cache on one node, for every engine: partial lists behind list_locks, and
//! counters.
//!
//! A node has one partial list for each CPU, up to [`MAX_LISTS`]. A slab stands on the list of the
//! CPU that opened it, whichever CPU frees its objects, so each CPU refills from slabs of its own:
//! see `engine::sheaves::refill`. Caches whose slabs are not kept by CPU use the first list alone.

use super::counters::{Counters, Line};
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
/// Most partial lists of a node, because a page head has 4 bits for the number; more CPUs share
/// lists.
pub(crate) const MAX_LISTS: usize = 16;

impl Heads for MemMap {
    #[inline]
    fn head(&self, page: PageIndex) -> &PageHead {
        MemMap::head(self, page)
    }
}

/// The slabs of one cache on one node.
pub(crate) struct Node {
    /// One for each CPU; see the head of this module.
    pub(crate) lists: &'static [NodeList],
    pub(crate) counters: Counters,
}

#[cfg(all(feature = "os", not(ashlar_loom)))]
impl Node {
    /// Where a reader outside of the process finds lists and counters.
    pub(crate) const LAYOUT: crate::base::window::NodeAt = crate::base::window::NodeAt {
        bytes: size_of::<Node>() as u32,
        lists: core::mem::offset_of!(Node, lists) as u32,
        lines: (core::mem::offset_of!(Node, counters) + Counters::LINES) as u32,
    };
}

impl Node {
    /// Returns the one list of a cache whose slabs are not kept by CPU.
    #[inline]
    pub(crate) fn list(&self) -> &'static NodeList {
        &self.lists[0]
    }

    /// Returns the list of a slab.
    #[inline]
    pub(crate) fn list_of(&self, page: PageIndex) -> &'static NodeList {
        &self.lists[usize::from(MEMMAP.head(page).list()) % self.lists.len()]
    }

    /// Returns whether there are more partial slabs than the node keeps. Then other nodes may take
    /// from them, by the kernel's rule.
    pub(crate) fn has_to_spare(&self, min_partial: usize) -> bool {
        self.lists.iter().map(NodeList::count).sum::<usize>() > min_partial
    }

    /// Returns the number of slabs on the partial lists, and of free objects in them.
    pub(crate) fn partial_and_free(&self) -> (usize, usize) {
        let (mut slabs, mut free) = (0, 0);
        for list in self.lists {
            let list = list.lock();
            let mut page = list.first();
            while page != PageIndex::NONE {
                let head = MEMMAP.head(page);
                free += usize::from(head.objects() - SlabState(head.state.load(Ordering::Relaxed)).inuse());
                page = head.next();
            }
            slabs += list.count;
        }
        (slabs, free)
    }
}

/// Makes the nodes of a cache. If an earlier cache left nodes in this place, resets their counters.
pub(crate) fn open(nodes: &mut &'static [Node]) -> Option<()> {
    if nodes.is_empty() {
        let cpus = PERCPU.cpus.load(Ordering::Relaxed) as usize;
        *nodes = meta_slice(ZONE.nodes(), || {
            let lines = meta_slice(cpus.clamp(1, MAX_LINES), || Some(Line::default()))?;
            let lists = meta_slice(cpus.clamp(1, MAX_LISTS), || Some(NodeList::new()))?;
            Some(Node { lists, counters: Counters::new(lines) })
        })?;
    }
    for node in *nodes {
        node.counters.reset();
        node.lists.iter().for_each(|list| list.raw().reset_counts());
    }
    Some(())
}

/// Visits the list_locks of nodes, for a fork.
pub(crate) fn for_each_lock(nodes: &[Node], visit: Visit<'_>) {
    nodes.iter().flat_map(|node| node.lists).for_each(|list| visit(list.raw().word()));
}
