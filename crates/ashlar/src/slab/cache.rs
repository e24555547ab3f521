//! [`CacheSlabs`]: the part of a cache that does not depend on its engine.
//!
//! It is the first field of every cache. So a slab's owner word, which is the address of the cache,
//! is the address of its `CacheSlabs` too.
#![allow(unsafe_code, reason = "names the owner of a slab")]

use super::counters::SlowPathStats;
use super::geometry::Geometry;
use super::node::Node;
use crate::base::report;
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::base::units::{CpuId, NodeId, Order, PageIndex};
use crate::pages::memmap::{ClassWord, MEMMAP, PageKind};
use crate::percpu::area::PERCPU;
use ashlar_macros::place;

/// Longest cache name in bytes.
pub const MAX_NAME: usize = 47;

/// A constructor of objects. The argument is memory of the cache's size and alignment.
pub(crate) type Construct = unsafe extern "C" fn(*mut u8);

/// The slabs of one cache: the layout of their objects, and the lists that hold them.
pub(crate) struct CacheSlabs {
    pub(crate) geometry: Geometry,
    /// Key of the free links.
    pub(crate) secret: u64,
    pub(crate) ctor: Option<Construct>,
    /// The partial slabs and counters of each node.
    pub(crate) nodes: &'static [Node],
    /// The number of partial lists that the cache uses on each node: see [`super::node`].
    pub(crate) lists: u8,
    /// Partial slabs above which a node discards a slab that becomes empty.
    pub(crate) min_partial: AtomicUsize,
    /// The slot offset in the class words of its pages. 0 sends frees to the slow path, for caches
    /// whose frees need more checks.
    pub(crate) class_slot: u16,
    /// Usable bytes of an object. See [`Self::object_size`].
    object_size: AtomicU32,
    name: [u8; MAX_NAME],
    name_len: u8,
}

/// Why an address is not that of an object of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadObject {
    /// Not in the zone, or not in a slab.
    Foreign,
    /// An object of another cache.
    OtherCache,
    /// Inside a slab, but not at the start of an object.
    Misaligned,
}

#[cfg(all(feature = "os", not(ashlar_loom)))]
impl CacheSlabs {
    /// The offsets of the name, of its length and of the object size, for a reader outside of the
    /// process.
    pub(crate) const NAME: usize = core::mem::offset_of!(CacheSlabs, name);
    pub(crate) const NAME_LEN: usize = core::mem::offset_of!(CacheSlabs, name_len);
    pub(crate) const OBJECT_SIZE: usize = core::mem::offset_of!(CacheSlabs, object_size);
}

impl CacheSlabs {
    pub(crate) fn new(
        name: &str,
        geometry: Geometry,
        secret: u64,
        ctor: Option<Construct>,
        nodes: &'static [Node],
        min_partial: usize,
        class_slot: u16,
    ) -> CacheSlabs {
        let (name, name_len) = copied_name(name);
        CacheSlabs {
            geometry,
            secret,
            ctor,
            nodes,
            lists: 1,
            min_partial: AtomicUsize::new(min_partial),
            class_slot,
            object_size: AtomicU32::new(geometry.object_size as u32),
            name,
            name_len,
        }
    }

    /// Has each node use that many of its partial lists, before there are slabs.
    pub(crate) fn with_lists(self, lists: usize) -> CacheSlabs {
        CacheSlabs { lists: lists as u8, ..self }
    }

    /// Returns the name that the cache was created with.
    #[ashlar_macros::place(cold)]
    pub(crate) fn name(&self) -> &str {
        // The creation has cut the name at a character boundary. The fallback avoids a panic.
        core::str::from_utf8(&self.name[..usize::from(self.name_len)]).unwrap_or("?")
    }

    /// Returns the usable bytes of an object: the largest size that any of the merged caches asked
    /// for.
    #[inline]
    pub(crate) fn object_size(&self) -> usize {
        self.object_size.load(Ordering::Relaxed) as usize
    }

    /// Raises the usable bytes to `bytes`, for a cache that is merged into this one.
    pub(crate) fn raise_object_size(&self, bytes: usize) {
        self.object_size.fetch_max(bytes as u32, Ordering::Relaxed);
    }

    /// Returns the number of partial slabs above which a node discards a slab that becomes empty.
    #[inline]
    pub(crate) fn min_partial(&self) -> usize {
        self.min_partial.load(Ordering::Relaxed)
    }

    /// Returns the number of partial slabs above which a list discards a slab that becomes empty.
    #[inline]
    pub(crate) fn min_partial_of_list(&self) -> usize {
        self.min_partial().div_ceil(usize::from(self.lists))
    }

    /// Returns the number of the partial list of the slabs that `cpu` opens.
    #[inline]
    pub(crate) fn list_of_cpu(&self, cpu: CpuId) -> u8 {
        (cpu.0 % u32::from(self.lists)) as u8
    }

