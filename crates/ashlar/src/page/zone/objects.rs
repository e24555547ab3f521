//! The memory of the object map (see [`crate::page::objmap`]): it grows with the zone, and goes back with its pages.
#![allow(unsafe_code, reason = "commits and releases ranges of the page source")]

use core::ptr::NonNull;

use super::{MEMMAP, PageSource, Zone};
use crate::page::objmap::{self, GRAIN, OBJECTS};
use crate::sync::{LockWord, Ordering};
use crate::units::{BLOCK_SIZE, PAGE_SIZE, PageIndex, align_up};

/// Entries, and so bytes, of the map for one block.
pub(super) const BLOCK_ENTRIES: usize = BLOCK_SIZE / GRAIN;

impl Zone {
    /// Makes the object map, if there is none; false when memory for it is refused. Called when malloc starts.
    pub(crate) fn start_objects(&self) -> bool {
        self.for_each_lock(&mut LockWord::lock_for_fork);
        let made = self.start_objects_locked();
        self.for_each_lock(&mut LockWord::unlock_after_fork);
        made
    }

    /// Under all zone locks, so that no block is committed meanwhile.
    fn start_objects_locked(&self) -> bool {
        if self.objects.load(Ordering::Relaxed) != 0 {
            return true;
        }
        let Some(source) = self.source() else { return false };
        let bytes = MEMMAP.nr_pages.load(Ordering::Relaxed) * PAGE_SIZE;
        let size = align_up(bytes / GRAIN, source.page_size());
        let zone_base = MEMMAP.zone_base.load(Ordering::Relaxed);
        let place = NonNull::new((zone_base / GRAIN) as *mut u8).filter(|&at| source.reserve_at(at, size));
        let Some(at) = place.or_else(|| source.reserve(size, source.page_size())) else { return false };
        // SAFETY: the whole range was just reserved.
        if !unsafe { source.make_readable(at, size) } {
            return false;
        }
        self.objects.store(at.as_ptr() as usize, Ordering::Relaxed);
        for node in &self.node[..self.nodes()] {
            // SAFETY: the caller holds every zone lock, so nobody else has a reference to what they guard.
            let (first, count) = unsafe { ((*node.data_ptr()).first, (*node.data_ptr()).committed) };
            if !self.commit_objects(source, first as usize, count as usize) {
                self.objects.store(0, Ordering::Relaxed);
                return false;
            }
        }
        OBJECTS.publish(zone_base, bytes, at.as_ptr() as usize);
        true
    }

    /// Makes the map writable for `count` blocks from `first`, if there is a map; false when memory is refused.
    pub(super) fn commit_objects(&self, source: &dyn PageSource, first: usize, count: usize) -> bool {
        let map = self.objects.load(Ordering::Relaxed);
        if map == 0 || count == 0 {
            return true;
        }
        let size = source.page_size();
        let start = (map + first * BLOCK_ENTRIES) & !(size - 1);
        let end = align_up(map + (first + count) * BLOCK_ENTRIES, size);
        NonNull::new(start as *mut u8).is_some_and(|at| {
            // SAFETY: the map has entries for every block of the zone.
            unsafe { source.commit(at, end - start) }
        })
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
