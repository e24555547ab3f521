//! A slab whose freelist was found corrupt, against concurrent frees and refills.

use std::vec;

use super::bench::Bench;
use super::{explore, race};
use crate::base::units::PageIndex;
use crate::slab::partial::Freed;

#[test]
fn a_free_does_not_list_a_slab_that_is_quarantined_at_the_time() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [a, b, c] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![a]);
        let (one, two) = (bench.clone(), bench.clone());
        let (b, c, page) = race(move || one.free(vec![b]), move || two.free(vec![c]), || bench.find_corrupt());
        // The frees may have discarded the slab before it was found corrupt. Otherwise they are
        // only counted.
        assert_eq!(page.is_none(), [b, c].contains(&Freed::Discard));
        assert!(bench.listed().is_empty());
        bench.audit();
    });
}

#[test]
fn a_quarantined_slab_gives_a_refill_nothing_even_when_all_others_are_back() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [a, b, c] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![a]);
        let one = bench.clone();
        let (_, (), _) = race(
            move || {
                let page = one.find_corrupt();
                let got = one.refill(1);
                assert!(page.is_none() || got.is_empty(), "a refill from a slab in quarantine");
            },
            || (),
            || (bench.free(vec![b]), bench.free(vec![c])),
        );
        bench.audit();
    });
}

#[test]
fn frees_never_discard_a_slab_in_quarantine() {
    explore(|| {
        // Both objects are freed after the slab was found corrupt. It is empty by count, and stays.
        let (bench, mut slabs) = Bench::full(1, 2, 0, true);
        let [a, b] = <[_; 2]>::try_from(slabs.remove(0)).unwrap();
        let (one, two) = (bench.clone(), bench.clone());
        bench.quarantine(PageIndex(0));
        let again = move || two.quarantine(PageIndex(0));
        let (a, (), b) = race(move || one.free(vec![a]), again, || bench.free(vec![b]));
        assert_eq!((a, b), (Freed::Kept, Freed::Kept));
        assert_eq!(bench.trim(), 0);
        bench.audit();
    });
}
