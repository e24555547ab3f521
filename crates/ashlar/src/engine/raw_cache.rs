//! [`RawCache`]: everything about a cache that an engine needs.

use super::route::Route;
use super::{CacheSpec, Engine, EngineState, Merge, Policy};
use crate::base::sync::{AtomicU16, AtomicU32, AtomicUsize, Ordering};
use crate::slab::cache::CacheSlabs;
use crate::slab::geometry::Geometry;

/// A cache as engines see it. Lives in metadata memory for ever, and is reused after destroy.
#[repr(C)]
pub(crate) struct RawCache {
    /// The first field, so that a slab's owner word is the address of both.
    pub(crate) slabs: CacheSlabs,
    /// Offset of this cache's slot in every per-CPU area, which fast paths take.
    pub(crate) slot: u16,
    /// Offset of the slot that has the cache's sheaves: another one while a profile samples the
    /// cache.
    sheaf_slot: AtomicU16,
    pub(crate) engine: Engine,
    /// What takes the calls that allocate and free its objects.
    pub(crate) route: Route,
    /// Some of its objects lie between pages without access.
    pub(crate) guarded: bool,
    pub(crate) policy: &'static Policy,
    /// In how many of 1000 cases partial slabs of other nodes are tried before a new slab is made.
    pub(crate) defrag_ratio: AtomicU16,
    /// Offset of the slot for the time of a profile, plus 1 while one samples the cache; 0 before
    /// the first.
    pub(crate) second_slot: AtomicU16,
    /// The low half of the counts at the reaper's last visit, for engines that detect use by their
    /// counts.
    pub(crate) looked: AtomicU32,
    /// Objects in a sheaf; 0 for no sheaves.
    pub(crate) sheaf_capacity: AtomicUsize,
    /// Full sheaves that a barn may hold.
    pub(crate) barn_limit: AtomicUsize,
    /// Free objects that a CPU's partial slabs may hold; 0 for no such slabs. The stage `slub-bulk`
    /// only.
    pub(crate) cpu_partial: AtomicUsize,
    /// The state of its engine.
    pub(crate) state: EngineState,
    /// The condition for other caches to share its slabs.
    pub(crate) merge: Merge,
    /// Handles that the program holds, including those of its aliases. Changed under the registry
    /// lock.
    pub(crate) refcount: AtomicU32,
    /// Creation number; 0 while the entry is free.
    pub(crate) serial: AtomicU32,
}

const _: () = assert!(core::mem::offset_of!(RawCache, slabs) == 0);
// Metadata memory is allotted in cache lines, and a small arena has little of it.
const _: () = assert!(size_of::<RawCache>() <= 5 * crate::base::units::CACHE_LINE);

impl core::fmt::Debug for RawCache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({} bytes)", self.name(), self.object_size())
    }
}

#[cfg(feature = "os")]
impl RawCache {
    /// Where a reader outside of the process finds the fields.
    pub(crate) const LAYOUT: crate::base::window::CacheAt = {
        use core::mem::offset_of;
        const SLABS: usize = offset_of!(RawCache, slabs);
        const STATE: usize = offset_of!(RawCache, state);
        const GEOMETRY: usize = SLABS + offset_of!(CacheSlabs, geometry);
        crate::base::window::CacheAt {
            bytes: size_of::<RawCache>() as u32,
            name: (SLABS + CacheSlabs::NAME) as u32,
            name_len: (SLABS + CacheSlabs::NAME_LEN) as u32,
            object_size: (SLABS + CacheSlabs::OBJECT_SIZE) as u32,
            stride: (GEOMETRY + offset_of!(Geometry, stride)) as u32,
            align: (GEOMETRY + offset_of!(Geometry, align)) as u32,
            order: (GEOMETRY + offset_of!(Geometry, order)) as u32,
            max_objects: (GEOMETRY + offset_of!(Geometry, max_objects)) as u32,
            min_partial: (SLABS + offset_of!(CacheSlabs, min_partial)) as u32,
            nodes: (SLABS + offset_of!(CacheSlabs, nodes)) as u32,
            slot: offset_of!(RawCache, sheaf_slot) as u32,
            engine: offset_of!(RawCache, engine) as u32,
            sheaf_capacity: offset_of!(RawCache, sheaf_capacity) as u32,
            barn_limit: offset_of!(RawCache, barn_limit) as u32,
            cpu_partial: offset_of!(RawCache, cpu_partial) as u32,
            defrag_ratio: offset_of!(RawCache, defrag_ratio) as u32,
            refcount: offset_of!(RawCache, refcount) as u32,
            serial: offset_of!(RawCache, serial) as u32,
            sheaf_nodes: (STATE + offset_of!(EngineState, sheaf_nodes)) as u32,
            tallies: (STATE + offset_of!(EngineState, tallies)) as u32,
        }
    };
}

