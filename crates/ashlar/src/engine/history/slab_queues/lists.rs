//! A node's slabs: full, partial and free lists under one list_lock.
//!
//! Lock: the lists, and the record of free objects of each slab, change under list_lock alone.

use super::array::ArrayCache;
use super::record::{Put, Taken};
use super::slabs::Slabs;
use crate::base::units::PageIndex;
use crate::slab::partial::Partial;
#[cfg(not(ashlar_loom))]
use crate::{base::report, pages::memmap::MEMMAP, slab::cache::CacheSlabs};

/// Objects that a refill brings to a CPU whose array was unused lately.
const BATCH_REFILL_LIMIT: usize = 16;

/// Work left for after all locks are dropped: slabs to destroy, misuse to report.
pub(crate) struct After {
    pub(crate) empty: Partial,
    /// The first double free and the first slab with a corrupt array; 0 for none.
    pub(crate) twice: usize,
    pub(crate) corrupt: usize,
}

impl After {
    pub(crate) const NOTHING: After = After { empty: Partial::EMPTY, twice: 0, corrupt: 0 };
}

#[cfg(not(ashlar_loom))]
#[place(cold)]
impl After {
    /// Does the work.
    #[inline]
    pub(super) fn settle(self, cache: &'static CacheSlabs) {
        if self.empty.count > 0 || self.twice != 0 || self.corrupt != 0 {
            self.settle_now(cache);
        }
    }

    #[cold]
    fn settle_now(mut self, cache: &'static CacheSlabs) {
        while self.empty.count > 0 {
            let page = self.empty.first();
            self.empty.unlink(&MEMMAP, page);
            super::slabs::destroy_slab(cache, page);
        }
        if self.corrupt != 0 {
            report::corrupt_freelist(cache.name(), self.corrupt);
        }
        if self.twice != 0 {
            report::double_free(cache.name(), self.twice);
        }
    }
}

/// The data that list_lock guards.
pub(crate) struct Lists {
    pub(crate) partial: Partial,
    pub(crate) full: Partial,
    pub(crate) free: Partial,
    /// Objects for all CPUs of the node; `None` if the tunables set no shared array.
    pub(crate) shared: Option<&'static ArrayCache>,
    /// Free objects in slabs.
    pub(crate) free_objects: usize,
    /// Free objects above which free slabs are given back.
    pub(crate) free_limit: usize,
    /// Set when an allocation had to take a free slab.
    pub(super) free_touched: bool,
    /// The colour of the next slab.
    colour_next: usize,
    /// Time of the reaper's next round.
    pub(super) next_reap: u32,
    /// The remote node whose alien cache the reaper drains next.
    pub(super) next_alien: usize,
    /// Refills of a CPU's array out of the shared one.
    pub(super) shared_refills: u64,
    /// Objects that the reaper took out of arrays.
    pub(super) reaped: u64,
}

#[place(cold)]
impl Lists {
    pub(crate) const NEW: Lists = Lists {
        partial: Partial::EMPTY,
        full: Partial::EMPTY,
        free: Partial::EMPTY,
        shared: None,
        free_objects: 0,
        free_limit: 0,
        free_touched: false,
        colour_next: 0,
        next_reap: 0,
        next_alien: 0,
        shared_refills: 0,
        reaped: 0,
    };

    /// Returns the next of `colours` colours, in turn.
    pub(super) fn next_colour(&mut self, colours: usize) -> usize {
        let colour = self.colour_next;
        self.colour_next = (colour + 1) % colours;
        colour
    }

    /// Fills a CPU's array by a batch, from the shared array or from slabs with free objects. The
    /// caller has locked the array and found it empty.
    pub(crate) fn refill(&mut self, slabs: &impl Slabs, array: &ArrayCache, after: &mut After) {
        let mut batch = array.batchcount();
        if !array.is_touched() {
            batch = batch.min(BATCH_REFILL_LIMIT);
        }
        if let Some(shared) = self.shared
            && shared.transfer(array, batch) > 0
        {
            self.shared_refills += 1;
            return;
        }
        self.take(slabs, batch.min(array.room()), |object| _ = array.push(object), after);
    }

    /// Moves the oldest batch of a CPU's array to the shared array as far as that has room. If it
    /// has none, returns the batch to slabs.
    pub(crate) fn flush(&mut self, slabs: &impl Slabs, array: &ArrayCache, after: &mut After) {
        let batch = array.batchcount();
        if let Some(shared) = self.shared
            && shared.room() > 0
        {
            let moved = array.oldest_to(shared, batch);
            array.shift(moved);
            return;
        }
        self.drain(slabs, array, batch, after);
    }

