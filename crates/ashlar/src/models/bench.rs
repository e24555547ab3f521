//! The bench that drives the partial list in the models: head entries, objects with real links, and
//! a record of owners.
#![allow(unsafe_code, reason = "links of free objects are raw memory")]

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Plain};
use std::sync::Arc;
use std::vec::Vec;

use loom::cell::UnsafeCell;

use crate::base::sync::{AtomicU32, AtomicU64, Ordering};
use crate::base::units::PageIndex;
use crate::engine::history::slub::partly;
use crate::engine::history::slub::slabs::{self, Protection, Thawed};
use crate::pages::head::PageHead;
use crate::slab::freelist::{read_link, write_link};
use crate::slab::partial::{Chain, Freed, Heads, NodeList, Taken, Taker};
use crate::slab::state::{NO_OBJECT, SlabState};

const SECRET: u64 = 0x9e37_79b9_7f4a_7c15;
/// The address of the cache, as its slabs have it, and that of another one.
const OWNER: usize = 64;
const OTHER: usize = 128;
/// The own half word of a slab of the other cache.
const OTHERS_OWN: u16 = 77;

/// An allocated object. Not `Clone`: its holder may use it, and passes it on to free it.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) page: PageIndex,
    pub(super) index: u16,
}

impl Object {
    /// Returns the value that its owner keeps in it.
    fn payload(&self) -> u64 {
        0xa110_c8ed_0000_0000 | u64::from(self.page.0) << 16 | u64::from(self.index)
    }
}

/// Memory of one object. loom reports two unordered accesses, so it finds a link that is read
/// before it was published. The flags are not loom's, so they take no part in the exploration.
struct ModelObject {
    word: UnsafeCell<u64>,
    held: AtomicBool,
    constructed: AtomicBool,
}

// SAFETY: the word is only accessed through loom's cell, which panics on unordered access instead
// of racing.
unsafe impl Sync for ModelObject {}
// SAFETY: as above; none of it belongs to one thread.
unsafe impl Send for ModelObject {}

struct Entry {
    head: PageHead,
    /// Read at every access to the head, written by the discard. loom reports a thread that still
    /// accesses a slab whose pages are being returned.
    alive: UnsafeCell<()>,
}

struct Entries {
    of: Vec<Entry>,
    /// Incremented at every access to a head entry and every link.
    ///
    /// loom leaves out interleavings that differ only in the order of independent accesses. That
    /// reduction is not exact: with three threads it left out an interleaving that loses the end of
    /// a freelist, which a model with two threads found. All threads increment this counter, so few
    /// steps are independent, and little is left out. Relaxed, so that it orders nothing.
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

// SAFETY: as for `ModelObject`. The cells are loom's and hold nothing.
unsafe impl Sync for Entries {}
// SAFETY: as above.
unsafe impl Send for Entries {}

impl Heads for Entries {
    fn head(&self, page: PageIndex) -> &PageHead {
        self.step();
        self.look(page)
    }
}

/// Head entries without counted accesses, because the sort has too many accesses to explore.
struct Unstepped<'a>(&'a Entries);

impl Heads for Unstepped<'_> {
    fn head(&self, page: PageIndex) -> &PageHead {
        self.0.look(page)
    }
}

/// One node of a cache with a few slabs.
pub(super) struct Bench {
    entries: Entries,
    pub(super) list: NodeList,
    places: Vec<Vec<ModelObject>>,
    discarded: Vec<AtomicUsize>,
    /// Slabs of the cache, as the engine counts them.
    nr_slabs: AtomicU64,
    min_partial: usize,
    /// Whether an emptied slab becomes fresh, as in caches without a constructor.
    reset: bool,
}

