//! Evicted objects: free objects whose pages were released to the system while their slab is in
//! use.
//!
//! A program that frees nine of ten objects leaves slabs that are mostly free pages, which no other
//! size can use. Such a slab stays whole, but its free pages need no memory. They are released, and
//! read as zeros when used again. A free object holds a link of its freelist, so objects on
//! released pages are on no freelist. They are kept here, by address alone.
//!
//! ## States of a free object
//!
//! | state | to its slab | recorded in |
//! |---|---|---|
//! | uncarved, linked | free | the slab's state word and its freelist |
//! | on a sheaf of a CPU or barn | in use | the sheaf |
//! | evicted | in use | a sheaf of the node's `Evicted`, and counted in the head of its slab |
//!
//! ## Eviction
//! [`evict_free_pages`] takes whole freelists of slabs with at least a page's worth of linked
//! objects, under list_lock, and walks them after. From then on it owns these objects. To their
//! slab they are in use, so it cannot become empty; frees and refills by other threads concern
//! other objects. If all objects that reach into a page are its own, no other thread reads or
//! writes the page, and it is released. Objects that reach into a released page become evicted. All
//! others go back as one chain, linked anew. Uncarved objects are left alone: other threads may
//! carve them at any time, and their pages are mostly untouched.
//!
//! ## Restoring
//! * A refill takes evicted objects after linked ones and before new slabs ([`refill`]).
//! * When all objects in use of a slab are evicted, they are returned to it ([`restore_emptied`]).
//!   The free that empties a slab writes no link, so this touches no released page. To shrink or
//!   destroy a cache, no other evicted object needs to be restored.
//!
//! ## Invariants
//! * Sheaves here are full: their capacity is the number of their objects. Objects of one slab that
//!   were evicted together are adjacent on one sheaf.
//! * The evicted count in a slab's head, guarded by list_lock, covers its objects on sheaves here
//!   and those a function of this file holds. It is raised before a sheaf is stored here, and
//!   lowered after the sheaf was taken.
//! * Only caches without a constructor have evicted objects: constructed objects would lose their
//!   contents.
//!
//! Locks: list_lock and the evicted lock, never both at a time.
#![allow(unsafe_code, reason = "reads and writes free links, releases pages of free objects")]

use core::ptr::NonNull;

use super::node::SheafNode;
use crate::base::report;
use crate::base::source::PageSource;
use crate::base::sync::{AtomicU32, Ordering};
use crate::base::units::{Order, PAGE_SIZE, PageIndex, align_up};
use crate::engine::{Engine, RawCache};
use crate::pages::head::PageHead;
use crate::pages::memmap::MEMMAP;
use crate::pages::zone::ZONE;
use crate::percpu::sheaf::{MAX_SHEAF_CAPACITY, Sheaf, SheafSize, new_sheaf, retire_sheaf};
use crate::slab::discard::discard;
use crate::slab::freelist::{read_link, write_link};
use crate::slab::partial::{Chain, Freed, Taken};
use crate::slab::return_objects::return_objects;
use crate::slab::state::{NO_OBJECT, SlabState};

/// Slabs handled in one batch.
const BATCH: usize = 16;
/// Most objects of a slab that is scanned: the evicted objects of one slab must fit on a sheaf.
/// Slabs of several pages have more only with the option `min_order`.
const MOST_OBJECTS: usize = if MAX_SHEAF_CAPACITY < 256 { MAX_SHEAF_CAPACITY } else { 256 };
/// Pages' worth of linked objects from which on a slab is scanned. With fewer, no page can be free.
const WORTH: usize = 1;

/// Set when the source refused to release pages: an arena, or pages the program locked in memory.
/// It is not asked again.
static REFUSED: AtomicU32 = AtomicU32::new(0);

/// Fills `out` from its start with evicted objects of `node`. Returns the number filled. The rest
/// of a sheaf stays on it.
#[inline]
pub(super) fn refill(node: &SheafNode, out: &mut [usize]) -> usize {
    if node.evicted.objects() == 0 { 0 } else { refill_from_evicted(node, out) }
}

