//! The slabs of a cache on one node, for every engine: the partial list behind list_lock, and
//! counters.

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
