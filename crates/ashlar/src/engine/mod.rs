//! Layer 4, engines: the strategies behind a cache, a closed set.
//!
//! [`RawCache`] is what an engine knows of a cache. [`Engine`] lists the strategies; each implements the same
//! small contract, and only slow paths ever look at it:
//!
//! | function | contract |
//! |---|---|
//! | [`alloc`] | one object, or null when memory ends |
//! | [`alloc_on`] | the same, from a slab of a node |
//! | [`free`] | takes an object of this cache back |
//! | [`alloc_bulk`] | fills a slice or takes nothing |
//! | [`free_bulk`] | takes objects of this cache back |
//! | [`flush`] | brings every cached object back to its slab; false if some CPU could not be reached |
//! | [`shrink`] | gives free slabs back to the zone; the number of slabs left |
//! | [`usage`] | slabs, objects, live objects |
//!
//! An engine whose caches own a per-CPU slot with sheaves in it gets its fast path for nothing; one that
//! leaves the slot at the null sheaf sees every call here.
//!
//! ## Lock order
//! drain lock, then list_lock or barn lock (never both), then sheaf pool lock or zone lock, then meta lock.

pub(crate) mod slub;

use crate::page::memmap::MEMMAP;
use crate::percpu::area::PERCPU;
use crate::slab::geometry::Geometry;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::units::{CpuId, NodeId, PageIndex};

/// Longest cache name in bytes.
pub const MAX_NAME: usize = 47;

/// The strategy of a cache. Closed: adding one means adding an arm below, nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// SLUB with sheaves and barns: the default.
    Slub,
}

/// Whose cache it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The program made it, and may destroy it.
    Program,
    /// One of kmalloc's size classes.
    Kmalloc,
    /// One of malloc's: its live objects stand in the object map.
    Malloc,
}

/// An object constructor: called once for each object when it is first carved from a slab.
pub type Constructor = unsafe extern "C" fn(*mut u8);

/// Everything about a cache that an engine needs. Lives in metadata memory for ever; reused after destroy.
pub(crate) struct RawCache {
    pub(crate) geometry: Geometry,
    /// Offset of this cache's slot in every per-CPU area.
    pub(crate) slot: u16,
    pub(crate) engine: Engine,
    /// Key of the free links.
    pub(crate) secret: u64,
    pub(crate) ctor: Option<Constructor>,
    /// Objects in a sheaf; 0: no sheaves.
    pub(crate) sheaf_capacity: AtomicUsize,
    /// Full sheaves that a barn may hold.
    pub(crate) barn_limit: AtomicUsize,
    /// Empty slabs that a node's list keeps.
    pub(crate) min_partial: AtomicUsize,
    /// One entry a node.
    pub(crate) nodes: &'static [slub::Node],
    pub(crate) origin: Origin,
    name: [u8; MAX_NAME + 1],
    name_len: u8,
    /// Creation number; 0 while the entry is free.
    pub(crate) serial: AtomicU32,
}

impl core::fmt::Debug for RawCache {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({} bytes)", self.name(), self.geometry.object_size)
    }
}

/// What goes into a new [`RawCache`]; the rest is derived.
pub(crate) struct Plan<'a> {
    pub(crate) name: &'a str,
    pub(crate) geometry: Geometry,
    pub(crate) slot: u16,
    pub(crate) secret: u64,
    pub(crate) ctor: Option<Constructor>,
    pub(crate) sheaf_capacity: usize,
    pub(crate) barn_limit: usize,
    pub(crate) min_partial: usize,
    pub(crate) nodes: &'static [slub::Node],
    pub(crate) origin: Origin,
}

impl RawCache {
    pub(crate) fn new(plan: &Plan<'_>, serial: u32) -> RawCache {
        let mut name = [0; MAX_NAME + 1];
        let len = plan.name.len().min(MAX_NAME);
        name[..len].copy_from_slice(&plan.name.as_bytes()[..len]);
        RawCache {
            geometry: plan.geometry,
            slot: plan.slot,
            engine: Engine::Slub,
            secret: plan.secret,
            ctor: plan.ctor,
            sheaf_capacity: AtomicUsize::new(plan.sheaf_capacity),
            barn_limit: AtomicUsize::new(plan.barn_limit),
            min_partial: AtomicUsize::new(plan.min_partial),
            nodes: plan.nodes,
            origin: plan.origin,
            name,
            name_len: len as u8,
            serial: AtomicU32::new(serial),
        }
    }

