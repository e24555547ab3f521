//! The memory of the [`Shadow`]: committed as the zone grows, released with the pages that it
//! describes.
//!
//! Guarded by the growth lock. Only the address of the table is read without it.
#![allow(unsafe_code, reason = "commits and releases ranges of the page source")]

use core::ptr::NonNull;

use super::extents::Stretch;
use super::frontier::{Frontier, Part, TABLE_BLOCKS, commit_up_to};
use super::{MEMMAP, PageSource, Zone};
use crate::base::source::Refusal;
use crate::base::sync::Ordering;
use crate::base::units::{BLOCK_SIZE, PAGE_SIZE, PageIndex, align_up};
use crate::pages::layout::Supply;
use crate::pages::shadow::Shadow;

/// The number of places proposed for a table whose best place is taken.
const PROPOSALS: usize = 8;

impl Zone {
    /// Creates the table of `shadow` if there is none yet. Returns false if its memory is refused.
    #[place(cold)]
    #[inline(never)]
    pub(crate) fn start_shadow(&self, shadow: &'static Shadow) -> bool {
        // The zone does not grow while this lock is held.
        let mut frontier = self.frontier.lock();
        // SAFETY: the growth lock is held.
        let _ = unsafe { self.shadow.set(shadow) };
        self.shadow_at.load(Ordering::Relaxed) != 0 || self.place_shadow(shadow, &mut frontier).is_some()
    }

    fn place_shadow(&self, shadow: &'static Shadow, frontier: &mut Frontier) -> Option<()> {
        let supply = self.supply.get()?;
        let source = supply.source();
        let zone_base = MEMMAP.zone_base.load(Ordering::Relaxed);
        let size = align_up(frontier.limit() * (BLOCK_SIZE / shadow.grain), source.page_size());
        let best = zone_base / shadow.grain;
        if supply.is_reserved() {
            let at = NonNull::new(best as *mut u8).filter(|&at| source.reserve_at(at, size));
            let at = at.or_else(|| source.reserve(size, source.page_size()))?;
            self.try_place(shadow, frontier, supply, at.as_ptr() as usize)?;
        } else {
            let others = (0..PROPOSALS).filter_map(|_| source.propose(size, source.page_size()));
            core::iter::once(best).chain(others).find_map(|at| self.try_place(shadow, frontier, supply, at))?;
        }
        (shadow.placed)(zone_base, self.shadow_at.load(Ordering::Relaxed));
        self.publish(frontier);
        Some(())
    }

    /// Commits the table at `at` for the blocks that exist. If memory is refused, there is no
    /// table. The address is published last, because a purge releases parts of the table without
    /// the growth lock.
    fn try_place(&self, shadow: &'static Shadow, frontier: &mut Frontier, supply: Supply, at: usize) -> Option<()> {
        frontier.shadow_committed = at;
        let end = frontier.next.max(1).min(frontier.limit);
        commit_at(shadow, at, frontier, supply, Stretch { start: 0, end }).ok()?;
        self.shadow_at.store(at, Ordering::Relaxed);
        Some(())
    }

    /// Returns the table and its address, if there is one.
    pub(super) fn shadow(&self) -> Option<(&'static Shadow, usize)> {
        let at = self.shadow_at.load(Ordering::Relaxed);
        if at == 0 { None } else { self.shadow.get().map(|&shadow| (shadow, at)) }
    }

    /// Commits the table for `blocks` and all before them that have memory, if there is a table.
    pub(super) fn commit_shadow(
        &self,
        frontier: &mut Frontier,
        supply: Supply,
        blocks: Stretch,
    ) -> Result<(), Refusal> {
        let Some((shadow, at)) = self.shadow() else { return Ok(()) };
        commit_at(shadow, at, frontier, supply, blocks)
    }

    /// Releases the part of the table that describes only the `pages` free pages from `first` on.
    /// The caller holds these pages, so their bytes in the table are 0 and stay 0.
    pub(super) fn release_shadow(&self, source: &dyn PageSource, first: PageIndex, pages: usize) {
        let Some((shadow, at)) = self.shadow() else { return };
        let size = source.page_size();
        let bias = at.wrapping_sub(MEMMAP.zone_base.load(Ordering::Relaxed) / shadow.grain);
        let from = MEMMAP.address_of(first);
        let mut addresses = from..from + pages * PAGE_SIZE;
        while !addresses.is_empty() {
            for bytes in (shadow.take_ranges)(&mut addresses) {
                // Only whole system pages.
                let start = align_up(bytes.start.wrapping_add(bias), size);
                let end = bytes.end.wrapping_add(bias) & !(size - 1);
                let Some(at) = NonNull::new(start as *mut u8).filter(|_| start < end) else { continue };
                // SAFETY: these bytes belong to pages that the caller holds, so no thread writes
                // them meanwhile. A stray look-up reads 0 before and after. If the source cannot
                // promise zeros, they are written.
                unsafe {
                    if !source.release(at, end - start) {
                        at.write_bytes(0, end - start);
                    }
                }
            }
        }
    }
}

/// Commits the table at `at` for `blocks`.
fn commit_at(
    shadow: &'static Shadow,
    at: usize,
    frontier: &mut Frontier,
    supply: Supply,
    blocks: Stretch,
) -> Result<(), Refusal> {
    let [from, need] = [blocks.start, blocks.end].map(|block| block as usize);
    let good = need.next_multiple_of(TABLE_BLOCKS).min(frontier.limit());
    let [from, need, good] = [from, need, good].map(|blocks| blocks * (BLOCK_SIZE / shadow.grain));
    // SAFETY: the table has addresses for every block of the zone.
    unsafe { commit_up_to(supply, at, &mut frontier.shadow_committed, Part { from, need, good }) }
}
