//! Flush: returns objects to their slabs, grouped so that each slab costs one compare-and-swap.
//!
//! A group is the kernel's *detached freelist*. Groups form in a small direct-mapped table, so
//! objects of a slab are grouped in any order of the array, without sorting and without touching
//! the objects. The links are written when the group is published, and not at all if the group
//! empties its slab.
#![allow(unsafe_code, reason = "writes free links")]

use super::cache::CacheSlabs;
use super::discard::discard;
use super::node::Node;
use super::partial::{Chain, Freed};
use crate::base::report;
use crate::base::sync::{Ordering, prefetch};
use crate::base::units::PageIndex;
use crate::pages::memmap::MEMMAP;
use crate::slab::freelist::write_link;
use crate::slab::state::SlabState;
use ashlar_macros::place;

/// Entries of a batch's link table. A batch has one object fewer, about as many as a full sheaf.
const BATCH: usize = 256;
const GROUPS: usize = 32;
const END: u8 = u8::MAX;
/// Objects to prefetch ahead: the free link and the slab's head. Both are mostly cold, and many
/// misses at a time cost little more than one.
const AHEAD: usize = 12;
/// Slabs returned to the zone under one lock.
const DISCARDS: usize = 16;

#[derive(Clone, Copy)]
struct Group {
    page: PageIndex,
    /// Position of the group's newest object; the others follow through `Batch::next`.
    first: u8,
    count: u16,
}

const EMPTY: Group = Group { page: PageIndex::NONE, first: END, count: 0 };

/// A destination for groups of objects of one slab, as detached freelists.
pub(crate) trait Sink {
    /// Returns the first free object of this CPU's slab if that slab is `page`.
    fn first_on_cpu(&self, _page: PageIndex) -> Option<u16> {
        None
    }

    /// Frees a chain to its slab, of `node`. `link(prior)` writes the chain's links, the last one
    /// to `prior`.
    fn push_chain(&mut self, node: &Node, page: PageIndex, chain: Chain, link: impl FnMut(u16)) -> Freed;
}

/// Returns groups directly to their slabs; for caches with sheaves.
struct ToSlabs(&'static CacheSlabs);

impl Sink for ToSlabs {
    #[inline]
    fn push_chain(&mut self, node: &Node, page: PageIndex, chain: Chain, link: impl FnMut(u16)) -> Freed {
        let (min_partial, reset) = (self.0.min_partial_of_list(), self.0.ctor.is_none());
        node.list_of(page).push_chain(&MEMMAP, page, chain, min_partial, reset, link)
    }
}

struct Batch<'a, S> {
    sink: &'a mut S,
    cache: &'static CacheSlabs,
    objects: &'a [usize],
    next: [u8; BATCH],
    /// Empty slabs to be discarded, all of one node.
    discards: [PageIndex; DISCARDS],
    nr_discards: usize,
    discard_node: u8,
}

/// Frees an object of `cache` to `slab`, in which it lies: as [`return_objects`], without tables of
/// objects. Returns whether a slab went back to the zone.
#[place(background)]
#[inline(never)]
pub(crate) fn return_object(cache: &'static CacheSlabs, slab: PageIndex, object: usize) -> bool {
    let (base, head) = (MEMMAP.address_of(slab), MEMMAP.head(slab));
    let Some(index) = cache.geometry.index_of(object - base).filter(|&index| index < head.objects()) else {
        report::misaligned(cache.name(), object);
        return false;
    };
    // See `Batch::push_group`.
    if SlabState(head.state.load(Ordering::Relaxed)).head() == index {
        report::double_free(cache.name(), object);
        return false;
    }
    // SAFETY: the caller gives up the object, which is one of this slab, so this thread owns it
    // until the chain is published.
    let link = |prior| unsafe { write_link(object + cache.geometry.link_offset, cache.secret, prior) };
    let node = cache.node_of(slab);
    let freed = ToSlabs(cache).push_chain(node, slab, Chain { head: index, count: 1 }, link);
    match freed {
        Freed::Kept => {}
        Freed::Discard => discard(node, &[slab]),
        Freed::Corrupt => report::double_free(cache.name(), object),
    }
    freed == Freed::Discard
}

/// Returns the head page of an object's slab. Reports an address that does not lie in a slab of
/// this cache, and returns `None`.
pub(crate) fn slab_of(cache: &CacheSlabs, object: usize) -> Option<PageIndex> {
    let slab = cache.slab_at(object);
    if slab.is_none() {
        cache.report_stranger(object);
    }
    slab
}

/// Frees objects of `cache` to their slabs.
pub(crate) fn return_objects(cache: &'static CacheSlabs, objects: &[usize]) {
    return_objects_to(cache, objects, &mut ToSlabs(cache));
}

