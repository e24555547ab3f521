//! Slabs of CPUs against frees of other CPUs, by compare-and-swap and by slab_lock.

use std::vec;

use super::bench::Bench;
use super::{explore, race};
use crate::base::units::PageIndex;
use crate::engine::history::slub::slabs::Protection;

const LOCKLESS: Protection = Protection::Lockless;
const LOCKED: Protection = Protection::Lock { atomic: false };
const PAGE: PageIndex = PageIndex(0);

/// A CPU's slab of three objects, all in use, beside a bench to share.
fn frozen() -> (std::sync::Arc<Bench>, [super::bench::Object; 3]) {
    let bench = Bench::new(1, 3, 0, false);
    let objects = bench.open_frozen(0, 3).try_into().unwrap();
    (std::sync::Arc::new(bench), objects)
}

/// A CPU gives its slab up while another one frees to it: partial or not, it is listed exactly if it should be.
fn given_up_beside_a_free(protection: Protection) {
    explore(move || {
        let (bench, [_kept, own, remote]) = frozen();
        let one = bench.clone();
        race(move || one.free_by(protection, vec![remote]), || (), || bench.thaw(protection, PAGE, vec![own]));
        bench.audit();
        assert_eq!(bench.listed(), [PAGE]);
    });
}

#[test]
fn a_slab_that_is_given_up_beside_a_free_is_listed_once() {
    given_up_beside_a_free(LOCKLESS);
}

#[test]
fn a_slab_that_is_given_up_beside_a_free_is_listed_once_by_slab_lock() {
    given_up_beside_a_free(LOCKED);
}

/// The same with nothing left on the CPU, and the last objects coming home: full, partial or discarded, but never both. One
/// other thread: loom gives up on two that wait for slab_lock.
fn given_up_full_beside_the_last_frees(protection: Protection) {
    explore(move || {
        let bench = std::sync::Arc::new(Bench::new(1, 2, 0, false));
        let [first, second] = <[_; 2]>::try_from(bench.open_frozen(0, 2)).unwrap();
        let one = bench.clone();
        race(
            move || {
                one.free_by(protection, vec![first]);
                one.free_by(protection, vec![second]);
            },
            || (),
            || bench.thaw(protection, PAGE, vec![]),
        );
        bench.audit();
        assert!(bench.is_discarded(PAGE), "nothing keeps an empty slab here");
    });
}

#[test]
fn a_full_slab_that_is_given_up_beside_its_last_frees_is_discarded_once() {
    given_up_full_beside_the_last_frees(LOCKLESS);
}

#[test]
fn a_full_slab_that_is_given_up_beside_its_last_frees_is_discarded_once_by_slab_lock() {
    given_up_full_beside_the_last_frees(LOCKED);
}

/// A CPU takes a slab off the list while others free to it: no object is lost, none is had twice.
fn taken_beside_a_free(protection: Protection) {
    explore(move || {
        let (bench, mut slabs) = Bench::full(1, 3, 0, false);
        let [_kept, first, second] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        bench.free_by(protection, vec![first]);
        let one = bench.clone();
        let (_, (), taken) = race(move || one.free_by(protection, vec![second]), || (), || bench.freeze(protection));
        if let Some((page, objects)) = taken {
            assert!(!objects.is_empty());
            let more = bench.take_freelist(protection, page);
            assert_eq!(objects.len() + more.len(), 2);
            bench.thaw(protection, page, objects.into_iter().chain(more).collect());
        } else {
            assert_eq!(protection, LOCKED, "only a locked slab is passed by");
        }
        bench.audit();
        assert_eq!(bench.listed(), [PAGE]);
    });
}

#[test]
fn a_slab_that_is_taken_beside_a_free_has_every_object_once() {
    taken_beside_a_free(LOCKLESS);
}

#[test]
fn a_slab_that_is_taken_beside_a_free_has_every_object_once_by_slab_lock() {
    taken_beside_a_free(LOCKED);
}

/// Two frees to a full slab, each of which would make it its CPU's: exactly one does, and the other is pushed.
#[test]
fn of_two_frees_to_a_full_slab_exactly_one_freezes_it() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, false);
        let [_kept, first, second] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        let one = bench.clone();
        let (a, (), b) = race(move || one.free_freezing(vec![first]), || (), || bench.free_freezing(vec![second]));
        assert!(a != b, "{a}, {b}");
        bench.audit();
        assert!(bench.listed().is_empty());
        // Its CPU drains its partial slabs.
        bench.thaw(LOCKLESS, PAGE, vec![]);
        bench.audit();
        assert_eq!(bench.listed(), [PAGE]);
    });
}

/// A drain of partial slabs beside a free that may find its slab frozen, partial or full.
#[test]
fn a_drain_of_partial_slabs_beside_a_free_lists_the_slab_once() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, false);
        let [_kept, first, second] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        assert!(bench.free_freezing(vec![first]));
        let one = bench.clone();
        let (again, (), ()) =
            race(move || one.free_freezing(vec![second]), || (), || bench.thaw(LOCKLESS, PAGE, vec![]));
        assert!(!again, "a slab that is not full is not frozen");
        bench.audit();
        assert_eq!(bench.listed(), [PAGE]);
    });
}

/// A free to a full slab that its CPU gives up meanwhile: it becomes the freeing CPU's only if it was given up before.
#[test]
fn a_free_to_a_slab_that_is_given_up_full_freezes_it_only_afterwards() {
    explore(|| {
        let (bench, [_kept, _own, remote]) = frozen();
        let one = bench.clone();
        let (froze, (), ()) =
            race(move || one.free_freezing(vec![remote]), || (), || bench.thaw(LOCKLESS, PAGE, vec![]));
        bench.audit();
        assert_eq!(bench.listed().is_empty(), froze, "a slab has one place");
        if froze {
            bench.thaw(LOCKLESS, PAGE, vec![]);
            bench.audit();
            assert_eq!(bench.listed(), [PAGE]);
        }
    });
}
