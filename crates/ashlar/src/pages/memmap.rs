//! `memmap`: the user-space `struct page` array, found from an address by a subtraction and a
//! shift.
//!
//! Two arrays run in parallel over the zone's pages. The *class words*, 4 bytes per page, give the
//! cache of a page with one load; a free by address reads them. The *page heads*, 32 bytes per
//! page, hold the rest. Only the head page of a slab or of a large object uses its entry; the
//! others are never touched.
//!
//! ## Class word
//!
//! | bits | field | meaning |
//! |---|---|---|
//! | 0..16 | slot | byte offset of the cache's slot in a per-CPU area; 0: take the slow path |
//! | 16..25 | back | pages from here back to the head page |
//! | 25..28 | kind | what the page is: see [`PageKind`] |
//!
//! The slot is 0 on pages outside slabs, and on slabs whose frees need the slow path (those of an
//! engine without sheaves, those on a node without CPUs, and those that hold a sample of a
//! profile). Slot 0 of each per-CPU area is always both empty and full, so the fast path needs no
//! test for it.
//!
//! Only the owner of a run writes its class words, between allocating the run from the zone and
//! freeing it; and the profile, which changes the slot alone, while an object of the slab is live.
//! Relaxed stores suffice, because the program's own synchronisation that passes an object's
//! address to another thread also orders the class word.
#![allow(unsafe_code, reason = "indexes raw arrays over the zone")]

use super::head::PageHead;
use crate::base::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use crate::base::units::{BLOCK_PAGES, PAGE_SHIFT, PageIndex};

/// What a page of the zone holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// No object: the page is free, or was never used.
    Free,
    /// Objects of a cache.
    Slab,
    /// The first page of a large object. Its later pages read as `Free`.
    LargeHead,
    /// Objects of many caches and sizes, in the engine `slob`.
    Slob,
}

/// One class word; see the table at the head of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassWord(pub(crate) u32);

impl ClassWord {
    pub(crate) const FREE: ClassWord = ClassWord(0);

    pub(crate) const fn new(kind: PageKind, slot: u16, back: usize) -> ClassWord {
        let kind = match kind {
            PageKind::Free => 0,
            PageKind::Slab => 1,
            PageKind::LargeHead => 2,
            PageKind::Slob => 3,
        };
        ClassWord(slot as u32 | (back as u32) << 16 | kind << 25)
    }

    pub(crate) const fn kind(self) -> PageKind {
        match self.0 >> 25 {
            1 => PageKind::Slab,
            2 => PageKind::LargeHead,
            3 => PageKind::Slob,
            _ => PageKind::Free,
        }
    }

    /// Returns the offset of the slot whose sheaves the fast path of a free may put objects on.
    #[cfg(not(any(feature = "os", ashlar_loom)))]
    pub(crate) const fn slot(self) -> u16 {
        self.0 as u16
    }

    pub(crate) const fn back(self) -> u32 {
        self.0 >> 16 & 0x1ff
    }
}

/// The words that the fast path of a free by address reads, in one cache line. While they are 0, no
/// address is inside, and every call takes the slow path. They are 0 until the zone exists.
/// `fast_pages` and `checked_blocks` are the bounds of the two fast paths; see [`FastFrees`].
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct MemMap {
    /// The address of page 0.
    pub(crate) zone_base: AtomicUsize,
    /// The number of pages in the zone so far.
    pub(crate) nr_pages: AtomicUsize,
    /// The class words.
    pub(crate) class: AtomicPtr<AtomicU32>,
    /// The number of pages whose objects the fast path of a free by address may take: all, or 0.
    pub(crate) fast_pages: AtomicUsize,
    /// The page heads.
    heads: AtomicPtr<PageHead>,
    /// The number of blocks whose objects the fast path of a free may take if they are of the
    /// CPU's node: all, or 0.
    pub(crate) checked_blocks: AtomicUsize,
    /// The address of the node of each block, a byte each, which is 0 on machines with one node.
    pub(crate) block_nodes: AtomicUsize,
    /// The value of [`FastFrees`].
    fast_frees: AtomicU32,
}

