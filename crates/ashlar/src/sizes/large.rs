//! Large objects: those too large for a cache. Each is a run of pages of the zone, or a mapping of
//! its own above 32 MiB.
//!
//! The head of the first page has the class word `LargeHead`, and the number of pages in its state
//! word. The other pages have the class word of free pages.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

use core::ops::Range;
use core::ptr::NonNull;

use crate::base::sync::Ordering;
use crate::base::units::{BLOCK_SIZE, NodeId, Order, PAGE_SIZE, PageIndex};
use crate::engine::route::{inits_on_alloc, inits_on_free, is_hardened};
use crate::pages::direct::{self, Fill};
use crate::pages::memmap::{ClassWord, MEMMAP, PageKind};
use crate::pages::zone::{DIRECT_BYTES, DirtyParts, PageRun, RunAlign, ZONE};
use crate::percpu::area::PERCPU;
use crate::percpu::{self, pages};

/// The largest size, in bytes; larger requests fail.
pub const KMALLOC_MAX_SIZE: usize = isize::MAX as usize - DIRECT_BYTES;

/// A run of pages that is one live object.
#[derive(Debug)]
pub(crate) struct LargeObject {
    first: PageIndex,
    pages: usize,
}

impl LargeObject {
    /// Returns the large object whose head is `page`.
    #[inline]
    pub(crate) fn of_head(page: PageIndex) -> LargeObject {
        LargeObject { first: page, pages: pages_of(page) }
    }

    /// Returns the usable bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.pages * PAGE_SIZE
    }

    /// Frees the pages.
    pub(crate) fn free(self) {
        let LargeObject { first, pages } = self;
        if is_hardened() {
            clear_freed(first, 0..pages);
        }
        MEMMAP.set_class(first, 1, ClassWord::FREE, |_| ClassWord::FREE);
        let listable = pages.is_power_of_two() && (first.0 as usize).is_multiple_of(pages);
        let worth_reaping =
            if listable { pages::free(first, Order(pages.trailing_zeros() as u8)) } else { ZONE.free(first, pages) };
        if worth_reaping {
            crate::base::background::wake();
            crate::base::background::settle();
        }
    }

    /// Resizes the object to `size` bytes in place. Returns false, and changes nothing, if the
    /// pages behind it are in use.
    pub(crate) fn resize(&mut self, size: usize) -> bool {
        let (old, new) = (self.pages, size.div_ceil(PAGE_SIZE));
        if new > old && !ZONE.extend(self.first, old, new) {
            return false;
        }
        if is_hardened() {
            clear_resized(self.first, old, new);
        }
        MEMMAP.head(self.first).state.store(new as u64, Ordering::Relaxed);
        self.pages = new;
        if new < old && ZONE.free(self.first.add(new), old - new) {
            crate::base::background::wake();
        }
        true
    }
}

/// Clears pages of a run that are freed, if an option says so. Many pages are given back to the
/// system instead: so what the program never touched does not become resident.
#[place(cold)]
#[inline(never)]
fn clear_freed(first: PageIndex, pages: Range<usize>) {
    /// From so many bytes on, a system call costs less than clearing.
    const MANY: usize = 256 << 10;
    if !inits_on_free() {
        return;
    }
    let Some(at) = NonNull::new(MEMMAP.address_of(first.add(pages.start)) as *mut u8) else { return };
    let bytes = pages.len() * PAGE_SIZE;
    // SAFETY: the pages belong to an object that the program gives up, and the zone committed them.
    unsafe {
        let is_zero = bytes >= MANY && ZONE.source().is_some_and(|source| source.release(at, bytes));
        if !is_zero {
            at.write_bytes(0, bytes);
        }
    }
}

/// Clears the pages that a run gains or loses, as the options say.
#[place(cold)]
#[inline(never)]
fn clear_resized(first: PageIndex, old: usize, new: usize) {
    if new < old {
        return clear_freed(first, new..old);
    }
    if inits_on_alloc() {
        let at = MEMMAP.address_of(first.add(old)) as *mut u8;
        // SAFETY: the caller has just made the pages a part of the object.
        unsafe { at.write_bytes(0, (new - old) * PAGE_SIZE) };
    }
}

/// Returns the number of pages of the large object whose head is `page`.
fn pages_of(page: PageIndex) -> usize {
    MEMMAP.head(page).state.load(Ordering::Relaxed) as usize
}