/// Frees objects of `cache`, grouped by slab, to `sink`.
pub(crate) fn return_objects_to(cache: &'static CacheSlabs, objects: &[usize], sink: &mut impl Sink) {
    for part in objects.chunks(BATCH - 1) {
        cache.nodes[0].counters.count_flush();
        let mut batch = Batch {
            sink,
            cache,
            objects: part,
            next: [END; BATCH],
            discards: [PageIndex::NONE; DISCARDS],
            nr_discards: 0,
            discard_node: 0,
        };
        batch.return_all();
    }
}

impl<S: Sink> Batch<'_, S> {
    fn return_all(&mut self) {
        let mut groups = [EMPTY; GROUPS];
        // A bit for each group that holds an object.
        let mut filled = 0u32;
        let order = self.cache.geometry.order.0;
        for (position, &object) in self.objects.iter().enumerate() {
            if let Some(&later) = self.objects.get(position + AHEAD) {
                self.prefetch(later);
            }
            let Some(page) = slab_of(self.cache, object) else { continue };
            let slot = (page.0 >> order) as usize % GROUPS;
            if groups[slot].page != page {
                if groups[slot].count > 0 {
                    self.push_group(groups[slot]);
                }
                groups[slot] = Group { page, ..EMPTY };
            }
            let group = &mut groups[slot];
            filled |= 1 << slot;
            self.next[position] = group.first;
            group.first = position as u8;
            group.count += 1;
        }
        while filled != 0 {
            self.push_group(groups[filled.trailing_zeros() as usize]);
            filled &= filled - 1;
        }
        self.discard_all();
    }

    fn prefetch(&self, object: usize) {
        prefetch(object + self.cache.geometry.link_offset);
        if let Some(page) = MEMMAP.page_of(object) {
            prefetch(MEMMAP.address_of_head(MEMMAP.head_of(page)));
        }
    }

    fn push_group(&mut self, group: Group) {
        let (cache, page) = (self.cache, group.page);
        let base = MEMMAP.address_of(page);
        let head = MEMMAP.head(page);
        // Check that each object starts where an object of the slab starts, and occurs once.
        let mut seen = [0u64; 8];
        let mut at = group.first;
        while at != END {
            let object = self.objects[usize::from(at)];
            let index = cache.geometry.index_of(object - base).filter(|&i| i < head.objects());
            let Some(index) = index else { return report::misaligned(cache.name(), object) };
            if let Some(word) = seen.get_mut(usize::from(index) / 64) {
                let bit = 1u64 << (index % 64);
                if *word & bit != 0 {
                    return report::double_free(cache.name(), object);
                }
                *word |= bit;
            }
            at = self.next[usize::from(at)];
        }
        // Check that none of them is the first of a freelist of the slab already, as the kernel's
        // hardened freelist does. Until the chain is published this thread owns its objects, so no
        // other thread can have put them there.
        let first_free = SlabState(head.state.load(Ordering::Relaxed)).head();
        for first in [Some(first_free), self.sink.first_on_cpu(page)].into_iter().flatten() {
            if let Some(word) = seen.get(usize::from(first) / 64)
                && word & 1 << (first % 64) != 0
            {
                return report::double_free(cache.name(), base + usize::from(first) * cache.geometry.stride);
            }
        }
        let index_at = |position: u8| {
            let offset = self.objects[usize::from(position)] - base;
            cache.geometry.index_of(offset).unwrap_or(0)
        };
        let link = |prior: u16| {
            let mut at = group.first;
            while at != END {
                let next = self.next[usize::from(at)];
                let to = if next == END { prior } else { index_at(next) };
                let place = self.objects[usize::from(at)] + cache.geometry.link_offset;
                // SAFETY: the caller passed the object to be freed, and the check above found it in
                // this slab. So this thread owns it until the chain is published.
                unsafe { write_link(place, cache.secret, to) };
                at = next;
            }
        };
        let chain = Chain { head: index_at(group.first), count: group.count };
        let node = cache.node_of(page);
        match self.sink.push_chain(node, page, chain, link) {
            Freed::Kept => {}
            Freed::Discard => self.queue_discard(head.node(), page),
            Freed::Corrupt => report::double_free(cache.name(), self.objects[usize::from(group.first)]),
        }
    }

    fn queue_discard(&mut self, node: u8, page: PageIndex) {
        if self.nr_discards == DISCARDS || (self.nr_discards > 0 && self.discard_node != node) {
            self.discard_all();
        }
        self.discard_node = node;
        self.discards[self.nr_discards] = page;
        self.nr_discards += 1;
    }

    fn discard_all(&mut self) {
        let node: &Node = &self.cache.nodes[usize::from(self.discard_node) % self.cache.nodes.len()];
        discard(node, &self.discards[..self.nr_discards]);
        self.nr_discards = 0;
    }
}
