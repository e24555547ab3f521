//! [`CacheSpec`]: the complete description of a cache to be created, passed from the public
//! interface to the engine.

use super::history::slab_queues::QueueOptions;
use super::{DebugFlags, Engine, Policy};
use crate::slab::OrderRule;
use crate::slab::cache::Construct;
use crate::slab::geometry::Geometry;

/// A cache to be created, from the caller's arguments, the settings and the policy. The registry
/// adds a slot and a key, and the engine its state.
#[derive(Clone, Copy)]
pub(crate) struct CacheSpec<'a> {
    pub(crate) name: &'a str,
    pub(crate) geometry: Geometry,
    pub(crate) ctor: Option<Construct>,
    pub(crate) engine: Engine,
    pub(crate) policy: &'static Policy,
    /// Which other caches it may share slabs with.
    pub(crate) merge: Merge,
    /// Objects in a sheaf; 0 for no sheaves.
    pub(crate) sheaf_capacity: usize,
    /// Full sheaves that a barn may hold.
    pub(crate) barn_limit: usize,
    /// Empty slabs that a node's list keeps.
    pub(crate) min_partial: usize,
    /// Free objects that a CPU's partial slabs may hold; the stage `slub-bulk` only.
    pub(crate) cpu_partial: usize,
    /// In how many of 1000 cases partial slabs of other nodes are tried before a new slab is made.
    pub(crate) defrag_ratio: u16,
    /// Options of SLAB's queues.
    pub(crate) queues: QueueOptions,
    /// Which debugging it has, in the engine of debugged caches.
    pub(crate) debug: DebugFlags,
    /// Some of its objects lie between pages without access.
    pub(crate) guarded: bool,
    /// A reserved slot, which has at most one cache; `None` for any slot.
    pub(crate) slot: Option<u16>,
}

/// What decides how the objects of a cache lie in slabs, beside their size and alignment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Objects have a constructor.
    pub(crate) constructed: bool,
    pub(crate) rule: OrderRule,
    /// CPUs that the order rule is for.
    pub(crate) cpus: u32,
    /// Which debugging the cache has.
    pub(crate) debug: DebugFlags,
}

/// Whether a cache may be merged, and with which others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// It may be merged at all.
    pub(crate) mergeable: bool,
    /// It may be merged only with caches of this group.
    pub(crate) group: u8,
}

impl CacheSpec<'_> {
    /// Whether the cache may share pages with no other cache, if its engine has the choice.
    pub(crate) fn stands_alone(&self) -> bool {
        self.ctor.is_some() || (self.policy.of_program && !self.merge.mergeable)
    }
}