/// Returns the bytes of the large object whose head is `page`, without taking a lock.
#[place(background)]
pub(crate) fn bytes_of(page: PageIndex) -> usize {
    pages_of(page) * PAGE_SIZE
}

/// Returns the start of the large object that contains `page`.
#[place(cold)]
pub(crate) fn around(page: PageIndex) -> Option<usize> {
    let furthest = DIRECT_BYTES / PAGE_SIZE;
    for back in 0..=furthest.min(page.0 as usize) {
        let head = PageIndex(page.0 - back as u32);
        match MEMMAP.class_of(head).kind() {
            PageKind::Free => {}
            PageKind::Slab | PageKind::Slob => return None,
            PageKind::LargeHead => return (back < pages_of(head)).then(|| MEMMAP.address_of(head)),
        }
    }
    None
}

/// Allocates pages for `size` bytes at a multiple of `align` (up to 2 MiB), zeroed if `fill`
/// requires it.
pub(crate) fn alloc(size: usize, align: usize, fill: Fill) -> Option<NonNull<u8>> {
    alloc_on(PERCPU.node_of(percpu::this_cpu()), size, align, fill)
}

/// As [`alloc`], from the node `home` if it has pages.
pub(crate) fn alloc_on(home: NodeId, size: usize, align: usize, fill: Fill) -> Option<NonNull<u8>> {
    if size > KMALLOC_MAX_SIZE {
        return None;
    }
    let fill = if inits_on_alloc() { Fill::Zeros } else { fill };
    if size.max(align) > DIRECT_BYTES {
        return direct::map(size, align, fill);
    }
    // The zone aligns a run to its size rounded up to a power of two, at most to 2 MiB. So a run
    // may have to be longer than the object.
    let pages = size.div_ceil(PAGE_SIZE).max(align.min(BLOCK_SIZE) / PAGE_SIZE);
    let place = if align <= PAGE_SIZE { RunAlign::Anywhere } else { RunAlign::Aligned };
    let nodes = ZONE.nodes() as u8;
    let mut dirty = DirtyParts::default();
    let mut take = || {
        (0..nodes).find_map(|i| {
            let node = NodeId((home.0 + i) % nodes);
            take_run(node, pages, place, fill, &mut dirty).map(|run| (run, node))
        })
    };
    let Some((run, node)) = take().or_else(|| ZONE.take_after_all(take)) else {
        // The zone is full, so the object gets a mapping of its own.
        return direct::map(size, align, fill);
    };
    let head = MEMMAP.head(run.first);
    head.init(0, 0, 0, node.0);
    head.state.store(pages as u64, Ordering::Relaxed);
    MEMMAP.set_class(run.first, 1, ClassWord::new(PageKind::LargeHead, 0, 0), |_| ClassWord::FREE);
    let at = NonNull::new(MEMMAP.address_of(run.first) as *mut u8)?;
    if fill == Fill::Zeros {
        zero(at, pages * PAGE_SIZE, run.zeroed, &dirty);
    }
    Some(at)
}

/// Zeroes a run of `bytes` bytes that was just taken out of the zone. Pages that read as zeros
/// already are not touched, because the program may use only a few entries of a large table.
fn zero(at: NonNull<u8>, bytes: usize, zeroed: bool, dirty: &DirtyParts) {
    if !zeroed {
        for part in dirty.bytes() {
            // SAFETY: the part lies inside the run, which is the caller's.
            unsafe { at.add(part.start).write_bytes(0, part.len()) };
        }
    } else if let Some(source) = ZONE.source() {
        // SAFETY: the range is committed, and belongs to the caller.
        unsafe { source.will_look(at, bytes) };
    }
}

/// Takes a run for a large object. A few pages, a power of two, come from this CPU's page list. If
/// the run must be zero, `dirty` receives the pages that may not be.
fn take_run(node: NodeId, pages: usize, align: RunAlign, fill: Fill, dirty: &mut DirtyParts) -> Option<PageRun> {
    *dirty = DirtyParts::default();
    match align {
        RunAlign::Aligned if pages.is_power_of_two() => {
            let run = pages::alloc(node, Order(pages.trailing_zeros() as u8))?;
            if !run.zeroed {
                *dirty = DirtyParts::all(pages);
            }
            Some(run)
        }
        _ => ZONE.alloc_noting(node, pages, align, (fill == Fill::Zeros).then_some(dirty)),
    }
}
