//! Chooses the addresses of the allocator's own ranges.
//!
//! ```text
//! open:     heads | class words | blocks | owners | empties | per-CPU areas | metadata | zone ...
//! reserved: zone | heads | class words | blocks | owners | empties     per-CPU areas     metadata
//! ```
//!
//! Linux has *open* ranges: their addresses are chosen without a reservation, and memory is mapped
//! there in steps. So only used memory counts for `RLIMIT_AS`, `mlockall` and core files. All parts
//! lie close together, so that they need few page-table pages. If no addresses are free (an
//! emulator with 39 bits of them) or the source proposes none (a fixed arena), the ranges are
//! *reserved* at the start, and the zone never exceeds its reservation.
//!
//! The tables have an entry for each block of the zone, and grow with it. Programs, too, map memory
//! at addresses of their own choice (V8 does), so an open range may have holes: see
//! [`super::zone`] and [`super::meta`].
#![allow(unsafe_code, reason = "commits ranges of the page source")]

use core::ops::Range;
use core::ptr::NonNull;

use crate::base::source::{PageSource, Refusal};
use crate::base::units::{BLOCK_SIZE, MAX_ZONE_BYTES, align_up};

/// The most bytes of metadata.
const META_BYTES: usize = 16 << 30;
/// The number of proposals that are tried before ranges are reserved.
const PROPOSALS: usize = 8;
/// The smallest useful zone: 64 KiB.
const SMALLEST_ZONE: usize = 64 << 10;

/// The tables of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Page heads.
    Heads,
    /// Class words.
    Class,
    /// The states of blocks.
    Blocks,
    /// The node of each block, in a byte.
    Owners,
    /// A bit for each block that is wholly free.
    Empties,
}

impl Table {
    pub(crate) const ALL: [Table; 5] = [Table::Heads, Table::Class, Table::Blocks, Table::Owners, Table::Empties];

    /// Returns the bytes of the table for `blocks` blocks.
    pub(crate) fn bytes(self, blocks: usize) -> usize {
        use super::block::BLOCK_STATE_BYTES;
        use super::head::BLOCK_HEADS_BYTES;
        match self {
            Table::Heads => blocks * BLOCK_HEADS_BYTES,
            Table::Class => blocks * (crate::base::units::BLOCK_PAGES * 4),
            Table::Blocks => blocks * BLOCK_STATE_BYTES,
            Table::Owners => blocks,
            Table::Empties => blocks.div_ceil(64) * 8,
        }
    }
}

/// Commits memory in the ranges.
#[derive(Clone, Copy)]
pub(crate) struct Supply {
    source: &'static dyn PageSource,
    /// Whether the ranges are reserved; otherwise they are open.
    reserved: bool,
}

impl Supply {
    /// Commits the addresses `from..to`, multiples of the page size.
    ///
    /// # Safety
    /// The addresses lie in a range of the layout. If ranges are open, these were not committed
    /// before.
    pub(crate) unsafe fn commit(&self, from: usize, to: usize) -> Result<(), Refusal> {
        let Some(at) = NonNull::new(from as *mut u8) else { return Err(Refusal::NoMemory) };
        if !self.reserved {
            return self.source.commit_open(at, to - from);
        }
        // SAFETY: the range is the caller's, and is reserved.
        if unsafe { self.source.commit(at, to - from) } { Ok(()) } else { Err(Refusal::NoMemory) }
    }

    #[cfg(test)]
    pub(crate) fn reserved(source: &'static dyn PageSource) -> Supply {
        Supply { source, reserved: true }
    }

    pub(crate) fn source(&self) -> &'static dyn PageSource {
        self.source
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved
    }
}

/// The addresses of all ranges.
#[derive(Clone)]
pub(crate) struct Layout {
    pub(crate) supply: Supply,
    /// The addresses of slab space. A reserved zone need not start or end at a block.
    pub(crate) zone: Range<usize>,
    /// The starts of the tables, in the order of [`Table::ALL`].
    pub(crate) tables: [usize; 5],
    /// The start of the per-CPU areas, which are committed.
    pub(crate) percpu: usize,
    /// The addresses of metadata.
    pub(crate) meta: Range<usize>,
}