    /// Replaces the shared array. Returns the objects of the old one to slabs, and the old one to
    /// the caller.
    pub(crate) fn replace_shared(
        &mut self,
        slabs: &impl Slabs,
        new: Option<&'static ArrayCache>,
        after: &mut After,
    ) -> Option<&'static ArrayCache> {
        let old = core::mem::replace(&mut self.shared, new)?;
        self.drain(slabs, old, usize::MAX, after);
        Some(old)
    }

    /// Returns the list for a slab with `active` objects in use.
    fn list_of(&mut self, objects: usize, active: usize) -> &mut Partial {
        if active == 0 {
            &mut self.free
        } else if active == objects {
            &mut self.full
        } else {
            &mut self.partial
        }
    }

    /// Enters a fresh slab after `take` has taken up to `want` objects. Returns the number taken.
    pub(crate) fn add_slab(
        &mut self,
        slabs: &impl Slabs,
        page: PageIndex,
        want: usize,
        take: impl FnMut(usize),
        after: &mut After,
    ) -> usize {
        self.free_objects += slabs.objects();
        self.free.push_front(slabs, page);
        self.take_from(slabs, page, want, take, after)
    }

    /// Takes up to `want` objects from slabs, partial ones first. Returns the number taken.
    pub(crate) fn take(
        &mut self,
        slabs: &impl Slabs,
        want: usize,
        mut take: impl FnMut(usize),
        after: &mut After,
    ) -> usize {
        let mut had = 0;
        while had < want {
            let mut page = self.partial.first();
            if page == PageIndex::NONE {
                page = self.free.first();
                if page == PageIndex::NONE {
                    break;
                }
                self.free_touched = true;
            }
            had += self.take_from(slabs, page, want - had, &mut take, after);
        }
        had
    }

    /// Takes up to `want` objects from a slab of the partial or free list, then moves it to the
    /// list where it belongs. A slab whose record holds an impossible index is quarantined.
    fn take_from(
        &mut self,
        slabs: &impl Slabs,
        page: PageIndex,
        want: usize,
        take: impl FnMut(usize),
        after: &mut After,
    ) -> usize {
        let objects = slabs.objects();
        let Taken { before, active, corrupt } = slabs.take_objects(page, want, take);
        self.list_of(objects, before).unlink(slabs, page);
        if corrupt {
            self.free_objects -= objects - before;
            after.corrupt = slabs.address_of(page);
        } else {
            self.free_objects -= active - before;
            self.list_of(objects, active).push_front(slabs, page);
        }
        active - before
    }

    /// Returns an object to its slab, which belongs to this node, and moves the slab to the end of
    /// its list. There it has the most time to become empty.
    fn put(&mut self, slabs: &impl Slabs, object: usize, after: &mut After) {
        let Some((page, index)) = slabs.find(object) else { return };
        let active = match slabs.put_object(page, index, object) {
            Put::Active(active) => active,
            Put::Twice => {
                after.twice = object;
                return;
            }
            Put::Quarantined => return,
        };
        self.list_of(slabs.objects(), active + 1).unlink(slabs, page);
        self.free_objects += 1;
        if active > 0 {
            self.partial.push_back(slabs, page);
        } else if slabs.array().is_chain() && self.free_objects > self.free_limit {
            self.free_objects -= slabs.objects();
            after.empty.push_back(slabs, page);
        } else {
            self.free.push_front(slabs, page);
        }
    }

    /// Returns objects of this node to their slabs, and moves free slabs above the limit to
    /// `after`: in 2.6.24 each that an object makes free, later the oldest ones.
    pub(crate) fn free_block(&mut self, slabs: &impl Slabs, objects: &[usize], after: &mut After) {
        for &object in objects {
            self.put(slabs, object, after);
        }
        while !slabs.array().is_chain() && self.free_objects > self.free_limit && self.free.count > 0 {
            self.drop_free(slabs, 1, after);
        }
    }

    /// Moves up to `count` free slabs to `after`, the oldest first.
    pub(crate) fn drop_free(&mut self, slabs: &impl Slabs, count: usize, after: &mut After) {
        for _ in 0..count {
            let page = self.free.last();
            if page == PageIndex::NONE {
                break;
            }
            self.free.unlink(slabs, page);
            self.free_objects -= slabs.objects();
            after.empty.push_back(slabs, page);
        }
    }

    /// Returns the `count` oldest objects of an array to their slabs. The caller has locked the
    /// array.
    pub(crate) fn drain(&mut self, slabs: &impl Slabs, array: &ArrayCache, count: usize, after: &mut After) {
        const STEP: usize = 64;
        let mut left = count.min(array.avail());
        while left > 0 {
            let mut objects = [0; STEP];
            let had = array.oldest(&mut objects[..left.min(STEP)]);
            self.free_block(slabs, &objects[..had], after);
            array.shift(had);
            left -= had;
        }
    }
}