/// Which frees have a fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum FastFrees {
    /// None: the engine has no sheaves, or the allocator has not started.
    None = 0,
    /// All, because all CPUs are on one node, and it is the only one.
    All = 1,
    /// Those by address, because all CPUs are on one node, and the class words of the others lead
    /// to the slow path. Frees that do not read the class word examine the node.
    ByAddress = 2,
    /// Those of objects of the CPU's node, because CPUs are on several nodes.
    OfThisNode = 3,
}

impl FastFrees {
    /// Returns the one with this value.
    pub(crate) fn of(value: u32) -> FastFrees {
        [FastFrees::All, FastFrees::ByAddress, FastFrees::OfThisNode]
            .into_iter()
            .find(|&frees| frees as u32 == value)
            .unwrap_or(FastFrees::None)
    }
}

/// The one memmap of the process.
pub(crate) static MEMMAP: MemMap = MemMap {
    zone_base: AtomicUsize::new(0),
    nr_pages: AtomicUsize::new(0),
    class: AtomicPtr::new(core::ptr::null_mut()),
    fast_pages: AtomicUsize::new(0),
    heads: AtomicPtr::new(core::ptr::null_mut()),
    checked_blocks: AtomicUsize::new(0),
    block_nodes: AtomicUsize::new(0),
    fast_frees: AtomicU32::new(0),
};

const _: () = assert!(size_of::<MemMap>() == crate::base::units::CACHE_LINE);

impl MemMap {
    /// Publishes the arrays. Start-up calls it once, before there are pages.
    pub(crate) fn publish(&self, base: usize, class: usize, heads: usize, block_nodes: usize) {
        self.zone_base.store(base, Ordering::Relaxed);
        self.block_nodes.store(block_nodes, Ordering::Relaxed);
        self.class.store(class as *mut AtomicU32, Ordering::Relaxed);
        self.heads.store(heads as *mut PageHead, Ordering::Relaxed);
    }

    /// Publishes the zone's first `pages` pages. A thread receives the address of an object only
    /// after that, so it sees this number or a larger one. Called under the growth lock.
    pub(crate) fn grow_to(&self, pages: usize) {
        self.nr_pages.store(pages, Ordering::Release);
        let frees = self.fast_frees();
        if matches!(frees, FastFrees::All | FastFrees::ByAddress) {
            self.fast_pages.store(pages, Ordering::Release);
        }
        if matches!(frees, FastFrees::ByAddress | FastFrees::OfThisNode) {
            self.checked_blocks.store(pages / BLOCK_PAGES, Ordering::Release);
        }
    }

    /// Opens the fast paths of frees. Called while the zone does not grow.
    pub(crate) fn open_fast_frees(&self, frees: FastFrees) {
        self.fast_frees.store(frees as u32, Ordering::Relaxed);
        self.grow_to(self.nr_pages.load(Ordering::Relaxed));
    }

    /// Returns which frees have a fast path.
    pub(crate) fn fast_frees(&self) -> FastFrees {
        FastFrees::of(self.fast_frees.load(Ordering::Relaxed))
    }

    /// Returns the page that holds `address`, or `None` for an address outside the zone.
    #[inline]
    pub(crate) fn page_of(&self, address: usize) -> Option<PageIndex> {
        let page = address.wrapping_sub(self.zone_base.load(Ordering::Relaxed)) >> PAGE_SHIFT;
        (page < self.nr_pages.load(Ordering::Relaxed)).then_some(PageIndex(page as u32))
    }

    /// Returns the address of a page.
    #[inline]
    pub(crate) fn address_of(&self, page: PageIndex) -> usize {
        self.zone_base.load(Ordering::Relaxed) + ((page.0 as usize) << PAGE_SHIFT)
    }

    /// Returns whether any CPU may have any object on its sheaves, because there is one node.
    #[cfg(not(any(feature = "os", ashlar_loom)))]
    #[inline]
    pub(crate) fn has_one_node(&self) -> bool {
        self.fast_frees.load(Ordering::Relaxed) == FastFrees::All as u32
    }