impl Layout {
    /// Chooses all addresses, for `percpu` bytes of per-CPU areas and a zone of at most `most`
    /// bytes over all nodes. Returns `None` if not even the smallest zone fits.
    pub(crate) fn new(source: &'static dyn PageSource, percpu: usize, most: usize) -> Option<Layout> {
        let percpu = align_up(percpu, source.page_size());
        Layout::open(source, percpu, most).or_else(|| Layout::reserved(source, percpu, most))
    }

    fn open(source: &'static dyn PageSource, percpu: usize, most: usize) -> Option<Layout> {
        let supply = Supply { source, reserved: false };
        let zone_bytes = most.min(MAX_ZONE_BYTES) & !(BLOCK_SIZE - 1);
        if zone_bytes == 0 {
            return None;
        }
        let blocks = zone_bytes / BLOCK_SIZE;
        let page = source.page_size();
        // Each range starts at a page. Large ranges come first, so that all others lie near the
        // zone.
        let mut bytes = 0;
        let mut take = |range: usize| {
            let start = bytes;
            bytes += align_up(range, page);
            start
        };
        let tables = Table::ALL.map(|table| take(table.bytes(blocks)));
        let areas = take(percpu);
        let meta = take(META_BYTES);
        let zone = align_up(bytes, BLOCK_SIZE);
        for _ in 0..PROPOSALS {
            let base = source.propose(zone + zone_bytes, BLOCK_SIZE)?;
            // SAFETY: the addresses lie in the range just proposed, where nothing was committed.
            match unsafe { supply.commit(base + areas, base + areas + percpu) } {
                Ok(()) => {
                    return Some(Layout {
                        supply,
                        zone: base + zone..base + zone + zone_bytes,
                        tables: tables.map(|start| base + start),
                        percpu: base + areas,
                        meta: base + meta..base + meta + META_BYTES,
                    });
                }
                Err(Refusal::Taken) => {}
                Err(Refusal::NoMemory) => return None,
            }
        }
        None
    }

    fn reserved(source: &'static dyn PageSource, percpu: usize, most: usize) -> Option<Layout> {
        let supply = Supply { source, reserved: true };
        let page = source.page_size();
        let all = source.zone_bytes();
        let rest = percpu + Layout::meta_bytes(all, page) + Layout::table_bytes(all, page).iter().sum::<usize>();
        let mut zone_bytes = all.saturating_sub(rest).min(most) & !(page - 1);
        let (zone, tables) = loop {
            if zone_bytes < SMALLEST_ZONE {
                return None;
            }
            match Layout::reserve_zone(source, zone_bytes) {
                Some(found) => break found,
                // The zone is cut to whole blocks; an arena may be smaller than one block.
                None => {
                    let unit = if zone_bytes > 2 * BLOCK_SIZE { BLOCK_SIZE } else { page };
                    zone_bytes = (zone_bytes / 2) & !(unit - 1);
                }
            }
        };
        let areas = source.reserve(percpu, page)?.as_ptr() as usize;
        // SAFETY: this call reserved the whole range.
        unsafe { supply.commit(areas, areas + percpu) }.ok()?;
        let meta_bytes = Layout::meta_bytes(zone_bytes, page);
        let meta = source.reserve(meta_bytes, page)?.as_ptr() as usize;
        Some(Layout { supply, zone, tables, percpu: areas, meta: meta..meta + meta_bytes })
    }

    /// Returns the bytes of metadata beside a reserved zone.
    fn meta_bytes(zone: usize, page: usize) -> usize {
        align_up((zone / 32).clamp(64 << 10, META_BYTES), page)
    }

    /// Returns the bytes of the tables of a reserved zone.
    fn table_bytes(zone: usize, page: usize) -> [usize; 5] {
        // One block more, because an arena need neither start nor end at a block.
        let blocks = zone.div_ceil(BLOCK_SIZE) + 1;
        Table::ALL.map(|table| align_up(table.bytes(blocks), page))
    }

