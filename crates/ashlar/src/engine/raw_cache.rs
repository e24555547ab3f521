//! [`RawCache`]: everything about a cache that an engine needs.

use super::{Engine, EngineState, Origin};
use crate::base::sync::{AtomicU16, AtomicU32, AtomicUsize};
use crate::pages::zone::ZONE;
use crate::slab::cache::{CacheSlabs, Construct};
use crate::slab::geometry::Geometry;

/// A cache, as engines see it. Lives in metadata memory for ever; reused after destroy.
#[repr(C)]
pub(crate) struct RawCache {
    /// The first field: the owner word of a slab is the address of both.
    pub(crate) slabs: CacheSlabs,
    /// Offset of this cache's slot in every per-CPU area.
    pub(crate) slot: u16,
    pub(crate) engine: Engine,
    /// How readily partial slabs of other nodes are taken before a slab is new, in thousandths.
    pub(crate) defrag_ratio: AtomicU16,
    /// What the reaper saw when it looked last, cut to its low half, for engines that tell their use by their counts.
    pub(crate) looked: AtomicU32,
    /// Objects in a sheaf; 0: no sheaves.
    pub(crate) sheaf_capacity: AtomicUsize,
    /// Full sheaves that a barn may hold.
    pub(crate) barn_limit: AtomicUsize,
    /// Free objects that a CPU's partial slabs may have; 0: it keeps none. Of one stage of SLUB.
    pub(crate) cpu_partial: AtomicUsize,
    /// What the engines keep for it.
    pub(crate) state: EngineState,
    pub(crate) origin: Origin,
    /// What other caches must be like to share its slabs.
    pub(crate) merge: Merge,
    /// Handles that the program has of it, its aliases' among them. Changed under the registry lock.
    pub(crate) refcount: AtomicU32,
    /// Creation number; 0 while the entry is free.
    pub(crate) serial: AtomicU32,
}

const _: () = assert!(core::mem::offset_of!(RawCache, slabs) == 0);
// Metadata memory comes in lines, and a small arena has little of it.
const _: () = assert!(size_of::<RawCache>() <= 5 * crate::base::units::CACHE_LINE);

impl core::fmt::Debug for RawCache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({} bytes)", self.name(), self.object_size())
    }
}

/// Whether and with which others a cache may be merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// At all.
    pub(crate) mergeable: bool,
    /// Only with caches of the same group.
    pub(crate) group: u8,
}

/// What goes into a new [`RawCache`]; the rest is derived.
pub(crate) struct Plan<'a> {
    pub(crate) name: &'a str,
    pub(crate) geometry: Geometry,
    pub(crate) slot: u16,
    pub(crate) secret: u64,
    pub(crate) ctor: Option<Construct>,
    pub(crate) sheaf_capacity: usize,
    pub(crate) barn_limit: usize,
    pub(crate) min_partial: usize,
    pub(crate) cpu_partial: usize,
    pub(crate) defrag_ratio: u16,
    pub(crate) engine: Engine,
    pub(crate) state: EngineState,
    pub(crate) origin: Origin,
    pub(crate) merge: Merge,
}

impl RawCache {
    pub(crate) fn new(plan: &Plan<'_>, serial: u32) -> RawCache {
        // Frees must look at the node, or at the object map, first, where those matter; and the engine may have no sheaves.
        let by_map = plan.origin == Origin::Malloc && !cfg!(ashlar_unchecked);
        let fast = ZONE.nodes() == 1 && !by_map && plan.engine.has_sheaves();
        let class_slot = if fast { plan.slot } else { 0 };
        RawCache {
            slabs: CacheSlabs::new(
                plan.name,
                plan.geometry,
                plan.secret,
                plan.ctor,
                plan.state.nodes,
                plan.min_partial,
                class_slot,
            ),
            slot: plan.slot,
            engine: plan.engine,
            sheaf_capacity: AtomicUsize::new(plan.sheaf_capacity),
            barn_limit: AtomicUsize::new(plan.barn_limit),
            cpu_partial: AtomicUsize::new(plan.cpu_partial),
            defrag_ratio: AtomicU16::new(plan.defrag_ratio),
            looked: AtomicU32::new(0),
            state: plan.state,
            origin: plan.origin,
            merge: plan.merge,
            refcount: AtomicU32::new(1),
            serial: AtomicU32::new(serial),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.slabs.name()
    }

    /// Bytes of an object that the user may use.
    #[inline]
    pub(crate) fn object_size(&self) -> usize {
        self.slabs.object_size()
    }
}
