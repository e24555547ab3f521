//! An engine as small as they get, for tests alone: one list of slabs for each node, and nothing in
//! front of it.
//!
//! It shows what it takes to add one: the three functions that have no default. What a slab is, how
//! its freelist is linked and when its pages go back is all in [`crate::slab`].
#![allow(unsafe_code, reason = "follows a freelist")]

use super::{Object, RawCache, Strategy};
use crate::base::units::{NodeId, PageIndex};
use crate::pages::memmap::MEMMAP;
use crate::percpu::area::PERCPU;
use crate::percpu::{pages, this_cpu};
use crate::slab::freelist::{read_link, write_link};
use crate::slab::partial::{Chain, Taken, Taker};
use crate::slab::return_objects::return_objects;
use crate::slab::state::{NO_OBJECT, SlabState};

#[derive(Clone, Copy)]
pub(crate) struct Toy;

/// Address of the link of object `index` of the slab `page`.
fn link_at(cache: &RawCache, page: PageIndex, index: u16) -> usize {
    object_at(cache, page, index) + cache.slabs.geometry.link_offset
}

fn object_at(cache: &RawCache, page: PageIndex, index: u16) -> usize {
    MEMMAP.address_of(page) + usize::from(index) * cache.slabs.geometry.stride
}

/// The object after `index` on a freelist that this thread owns.
fn next_of(cache: &RawCache, page: PageIndex, index: u16) -> u16 {
    // SAFETY: the freelist was taken with the state word of its slab, so its objects belong to this
    // thread.
    unsafe { read_link(link_at(cache, page, index), cache.slabs.secret, MEMMAP.head(page).objects()) }.unwrap()
}

/// The first object of a slab that was taken from; the rest of its freelist goes back.
fn first_of(cache: &'static RawCache, taken: &Taken) -> usize {
    let (page, Chain { head, count }) = (taken.page, taken.chain);
    if count == 0 {
        return cache.slabs.carve(object_at(cache, page, taken.first_fresh));
    }
    if count > 1 {
        let rest = Chain { head: next_of(cache, page, head), count: count - 1 };
        let relink = |prior| {
            let last = core::iter::successors(Some(rest.head), |&at| Some(next_of(cache, page, at)))
                .take_while(|&at| at != NO_OBJECT)
                .last();
            // SAFETY: as in `next_of`.
            unsafe { write_link(link_at(cache, page, last.unwrap()), cache.slabs.secret, prior) };
        };
        // The slab has an object in use, the one that is returned: so it cannot become empty.
        cache.slabs.node_of(page).list().give_back(&MEMMAP, page, rest, 0, false, relink);
    }
    object_at(cache, page, head)
}

impl Strategy for Toy {
    fn alloc(cache: &'static RawCache) -> *mut u8 {
        Self::alloc_on(cache, PERCPU.node_of(this_cpu()))
    }

    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        let entry = &cache.slabs.nodes[usize::from(node.0)];
        let mut taken = [Taken::NOTHING];
        if entry.list().take(&MEMMAP, Taker::Own, 1, &mut taken).0 == 1 {
            return first_of(cache, &taken[0]) as *mut u8;
        }
        let order = cache.slabs.geometry.order;
        let Some(run) = pages::alloc(node, order) else { return core::ptr::null_mut() };
        let objects = cache.slabs.open_slab(run.first, order, node, |_| SlabState::carved_from_fresh(1));
        entry.counters.count_taken(1, usize::from(objects));
        if objects > 1 {
            entry.list().add_new(&MEMMAP, run.first);
        }
        cache.slabs.carve(object_at(cache, run.first, 0)) as *mut u8
    }

    fn free(object: Object) {
        return_objects(&object.cache.slabs, &[object.address]);
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Engine, usage};
    use crate::{CacheArgs, KmemCache};
    use std::vec::Vec;

    #[test]
    fn a_toy_engine_of_three_functions_serves_a_cache() {
        let args = CacheArgs { engine: Some(Engine::Toy), min_partial: Some(0), ..CacheArgs::default() };
        let cache = KmemCache::create("toy", 200, &args).expect("a cache");
        let usage_of = || usage(cache.raw_cache());
        let mut objects: Vec<_> = (0..1000).map(|_| cache.alloc().expect("memory")).collect();
        objects.sort_unstable();
        assert!(objects.windows(2).all(|pair| pair[0].addr().get() + 200 <= pair[1].addr().get()), "objects overlap");
        let before = usage_of();
        assert_eq!((before.live, before.cached), (1000, 0));
        // Every third stays, so that slabs have freelists, which the next allocations use up.
        let (kept, freed): (Vec<_>, Vec<_>) = objects.iter().enumerate().partition(|(at, _)| at % 3 == 0);
        // SAFETY: allocated above, and freed once.
        freed.iter().for_each(|&(_, &object)| unsafe { cache.free(object) });
        assert_eq!(usage_of().live, kept.len());
        let again: Vec<_> = freed.iter().map(|_| cache.alloc().expect("memory")).collect();
        assert_eq!(usage_of().slabs, before.slabs, "free objects of slabs that exist come first");
        let all = kept.iter().map(|&(_, &object)| object).chain(again);
        // SAFETY: as above.
        all.for_each(|object| unsafe { cache.free(object) });
        assert_eq!((usage_of().live, usage_of().slabs), (0, 0), "empty slabs go back at once");
        cache.destroy().expect("no object is left");
    }
}
