//! The queues of SLAB: objects that move between CPUs' arrays, the shared array, an alien cache and
//! slabs.
//!
//! The bench has one node's lists with its slabs, two CPUs of the node, and another node's alien
//! cache for it. Objects have eight bytes of real memory, which hold the index arrays as in real
//! slabs of the engine `slab`. Slabs of `slab24` have descriptors behind all objects. If two
//! threads use an array at a time, or an object is used while it holds an array, the owner's value
//! is overwritten.
#![allow(unsafe_code, reason = "objects are raw memory")]

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Plain};
use std::boxed::Box;
use std::sync::Arc;
use std::vec::Vec;

use loom::cell::UnsafeCell;

use super::{explore, race};
use crate::base::sync::SpinLock;
use crate::base::units::PageIndex;
use crate::engine::history::slab_queues::alien::AlienCache;
use crate::engine::history::slab_queues::array::ArrayCache;
use crate::engine::history::slab_queues::lists::{After, Lists};
use crate::engine::history::slab_queues::slabs::Slabs;
use crate::pages::head::PageHead;
use crate::slab::geometry::IndexArray;
use crate::slab::partial::{Heads, Partial};

/// Objects in a slab.
const OBJECTS: usize = 2;
const STRIDE: usize = 8;
/// Words of a slab's descriptor.
const DESCRIPTOR: usize = 8;
/// The records of both engines.
const RECORDS: [IndexArray; 2] = [IndexArray::InObject, IndexArray::ChainOffSlab];

/// An allocated object. Not `Clone`: its holder may use it, and passes it on to free it.
#[derive(Debug)]
struct Object(usize);

/// A head entry. Only the holder of list_lock may access it, and later only the thread that
/// discards the slab. loom reports two accesses at a time.
struct Entry {
    head: PageHead,
    looks: UnsafeCell<()>,
}

struct Bench {
    entries: Vec<Entry>,
    memory: *mut u64,
    array: IndexArray,
    held: Vec<AtomicBool>,
    discarded: Vec<AtomicUsize>,
    lists: SpinLock<Lists>,
    alien: SpinLock<AlienCache>,
    /// Arrays of CPUs, each behind its CPU's lock.
    cpus: [SpinLock<&'static ArrayCache>; 2],
}

// SAFETY: the memory of an object is accessed by its owner, or by the holder of its slab's lists;
// the flags and cells report any other access.
unsafe impl Sync for Bench {}
// SAFETY: as above.
unsafe impl Send for Bench {}

impl Drop for Bench {
    fn drop(&mut self) {
        let words = words(self.entries.len());
        // SAFETY: leaked in `new`, with this length.
        drop(unsafe { Vec::from_raw_parts(self.memory, words, words) });
    }
}

impl Heads for Bench {
    fn head(&self, page: PageIndex) -> &PageHead {
        let entry = &self.entries[page.0 as usize];
        entry.looks.with_mut(|_| ());
        &entry.head
    }
}

impl Slabs for Bench {
    fn objects(&self) -> usize {
        OBJECTS
    }

    fn stride(&self) -> usize {
        STRIDE
    }

    fn array(&self) -> IndexArray {
        self.array
    }

    fn address_of(&self, page: PageIndex) -> usize {
        self.memory as usize + page.0 as usize * OBJECTS * STRIDE
    }

    fn first_object(&self, page: PageIndex) -> usize {
        self.address_of(page)
    }

    fn find(&self, object: usize) -> Option<(PageIndex, usize)> {
        let number = self.number(object);
        Some((PageIndex((number / OBJECTS) as u32), number % OBJECTS))
    }
}

/// Returns the words of memory of some slabs: their objects, then their descriptors.
fn words(slabs: usize) -> usize {
    slabs * (OBJECTS + DESCRIPTOR)
}

/// Makes an array. Its memory is never freed, as in the pool of arrays.
fn array(limit: usize) -> &'static ArrayCache {
    Box::leak(Box::new(ArrayCache::new(limit, limit.div_ceil(2))))
}

