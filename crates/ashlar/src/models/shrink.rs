//! Shrink and destroy against frees and refills.

use std::vec;

use super::bench::Bench;
use super::{explore, race};
use crate::base::units::PageIndex;
use crate::slab::partial::Freed;

const PAGE: PageIndex = PageIndex(0);

#[test]
fn a_slab_emptied_beside_shrink_is_discarded_exactly_once_and_with_no_object_live() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 2, 0, true);
        let [a, b] = <[_; 2]>::try_from(slabs.remove(0)).unwrap();
        let (one, two) = (bench.clone(), bench.clone());
        // `discard` checks that this happens once, and with no object live.
        race(move || one.free(vec![a]), move || two.free(vec![b]), || bench.trim());
        assert!(bench.is_discarded(PAGE));
        bench.audit();
    });
}

#[test]
fn an_emptied_slab_that_is_kept_is_found_by_the_next_shrink() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 2, 1, true);
        let [a, b] = <[_; 2]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![a]);
        let one = bench.clone();
        let (freed, (), trimmed) = race(move || one.free(vec![b]), || (), || bench.trim());
        assert_eq!(freed, Freed::Kept);
        assert_eq!(trimmed + bench.trim(), 1);
        bench.audit();
    });
}

#[test]
fn an_empty_slab_goes_to_a_refill_or_to_shrink_but_never_to_both() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 2, 1, true);
        bench.free(vec![slabs[0].remove(0)]);
        bench.free(slabs.remove(0));
        let (one, two) = (bench.clone(), bench.clone());
        let (got, other, trimmed) = race(move || one.refill(1), move || two.refill(1), || bench.trim());
        assert_eq!(got.len() + other.len(), if trimmed == 1 { 0 } else { 2 });
        bench.audit();
    });
}

#[test]
fn two_shrinks_share_the_empty_slabs() {
    explore(|| {
        let (bench, slabs) = Bench::full(2, 2, 2, true);
        for mut slab in slabs {
            bench.free(vec![slab.remove(0)]);
            bench.free(slab);
        }
        let one = bench.clone();
        let (a, (), b) = race(move || one.trim(), || (), || bench.trim());
        assert_eq!((a + b, bench.listed().len()), (2, 0));
        bench.audit();
    });
}

#[test]
fn a_cache_is_reported_empty_only_when_every_object_is_back() {
    explore(|| {
        // Destroy frees the objects of the sheaves, discards empty slabs, and checks whether a slab
        // is left. Meanwhile another thread frees the last object that it holds.
        let (bench, mut slabs) = Bench::full(1, 2, 1, true);
        let [cached, late] = <[_; 2]>::try_from(slabs.remove(0)).unwrap();
        let one = bench.clone();
        let destroy = |bench: &Bench| {
            bench.trim();
            bench.nr_slabs() == 0
        };
        let (_, (), gone) = race(
            move || one.free(vec![late]),
            || (),
            || {
                bench.free(vec![cached]);
                let gone = destroy(&bench);
                assert!(!gone || bench.held(PAGE) == 0, "reported empty with an object in use");
                gone
            },
        );
        assert!(gone || destroy(&bench), "all objects are freed but a slab is left");
        bench.audit();
    });
}

#[test]
fn a_cache_whose_last_free_discards_the_slab_itself_can_be_destroyed() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 2, 0, true);
        let [first, late] = <[_; 2]>::try_from(slabs.remove(0)).unwrap();
        let (one, two) = (bench.clone(), bench.clone());
        let (_, _, gone) = race(
            move || one.free(vec![late]),
            move || two.free(vec![first]),
            || {
                bench.trim();
                let gone = bench.nr_slabs() == 0;
                assert!(!gone || bench.held(PAGE) == 0, "reported empty with an object in use");
                gone
            },
        );
        assert_eq!((bench.nr_slabs(), bench.trim()), (0, 0), "gone at the first check: {gone}");
    });
}

#[test]
fn sorting_the_list_beside_frees_keeps_every_slab_on_it() {
    explore(|| {
        let (bench, slabs) = Bench::full(2, 3, 0, true);
        let mut rest = vec![];
        for mut slab in slabs {
            bench.free(vec![slab.remove(0)]);
            rest.push(slab);
        }
        let (one, two) = (bench.clone(), bench.clone());
        let [mut a, mut b] = <[_; 2]>::try_from(rest).unwrap();
        let (a, b) = (a.remove(0), b.remove(0));
        race(move || one.free(vec![a]), move || two.free(vec![b]), || bench.sort());
        assert_eq!(bench.listed().len(), 2);
        bench.audit();
    });
}