    pub(crate) fn name(&self) -> &str {
        // Cut at a character boundary by the check at creation; an empty name would be a bug, not a crash.
        core::str::from_utf8(&self.name[..usize::from(self.name_len)]).unwrap_or("?")
    }

    /// The node entry of a CPU.
    #[inline]
    pub(crate) fn node_of_cpu(&self, cpu: CpuId) -> (NodeId, &'static slub::Node) {
        let node = PERCPU.node_of(cpu);
        (node, &self.nodes[usize::from(node.0) % self.nodes.len()])
    }

    /// The slot offset that this cache's pages carry in the memmap: 0, the slow path, where frees must look
    /// at the node, or at the object map, first.
    pub(crate) fn page_slot(&self) -> u16 {
        if self.nodes.len() > 1 || self.origin == Origin::Malloc { 0 } else { self.slot }
    }

    /// The head page and index of an object of this cache, or why it is none.
    pub(crate) fn locate(&self, address: usize) -> Result<(PageIndex, u16), BadObject> {
        let page = MEMMAP.page_of(address).ok_or(BadObject::Foreign)?;
        let class = MEMMAP.class_of(page);
        if class.kind() != crate::page::memmap::PageKind::Slab {
            return Err(BadObject::Foreign);
        }
        let first = PageIndex(page.0 - class.back());
        let head = MEMMAP.head(first);
        if head.owner() != core::ptr::from_ref(self) as usize {
            return Err(BadObject::OtherCache);
        }
        match self.geometry.index_of(address - MEMMAP.address_of(first)) {
            Some(index) if index < head.objects() => Ok((first, index)),
            _ => Err(BadObject::Misaligned),
        }
    }
}

/// Why an address is no object of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadObject {
    /// No page of the zone, or no slab page.
    Foreign,
    /// An object of another cache.
    OtherCache,
    /// Inside a slab, but no object starts there.
    Misaligned,
}

/// Figures of a cache at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Slabs in existence.
    pub slabs: usize,
    /// Objects that those slabs can hold.
    pub objects: usize,
    /// Objects allocated and not freed. Exact while nobody allocates or frees.
    pub live: usize,
    /// Free objects in the sheaves of CPUs and barns.
    pub cached: usize,
    /// Bytes of slab space.
    pub bytes: usize,
    /// Slabs on partial lists.
    pub partial: usize,
}

/// One object of `cache`, or null.
#[inline]
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    match cache.engine {
        Engine::Slub => slub::alloc(cache),
    }
}

/// One object of `cache` from a slab of `node`, or of another if that has none; null when memory ends.
pub(crate) fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    match cache.engine {
        Engine::Slub => slub::alloc_on(cache, node),
    }
}

/// Takes the object at `address` back.
#[inline]
pub(crate) fn free(cache: &'static RawCache, address: usize) {
    match cache.engine {
        Engine::Slub => slub::free(cache, address),
    }
}

/// Fills `out` with objects; false, and nothing taken, when memory ends.
pub(crate) fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
    match cache.engine {
        Engine::Slub => slub::alloc_bulk(cache, out),
    }
}

/// Takes objects back.
pub(crate) fn free_bulk(cache: &'static RawCache, objects: &[usize]) {
    match cache.engine {
        Engine::Slub => slub::free_bulk(cache, objects),
    }
}

/// Brings cached objects back to their slabs.
pub(crate) fn flush(cache: &'static RawCache) -> bool {
    match cache.engine {
        Engine::Slub => slub::flush_all(cache),
    }
}

/// Gives empty slabs back; the slabs that remain.
pub(crate) fn shrink(cache: &'static RawCache) -> usize {
    match cache.engine {
        Engine::Slub => slub::shrink(cache),
    }
}

/// Figures of the cache.
pub(crate) fn usage(cache: &'static RawCache) -> Usage {
    match cache.engine {
        Engine::Slub => slub::usage(cache),
    }
}

/// Reads a relaxed tunable.
#[inline]
pub(crate) fn tunable(value: &AtomicUsize) -> usize {
    value.load(Ordering::Relaxed)
}