#[cold]
#[place(background)]
fn refill_from_evicted(node: &SheafNode, out: &mut [usize]) -> usize {
    let mut got = 0;
    while got < out.len() {
        let Some(mut sheaf) = node.evicted.take(true) else { break };
        let from = got;
        while got < out.len()
            && let Some(object) = sheaf.pop()
        {
            out[got] = object;
            got += 1;
        }
        for (page, group) in groups(&out[from..got]) {
            let _list = node.slabs.list_of(page).lock();
            MEMMAP.head(page).remove_evicted(group.len());
        }
        put_back(node, sheaf, false);
    }
    got
}

/// Puts a sheaf back into the store, or into the pool if it is empty.
#[place(background)]
fn put_back(node: &SheafNode, mut sheaf: Sheaf, looked_at: bool) {
    if sheaf.len() == 0 {
        return retire_sheaf(sheaf);
    }
    sheaf.tighten();
    node.evicted.put(sheaf, looked_at);
}

/// Returns the first page of an object's slab.
fn slab_of(object: usize) -> Option<PageIndex> {
    let page = MEMMAP.page_of(object)?;
    Some(PageIndex(page.0.wrapping_sub(MEMMAP.class_of(page).back())))
}

/// Splits objects into runs of one slab each, and yields the slab with each run.
fn groups(objects: &[usize]) -> impl Iterator<Item = (PageIndex, &[usize])> {
    let groups = objects.chunk_by(|&one, &other| slab_of(one) == slab_of(other));
    groups.filter_map(|group| Some((slab_of(*group.first()?)?, group)))
}

/// Returns evicted objects to slabs whose objects in use are all evicted. Those slabs become empty,
/// and are given back or kept as usual. True if there were any.
#[inline]
pub(super) fn restore_emptied_of(cache: &'static RawCache, node: &SheafNode) -> bool {
    node.evicted.objects() > 0 && restore_emptied_of_node(cache, node)
}

#[cold]
#[place(background)]
fn restore_emptied_of_node(cache: &'static RawCache, node: &SheafNode) -> bool {
    node.evicted.look_at_all_again();
    let mut came = false;
    // One sheaf at a time, so that other threads find the rest.
    while let Some(mut sheaf) = node.evicted.take(false) {
        let all = sheaf.len();
        let mut kept = 0;
        let room = sheaf.room();
        let mut from = 0;
        let first = |objects: &[usize]| groups(objects).next().map(|(page, group)| (page, group.len()));
        while let Some((page, count)) = first(&room[from..all]) {
            if try_release_slab(node, page, count) {
                return_objects(&cache.slabs, &room[from..from + count]);
                came = true;
            } else {
                room.copy_within(from..from + count, kept);
                kept += count;
            }
            from += count;
        }
        // The kept objects are at the start of the room; they belong at its end.
        room.copy_within(..kept, all - kept);
        // SAFETY: these objects were on this sheaf, and the others have been returned to their
        // slabs.
        unsafe { sheaf.set_len(kept) };
        put_back(node, sheaf, true);
    }
    came
}

/// If all objects in use of a slab are evicted, takes `count` of them off its evicted count and
/// returns true.
fn try_release_slab(node: &SheafNode, page: PageIndex, count: usize) -> bool {
    let head = MEMMAP.head(page);
    let _list = node.slabs.list_of(page).lock();
    let leaves = usize::from(state_of(head).inuse()) == head.evicted();
    if leaves {
        head.remove_evicted(count);
    }
    leaves
}

fn state_of(head: &PageHead) -> SlabState {
    SlabState(head.state.load(Ordering::Acquire))
}

/// Returns the unit in which the system takes and gives back memory.
fn granule(source: &dyn PageSource) -> usize {
    source.page_size().max(PAGE_SIZE)
}

/// Returns the source of the pages if slabs of `cache` may have evicted objects.
fn source_for(cache: &RawCache) -> Option<&'static dyn PageSource> {
    let source = ZONE.source()?;
    let suits = cache.engine == Engine::Sheaves
        && cache.slabs.ctor.is_none()
        && cache.slabs.geometry.order.bytes() >= WORTH * granule(source)
        && REFUSED.load(Ordering::Relaxed) == 0;
    suits.then_some(source)
}