    /// Returns the number of the node of a page's block.
    #[cfg(not(any(feature = "os", ashlar_loom)))]
    #[inline]
    pub(crate) fn node_of_block(&self, page: PageIndex) -> u8 {
        let table = core::ptr::with_exposed_provenance::<u8>(self.block_nodes.load(Ordering::Relaxed));
        // SAFETY: `publish` stored the start of an array of bytes, one for each block, before there
        // were pages. A page that was found by its address lies in a block that has a node.
        unsafe { table.add(page.0 as usize / BLOCK_PAGES).read() }
    }

    #[inline]
    fn class_cell(&self, page: PageIndex) -> &AtomicU32 {
        // SAFETY: `publish` stored the start of an array of class words, which is committed before
        // `nr_pages` is raised. Every `PageIndex` in circulation comes from `page_of` or from the
        // zone, so it is below that number.
        unsafe { &*self.class.load(Ordering::Relaxed).add(page.0 as usize) }
    }

    /// Returns the class word of a page.
    #[inline]
    pub(crate) fn class_of(&self, page: PageIndex) -> ClassWord {
        ClassWord(self.class_cell(page).load(Ordering::Relaxed))
    }

    /// Returns the head page of the run that a page belongs to, by its class word.
    #[inline]
    pub(crate) fn head_of(&self, page: PageIndex) -> PageIndex {
        PageIndex(page.0.wrapping_sub(self.class_of(page).back()))
    }

    /// Writes the class words of a run: `head` for its head page, `tail(back)` for each later page.
    pub(crate) fn set_class(&self, first: PageIndex, pages: usize, head: ClassWord, tail: impl Fn(usize) -> ClassWord) {
        self.class_cell(first).store(head.0, Ordering::Relaxed);
        for i in 1..pages {
            self.class_cell(first.add(i)).store(tail(i).0, Ordering::Relaxed);
        }
    }

    /// Returns the address of the head entry of any page, for a prefetch.
    #[inline]
    pub(crate) fn address_of_head(&self, page: PageIndex) -> usize {
        self.heads.load(Ordering::Relaxed).wrapping_add(page.0 as usize) as usize
    }

    /// Returns the address of the head of page 0, for a reader outside of the process.
    #[cfg(all(feature = "os", not(ashlar_loom)))]
    #[place(cold)]
    pub(crate) fn heads_at(&self) -> usize {
        self.heads.load(Ordering::Relaxed).addr()
    }

    /// Returns the head entry of the first page of a slab or of a large object.
    #[inline]
    pub(crate) fn head(&self, page: PageIndex) -> &'static PageHead {
        // SAFETY: `publish` stored the start of an array of heads. The part for a page is committed
        // before the zone hands the page out, and is never unmapped. All fields are atomic.
        unsafe { &*self.heads.load(Ordering::Relaxed).add(page.0 as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_word_fields_do_not_overlap() {
        let w = ClassWord::new(PageKind::LargeHead, 0xfff0, 511);
        assert_eq!((w.kind(), w.back(), w.0 as u16), (PageKind::LargeHead, 511, 0xfff0));
        assert_eq!(ClassWord::FREE.kind(), PageKind::Free);
    }

    #[test]
    fn addresses_outside_are_foreign() {
        let map = MemMap {
            zone_base: AtomicUsize::new(0x10_0000),
            nr_pages: AtomicUsize::new(2),
            class: AtomicPtr::new(core::ptr::null_mut()),
            fast_pages: AtomicUsize::new(0),
            heads: AtomicPtr::new(core::ptr::null_mut()),
            checked_blocks: AtomicUsize::new(0),
            block_nodes: AtomicUsize::new(0),
            fast_frees: AtomicU32::new(0),
        };
        assert_eq!(map.page_of(0x0f_ffff), None);
        let end = 0x10_0000 + 2 * (1 << PAGE_SHIFT);
        assert_eq!(map.page_of(end - 1), Some(PageIndex(1)));
        assert_eq!(map.page_of(end), None);
        assert_eq!(map.page_of(0), None);
    }
}