impl Bench {
    /// Makes `slabs` slabs of `objects` objects, none of them opened.
    pub(super) fn new(slabs: usize, objects: u16, min_partial: usize, reset: bool) -> Bench {
        let place = || ModelObject {
            word: UnsafeCell::new(0),
            held: AtomicBool::new(false),
            constructed: AtomicBool::new(false),
        };
        let entry = || {
            let entry = Entry { head: PageHead::new(), alive: UnsafeCell::new(()) };
            entry.head.init(OWNER, objects, 0, 0);
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

    /// Makes a bench to share, with its slabs opened. Returns all their objects, slab by slab.
    pub(super) fn full(slabs: usize, objects: u16, min_partial: usize, reset: bool) -> (Arc<Bench>, Vec<Vec<Object>>) {
        let bench = Bench::new(slabs, objects, min_partial, reset);
        let objects = (0..slabs).map(|page| bench.open(page, objects)).collect();
        (Arc::new(bench), objects)
    }

    /// Opens a slab and carves its first objects, as `open_slab` of refill does.
    pub(super) fn open(&self, page: usize, carved: u16) -> Vec<Object> {
        let page = PageIndex(page as u32);
        let head = self.entries.head(page);
        head.state.store(SlabState::carved_from_fresh(carved).0, Ordering::Release);
        head.set_own(carved);
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
        // SAFETY: an aligned word. loom's cell has checked that the caller has exclusive access.
        self.link_at(page, index, |at| unsafe { write_link(at, SECRET, next) });
    }

    fn next_of(&self, page: PageIndex, index: u16) -> u16 {
        let limit = self.places[0].len() as u16;
        // SAFETY: as in `set_link`.
        self.link_at(page, index, |at| unsafe { read_link(at, SECRET, limit) }).expect("a link that was published")
    }

    /// Passes an object to its new owner, which writes to it.
    fn claim(&self, page: PageIndex, index: u16) -> Object {
        let place = &self.places[page.0 as usize][usize::from(index)];
        assert!(!place.held.swap(true, Plain::Relaxed), "object {index} of {page:?} has two owners");
        let object = Object { page, index };
        // SAFETY: loom's cell checks that the access is exclusive.
        place.word.with_mut(|word| unsafe { *word = object.payload() });
        object
    }

    /// Passes out an object for the first time since its slab was fresh, and runs the constructor
    /// if there is one.
    fn carve(&self, page: PageIndex, index: u16) -> Object {
        let place = &self.places[page.0 as usize][usize::from(index)];
        let again = place.constructed.swap(true, Plain::Relaxed);
        assert!(self.reset || !again, "object {index} of {page:?} is constructed twice");
        self.claim(page, index)
    }

    /// Takes an object from its owner and checks that it holds what the owner wrote.
    fn release(&self, object: Object) -> u16 {
        let place = &self.places[object.page.0 as usize][usize::from(object.index)];
        // SAFETY: as in `claim`.
        place.word.with(|word| assert_eq!(unsafe { *word }, object.payload(), "another thread wrote to a live object"));
        assert!(place.held.swap(false, Plain::Relaxed));
        object.index
    }

    /// Frees objects of one slab at once, as `flush` of the engine does for one group.
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
        assert_ne!(freed, Freed::Corrupt, "a double free was found");
        if freed == Freed::Discard {
            self.discard(page);
        }
        freed
    }

    /// Returns the pages of a slab and checks that no thread uses it any more.
    fn discard(&self, page: PageIndex) {
        let entry = &self.entries.of[page.0 as usize];
        entry.alive.with_mut(|_| ());
        assert_eq!(self.discarded[page.0 as usize].fetch_add(1, Plain::Relaxed), 0, "{page:?} discarded twice");
        assert!(!entry.head.listed(), "{page:?} discarded while on the list");
        assert_eq!(self.held(page), 0, "{page:?} discarded with objects in use");
        self.nr_slabs.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes at least `need` objects if the list has them, as one round of `from_list` of refill.
    pub(super) fn refill(&self, need: usize) -> Vec<Object> {
        let mut taken = [Taken::NOTHING; 4];
        let (slabs, _) = self.list.take(&self.entries, Taker::Own, need, &mut taken);
        self.gather_all(&taken[..slabs], need)
    }

    /// As [`refill`](Self::refill), for another CPU than the one whose list it is.
    pub(super) fn refill_of_other(&self, need: usize) -> Vec<Object> {
        let mut taken = [Taken::NOTHING; 4];
        let (slabs, _) = self.list.take(&self.entries, Taker::Other, need, &mut taken);
        self.gather_all(&taken[..slabs], need)
    }

    fn gather_all(&self, taken: &[Taken], need: usize) -> Vec<Object> {
        let mut out = Vec::new();
        for taken in taken {
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

    /// Takes the freelists of all slabs with at least `least` linked objects, slab by slab, as a
    /// scan for evicted objects does.
    pub(super) fn take_sparse(&self, least: u16) -> Vec<Vec<Object>> {
        let mut left = self.list.lock().count;
        let mut out = Vec::new();
        while left > 0 {
            let mut taken = [Taken::NOTHING; 1];
            let sparse = |head: &PageHead| SlabState(head.state.load(Ordering::Acquire)).linked() >= least;
            let slabs = self.list.take_sparse(&self.entries, &mut left, sparse, &mut taken);
            for taken in &taken[..slabs] {
                assert_eq!(taken.fresh, 0, "objects were carved");
                assert!(taken.chain.count >= least);
                out.push(self.claim_chain(taken.page, taken.chain));
            }
        }
        out
    }

    /// Returns a surplus, as `give_back` of refill does.
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

    /// Takes the freelist of the first slab, finds it corrupt and quarantines the slab. The taken
    /// objects stay in use for ever. Returns the slab, if there was one.
    pub(super) fn find_corrupt(&self) -> Option<PageIndex> {
        let mut taken = [Taken::NOTHING; 1];
        let (slabs, _) = self.list.take(&self.entries, Taker::Own, 1, &mut taken);
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

    /// Opens a slab for a CPU with all its objects in use, as `new_slab` of the engine with CPU
    /// slabs.
    pub(super) fn open_frozen(&self, page: usize, objects: u16) -> Vec<Object> {
        let taken = self.open(page, objects);
        let head = self.entries.head(PageIndex(page as u32));
        head.state.store(SlabState::carved_from_fresh(objects).freeze().0, Ordering::Release);
        taken
    }

    /// Links objects of one slab, and returns the slab, the chain and the index of the last object.
    fn link_chain(&self, objects: Vec<Object>) -> (PageIndex, Chain, u16) {
        let page = objects[0].page;
        let indices: Vec<u16> = objects.into_iter().map(|object| self.release(object)).collect();
        for pair in indices.windows(2) {
            self.set_link(page, pair[0], pair[1]);
        }
        let last = indices[indices.len() - 1];
        (page, Chain { head: indices[0], count: indices.len() as u16 }, last)
    }

    /// Frees objects of one slab that is not the CPU's, as an engine with CPU slabs does.
    pub(super) fn free_by(&self, protection: Protection, objects: Vec<Object>) -> Freed {
        let (page, chain, last) = self.link_chain(objects);
        let link = |prior| self.set_link(page, last, prior);
        let freed = match protection {
            Protection::Lockless => self.list.push_chain(&self.entries, page, chain, self.min_partial, false, link),
            Protection::Lock { atomic } => {
                slabs::free_chain_locked(&self.list, &self.entries, page, chain, atomic, link)
            }
            Protection::Partly => partly::free(&self.list, &self.entries, page, chain, OWNER, || (), link),
        };
        self.settle(page, freed);
        if protection == Protection::Partly && freed == Freed::Discard {
            self.reuse(page);
        }
        freed
    }

    /// Makes the pages of a discarded slab another cache's, which lists them.
    fn reuse(&self, page: PageIndex) {
        let head = &self.entries.of[page.0 as usize].head;
        head.init(OTHER, head.objects(), 0, 0);
        head.set_own(OTHERS_OWN);
        head.set_listed(true);
    }

    /// Checks that no thread has written to the page head of a slab after it was discarded.
    pub(super) fn audit_reused(&self, page: PageIndex) {
        let head = &self.entries.of[page.0 as usize].head;
        assert_eq!((head.owner(), head.own(), head.listed()), (OTHER, OTHERS_OWN, true), "written to");
        assert_eq!((head.list(), head.order(), head.node()), (0, 0, 0), "written to");
    }

    /// Frees objects of one slab, which becomes the CPU's if it was full. Returns true then.
    pub(super) fn free_freezing(&self, objects: Vec<Object>) -> bool {
        let (page, chain, last) = self.link_chain(objects);
        let link = |prior| self.set_link(page, last, prior);
        let (freed, frozen) =
            slabs::free_chain_freezing(&self.list, &self.entries, page, chain, self.min_partial, link);
        self.settle(page, freed);
        frozen
    }

    /// Takes a slab off the list for a CPU, with all its free objects.
    pub(super) fn freeze(&self, protection: Protection) -> Option<(PageIndex, Vec<Object>)> {
        let (page, chain) = slabs::freeze_partial(&self.list, &self.entries, protection)?;
        Some((page, self.claim_chain(page, chain)))
    }

    /// Takes the objects that other threads freed to a slab of the caller's CPU.
    pub(super) fn take_freelist(&self, protection: Protection, page: PageIndex) -> Vec<Object> {
        let chain = slabs::take_freelist(self.entries.head(page), protection);
        self.claim_chain(page, chain)
    }

    /// Takes slabs off the list as a CPU with partial slabs does: the first with its objects, and
    /// the number of others, which it keeps as they are.
    pub(super) fn freeze_several(&self, enough: usize) -> Option<(Vec<Object>, Vec<PageIndex>)> {
        let (page, chain, mut other) = slabs::freeze_several(&self.list, &self.entries, enough)?;
        let mut others = Vec::new();
        while other != PageIndex::NONE {
            others.push(other);
            other = self.entries.head(other).next();
        }
        Some((self.claim_chain(page, chain), others))
    }

    /// Drains the partial slabs of a CPU.
    pub(super) fn thaw_several(&self, pages: &[PageIndex]) {
        for (at, &page) in pages.iter().enumerate() {
            self.entries.head(page).set_next(pages.get(at + 1).copied().unwrap_or(PageIndex::NONE));
        }
        let first = pages.first().copied().unwrap_or(PageIndex::NONE);
        let (rest, mut discards) = slabs::thaw_several(&self.list, &self.entries, first, |_| true, self.min_partial);
        assert_eq!(rest, PageIndex::NONE);
        while discards != PageIndex::NONE {
            let after = self.entries.head(discards).next();
            self.discard(discards);
            discards = after;
        }
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

    /// Gives up a CPU slab, with the objects that its freelist still held.
    pub(super) fn thaw(&self, protection: Protection, page: PageIndex, rest: Vec<Object>) {
        let (mut chain, mut last) = (Chain { head: NO_OBJECT, count: 0 }, NO_OBJECT);
        if !rest.is_empty() {
            (_, chain, last) = self.link_chain(rest);
        }
        let thawed = if protection == Protection::Partly {
            if chain.count > 0 {
                self.set_link(page, last, NO_OBJECT);
            }
            let (next, link) =
                (|object| self.next_of(page, object), |object, prior| self.set_link(page, object, prior));
            partly::thaw(&self.list, &self.entries, page, chain, self.min_partial, next, link)
        } else {
            let link = |prior| self.set_link(page, last, prior);
            slabs::thaw(&self.list, &self.entries, page, chain, self.min_partial, protection, link)
        };
        if thawed == Thawed::Discard {
            self.discard(page);
        }
    }

    pub(super) fn quarantine(&self, page: PageIndex) {
        self.list.quarantine(&self.entries, page);
    }

    /// Discards the empty slabs of the list, as shrink does, and returns their number.
    pub(super) fn trim(&self) -> usize {
        let mut empty = [PageIndex::NONE; 4];
        let count = self.list.take_empty(&self.entries, &mut empty);
        empty[..count].iter().for_each(|&page| self.discard(page));
        count
    }

    /// Sorts the list, as the second half of shrink does.
    pub(super) fn sort(&self) {
        self.list.lock().promote_fullest(&Unstepped(&self.entries));
    }

    /// Returns the number of slabs of the cache, as destroy reads it.
    pub(super) fn nr_slabs(&self) -> u64 {
        self.nr_slabs.load(Ordering::Relaxed)
    }

    /// Returns the number of objects of a slab that have an owner.
    pub(super) fn held(&self, page: PageIndex) -> usize {
        self.places[page.0 as usize].iter().filter(|place| place.held.load(Plain::Relaxed)).count()
    }

    pub(super) fn is_discarded(&self, page: PageIndex) -> bool {
        self.discarded[page.0 as usize].load(Plain::Relaxed) > 0
    }

    /// Returns the slabs on the list, front to back, and checks its links both ways.
    pub(super) fn listed(&self) -> Vec<PageIndex> {
        let list = self.list.lock();
        let mut pages = Vec::new();
        let (mut page, mut before) = (list.first(), PageIndex::NONE);
        while page != PageIndex::NONE {
            assert!(!pages.contains(&page), "{page:?} is on the list twice");
            assert!(!self.is_discarded(page), "{page:?} is on the list but was discarded");
            let head = self.entries.head(page);
            assert!(head.listed(), "{page:?} is on the list but not marked as listed");
            assert_eq!(head.prev(), before, "back link of {page:?}");
            pages.push(page);
            (page, before) = (head.next(), page);
        }
        assert_eq!(list.last(), before, "end of the list");
        assert_eq!(list.count, pages.len(), "slabs on the list");
        pages
    }

    /// Checks the invariants that hold while no operation runs. Each object is either held, on its
    /// slab's freelist, or not carved. A slab is listed exactly if objects can be taken from it.
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