/// Returns the bytes of linked objects of a listed slab, if they are enough for a scan.
fn worth(head: &PageHead, stride: usize, granule: usize) -> Option<usize> {
    let bytes = usize::from(state_of(head).linked()) * stride;
    let fits = usize::from(head.objects()) <= MOST_OBJECTS && Order(head.order()).bytes() > granule;
    (fits && bytes >= WORTH * granule).then_some(bytes)
}

/// See [`crate::engine::sparse_bytes`]. Sums what [`evict_free_pages`] would scan.
pub(crate) fn sparse_bytes(cache: &'static RawCache) -> usize {
    let Some(source) = source_for(cache) else { return 0 };
    let granule = granule(source);
    let mut sum = 0;
    for list in cache.state.sheaf_nodes.iter().flat_map(|node| node.slabs.lists) {
        let list = list.lock();
        let mut page = list.first();
        while page != PageIndex::NONE {
            let head = MEMMAP.head(page);
            sum += worth(head, cache.slabs.geometry.stride, granule).unwrap_or(0);
            page = head.next();
        }
    }
    sum
}

/// See [`crate::engine::evict_free_pages`].
pub(crate) fn evict_free_pages(cache: &'static RawCache) -> usize {
    let Some(source) = source_for(cache) else { return 0 };
    cache.state.sheaf_nodes.iter().map(|node| Pass { cache, node, source, sheaf: None, given: 0 }.evict()).sum()
}

/// See [`crate::engine::restore_emptied`].
pub(crate) fn restore_emptied(cache: &'static RawCache) -> bool {
    cache.state.sheaf_nodes.iter().filter(|node| restore_emptied_of(cache, node)).count() > 0
}

/// One pass over the partial slabs of a node.
struct Pass {
    cache: &'static RawCache,
    node: &'static SheafNode,
    source: &'static dyn PageSource,
    /// The sheaf that is being filled.
    sheaf: Option<Sheaf>,
    /// Bytes released so far.
    given: usize,
}

impl Pass {
    fn evict(mut self) -> usize {
        let (stride, granule) = (self.cache.slabs.geometry.stride, granule(self.source));
        for list in self.node.slabs.lists {
            // Other threads may add slabs meanwhile; scanning the current number is enough.
            let mut left = list.lock().count;
            while left > 0 && REFUSED.load(Ordering::Relaxed) == 0 {
                let mut taken = [Taken::NOTHING; BATCH];
                let is_sparse = |head: &PageHead| worth(head, stride, granule).is_some();
                let slabs = list.take_sparse(&MEMMAP, &mut left, is_sparse, &mut taken);
                taken[..slabs].iter().for_each(|taken| self.look_at(taken));
            }
        }
        self.put_sheaf();
        self.given
    }

    /// Puts the sheaf that is being filled into the store.
    fn put_sheaf(&mut self) {
        if let Some(sheaf) = self.sheaf.take() {
            put_back(self.node, sheaf, false);
        }
    }

    /// Releases the free pages of a slab. Evicts the objects that reach into them and returns the
    /// others to the slab.
    fn look_at(&mut self, taken: &Taken) {
        let head = MEMMAP.head(taken.page);
        let base = MEMMAP.address_of(taken.page);
        let Some(linked) = self.follow(base, head.objects(), taken.chain) else {
            return self.node.slabs.list_of(taken.page).quarantine(&MEMMAP, taken.page);
        };
        let bytes = Order(head.order()).bytes();
        let (stride, granule) = (self.cache.slabs.geometry.stride, granule(self.source));
        let pages = Pages { base, bytes, stride, objects: head.objects(), granule };
        let mut evicted = pages.reaching_into_free(&linked);
        let count = evicted.len();
        if count > 0 && self.has_room(count) && self.release_pages(&pages, &linked) {
            let list = self.node.slabs.list_of(taken.page).lock();
            head.add_evicted(count);
            drop(list);
            if let Some(sheaf) = &mut self.sheaf {
                // Pushed in descending order: the first object is to be allocated first.
                evicted.iter_down().for_each(|index| _ = sheaf.push(base + usize::from(index) * stride));
            }
        } else {
            evicted = Set::EMPTY;
        }
        self.give_back(taken.page, base, &linked.without(&evicted));
    }

