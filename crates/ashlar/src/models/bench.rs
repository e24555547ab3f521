//! What the models drive the partial list with: head entries, objects with real links, a record of owners.
#![allow(unsafe_code, reason = "links of free objects are raw memory")]

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Plain};
use std::sync::Arc;
use std::vec::Vec;

use loom::cell::UnsafeCell;

use crate::base::sync::{AtomicU32, AtomicU64, Ordering};
use crate::base::units::PageIndex;
use crate::engine::history::slub::slabs::{self, Protection, Thawed};
use crate::pages::head::PageHead;
use crate::slab::freelist::{read_link, write_link};
use crate::slab::partial::{Chain, Freed, Heads, NodeList, Taken};
use crate::slab::state::{NO_OBJECT, SlabState};

const SECRET: u64 = 0x9e37_79b9_7f4a_7c15;

/// An allocated object. Not `Clone`: whoever has it may use it, and frees it by giving it up.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) page: PageIndex,
    pub(super) index: u16,
}

impl Object {
    /// What its owner keeps in it.
    fn payload(&self) -> u64 {
        0xa110_c8ed_0000_0000 | u64::from(self.page.0) << 16 | u64::from(self.index)
    }
}

/// Memory of one object. loom reports two accesses that are not ordered, so it finds a link that is read before
/// it was published. The flag is not loom's: it takes no part in the exploration.
struct ModelObject {
    word: UnsafeCell<u64>,
    held: AtomicBool,
    constructed: AtomicBool,
}

// SAFETY: the word is only reached through loom's cell, which panics on unordered access instead of racing.
unsafe impl Sync for ModelObject {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for ModelObject {}

struct Entry {
    head: PageHead,
    /// Read by every look at the head, written by the discard: loom reports a thread that still looks at a
    /// slab when its pages are given back.
    alive: UnsafeCell<()>,
}

struct Entries {
    of: Vec<Entry>,
    /// Counted up at every look at a head entry and every link.
    ///
    /// loom leaves out interleavings that differ only in the order of independent accesses. Its reduction is not
    /// exact: with three threads it left out one that loses the end of a freelist, which two threads found. Since
    /// all threads count here, few steps are independent, and what is left out is little. Relaxed, so that it orders
    /// nothing.
    steps: AtomicU32,
}

impl Entries {
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn look(&self, page: PageIndex) -> &PageHead {
        let entry = &self.of[page.0 as usize];
        entry.alive.with(|_| ());
        &entry.head
    }
}

// SAFETY: as for `ModelObject`: the cells are loom's and hold nothing.
unsafe impl Sync for Entries {}
// SAFETY: as above.
unsafe impl Send for Entries {}

impl Heads for Entries {
    fn head(&self, page: PageIndex) -> &PageHead {
        self.step();
        self.look(page)
    }
}

/// Head entries whose looks are not counted: for the sort, which takes too many to explore.
struct Unstepped<'a>(&'a Entries);

impl Heads for Unstepped<'_> {
    fn head(&self, page: PageIndex) -> &PageHead {
        self.0.look(page)
    }
}

/// A node of a cache with a few slabs.
pub(super) struct Bench {
    entries: Entries,
    pub(super) list: NodeList,
    places: Vec<Vec<ModelObject>>,
    discarded: Vec<AtomicUsize>,
    /// Slabs of the cache, as the engine counts them.
    nr_slabs: AtomicU64,
    min_partial: usize,
    /// An emptied slab forgets its freelist: caches without a constructor.
    reset: bool,
}

impl Bench {
    /// `slabs` slabs of `objects` objects, none opened yet.
    pub(super) fn new(slabs: usize, objects: u16, min_partial: usize, reset: bool) -> Bench {
        let place = || ModelObject {
            word: UnsafeCell::new(0),
            held: AtomicBool::new(false),
            constructed: AtomicBool::new(false),
        };
        let entry = || {
            let entry = Entry { head: PageHead::new(), alive: UnsafeCell::new(()) };
            entry.head.init(0, objects, 0, 0);
            entry
        };
        Bench {
            entries: Entries { of: (0..slabs).map(|_| entry()).collect(), steps: AtomicU32::new(0) },
            list: NodeList::new(),
            places: (0..slabs).map(|_| (0..objects).map(|_| place()).collect()).collect(),
            discarded: (0..slabs).map(|_| AtomicUsize::new(0)).collect(),
            nr_slabs: AtomicU64::new(0),
            min_partial,
            reset,
        }
    }

    /// A bench to share, with its slabs opened and all their objects taken, slab by slab.
    pub(super) fn full(slabs: usize, objects: u16, min_partial: usize, reset: bool) -> (Arc<Bench>, Vec<Vec<Object>>) {
        let bench = Bench::new(slabs, objects, min_partial, reset);
        let objects = (0..slabs).map(|page| bench.open(page, objects)).collect();
        (Arc::new(bench), objects)
    }

