//! A slow free against refills of the same slab.

use std::vec;

use super::bench::Bench;
use super::{explore, race};

#[test]
fn a_free_beside_a_refill_of_its_slab_loses_and_doubles_nothing() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let mut slab = slabs.remove(0);
        bench.free(vec![slab.remove(0)]);
        let (one, two) = (bench.clone(), bench.clone());
        let [first, second] = <[_; 2]>::try_from(slab).unwrap();
        let (_, got, ()) = race(move || one.free(vec![first]), move || two.refill(3), || ());
        assert!(!got.is_empty() && got.len() <= 2, "the refill takes the free object, or both");
        drop((got, second));
        bench.audit();
    });
}

#[test]
fn two_frees_and_a_refill_of_one_slab_lose_and_double_nothing() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [_kept, first, second] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        let (one, two) = (bench.clone(), bench.clone());
        let (_, _, got) = race(move || one.free(vec![first]), move || two.free(vec![second]), || bench.refill(2));
        assert!(got.len() <= 2);
        bench.audit();
    });
}

#[test]
fn two_refills_beside_a_free_never_get_the_same_object() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [_kept, first, second] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![first]);
        let (one, two) = (bench.clone(), bench.clone());
        // `claim` checks that no object has two owners.
        let (a, b, _) = race(move || one.refill(1), move || two.refill(1), || bench.free(vec![second]));
        assert!((1..=2).contains(&(a.len() + b.len())), "one object was free and one was freed");
        bench.audit();
    });
}

#[test]
fn a_refill_carves_only_what_no_free_has_brought_back() {
    explore(|| {
        // One object is in use, two were never carved. A free that empties the slab resets it to
        // fresh, while the refill carves more objects.
        let bench = std::sync::Arc::new(Bench::new(1, 3, 1, true));
        let out = bench.open(0, 1);
        let (one, two) = (bench.clone(), bench.clone());
        let (_, a, b) = race(move || one.free(out), move || two.refill(1), || bench.refill(1));
        assert_eq!(a.len() + b.len(), 2, "there was room for both");
        bench.audit();
    });
}