    /// Returns the objects of a freelist; `None`, after a report, if it is corrupt.
    fn follow(&self, base: usize, limit: u16, chain: Chain) -> Option<Set> {
        let geometry = &self.cache.slabs.geometry;
        let mut objects = Set::EMPTY;
        let mut index = chain.head;
        for _ in 0..chain.count {
            if index >= limit || !objects.insert(index) {
                report::corrupt_freelist(self.cache.name(), base);
                return None;
            }
            let link = base + usize::from(index) * geometry.stride + geometry.link_offset;
            // SAFETY: the freelist was taken together with its slab's state word, so this thread
            // owns its objects; the index is below the slab's number of objects.
            match unsafe { read_link(link, self.cache.slabs.secret, limit) } {
                Ok(next) => index = next,
                Err(bad) => {
                    report::corrupt_link(self.cache.name(), bad.at);
                    return None;
                }
            }
        }
        Some(objects)
    }

    /// Makes sure that the current sheaf has room for `count` objects. False if there is no sheaf.
    fn has_room(&mut self, count: usize) -> bool {
        if self.sheaf.as_ref().is_none_or(|sheaf| sheaf.free() < count) {
            self.put_sheaf();
            self.sheaf = new_sheaf(MAX_SHEAF_CAPACITY, SheafSize::WHOLE);
        }
        self.sheaf.is_some()
    }

    /// Releases all pages that only `free` objects reach into. False if the source refuses; the
    /// contents of the pages are then undefined.
    fn release_pages(&mut self, pages: &Pages, free: &Set) -> bool {
        let mut done = true;
        pages.each_free_run(free, |start, end| {
            done &= NonNull::new(start as *mut u8).is_some_and(|at| {
                // SAFETY: the range consists of pages of a slab, which are committed. All objects
                // that reach into it are in `free`. This pass took them off their freelist, so no
                // other thread reads or writes them.
                unsafe { self.source.release(at, end - start) }
            });
            self.given += if done { end - start } else { 0 };
        });
        if !done {
            REFUSED.store(1, Ordering::Relaxed);
        }
        done
    }

    /// Links the objects anew and frees them to their slab.
    fn give_back(&self, page: PageIndex, base: usize, objects: &Set) {
        let cache = self.cache;
        let Some(first) = objects.iter().next() else { return };
        let chain = Chain { head: first, count: objects.len() as u16 };
        let link = |prior: u16| {
            let nexts = objects.iter().skip(1).chain([prior]);
            for (index, next) in objects.iter().zip(nexts) {
                let at = base + usize::from(index) * cache.slabs.geometry.stride + cache.slabs.geometry.link_offset;
                // SAFETY: this pass took the object off its freelist and owns it until the chain is
                // published.
                unsafe { write_link(at, cache.slabs.secret, next) };
            }
        };
        let (list, min_partial) = (self.node.slabs.list_of(page), cache.slabs.min_partial_of_list());
        if list.push_chain(&MEMMAP, page, chain, min_partial, true, link) == Freed::Discard {
            discard(self.node.slabs, &[page]);
        }
    }
}

/// A set of objects of one slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set([u64; 4]);

impl Set {
    const EMPTY: Set = Set([0; 4]);

