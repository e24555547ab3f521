//! Full slabs that become partial, and full again.

use std::vec;

use super::bench::Bench;
use super::{explore, race};
use crate::slab::partial::Freed;

#[test]
fn two_frees_into_a_full_slab_list_it_exactly_once() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [_kept, first, second] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        let one = bench.clone();
        let (a, (), b) = race(move || one.free(vec![first]), || (), || bench.free(vec![second]));
        assert_eq!((a, b), (Freed::Kept, Freed::Kept));
        assert_eq!(bench.listed().len(), 1);
        bench.audit();
    });
}

#[test]
fn frees_into_two_full_slabs_list_both() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(2, 2, 0, true);
        let mut second = slabs.remove(1);
        let mut first = slabs.remove(0);
        let one = bench.clone();
        let (a, b) = (first.remove(0), second.remove(0));
        race(move || one.free(vec![a]), || (), || bench.free(vec![b]));
        assert_eq!(bench.listed().len(), 2);
        bench.audit();
    });
}

#[test]
fn a_slab_that_a_refill_fills_is_listed_again_by_the_next_free() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 2, 0, true);
        let [kept, first] = <[_; 2]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![first]);
        let (one, two) = (bench.clone(), bench.clone());
        // The refill fills the slab and takes it off the list. The free finds it partial, full and
        // listed, or full and unlisted. If the free comes last, it does not empty the slab, because
        // the refill holds an object. If it comes first, it empties and discards the slab, and the
        // refill finds none.
        let (freed, got, ()) = race(move || one.free(vec![kept]), move || two.refill(1), || ());
        assert_eq!(freed == Freed::Discard, got.is_empty(), "{freed:?}, {got:?}");
        bench.audit();
    });
}

#[test]
fn a_new_slab_and_a_slab_freed_to_are_both_listed() {
    explore(|| {
        let bench = std::sync::Arc::new(Bench::new(2, 2, 0, true));
        let mut full = bench.open(0, 2);
        let object = full.remove(0);
        let one = bench.clone();
        race(move || one.free(vec![object]), || (), || bench.open(1, 1));
        assert_eq!(bench.listed().len(), 2);
        bench.audit();
    });
}

#[test]
fn two_cpus_take_from_a_slab_that_a_free_empties() {
    explore(|| {
        let bench = std::sync::Arc::new(Bench::new(1, 2, 1, true));
        let [kept, first] = <[_; 2]>::try_from(bench.open(0, 2)).unwrap();
        bench.free(vec![first]);
        let (one, two, own) = (bench.clone(), bench.clone(), bench.clone());
        // The free empties the slab, which stays listed. Half of it is free before, so it is for
        // all CPUs: each of the two objects goes to one CPU at most, and one at least is found.
        let free = move || one.free(vec![kept]);
        let (_, got, more) = race(free, move || two.refill_of_other(1), move || own.refill(1));
        assert!((1..=2).contains(&(got.len() + more.len())), "{got:?}, {more:?}");
        bench.audit();
    });
}

#[test]
fn another_cpu_takes_from_a_slab_once_a_quarter_of_it_is_free() {
    explore(|| {
        let bench = std::sync::Arc::new(Bench::new(1, 8, 0, true));
        let mut objects = bench.open(0, 8);
        bench.free(vec![objects.remove(0)]);
        let (one, two) = (bench.clone(), bench.clone());
        let second = objects.remove(0);
        // An eighth is free before, and a quarter after the free.
        let free = move || one.free(vec![second]);
        let (_, got, ()) = race(free, move || two.refill_of_other(2), || ());
        assert!(got.is_empty() || got.len() == 2, "{got:?}");
        assert_eq!(bench.refill_of_other(2).len() + got.len(), 2);
        bench.audit();
    });
}