    /// Opens a slab and carves its first objects: `open_slab` of refill.
    pub(super) fn open(&self, page: usize, carved: u16) -> Vec<Object> {
        let page = PageIndex(page as u32);
        let head = self.entries.head(page);
        head.state.store(SlabState::carved_from_fresh(carved).0, Ordering::Release);
        let objects = (0..carved).map(|index| self.carve(page, index)).collect();
        if carved < head.objects() {
            self.list.add_new(&self.entries, page);
        }
        self.nr_slabs.fetch_add(1, Ordering::Relaxed);
        objects
    }

    fn link_at<R>(&self, page: PageIndex, index: u16, f: impl FnOnce(usize) -> R) -> R {
        self.entries.step();
        self.places[page.0 as usize][usize::from(index)].word.with_mut(|word| f(word as usize))
    }

    fn set_link(&self, page: PageIndex, index: u16, next: u16) {
        // SAFETY: an aligned word; loom's cell has checked that the caller has it to itself.
        self.link_at(page, index, |at| unsafe { write_link(at, SECRET, next) });
    }

    fn next_of(&self, page: PageIndex, index: u16) -> u16 {
        let limit = self.places[0].len() as u16;
        // SAFETY: as in `set_link`.
        self.link_at(page, index, |at| unsafe { read_link(at, SECRET, limit) }).expect("a link that was published")
    }

    /// Hands an object to its new owner, who writes to it.
    fn claim(&self, page: PageIndex, index: u16) -> Object {
        let place = &self.places[page.0 as usize][usize::from(index)];
        assert!(!place.held.swap(true, Plain::Relaxed), "object {index} of {page:?} has two owners");
        let object = Object { page, index };
        // SAFETY: loom's cell checks that nobody else uses the word.
        place.word.with_mut(|word| unsafe { *word = object.payload() });
        object
    }

    /// Hands out an object for the first time since its slab was fresh; calls the constructor if there is one.
    fn carve(&self, page: PageIndex, index: u16) -> Object {
        let place = &self.places[page.0 as usize][usize::from(index)];
        let again = place.constructed.swap(true, Plain::Relaxed);
        assert!(self.reset || !again, "object {index} of {page:?} is constructed twice");
        self.claim(page, index)
    }

    /// Takes an object from its owner, who finds in it what he wrote.
    fn release(&self, object: Object) -> u16 {
        let place = &self.places[object.page.0 as usize][usize::from(object.index)];
        // SAFETY: as in `claim`.
        place.word.with(|word| assert_eq!(unsafe { *word }, object.payload(), "somebody wrote to a live object"));
        assert!(place.held.swap(false, Plain::Relaxed));
        object.index
    }

    /// Frees objects of one slab in one go: `flush` of the engine, for one group.
    pub(super) fn free(&self, objects: Vec<Object>) -> Freed {
        let page = objects[0].page;
        let indices: Vec<u16> = objects.into_iter().map(|object| self.release(object)).collect();
        let chain = Chain { head: indices[0], count: indices.len() as u16 };
        let link = |prior| {
            for (i, &index) in indices.iter().enumerate() {
                self.set_link(page, index, indices.get(i + 1).copied().unwrap_or(prior));
            }
        };
        let freed = self.list.push_chain(&self.entries, page, chain, self.min_partial, self.reset, link);
        self.settle(page, freed)
    }

    fn settle(&self, page: PageIndex, freed: Freed) -> Freed {
        assert_ne!(freed, Freed::Corrupt, "nothing is freed twice here");
        if freed == Freed::Discard {
            self.discard(page);
        }
        freed
    }

