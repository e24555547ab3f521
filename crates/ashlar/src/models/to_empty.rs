//! Slabs that become empty: which thread discards or keeps them.

use std::vec;

use super::bench::Bench;
use super::{explore, race};
use crate::slab::partial::Freed;

fn discards(freed: &[Freed]) -> usize {
    freed.iter().filter(|&&f| f == Freed::Discard).count()
}

#[test]
fn of_three_frees_that_empty_a_slab_exactly_one_discards_it() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [a, b, c] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        let (one, two) = (bench.clone(), bench.clone());
        let (a, b, c) = race(move || one.free(vec![a]), move || two.free(vec![b]), || bench.free(vec![c]));
        assert_eq!(discards(&[a, b, c]), 1);
        bench.audit();
    });
}

#[test]
fn a_slab_that_frees_empty_within_min_partial_stays_listed_and_forgets_its_freelist() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 2, 1, true);
        let [a, b] = <[_; 2]>::try_from(slabs.remove(0)).unwrap();
        let one = bench.clone();
        let (a, (), b) = race(move || one.free(vec![a]), || (), || bench.free(vec![b]));
        assert_eq!(discards(&[a, b]), 0);
        assert_eq!(bench.listed().len(), 1);
        bench.audit();
    });
}

#[test]
fn a_slab_with_constructed_objects_keeps_its_freelist_when_frees_empty_it() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 1, false);
        let [a, b, c] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        let one = bench.clone();
        let (_, (), _) = race(move || one.free(vec![a, b]), || (), || bench.free(vec![c]));
        // The audit follows the links; no object may be carved again.
        bench.audit();
        assert_eq!(bench.refill(3).len(), 3);
        bench.audit();
    });
}

#[test]
fn of_two_slabs_that_frees_empty_at_once_min_partial_are_kept() {
    explore(|| {
        let (bench, slabs) = Bench::full(2, 2, 1, true);
        let mut last = vec![];
        for mut slab in slabs {
            last.push(slab.remove(0));
            bench.free(slab);
        }
        let [a, b] = <[_; 2]>::try_from(last).unwrap();
        let one = bench.clone();
        let (a, (), b) = race(move || one.free(vec![a]), || (), || bench.free(vec![b]));
        assert_eq!(discards(&[a, b]), 1);
        assert_eq!(bench.listed().len(), 1);
        bench.audit();
    });
}

#[test]
fn a_full_slab_freed_in_one_go_belongs_to_that_free_alone() {
    explore(|| {
        // The thread that frees all objects of a full slab discards it without a lock, whatever
        // other threads do with the list. The bench checks that no thread reads its head entry
        // afterwards.
        let (bench, mut slabs) = Bench::full(2, 2, 0, true);
        let mut other = slabs.remove(1);
        let whole = slabs.remove(0);
        let object = other.remove(0);
        let (one, two) = (bench.clone(), bench.clone());
        let (freed, got, _) =
            race(move || one.free(whole), move || (two.trim(), two.refill(2)), || bench.free(vec![object]));
        assert_eq!((freed, got.0), (Freed::Discard, 0));
        assert!(got.1.len() <= 1);
        bench.audit();
    });
}

#[test]
fn a_slab_taken_off_the_list_by_a_refill_is_discarded_without_a_lock_by_who_has_it_all() {
    explore(|| {
        // The refill fills the slab and takes it off the list. Then both objects are freed at once.
        let bench = std::sync::Arc::new(Bench::new(2, 2, 0, true));
        let mut rest = bench.open(0, 1);
        let mut other = bench.open(1, 2);
        let (one, object) = (bench.clone(), other.remove(0));
        let (freed, (), _) = race(
            move || {
                rest.append(&mut one.refill(1));
                // The refill returns the second object of the slab, or, after the other free, one
                // of that slab.
                let both = rest.iter().all(|object| object.page.0 == 0) && rest.len() == 2;
                both.then(|| one.free(rest))
            },
            || (),
            || bench.free(vec![object]),
        );
        assert!(freed.is_none_or(|freed| freed == Freed::Discard));
        bench.audit();
    });
}

#[test]
fn a_slab_on_its_way_from_full_to_empty_is_refilled_or_discarded_but_never_both() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 2, 0, true);
        let [a, b] = <[_; 2]>::try_from(slabs.remove(0)).unwrap();
        let (one, two) = (bench.clone(), bench.clone());
        let (freed, got, ()) = race(move || (one.free(vec![a]), one.free(vec![b])), move || two.refill(2), || ());
        assert_eq!(freed.0, Freed::Kept);
        assert_eq!(freed.1 == Freed::Discard, got.is_empty(), "{freed:?}, {got:?}");
        bench.audit();
    });
}
