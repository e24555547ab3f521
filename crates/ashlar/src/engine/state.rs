//! What the engines keep for one cache, in one place: [`EngineState`].

use super::debug::state::DebugState;
use super::history::slab_queues::state as slab_queues;
use super::history::slub::places::Places;
use super::sheaves::node as sheaves;
use super::tally;
use crate::base::error::CreateError;
use crate::base::sync::Visit;
use crate::slab::node::{self, Node};

/// What the engines keep for a cache beside [`RawCache`](super::RawCache): each kind of state is
/// empty until a cache in this entry of the registry first needs it. Metadata memory is never given
/// back, so what was made once stays with the entry and serves the next cache there that needs the
/// same.
#[derive(Clone, Copy)]
pub(crate) struct EngineState {
    /// Partial slabs and counters, an entry a node: of every engine whose slabs have a state word.
    pub(crate) nodes: &'static [Node],
    /// Of the default engine: barns and evicted objects, an entry a node.
    pub(crate) sheaf_nodes: &'static [sheaves::SheafNode],
    /// Of the stages of SLUB: places in the per-CPU areas, claimed for the life of one cache.
    pub(crate) places: Places,
    /// Of SLAB: its queues and lists.
    pub(crate) slab: slab_queues::State,
    /// Of engines whose caches share pages: what each counts for itself, an entry a node.
    pub(crate) tallies: &'static [tally::Tally],
    /// Of debugged caches: their flags, and their full slabs.
    pub(crate) debug: Option<&'static DebugState>,
    /// Of the segregated engines: the number of the pool.
    pub(crate) pool: u16,
}

/// What a cache begins with. A static has a name, by which the linker tells it from what no program
/// needs.
pub(crate) static EMPTY_STATE: EngineState = EngineState {
    nodes: &[],
    sheaf_nodes: &[],
    places: Places::NONE,
    slab: slab_queues::State::NONE,
    tallies: &[],
    debug: None,
    pool: 0,
};

impl EngineState {
    #[place(cold)]
    /// For engines that take one slab at a time: their CPUs keep lists of pages.
    pub(crate) fn open_nodes_and_page_lists(&mut self) -> Result<(), CreateError> {
        crate::percpu::pages::want(crate::percpu::pages::Batch::Half);
        self.open_nodes()
    }

    /// For engines whose slabs have a state word.
    pub(crate) fn open_nodes(&mut self) -> Result<(), CreateError> {
        node::open(&mut self.nodes).ok_or(CreateError::OutOfMemory)
    }

    /// Visits all locks in it, for a fork: of every kind that was ever made.
    pub(crate) fn for_each_lock(&self, visit: Visit<'_>) {
        node::for_each_lock(self.nodes, visit);
        sheaves::for_each_lock(self.sheaf_nodes, visit);
        self.slab.for_each_lock(visit);
        if let Some(debug) = self.debug {
            debug.for_each_lock(visit);
        }
    }
}