impl RawCache {
    /// Builds a cache from its specification. `geometry` is that of its pages, `slot` its offset in
    /// the per-CPU areas, `secret` the key of its free links.
    pub(crate) fn new(
        spec: &CacheSpec<'_>,
        geometry: Geometry,
        state: EngineState,
        slot: u16,
        secret: u64,
        serial: u32,
    ) -> RawCache {
        debug_assert_eq!(
            spec.policy.sided,
            crate::percpu::area::is_sided(slot),
            "sided slots are those of sided caches"
        );
        // A free must check the map first where that matters, and the engine may have no sheaves.
        let route = Route::of(spec.engine, spec.guarded && spec.policy.of_program);
        let fast = !spec.policy.tracked && spec.engine.has_sheaves() && route != Route::Hardened;
        let by_cpu = geometry.stride <= spec.policy.by_cpu_stride && spec.engine.has_sheaves();
        // Without memory for nodes, the cache is not made.
        let lists = if by_cpu { state.nodes.first().map_or(1, |node| node.lists.len()) } else { 1 };
        let class_slot = if fast { slot } else { 0 };
        RawCache {
            slabs: CacheSlabs::new(spec.name, geometry, secret, spec.ctor, state.nodes, spec.min_partial, class_slot)
                .with_lists(lists),
            slot,
            sheaf_slot: AtomicU16::new(slot),
            engine: spec.engine,
            route,
            guarded: spec.guarded,
            policy: spec.policy,
            sheaf_capacity: AtomicUsize::new(spec.sheaf_capacity),
            barn_limit: AtomicUsize::new(spec.barn_limit),
            cpu_partial: AtomicUsize::new(spec.cpu_partial),
            defrag_ratio: AtomicU16::new(spec.defrag_ratio),
            second_slot: AtomicU16::new(0),
            looked: AtomicU32::new(0),
            state,
            merge: spec.merge,
            refcount: AtomicU32::new(1),
            serial: AtomicU32::new(serial),
        }
    }

    /// Returns the offset of the slot that has the cache's sheaves at this moment. One that is out
    /// of date is closed, or open again: see `cache::sampling`.
    #[inline]
    pub(crate) fn sheaf_slot(&self) -> u16 {
        self.sheaf_slot.load(Ordering::Relaxed)
    }

    /// Returns the offsets of all slots that have sheaves of the cache.
    #[cfg(feature = "os")]
    #[inline]
    pub(crate) fn sheaf_slots(&self) -> [u16; 1] {
        [self.sheaf_slot()]
    }

    /// Returns the offsets of all slots that have sheaves of the cache.
    #[cfg(not(feature = "os"))]
    pub(crate) fn sheaf_slots(&self) -> [u16; 2] {
        [self.sheaf_slot(), crate::percpu::area::far_slot(self.sheaf_slot())]
    }

    /// Has another slot hold the cache's sheaves.
    #[cfg(feature = "os")]
    pub(crate) fn set_sheaf_slot(&self, slot: u16) {
        self.sheaf_slot.store(slot, Ordering::SeqCst);
    }

    #[ashlar_macros::place(cold)]
    pub(crate) fn name(&self) -> &str {
        self.slabs.name()
    }

    /// Bytes of an object that the user may use.
    #[inline]
    pub(crate) fn object_size(&self) -> usize {
        self.slabs.object_size()
    }
}