    /// Adds an object. False if it is in the set already, or if its index is out of range.
    fn insert(&mut self, index: u16) -> bool {
        let Some(word) = self.0.get_mut(usize::from(index) / 64) else { return false };
        let bit = 1 << (index % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn contains(&self, index: u16) -> bool {
        self.0.get(usize::from(index) / 64).is_some_and(|word| word & 1 << (index % 64) != 0)
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn without(&self, other: &Set) -> Set {
        Set(core::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    fn iter(&self) -> impl Iterator<Item = u16> {
        (0..MOST_OBJECTS as u16).filter(|&index| self.contains(index))
    }

    fn iter_down(&self) -> impl Iterator<Item = u16> {
        (0..MOST_OBJECTS as u16).rev().filter(|&index| self.contains(index))
    }
}

/// How the objects of a slab lie on the system's pages.
struct Pages {
    base: usize,
    bytes: usize,
    stride: usize,
    objects: u16,
    granule: usize,
}

impl Pages {
    /// Returns the objects that reach into `start..end`.
    fn objects_in(&self, start: usize, end: usize) -> core::ops::Range<u16> {
        let first = (start - self.base) / self.stride;
        let last = (end - 1 - self.base) / self.stride;
        first.min(usize::from(self.objects)) as u16..(last + 1).min(usize::from(self.objects)) as u16
    }

    /// Calls `each` for every run of whole pages that some object reaches into and no object
    /// outside of `free` does.
    fn each_free_run(&self, free: &Set, mut each: impl FnMut(usize, usize)) {
        let end = (self.base + self.bytes) & !(self.granule - 1);
        let mut at = align_up(self.base, self.granule);
        let mut start = at;
        while at < end {
            let mut objects = self.objects_in(at, at + self.granule);
            let is_free = !objects.is_empty() && objects.all(|index| free.contains(index));
            if !is_free {
                if start < at {
                    each(start, at);
                }
                start = at + self.granule;
            }
            at += self.granule;
        }
        if start < end {
            each(start, end);
        }
    }

    /// Returns the objects that reach into such a run.
    fn reaching_into_free(&self, free: &Set) -> Set {
        let mut reaching = Set::EMPTY;
        self.each_free_run(free, |start, end| {
            self.objects_in(start, end).for_each(|index| _ = reaching.insert(index));
        });
        reaching
    }
}

const _: () = assert!(MOST_OBJECTS <= 256 && NO_OBJECT as usize > MOST_OBJECTS);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The same by looking at every byte.
    fn naive(pages: &Pages, free: &Set) -> (Vec<usize>, Set) {
        let mut given = Vec::new();
        let mut reaching = Set::EMPTY;
        let whole = |at: usize| at >= pages.base && at + pages.granule <= pages.base + pages.bytes;
        let first = pages.base & !(pages.granule - 1);
        for at in (first..pages.base + pages.bytes).step_by(pages.granule).filter(|&at| whole(at)) {
            let mut owners: Vec<u16> = (at..at + pages.granule)
                .map(|byte| ((byte - pages.base) / pages.stride) as u16)
                .filter(|&index| index < pages.objects)
                .collect();
            owners.dedup();
            if !owners.is_empty() && owners.iter().all(|&index| free.contains(index)) {
                given.push(at);
                owners.into_iter().for_each(|index| _ = reaching.insert(index));
            }
        }
        (given, reaching)
    }

    proptest! {
        #[test]
        fn exactly_the_pages_of_which_every_byte_is_free_are_given_back(
            words in 4usize..4000,
            order in 0u8..6,
            granule in prop_oneof![Just(4096usize), Just(16384), Just(65536)],
            at in 0usize..32,
            used in proptest::collection::vec(any::<u16>(), 0..12),
        ) {
            let (stride, bytes) = (words * 8, Order(order).bytes());
            let objects = (bytes / stride).min(MOST_OBJECTS) as u16;
            // Slabs start at multiples of their size.
            let pages = Pages { base: 0x7000_0000 + at * bytes, bytes, stride, objects, granule };
            let mut free = Set::EMPTY;
            (0..objects).for_each(|index| _ = free.insert(index));
            if objects > 0 {
                used.into_iter().for_each(|index| free.0[usize::from(index % objects) / 64] &= !(1 << (index % objects % 64)));
            }
            let (given, reaching) = naive(&pages, &free);
            let mut runs = Vec::new();
            let mut end_of_last = 0;
            pages.each_free_run(&free, |start, end| {
                assert!(start > end_of_last, "runs that touch are one");
                end_of_last = end;
                runs.extend((start..end).step_by(granule));
            });
            prop_assert_eq!(runs, given);
            prop_assert_eq!(pages.reaching_into_free(&free), reaching);
            prop_assert_eq!(reaching.without(&free), Set::EMPTY);
            let up: Vec<u16> = reaching.iter().collect();
            let mut down: Vec<u16> = reaching.iter_down().collect();
            down.reverse();
            prop_assert_eq!(&up, &down);
            prop_assert_eq!(up.len(), reaching.len());
        }
    }
}
