//! CPU slabs against frees of other CPUs, by compare-and-swap and by slab_lock.

use std::vec;

use super::bench::Bench;
use super::{explore, race};
use crate::base::units::PageIndex;
use crate::engine::history::slub::slabs::Protection;

const LOCKLESS: Protection = Protection::Lockless;
const LOCKED: Protection = Protection::Lock { atomic: false };
const PARTLY: Protection = Protection::Partly;
const PAGE: PageIndex = PageIndex(0);

/// Makes a shared bench and a CPU slab of three objects, all in use.
fn frozen() -> (std::sync::Arc<Bench>, [super::bench::Object; 3]) {
    let bench = Bench::new(1, 3, 0, false);
    let objects = bench.open_frozen(0, 3).try_into().unwrap();
    (std::sync::Arc::new(bench), objects)
}

/// A CPU gives up its slab while another CPU frees to it. The slab, which is partial in the end, is
/// listed once.
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

#[test]
fn a_slab_that_is_given_up_beside_a_free_is_listed_once_partly_by_slab_lock() {
    given_up_beside_a_free(PARTLY);
}

/// The same with an empty CPU freelist and the last frees: the slab stays full, becomes partial or
/// is discarded, but only one of these. There is one other thread only, because loom gives up on
/// two that wait for slab_lock.
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
        assert!(bench.is_discarded(PAGE), "the empty slab was not discarded");
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

/// A CPU takes a slab off the list while another CPU frees to it. No object is lost or has two
/// owners.
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
            assert_eq!(protection, LOCKED, "only a locked slab is skipped");
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

#[test]
fn a_slab_that_is_taken_beside_a_free_has_every_object_once_partly_by_slab_lock() {
    taken_beside_a_free(PARTLY);
}

/// Two frees to a full slab, each of which may make it its CPU's slab. Exactly one does, and the
/// other pushes its object.
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
        bench.thaw_several(&[PAGE]);
        bench.audit();
        assert_eq!(bench.listed(), [PAGE]);
    });
}

/// A drain of partial slabs against a free that may find its slab frozen, partial or full.
#[test]
fn a_drain_of_partial_slabs_beside_a_free_lists_the_slab_once() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, false);
        let [_kept, first, second] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        assert!(bench.free_freezing(vec![first]));
        let one = bench.clone();
        let (again, (), ()) = race(move || one.free_freezing(vec![second]), || (), || bench.thaw_several(&[PAGE]));
        assert!(!again, "a slab that is not full is not frozen");
        bench.audit();
        assert_eq!(bench.listed(), [PAGE]);
    });
}

/// A free to a full slab that its CPU gives up meanwhile. The free may make it its own CPU's slab
/// only afterwards.
#[test]
fn a_free_to_a_slab_that_is_given_up_full_freezes_it_only_afterwards() {
    explore(|| {
        let (bench, [_kept, _own, remote]) = frozen();
        let one = bench.clone();
        let (froze, (), ()) =
            race(move || one.free_freezing(vec![remote]), || (), || bench.thaw(LOCKLESS, PAGE, vec![]));
        bench.audit();
        assert_eq!(bench.listed().is_empty(), froze, "a slab is either frozen or listed");
        if froze {
            bench.thaw(LOCKLESS, PAGE, vec![]);
            bench.audit();
            assert_eq!(bench.listed(), [PAGE]);
        }
    });
}

/// A CPU takes two slabs off the list under one list_lock while another CPU empties one of them.
#[test]
fn slabs_taken_together_beside_a_free_have_every_object_once() {
    explore(|| {
        let (bench, slabs) = Bench::full(2, 2, 0, false);
        let [a, b] = <[_; 2]>::try_from(slabs).unwrap().map(|slab| <[_; 2]>::try_from(slab).unwrap());
        let ([a0, _a1], [b0, b1]) = (a, b);
        bench.free_by(LOCKLESS, vec![a0]);
        bench.free_by(LOCKLESS, vec![b0]);
        let one = bench.clone();
        let (_, (), taken) = race(move || one.free_by(LOCKLESS, vec![b1]), || (), || bench.freeze_several(1));
        let (objects, others) = taken.expect("the first slab is on the list");
        assert_eq!(objects.len(), 1);
        assert_eq!(others.is_empty(), bench.is_discarded(PageIndex(1)), "the other is taken or discarded");
        bench.thaw(LOCKLESS, PAGE, objects);
        bench.thaw_several(&others);
        bench.audit();
        assert!(bench.is_discarded(PageIndex(1)) && bench.listed() == [PAGE]);
    });
}