impl Bench {
    /// Makes `slabs` free slabs, a shared array for `shared` objects and CPUs' arrays for `limit`
    /// objects.
    fn new(record: IndexArray, slabs: usize, limit: usize, shared: usize, free_limit: usize) -> Bench {
        let entry = || {
            let entry = Entry { head: PageHead::new(), looks: UnsafeCell::new(()) };
            entry.head.init(0, OBJECTS as u16, 0, 0);
            entry
        };
        let memory = Box::leak(std::vec![0u64; words(slabs)].into_boxed_slice()).as_mut_ptr();
        let mut lists = Lists::NEW;
        lists.free_limit = free_limit;
        lists.shared = (shared > 0).then(|| array(shared));
        let mut alien = AlienCache::NEW;
        alien.limit = 1;
        let bench = Bench {
            entries: (0..slabs).map(|_| entry()).collect(),
            memory,
            array: record,
            held: (0..slabs * OBJECTS).map(|_| AtomicBool::new(false)).collect(),
            discarded: (0..slabs).map(|_| AtomicUsize::new(0)).collect(),
            lists: SpinLock::new(lists),
            alien: SpinLock::new(alien),
            cpus: [SpinLock::new(array(limit)), SpinLock::new(array(limit))],
        };
        for page in (0..slabs as u32).map(PageIndex) {
            let descriptor = memory as usize + (slabs * OBJECTS + page.0 as usize * DESCRIPTOR) * size_of::<u64>();
            let in_object = bench.address_of(page) + (OBJECTS - 1) * STRIDE;
            bench.fill(page, if record.is_chain() { descriptor } else { in_object });
            let mut after = After::NOTHING;
            bench.lists.lock().add_slab(&bench, page, 0, |_| (), &mut after);
        }
        bench
    }

    /// Makes a bench to share, with all objects in use.
    fn full(
        record: IndexArray,
        slabs: usize,
        limit: usize,
        shared: usize,
        free_limit: usize,
    ) -> (Arc<Bench>, Vec<Object>) {
        let bench = Bench::new(record, slabs, limit, shared, free_limit);
        let (mut taken, mut after) = (Vec::new(), After::NOTHING);
        bench.lists.lock().take(&bench, slabs * OBJECTS, |object| taken.push(object), &mut after);
        let objects = taken.into_iter().map(|object| bench.claim(object)).collect();
        (Arc::new(bench), objects)
    }

    fn number(&self, object: usize) -> usize {
        let number = (object - self.memory as usize) / STRIDE;
        assert!(object.is_multiple_of(STRIDE) && number < self.held.len(), "{object:#x} is not an object");
        number
    }

    /// Passes an object to its owner, which writes to it.
    fn claim(&self, object: usize) -> Object {
        assert!(!self.held[self.number(object)].swap(true, Plain::Relaxed), "an object has two owners");
        // SAFETY: eight bytes of the bench's memory. The flag shows that this owner has exclusive
        // access.
        unsafe { (object as *mut u64).write(!object as u64) };
        Object(object)
    }

    /// Takes an object from its owner and checks that it holds what the owner wrote.
    fn release(&self, object: Object) -> usize {
        let Object(object) = object;
        // SAFETY: as in `claim`.
        assert_eq!(unsafe { (object as *const u64).read() }, !object as u64, "another thread wrote to a live object");
        assert!(self.held[self.number(object)].swap(false, Plain::Relaxed));
        object
    }

    /// Discards the empty slabs that [`After`] holds.
    fn settle(&self, mut after: After) {
        assert_eq!((after.twice, after.corrupt), (0, 0), "a double free or a corrupt array was found");
        while after.empty.count > 0 {
            let page = after.empty.first();
            after.empty.unlink(self, page);
            assert_eq!(self.discarded[page.0 as usize].fetch_add(1, Plain::Relaxed), 0, "{page:?} discarded twice");
            let mut held = self.held[page.0 as usize * OBJECTS..][..OBJECTS].iter();
            assert!(!held.any(|held| held.load(Plain::Relaxed)), "{page:?} discarded with objects in use");
        }
    }

    /// Allocates on a CPU, as `alloc` of the engine does, but without new slabs.
    fn alloc(&self, cpu: usize) -> Option<Object> {
        let mut after = After::NOTHING;
        let here = self.cpus[cpu].lock();
        let mut object = here.pop();
        if object == 0 {
            self.lists.lock().refill(self, &here, &mut after);
            object = here.pop();
        }
        drop(here);
        self.settle(after);
        (object != 0).then(|| self.claim(object))
    }

    /// Frees on a CPU of the object's node, as `free_in` of the engine does.
    fn free(&self, cpu: usize, object: Object) {
        let object = self.release(object);
        let mut after = After::NOTHING;
        let here = self.cpus[cpu].lock();
        if !here.push(object) {
            self.lists.lock().flush(self, &here, &mut after);
            assert!(here.push(object), "a flush makes room");
        }
        drop(here);
        self.settle(after);
    }