    /// Returns the owner word of its slabs, which is the address of the cache.
    #[inline]
    pub(crate) fn owner_word(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// Returns the node of a slab.
    #[inline]
    pub(crate) fn node_of(&self, slab: PageIndex) -> &'static Node {
        &self.nodes[usize::from(MEMMAP.head(slab).node()) % self.nodes.len()]
    }

    /// Writes the class words of a slab of this cache on `node`.
    pub(crate) fn set_class_words(&self, slab: PageIndex, order: Order, node: NodeId) {
        let slot = if PERCPU.has_cpus(node) { self.class_slot } else { 0 };
        let word = |back| ClassWord::new(PageKind::Slab, slot, back);
        MEMMAP.set_class(slab, order.pages(), word(0), word);
    }

    /// Leads the frees by address of the objects of a slab, one of which is live, to the slow path,
    /// or again where the cache wants them.
    #[cfg(all(feature = "os", not(ashlar_loom)))]
    #[place(cold)]
    pub(crate) fn set_slow_frees(&self, slab: PageIndex, slow: bool) {
        let head = MEMMAP.head(slab);
        let (order, node) = (Order(head.order()), NodeId(head.node()));
        if slow {
            let word = |back| ClassWord::new(PageKind::Slab, 0, back);
            MEMMAP.set_class(slab, order.pages(), word(0), word);
        } else {
            self.set_class_words(slab, order, node);
        }
    }

    /// Returns the head page of the slab of this cache that an address lies in.
    #[inline]
    pub(crate) fn slab_at(&self, address: usize) -> Option<PageIndex> {
        let page = MEMMAP.page_of(address)?;
        let class = MEMMAP.class_of(page);
        let first = PageIndex(page.0.wrapping_sub(class.back()));
        (class.kind() == PageKind::Slab && MEMMAP.head(first).owner() == self.owner_word()).then_some(first)
    }

    /// Reports that an object of another cache, or none, was freed to this cache.
    #[cold]
    #[place(cold)]
    #[inline(never)]
    pub(crate) fn report_stranger(&self, object: usize) {
        let Some(page) = MEMMAP.page_of(object) else { return report::not_of_cache(self.name(), object) };
        match MEMMAP.class_of(page).kind() {
            PageKind::Slab => {
                let owner = MEMMAP.head(MEMMAP.head_of(page)).owner() as *const CacheSlabs;
                // SAFETY: the owner word of a slab is the address of the first field of its cache,
                // and caches are never unmapped.
                report::of_other_cache(self.name(), object, unsafe { &*owner }.name());
            }
            PageKind::Free => report::not_allocated_of(self.name(), object),
            PageKind::LargeHead | PageKind::Slob => report::not_of_cache(self.name(), object),
        }
    }

    /// Returns the head page and the index of an object of this cache, or why the address is not
    /// one.
    pub(crate) fn locate(&self, address: usize) -> Result<(PageIndex, u16), BadObject> {
        let page = MEMMAP.page_of(address).ok_or(BadObject::Foreign)?;
        let class = MEMMAP.class_of(page);
        if class.kind() != PageKind::Slab {
            return Err(BadObject::Foreign);
        }
        let first = PageIndex(page.0 - class.back());
        let head = MEMMAP.head(first);
        if head.owner() != self.owner_word() {
            return Err(BadObject::OtherCache);
        }
        // Engines without colours use the head's half word otherwise.
        let colour = if self.geometry.colour_off == 0 { 0 } else { head.colour() };
        let offset = (address - MEMMAP.address_of(first)).checked_sub(colour);
        match offset.and_then(|offset| self.geometry.index_of(offset)) {
            Some(index) if index < head.objects() => Ok((first, index)),
            _ => Err(BadObject::Misaligned),
        }
    }
}

impl CacheSlabs {
    /// Returns whether the list_lock of any node is held at this moment.
    pub(crate) fn list_lock_held(&self) -> bool {
        self.nodes.iter().flat_map(|node| node.lists).any(|list| list.raw().is_held())
    }

    /// Returns how often the list_locks have been taken.
    pub(crate) fn list_locks_taken(&self) -> u64 {
        self.nodes.iter().flat_map(|node| node.lists).map(|list| list.raw().taken() as u64).sum()
    }

    /// Returns how often a list_lock had to be waited for.
    pub(crate) fn list_lock_waits(&self) -> u64 {
        self.nodes.iter().flat_map(|node| node.lists).map(|list| list.raw().waited() as u64).sum()
    }

    /// Counts objects that another CPU or node had allocated.
    #[inline(never)]
    pub(crate) fn count_remote_frees(&self, objects: usize) {
        // Only the sum over nodes means something.
        if let Some(node) = self.nodes.first() {
            node.counters.count_remote(objects);
        }
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
    #[place(background)]
    pub(crate) fn trim(&self) -> usize {
        self.nodes.iter().map(Node::trim).sum()
    }
}

/// Copies a name that the creation has checked into an array.
#[inline(never)]
pub(crate) fn copied_name(name: &str) -> ([u8; MAX_NAME], u8) {
    let mut bytes = [0; MAX_NAME];
    let len = name.len().min(MAX_NAME);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    (bytes, len as u8)
}
