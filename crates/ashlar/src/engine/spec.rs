//! [`CacheSpec`]: everything about a cache that is to be made, in one value, from the face to the engine.

use super::history::slab_queues::QueueOptions;
use super::{Engine, Policy};
use crate::slab::cache::Construct;
use crate::slab::geometry::Geometry;

/// A cache that is to be made: what the caller, the settings and the policy agreed on. The registry adds what only it knows, a slot and
/// a key, and the engine what it keeps.
#[derive(Clone, Copy)]
pub(crate) struct CacheSpec<'a> {
    pub(crate) name: &'a str,
    pub(crate) geometry: Geometry,
    pub(crate) ctor: Option<Construct>,
    pub(crate) engine: Engine,
    pub(crate) policy: &'static Policy,
    /// With which others it may share slabs.
    pub(crate) merge: Merge,
    /// Objects in a sheaf; 0: no sheaves.
    pub(crate) sheaf_capacity: usize,
    /// Full sheaves that a barn may hold.
    pub(crate) barn_limit: usize,
    /// Empty slabs that a node's list keeps.
    pub(crate) min_partial: usize,
    /// Free objects that a CPU's partial slabs may have, of one stage of SLUB.
    pub(crate) cpu_partial: usize,
    /// How readily partial slabs of other nodes are taken before a slab is new, in thousandths.
    pub(crate) defrag_ratio: u16,
    /// Of SLAB.
    pub(crate) queues: QueueOptions,
    /// One of the slots that are set aside, which has one cache at most; `None`: any.
    pub(crate) slot: Option<u16>,
}

/// Whether and with which others a cache may be merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// At all.
    pub(crate) mergeable: bool,
    /// Only with caches of the same group.
    pub(crate) group: u8,
}

impl CacheSpec<'_> {
    /// Whether it may share pages with no other cache, where its engine leaves it the choice.
    pub(crate) fn stands_alone(&self) -> bool {
        self.ctor.is_some() || (self.policy.of_program && !self.merge.mergeable)
    }
}