    /// Frees on a CPU of another node.
    fn free_remote(&self, object: Object) {
        let object = self.release(object);
        let mut after = After::NOTHING;
        assert!(self.alien.lock().free(self, &self.lists, object, &mut after));
        self.settle(after);
    }

    /// Drains the alien cache, as the reaper does.
    fn send_home(&self) {
        let mut after = After::NOTHING;
        self.alien.lock().drain(self, &self.lists, &mut after);
        self.settle(after);
    }

    /// Drains a CPU's array, as the reaper and a drain do.
    fn drain_cpu(&self, cpu: usize) {
        let mut after = After::NOTHING;
        let here = self.cpus[cpu].lock();
        self.lists.lock().drain(self, &here, usize::MAX, &mut after);
        drop(here);
        self.settle(after);
    }

    /// Replaces the shared array, as a change of the tunables does.
    fn tune(&self, shared: usize) {
        let mut after = After::NOTHING;
        let new = (shared > 0).then(|| array(shared));
        let old = self.lists.lock().replace_shared(self, new, &mut after);
        self.settle(after);
        // Only this thread has the old array, so the pool's writes to its memory must meet no other
        // access.
        if let Some(old) = old {
            assert_eq!(old.avail(), 0, "a retired array holds objects");
            assert!(old.push(self.memory as usize) && old.pop() != 0);
        }
    }

    /// Returns all objects to slabs and discards these, as shrink and destroy do.
    fn drain_cpus(&self) {
        (0..self.cpus.len()).for_each(|cpu| self.drain_cpu(cpu));
        self.send_home();
        self.tune(0);
        let mut after = After::NOTHING;
        self.lists.lock().drop_free(self, usize::MAX, &mut after);
        self.settle(after);
    }

    fn gone(&self) -> usize {
        self.discarded.iter().filter(|gone| gone.load(Plain::Relaxed) > 0).count()
    }

    /// Returns the slabs on a list, and checks its links both ways.
    fn pages(&self, list: &Partial) -> Vec<PageIndex> {
        let (mut page, mut before, mut pages) = (list.first(), PageIndex::NONE, Vec::new());
        while page != PageIndex::NONE {
            let head = self.head(page);
            assert!(head.listed() && head.prev() == before && !pages.contains(&page), "{page:?} is linked wrongly");
            pages.push(page);
            (page, before) = (head.next(), page);
        }
        assert_eq!((list.last(), list.count), (before, pages.len()));
        pages
    }

    /// Checks, while no operation runs, that each object is in exactly one place, and each slab on
    /// the right list.
    fn audit(&self) {
        let mut at: Vec<usize> = self.held.iter().map(|held| usize::from(held.load(Plain::Relaxed))).collect();
        let lists = self.lists.lock();
        let arrays: Vec<&ArrayCache> = self.cpus.iter().map(|cpu| *cpu.lock()).chain(lists.shared).collect();
        for array in arrays {
            let mut objects = std::vec![0; array.avail()];
            assert_eq!(array.oldest(&mut objects), array.avail());
            objects.into_iter().for_each(|object| at[self.number(object)] += 1);
        }
        self.alien.lock().objects().iter().for_each(|&object| at[self.number(object)] += 1);
        let on = [&lists.free, &lists.partial, &lists.full].map(|list| self.pages(list));
        let mut free_objects = 0;
        for page in (0..self.entries.len()).filter(|&page| self.discarded[page].load(Plain::Relaxed) == 0) {
            let free = self.free_indices(PageIndex(page as u32));
            let belongs = if free.len() == OBJECTS { 0 } else { 1 + usize::from(free.is_empty()) };
            for (list, pages) in on.iter().enumerate() {
                assert_eq!(pages.contains(&PageIndex(page as u32)), list == belongs, "slab {page} on list {list}");
            }
            free_objects += free.len();
            free.into_iter().for_each(|index| at[page * OBJECTS + index] += 1);
        }
        assert_eq!(lists.free_objects, free_objects);
        // A slab that a free empties goes if there are too many free objects then. Those that were
        // empty before go too with index arrays, and stay with chains.
        assert!(
            free_objects <= lists.free_limit || lists.free.count == 0 || self.array.is_chain(),
            "free slabs above the limit"
        );
        for (object, count) in at.into_iter().enumerate() {
            let gone = self.discarded[object / OBJECTS].load(Plain::Relaxed) > 0;
            assert_eq!(count, usize::from(!gone), "places that hold object {object}");
        }
    }
}

