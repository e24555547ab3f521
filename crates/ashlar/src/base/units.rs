//! Newtypes and constants shared by all layers. Imports nothing from the crate.
//!
//! A *page* is the unit of slab space, whatever the page size of the system is. It has 4 KiB, or 16
//! or 64 KiB in builds with the feature of that name. A system page may hold several of our pages,
//! and a page of ours several of the system's. Only [`crate::pages`] deals with the difference.

/// log2 of [`PAGE_SIZE`]. Where both features are chosen, the larger page holds.
pub(crate) const PAGE_SHIFT: u32 = if cfg!(feature = "page-64k") {
    16
} else if cfg!(feature = "page-16k") {
    14
} else {
    12
};
/// Bytes in a page of slab space, which need not be the system's page size.
pub const PAGE_SIZE: usize = 1 << PAGE_SHIFT;
/// Bytes in the smallest page of any system. Pages of a system are a multiple of it, and so are
/// ours.
pub(crate) const SMALLEST_SYSTEM_PAGE: usize = 4096;
/// Bytes in a huge-page block.
pub(crate) const BLOCK_SIZE: usize = 2 << 20;
/// The order of a huge-page block: 9 for pages of 4 KiB.
pub(crate) const BLOCK_ORDER: u8 = (BLOCK_SIZE / PAGE_SIZE).ilog2() as u8;
/// Pages in a huge-page block.
pub(crate) const BLOCK_PAGES: usize = 1 << BLOCK_ORDER;
/// Bytes of a cache line on all x86-64 and most aarch64 processors.
pub(crate) const CACHE_LINE: usize = 64;
/// Most objects in one slab, from the kernel's 15-bit `objects` field.
pub(crate) const MAX_OBJECTS_PER_SLAB: usize = 32767;
/// The object index that means "no object". It ends every freelist.
pub(crate) const NO_OBJECT: u16 = u16::MAX;
/// Bytes of the largest size class.
pub(crate) const LARGEST_CLASS: usize = 65536;
/// Most bytes of addresses that the zone can span: a [`PageIndex`] has 32 bits.
pub(crate) const MAX_ZONE_BYTES: usize = 8 << 40;
const _: () = assert!(MAX_ZONE_BYTES / PAGE_SIZE < u32::MAX as usize);
/// Most NUMA nodes, real or fake.
pub(crate) const MAX_NODES: usize = 64;

/// Returns a pointer without its tag, which is the top byte on aarch64: there the processor ignores
/// it under Linux, and programs may keep something in it.
#[inline(always)]
pub(crate) fn untagged(ptr: *mut u8) -> *mut u8 {
    if cfg!(all(target_arch = "aarch64", feature = "os")) {
        ptr.map_addr(|address| address & (usize::MAX >> 8))
    } else {
        ptr
    }
}

/// Size of a run of pages: `2^order` pages of [`PAGE_SIZE`] bytes, as in the kernel's page
/// allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order(pub(crate) u8);

impl Order {
    /// Returns the number of pages in a run of this order.
    #[inline]
    pub(crate) const fn pages(self) -> usize {
        1 << self.0
    }

    /// Returns the number of bytes in a run of this order.
    #[inline]
    pub(crate) const fn bytes(self) -> usize {
        PAGE_SIZE << self.0
    }

    /// Returns the smallest order that holds `bytes` (the kernel's `get_order`); order 0 for 0
    /// bytes.
    #[inline]
    pub(crate) const fn for_bytes(bytes: usize) -> Order {
        let pages = bytes.div_ceil(PAGE_SIZE);
        if pages <= 1 {
            return Order(0);
        }
        Order((usize::BITS - (pages - 1).leading_zeros()) as u8)
    }
}

/// A CPU number of the operating system; there may be gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CpuId(pub(crate) u32);

/// A NUMA node, real or fake, counted from 0 without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u8);

/// Number of a page in the zone: (address - zone base) / [`PAGE_SIZE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageIndex(pub(crate) u32);

impl PageIndex {
    /// Marks the end of lists of pages.
    pub(crate) const NONE: PageIndex = PageIndex(u32::MAX);

    /// Returns the page `n` after this one.
    #[inline]
    pub(crate) const fn add(self, n: usize) -> PageIndex {
        PageIndex(self.0 + n as u32)
    }
}

/// Rounds `value` up to a multiple of `align`, a power of two; `None` on overflow.
#[inline]
pub(crate) const fn checked_align_up(value: usize, align: usize) -> Option<usize> {
    match value.checked_add(align - 1) {
        Some(v) => Some(v & !(align - 1)),
        None => None,
    }
}

/// Rounds `value` up to a multiple of `align`, a power of two.
#[inline]
pub(crate) const fn align_up(value: usize, align: usize) -> usize {
    (value + align - 1) & !(align - 1)
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::*;

    #[test]
    fn order_is_the_smallest_that_holds() {
        let page = PAGE_SIZE;
        let block = (BLOCK_SIZE, BLOCK_ORDER);
        for (bytes, order) in [(0, 0), (1, 0), (page, 0), (page + 1, 1), (2 * page, 1), (2 * page + 1, 2), block] {
            assert_eq!(Order::for_bytes(bytes), Order(order), "{bytes} bytes");
        }
    }

    #[test]
    fn align_up_checks_overflow() {
        assert_eq!(checked_align_up(usize::MAX - 2, 4096), None);
        assert_eq!(checked_align_up(4095, 4096), Some(4096));
    }
}
