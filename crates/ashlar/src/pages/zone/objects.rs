//! The memory of the object map (see [`crate::pages::objmap`]): it grows with the zone, and goes back with its pages.
#![allow(unsafe_code, reason = "commits and releases ranges of the page source")]

use core::ptr::NonNull;

use super::grow::Frontier;
use super::{MEMMAP, PageSource, Zone};
use crate::base::sync::Ordering;
use crate::base::units::{BLOCK_SIZE, PAGE_SIZE, PageIndex, align_up};
use crate::pages::layout::Supply;
use crate::pages::objmap::{self, GRAIN, OBJECTS};

/// Entries, and so bytes, of the map for one block.
pub(super) const BLOCK_ENTRIES: usize = BLOCK_SIZE / GRAIN;

/// Places that are proposed for a map that cannot have its own.
const PROPOSALS: usize = 8;

impl Zone {
    /// Makes the object map, if there is none; false when memory for it is refused. Called when malloc starts.
    pub(crate) fn start_objects(&self) -> bool {
        // So the zone does not grow meanwhile.
        let mut frontier = self.frontier.lock();
        self.objects.load(Ordering::Relaxed) != 0 || self.place_objects(&mut frontier).is_some()
    }

    fn place_objects(&self, frontier: &mut Frontier) -> Option<()> {
        let supply = self.supply.get()?;
        let source = supply.source();
        let zone_base = MEMMAP.zone_base.load(Ordering::Relaxed);
        let size = align_up(frontier.limit() * BLOCK_ENTRIES, source.page_size());
        let own = zone_base / GRAIN;
        if supply.is_reserved() {
            let at = NonNull::new(own as *mut u8).filter(|&at| source.reserve_at(at, size));
            let at = at.or_else(|| source.reserve(size, source.page_size()))?;
            self.try_place(frontier, supply, at.as_ptr() as usize)?;
        } else {
            let others = (0..PROPOSALS).filter_map(|_| source.propose(size, source.page_size()));
            core::iter::once(own).chain(others).find_map(|at| self.try_place(frontier, supply, at))?;
        }
        OBJECTS.publish(zone_base, self.objects.load(Ordering::Relaxed));
        self.publish(frontier);
        Some(())
    }

    /// Commits what the map needs first, at `at`; without memory there is no map.
    fn try_place(&self, frontier: &mut Frontier, supply: Supply, at: usize) -> Option<()> {
        self.objects.store(at, Ordering::Relaxed);
        frontier.objects_committed = at;
        let blocks = frontier.blocks().max(1).min(frontier.limit());
        let committed = self.commit_objects(frontier, supply, blocks);
        if committed.is_none() {
            self.objects.store(0, Ordering::Relaxed);
        }
        committed
    }

    /// Gives the memory of the map back that stands for nothing but `pages` free pages from `first`, which the caller
    /// holds: their entries are all 0, and stay so. The whole system pages of each plane, that is.
    pub(super) fn release_objects(&self, source: &dyn PageSource, first: PageIndex, pages: usize) {
        let map = self.objects.load(Ordering::Relaxed);
        if map == 0 {
            return;
        }
        let size = source.page_size();
        let bias = map.wrapping_sub(MEMMAP.zone_base.load(Ordering::Relaxed) / GRAIN);
        let from = MEMMAP.address_of(first);
        objmap::ranges_of(from, from + pages * PAGE_SIZE, |entries| {
            let start = align_up(entries.start.wrapping_add(bias), size);
            let end = entries.end.wrapping_add(bias) & !(size - 1);
            let Some(at) = NonNull::new(start as *mut u8).filter(|_| start < end) else { return };
            // SAFETY: these entries belong to pages that the caller holds, so nobody enters an object there meanwhile;
            // a stray look-up reads 0 before and after. A source that cannot promise zeros gets them written.
            unsafe {
                if !source.release(at, end - start) {
                    at.write_bytes(0, end - start);
                }
            }
        });
    }
}