fn take<const N: usize>(objects: Vec<Object>) -> [Object; N] {
    objects.try_into().expect("the requested number of objects")
}

/// Two CPUs of another node free here and overflow the alien cache, while the reaper drains it.
#[test]
fn remote_frees_beside_the_reaper_keep_every_object() {
    for record in RECORDS {
        for shared in [0, 1] {
            explore(move || {
                let (bench, objects) = Bench::full(record, 2, 2, shared, 4);
                let [first, second, third, _kept] = take(objects);
                let (one, two) = (bench.clone(), bench.clone());
                race(
                    move || {
                        one.free_remote(first);
                        one.free_remote(second);
                    },
                    move || two.free_remote(third),
                    || bench.send_home(),
                );
                bench.audit();
                assert!(bench.alien.lock().avail() <= 1);
            });
        }
    }
}

/// Refills on the node's CPUs while an alien cache overflows. Each object has one owner: a CPU, the
/// shared array or a slab.
#[test]
fn a_refill_beside_an_alien_cache_that_goes_home_has_every_object_once() {
    for record in RECORDS {
        for shared in [0, 1] {
            explore(move || {
                let (bench, objects) = Bench::full(record, 2, 2, shared, 4);
                let [first, second, third, _kept] = take(objects);
                bench.free_remote(first);
                let (one, two) = (bench.clone(), bench.clone());
                let had = race(
                    move || {
                        one.free_remote(second);
                        one.free_remote(third);
                    },
                    move || two.alloc(0),
                    || bench.alloc(1),
                );
                bench.audit();
                drop(had);
            });
        }
    }
}

/// One CPU flushes to the shared array while another refills from it and the tunables change.
#[test]
fn a_flush_and_a_refill_beside_another_shared_array_keep_every_object() {
    for record in RECORDS {
        for new in [0, 2] {
            explore(move || {
                let (bench, objects) = Bench::full(record, 2, 1, 2, 4);
                let [first, second, third, _kept] = take(objects);
                bench.free(0, first);
                let (one, two) = (bench.clone(), bench.clone());
                let (_, had, ()) = race(
                    move || {
                        one.free(0, second);
                        one.free(0, third);
                    },
                    move || two.alloc(1),
                    || bench.tune(new),
                );
                bench.audit();
                drop(had);
            });
        }
    }
}

/// A drain of a CPU's array, by the reaper or by shrink, against that CPU and another drain.
#[test]
fn a_drain_of_a_busy_cpu_keeps_every_object() {
    for record in RECORDS {
        explore(move || {
            let (bench, objects) = Bench::full(record, 2, 2, 1, 4);
            let [first, second, third, _kept] = take(objects);
            bench.free(0, first);
            bench.free(0, second);
            let (one, two) = (bench.clone(), bench.clone());
            let (had, (), ()) = race(
                move || {
                    one.free(0, third);
                    one.alloc(0)
                },
                move || two.drain_cpu(0),
                || bench.send_home(),
            );
            assert!(had.is_some(), "its own free or a slab serves the allocation");
            bench.audit();
        });
    }
}

/// A slab that becomes free above the limit is discarded once, and only if no CPU takes from it
/// meanwhile.
#[test]
fn a_free_slab_above_the_limit_goes_back_unless_it_is_taken_from() {
    for record in RECORDS {
        explore(move || {
            let (bench, objects) = Bench::full(record, 1, 1, 0, 0);
            let [first, second] = take(objects);
            bench.free_remote(first);
            let (one, two) = (bench.clone(), bench.clone());
            let (_, had, ()) = race(
                move || {
                    one.free_remote(second);
                    one.send_home();
                },
                move || two.alloc(0),
                || bench.send_home(),
            );
            bench.audit();
            assert_eq!(bench.gone(), usize::from(had.is_none()), "{had:?}");
        });
    }
}

/// Destroy: after a drain concurrent with the last frees, one more drain returns all objects, and
/// no slab is left.
#[test]
fn a_flush_beside_the_last_frees_leaves_nothing_for_the_next() {
    for record in RECORDS {
        explore(move || {
            let (bench, objects) = Bench::full(record, 2, 1, 1, 4);
            let [first, second, third, fourth] = take(objects);
            bench.free(1, first);
            bench.free_remote(second);
            let (one, two) = (bench.clone(), bench.clone());
            race(move || one.free_remote(third), move || two.free(0, fourth), || bench.drain_cpus());
            bench.audit();
            bench.drain_cpus();
            bench.audit();
            assert_eq!(bench.gone(), 2);
        });
    }
}