    /// Reserves the zone and its tables at once, so that a refusal leaves no reservation behind.
    fn reserve_zone(source: &dyn PageSource, bytes: usize) -> Option<(Range<usize>, [usize; 5])> {
        let page = source.page_size();
        let sizes = Layout::table_bytes(bytes, page);
        let align = if bytes.is_multiple_of(BLOCK_SIZE) { BLOCK_SIZE } else { page };
        let start = source.reserve(bytes + sizes.iter().sum::<usize>(), align)?.as_ptr() as usize;
        let mut next = start + bytes;
        let tables = sizes.map(|size| {
            next += size;
            next - size
        });
        Some((start..start + bytes, tables))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::{AtomicUsize, Ordering};
    use crate::base::units::{NodeId, PAGE_SIZE};
    use std::prelude::rust_2024::*;

    /// A source with addresses and no memory, so committed ranges must not be touched.
    struct Addresses {
        /// The number of proposals that turn out to be taken.
        taken: AtomicUsize,
        proposes: bool,
        most: usize,
    }

    // SAFETY: the tests touch no memory of this source.
    unsafe impl PageSource for Addresses {
        fn page_size(&self) -> usize {
            4096
        }
        fn zone_bytes(&self) -> usize {
            self.most
        }
        fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
            (bytes <= 2 * self.most).then(|| NonNull::new(align_up(1 << 44, align) as *mut u8)).flatten()
        }
        fn propose(&self, _bytes: usize, _align: usize) -> Option<usize> {
            self.proposes.then_some(1 << 45)
        }
        fn commit_open(&self, _at: NonNull<u8>, _bytes: usize) -> Result<(), Refusal> {
            let one_less = |taken: usize| taken.checked_sub(1);
            match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
                Ok(_) => Err(Refusal::Taken),
                Err(_) => Ok(()),
            }
        }
        unsafe fn commit(&self, _at: NonNull<u8>, _bytes: usize) -> bool {
            true
        }
        unsafe fn release(&self, _at: NonNull<u8>, _bytes: usize) -> bool {
            false
        }
        unsafe fn bind(&self, _at: NonNull<u8>, _bytes: usize, _node: NodeId) {}
        fn map_direct(&self, _bytes: usize) -> Option<NonNull<u8>> {
            None
        }
        unsafe fn unmap_direct(&self, _at: NonNull<u8>, _bytes: usize) {}
    }

    fn layout(taken: usize, proposes: bool, most: usize, wanted: usize) -> Option<Layout> {
        Layout::new(Box::leak(Box::new(Addresses { taken: AtomicUsize::new(taken), proposes, most })), 3 << 16, wanted)
    }

    /// Returns all ranges, with the tables for a whole zone.
    fn ranges(layout: &Layout) -> Vec<Range<usize>> {
        let blocks = (layout.zone.end - layout.zone.start) / BLOCK_SIZE;
        let tables = Table::ALL.into_iter().zip(layout.tables).map(|(table, at)| at..at + table.bytes(blocks));
        let mut all: Vec<_> = tables.collect();
        all.extend([layout.percpu..layout.percpu + (3 << 16), layout.meta.clone(), layout.zone.clone()]);
        all.sort_by_key(|range| range.start);
        all
    }

    #[test]
    fn ranges_do_not_overlap_and_every_page_has_a_number_whatever_the_machine() {
        // A machine of 12 TiB asks for 24.
        for (wanted, zone) in [(MAX_ZONE_BYTES, MAX_ZONE_BYTES), (24 << 40, MAX_ZONE_BYTES), (64 << 20, 64 << 20)] {
            let layout = layout(0, true, 1 << 40, wanted).expect("addresses");
            assert!(!layout.supply.is_reserved());
            let all = ranges(&layout);
            assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start), "{all:x?}");
            assert_eq!(layout.zone.len(), zone);
            assert!(u32::try_from(layout.zone.len() / PAGE_SIZE).is_ok_and(|pages| pages < u32::MAX));
        }
    }

    #[test]
    fn a_place_that_is_taken_is_left_for_another_and_then_for_a_reservation() {
        assert!(!layout(PROPOSALS - 1, true, 1 << 30, 1 << 40).expect("addresses").supply.is_reserved());
        for (taken, proposes) in [(PROPOSALS, true), (0, false)] {
            let layout = layout(taken, proposes, 1 << 30, 1 << 40).expect("addresses");
            assert!(layout.supply.is_reserved());
            // All of it fits into what the source has, and most of that is the zone.
            let tables = Layout::table_bytes(layout.zone.len(), 4096).iter().sum::<usize>();
            let all = layout.zone.len() + tables + layout.meta.len() + (3 << 16);
            assert!(all <= 1 << 30 && layout.zone.len() > (1 << 30) / 20 * 19, "{:#x} of {all:#x}", layout.zone.len());
        }
    }
}
