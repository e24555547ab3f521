//! A refill that took too many objects returns the surplus, against frees and refills.

use std::vec;

use super::bench::Bench;
use super::{explore, race};

#[test]
fn a_surplus_that_goes_back_beside_a_free_and_a_refill_ends_its_freelist() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [a, b, c] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![a, b]);
        let (one, two) = (bench.clone(), bench.clone());
        let (x, y, _) = race(move || one.refill(1), move || two.refill(1), || bench.free(vec![c]));
        assert!(x.len() <= 1 && y.len() <= 1);
        bench.audit();
    });
}

#[test]
fn a_surplus_of_two_goes_back_in_front_of_what_was_freed_meanwhile() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 4, 1, true);
        let [a, b, c, d] = <[_; 4]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![a, b, c]);
        let one = bench.clone();
        let (x, (), _) = race(move || one.refill(1), || (), || bench.free(vec![d]));
        assert_eq!(x.len(), 1);
        bench.audit();
        assert_eq!(bench.refill(4).len(), 3);
        bench.audit();
    });
}

#[test]
fn a_surplus_that_meets_the_last_free_leaves_the_slab_to_one_of_them() {
    explore(|| {
        // The refill returns its surplus and then frees the object that it took; another thread
        // frees the third object. Exactly one of these three steps finds the slab empty.
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [a, b, c] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![a, b]);
        let one = bench.clone();
        let (_, (), _) = race(
            move || {
                let got = one.refill(1);
                if !got.is_empty() {
                    one.free(got);
                }
            },
            || (),
            || bench.free(vec![c]),
        );
        assert!(bench.is_discarded(crate::base::units::PageIndex(0)), "the empty slab was not discarded");
        bench.audit();
    });
}