    /// Gives the pages of a slab back: nobody may have anything to do with it any more.
    fn discard(&self, page: PageIndex) {
        let entry = &self.entries.of[page.0 as usize];
        entry.alive.with_mut(|_| ());
        assert_eq!(self.discarded[page.0 as usize].fetch_add(1, Plain::Relaxed), 0, "{page:?} discarded twice");
        assert!(!entry.head.listed(), "{page:?} discarded while on the list");
        assert_eq!(self.held(page), 0, "{page:?} discarded with objects in use");
        self.nr_slabs.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes at least `need` objects if the list has them: `from_partial` of refill, one round.
    pub(super) fn refill(&self, need: usize) -> Vec<Object> {
        let mut taken = [Taken::NOTHING; 4];
        let (slabs, _) = self.list.take(&self.entries, need, &mut taken);
        let mut out = Vec::new();
        for taken in &taken[..slabs] {
            self.gather(taken, need, &mut out);
        }
        out
    }

    fn gather(&self, taken: &Taken, need: usize, out: &mut Vec<Object>) {
        let (page, mut index, mut left) = (taken.page, taken.chain.head, taken.chain.count);
        while left > 0 && out.len() < need {
            let next = self.next_of(page, index);
            out.push(self.claim(page, index));
            index = next;
            left -= 1;
        }
        if left > 0 {
            self.give_back(page, Chain { head: index, count: left });
        }
        for fresh in taken.first_fresh..taken.first_fresh + taken.fresh {
            out.push(self.carve(page, fresh));
        }
        assert!(out.len() <= need, "more was carved than asked for");
    }

    /// Takes the freelists of all slabs that have `least` linked objects or more, as a look for evicted objects does: slab by slab.
    pub(super) fn take_sparse(&self, least: u16) -> Vec<Vec<Object>> {
        let mut left = self.list.lock().count;
        let mut out = Vec::new();
        while left > 0 {
            let mut taken = [Taken::NOTHING; 1];
            let sparse = |head: &PageHead| SlabState(head.state.load(Ordering::Acquire)).linked() >= least;
            let slabs = self.list.take_sparse(&self.entries, &mut left, sparse, &mut taken);
            for taken in &taken[..slabs] {
                assert_eq!(taken.fresh, 0, "nothing is carved for it");
                assert!(taken.chain.count >= least);
                out.push(self.claim_chain(taken.page, taken.chain));
            }
        }
        out
    }

    /// Puts a surplus back: `give_back` of refill.
    fn give_back(&self, page: PageIndex, chain: Chain) {
        let relink = |prior| {
            let mut last = chain.head;
            for _ in 1..chain.count {
                last = self.next_of(page, last);
            }
            self.set_link(page, last, prior);
        };
        let freed = self.list.give_back(&self.entries, page, chain, self.min_partial, self.reset, relink);
        self.settle(page, freed);
    }

    /// Takes the freelist of the first slab, finds it corrupt and quarantines the slab. What was taken is never
    /// seen again: it stays in use. The slab, if there was one.
    pub(super) fn find_corrupt(&self) -> Option<PageIndex> {
        let mut taken = [Taken::NOTHING; 1];
        let (slabs, _) = self.list.take(&self.entries, 1, &mut taken);
        let page = taken[0].page;
        let (mut index, mut left) = (taken[0].chain.head, taken[0].chain.count);
        while left > 0 {
            let next = self.next_of(page, index);
            self.claim(page, index);
            index = next;
            left -= 1;
        }
        for fresh in taken[0].first_fresh..taken[0].first_fresh + taken[0].fresh {
            self.claim(page, fresh);
        }
        (slabs > 0).then(|| {
            self.quarantine(page);
            page
        })
    }

    /// Opens a slab for a CPU, all of its objects taken: `new_slab` of the engine with CPU slabs.
    pub(super) fn open_frozen(&self, page: usize, objects: u16) -> Vec<Object> {
        let taken = self.open(page, objects);
        let head = self.entries.head(PageIndex(page as u32));
        head.state.store(SlabState::carved_from_fresh(objects).freeze().0, Ordering::Release);
        taken
    }

    /// Links objects of one slab that their owner gives up; their chain, and the last one's index.
    fn link_chain(&self, objects: Vec<Object>) -> (PageIndex, Chain, u16) {
        let page = objects[0].page;
        let indices: Vec<u16> = objects.into_iter().map(|object| self.release(object)).collect();
        for pair in indices.windows(2) {
            self.set_link(page, pair[0], pair[1]);
        }
        let last = indices[indices.len() - 1];
        (page, Chain { head: indices[0], count: indices.len() as u16 }, last)
    }

    /// Frees objects of one slab as an engine with CPU slabs does when it is not the CPU's.
    pub(super) fn free_by(&self, protection: Protection, objects: Vec<Object>) -> Freed {
        let (page, chain, last) = self.link_chain(objects);
        let link = |prior| self.set_link(page, last, prior);
        let freed = match protection {
            Protection::Lockless => self.list.push_chain(&self.entries, page, chain, self.min_partial, false, link),
            Protection::Lock { atomic } => {
                slabs::free_chain_locked(&self.list, &self.entries, page, chain, atomic, link)
            }
        };
        self.settle(page, freed)
    }

    /// Frees objects of one slab, which becomes the CPU's if it was full: true then.
    pub(super) fn free_freezing(&self, objects: Vec<Object>) -> bool {
        let (page, chain, last) = self.link_chain(objects);
        let link = |prior| self.set_link(page, last, prior);
        let (freed, frozen) =
            slabs::free_chain_freezing(&self.list, &self.entries, page, chain, self.min_partial, link);
        self.settle(page, freed);
        frozen
    }

    /// Takes a slab off the list for a CPU, with all of its free objects.
    pub(super) fn freeze(&self, protection: Protection) -> Option<(PageIndex, Vec<Object>)> {
        let (page, chain) = slabs::freeze_partial(&self.list, &self.entries, protection, true)?;
        Some((page, self.claim_chain(page, chain)))
    }

    /// Takes what others freed to a slab of the caller's CPU.
    pub(super) fn take_freelist(&self, protection: Protection, page: PageIndex) -> Vec<Object> {
        let chain = slabs::take_freelist(self.entries.head(page), protection);
        self.claim_chain(page, chain)
    }

    fn claim_chain(&self, page: PageIndex, chain: Chain) -> Vec<Object> {
        let mut index = chain.head;
        let mut out = Vec::new();
        for _ in 0..chain.count {
            let next = self.next_of(page, index);
            out.push(self.claim(page, index));
            index = next;
        }
        out
    }

    /// Gives a CPU's slab up, with the objects that its freelist still had.
    pub(super) fn thaw(&self, protection: Protection, page: PageIndex, rest: Vec<Object>) {
        let (mut chain, mut last) = (Chain { head: NO_OBJECT, count: 0 }, NO_OBJECT);
        if !rest.is_empty() {
            (_, chain, last) = self.link_chain(rest);
        }
        let link = |prior| self.set_link(page, last, prior);
        let thawed = slabs::thaw(&self.list, &self.entries, page, chain, self.min_partial, protection, link);
        if thawed == Thawed::Discard {
            self.discard(page);
        }
    }

    pub(super) fn quarantine(&self, page: PageIndex) {
        self.list.quarantine(&self.entries, page);
    }

    /// Takes empty slabs off the list and gives them back, as shrink does; how many.
    pub(super) fn trim(&self) -> usize {
        let mut empty = [PageIndex::NONE; 4];
        let count = self.list.take_empty(&self.entries, &mut empty);
        empty[..count].iter().for_each(|&page| self.discard(page));
        count
    }

    /// The second half of shrink.
    pub(super) fn sort(&self) {
        self.list.lock().promote_fullest(&Unstepped(&self.entries));
    }

    /// Slabs of the cache, as destroy sees it.
    pub(super) fn nr_slabs(&self) -> u64 {
        self.nr_slabs.load(Ordering::Relaxed)
    }

    /// Objects of a slab that have an owner.
    pub(super) fn held(&self, page: PageIndex) -> usize {
        self.places[page.0 as usize].iter().filter(|place| place.held.load(Plain::Relaxed)).count()
    }

    pub(super) fn is_discarded(&self, page: PageIndex) -> bool {
        self.discarded[page.0 as usize].load(Plain::Relaxed) > 0
    }

    /// The slabs on the list, front to back; checks its links both ways.
    pub(super) fn listed(&self) -> Vec<PageIndex> {
        let list = self.list.lock();
        let mut pages = Vec::new();
        let (mut page, mut before) = (list.first(), PageIndex::NONE);
        while page != PageIndex::NONE {
            assert!(!pages.contains(&page), "{page:?} is on the list twice");
            assert!(!self.is_discarded(page), "{page:?} is on the list and was discarded");
            let head = self.entries.head(page);
            assert!(head.listed(), "{page:?} is on the list and does not know");
            assert_eq!(head.prev(), before, "back link of {page:?}");
            pages.push(page);
            (page, before) = (head.next(), page);
        }
        assert_eq!(list.last(), before, "end of the list");
        assert_eq!(list.count, pages.len(), "slabs on the list");
        pages
    }

    /// Checks everything that must hold while no operation runs: each object is exactly one of held, on its
    /// slab's freelist, or not carved; and a slab is listed exactly if something can be taken from it.
    pub(super) fn audit(&self) {
        let listed = self.listed();
        for (number, places) in self.places.iter().enumerate() {
            let page = PageIndex(number as u32);
            if self.is_discarded(page) {
                continue;
            }
            let head = self.entries.head(page);
            let state = SlabState(head.state.load(Ordering::Acquire));
            let mut seen: Vec<bool> = places.iter().map(|place| place.held.load(Plain::Relaxed)).collect();
            assert_eq!(self.held(page), usize::from(state.inuse()), "objects in use: {state:?}");
            let mut index = state.head();
            for _ in 0..state.linked() {
                assert_ne!(index, NO_OBJECT, "the freelist ends early: {state:?}");
                assert!(!seen[usize::from(index)], "object {index} is free and in use, or free twice");
                seen[usize::from(index)] = true;
                index = self.next_of(page, index);
            }
            assert_eq!(index, NO_OBJECT, "the freelist does not end where it should: {state:?}");
            for (index, seen) in seen.into_iter().enumerate() {
                assert_eq!(seen, index < usize::from(state.carved()), "object {index} lost: {state:?}");
            }
            let should = !state.frozen() && state.inuse() < head.objects();
            assert_eq!(listed.contains(&page), should, "on the list: {state:?}");
            assert_eq!(head.listed(), should);
        }
    }
}
