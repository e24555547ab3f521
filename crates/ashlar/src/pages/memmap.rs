//! `memmap`: the user-space `struct page` array, found from an address by a subtraction and a
//! shift.
//!
//! Two arrays run in parallel over the zone's pages. The *class words*, 4 bytes a page, answer
//! "which cache" with one load and are what a free by address reads. The *page heads*, 32 bytes a
//! page, hold the rest; only the head page of a slab or of a large object uses its entry, the
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
//! A slot of 0 is given to pages that are no slab pages, and to slabs whose frees must look further
//! (a machine with several nodes, an engine without sheaves): slot 0 of every per-CPU area is both
//! empty and full for ever, so the fast path needs no test for it.
//!
//! Writers: only the owner of a run of pages (between allocation from the zone and giving it back)
//! writes its class words, so they are plain relaxed stores; an object's address travels from the
//! allocating thread to others by the program's own synchronisation, and the class word with it.
#![allow(unsafe_code, reason = "indexes raw arrays over the zone")]
#![allow(unreachable_pub, reason = "macros of the build without checks name the memmap")]

use super::head::PageHead;
use crate::base::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use crate::base::units::{PAGE_SHIFT, PageIndex};

/// What a page of the zone holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// Nothing: free, or never used.
    Free,
    /// Objects of a cache.
    Slab,
    /// The first page of a large object; its later pages read as `Free`.
    LargeHead,
    /// Objects of many caches and sizes: of the engine `slob`.
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

    pub(crate) const fn back(self) -> u32 {
        self.0 >> 16 & 0x1ff
    }
}

/// What the fast path of a free by address reads, in one cache line. All zero until the zone is up:
/// then no address is inside, and every call takes the slow path; so it stays where the process's
/// engine has no use for the fast path.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct MemMap {
    /// Address of page 0.
    pub(crate) zone_base: AtomicUsize,
    /// Pages in the zone so far.
    pub(crate) nr_pages: AtomicUsize,
    /// The class words.
    pub(crate) class: AtomicPtr<AtomicU32>,
    /// Pages whose objects the fast path of a free by address may take: all of the zone, or none.
    pub(crate) fast_pages: AtomicUsize,
    /// The page heads.
    heads: AtomicPtr<PageHead>,
    fast_path_open: AtomicU32,
}

/// The one memmap of the process.
pub static MEMMAP: MemMap = MemMap {
    zone_base: AtomicUsize::new(0),
    nr_pages: AtomicUsize::new(0),
    class: AtomicPtr::new(core::ptr::null_mut()),
    fast_pages: AtomicUsize::new(0),
    heads: AtomicPtr::new(core::ptr::null_mut()),
    fast_path_open: AtomicU32::new(0),
};

impl MemMap {
    /// Publishes where the arrays are; called once, by the boot. There are no pages yet.
    pub(crate) fn publish(&self, base: usize, class: usize, heads: usize) {
        self.zone_base.store(base, Ordering::Relaxed);
        self.class.store(class as *mut AtomicU32, Ordering::Relaxed);
        self.heads.store(heads as *mut PageHead, Ordering::Relaxed);
    }

    /// Lets everybody know of the zone's first `pages` pages. A thread that has the address of an
    /// object was handed it after that, so it sees this number or a larger one. Called under the
    /// growth lock.
    pub(crate) fn grow_to(&self, pages: usize) {
        self.nr_pages.store(pages, Ordering::Release);
        if self.fast_path_open.load(Ordering::Relaxed) != 0 {
            self.fast_pages.store(pages, Ordering::Release);
        }
    }

    /// Lets the fast path of a free by address take objects. Called while the zone does not grow.
    pub(crate) fn open_fast_path(&self) {
        self.fast_path_open.store(1, Ordering::Relaxed);
        self.fast_pages.store(self.nr_pages.load(Ordering::Relaxed), Ordering::Release);
    }

    /// The page that holds `address`, or `None` for an address outside the zone.
    #[inline]
    pub(crate) fn page_of(&self, address: usize) -> Option<PageIndex> {
        let page = address.wrapping_sub(self.zone_base.load(Ordering::Relaxed)) >> PAGE_SHIFT;
        (page < self.nr_pages.load(Ordering::Relaxed)).then_some(PageIndex(page as u32))
    }

    /// The address of a page.
    #[inline]
    pub(crate) fn address_of(&self, page: PageIndex) -> usize {
        self.zone_base.load(Ordering::Relaxed) + ((page.0 as usize) << PAGE_SHIFT)
    }

    #[inline]
    fn class_cell(&self, page: PageIndex) -> &AtomicU32 {
        // SAFETY: `publish` stored the start of an array of class words, which is committed for
        // nr_pages before that number is raised; every PageIndex in circulation comes from
        // `page_of` or from the zone, both below it.
        unsafe { &*self.class.load(Ordering::Relaxed).add(page.0 as usize) }
    }

    /// The class word of a page.
    #[inline]
    pub(crate) fn class_of(&self, page: PageIndex) -> ClassWord {
        ClassWord(self.class_cell(page).load(Ordering::Relaxed))
    }

    /// Writes the class words of a run: its head page as `head`, each later page as `tail(back)`.
    pub(crate) fn set_class(&self, first: PageIndex, pages: usize, head: ClassWord, tail: impl Fn(usize) -> ClassWord) {
        self.class_cell(first).store(head.0, Ordering::Relaxed);
        for i in 1..pages {
            self.class_cell(first.add(i)).store(tail(i).0, Ordering::Relaxed);
        }
    }

    /// Where the head entry of a page is, for a prefetch: any page may be asked for.
    #[inline]
    pub(crate) fn address_of_head(&self, page: PageIndex) -> usize {
        self.heads.load(Ordering::Relaxed).wrapping_add(page.0 as usize) as usize
    }

    /// The head entry of a page that heads a slab or a large object.
    #[inline]
    pub(crate) fn head(&self, page: PageIndex) -> &'static PageHead {
        // SAFETY: `publish` stored the start of an array of heads; the part that covers a page is
        // committed before the zone hands the page out, and is never unmapped. All fields are
        // atomic.
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
            fast_path_open: AtomicU32::new(0),
        };
        assert_eq!(map.page_of(0x0f_ffff), None);
        assert_eq!(map.page_of(0x10_1fff), Some(PageIndex(1)));
        assert_eq!(map.page_of(0x10_2000), None);
        assert_eq!(map.page_of(0), None);
    }
}
