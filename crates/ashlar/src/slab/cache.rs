//! What slabs know of their cache: [`CacheSlabs`], the part of a cache that does not depend on its engine.
//!
//! It is the first field of every cache, so a slab's owner word, which is the address of the cache, is
//! the address of its `CacheSlabs` too.

use super::geometry::Geometry;
use super::node::Node;
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::base::units::PageIndex;
use crate::pages::memmap::{ClassWord, MEMMAP, PageKind};

/// Longest cache name in bytes.
pub const MAX_NAME: usize = 47;

/// What constructs an object of a cache: its argument is memory of the cache's size and alignment.
pub(crate) type Construct = unsafe extern "C" fn(*mut u8);

/// The slabs of one cache: how objects lie in them, and where they are.
pub(crate) struct CacheSlabs {
    pub(crate) geometry: Geometry,
    /// Key of the free links.
    pub(crate) secret: u64,
    pub(crate) ctor: Option<Construct>,
    /// The partial slabs and counters of each node.
    pub(crate) nodes: &'static [Node],
    /// Empty slabs that a node's list keeps.
    pub(crate) min_partial: AtomicUsize,
    /// The slot offset that the class words of its pages carry: 0, the slow path, where frees must look further first.
    pub(crate) class_slot: u16,
    /// Bytes that the user may use: of the largest of the caches that share it. See [`Self::object_size`].
    object_size: AtomicU32,
    name: [u8; MAX_NAME],
    name_len: u8,
}

/// Why an address is not that of an object of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadObject {
    /// No page of the zone, or no slab page.
    Foreign,
    /// An object of another cache.
    OtherCache,
    /// Inside a slab, but no object starts there.
    Misaligned,
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
            min_partial: AtomicUsize::new(min_partial),
            class_slot,
            object_size: AtomicU32::new(geometry.object_size as u32),
            name,
            name_len,
        }
    }

    /// The name it was created with.
    pub(crate) fn name(&self) -> &str {
        // Cut at a character boundary by the check at creation; an empty name would be a bug, not a crash.
        core::str::from_utf8(&self.name[..usize::from(self.name_len)]).unwrap_or("?")
    }

    /// Bytes of an object that the user may use; the most that was asked for by one of the caches that are merged in it.
    #[inline]
    pub(crate) fn object_size(&self) -> usize {
        self.object_size.load(Ordering::Relaxed) as usize
    }

    /// Another cache is merged into this one, and its objects have `bytes` bytes.
    pub(crate) fn raise_object_size(&self, bytes: usize) {
        self.object_size.fetch_max(bytes as u32, Ordering::Relaxed);
    }

    /// Empty slabs that a node's list keeps.
    #[inline]
    pub(crate) fn min_partial(&self) -> usize {
        self.min_partial.load(Ordering::Relaxed)
    }

    /// What the heads of its slabs have as their owner: the address of the cache.
    #[inline]
    pub(crate) fn owner_word(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// The node of a slab.
    #[inline]
    pub(crate) fn node_of(&self, slab: PageIndex) -> &'static Node {
        &self.nodes[usize::from(MEMMAP.head(slab).node()) % self.nodes.len()]
    }

    /// The class word of a page of one of its slabs, `back` pages behind the first.
    pub(crate) fn class_word(&self, back: usize) -> ClassWord {
        ClassWord::new(PageKind::Slab, self.class_slot, back)
    }

    /// The head page and index of an object of this cache, or why it is none.
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
        let offset = (address - MEMMAP.address_of(first)).checked_sub(head.colour());
        match offset.and_then(|offset| self.geometry.index_of(offset)) {
            Some(index) if index < head.objects() => Ok((first, index)),
            _ => Err(BadObject::Misaligned),
        }
    }
}

/// A name that the creation has checked, in a place of its own.
pub(crate) fn copied_name(name: &str) -> ([u8; MAX_NAME], u8) {
    let mut bytes = [0; MAX_NAME];
    let len = name.len().min(MAX_NAME);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    (bytes, len as u8)
}
