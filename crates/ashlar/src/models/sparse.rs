//! Freelists taken for evicted objects, against frees and refills of their slabs.

use std::vec;
use std::vec::Vec;

use super::bench::Bench;
use super::{explore, race};
use crate::base::units::PageIndex;
use crate::slab::partial::Freed;

const PAGE: PageIndex = PageIndex(0);

#[test]
fn a_freelist_taken_beside_a_free_and_a_refill_has_one_owner() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [a, b, _kept] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![a]);
        let (one, two) = (bench.clone(), bench.clone());
        // `claim` checks that no object has two owners.
        let (_, got, evicted) = race(move || one.free(vec![b]), move || two.refill(2), || bench.take_sparse(1));
        let evicted: usize = evicted.iter().map(Vec::len).sum();
        assert!((1..=2).contains(&(got.len() + evicted)), "one object was free and one was freed");
        bench.audit();
    });
}

#[test]
fn a_slab_with_evicted_objects_stays_and_is_discarded_once_when_they_are_restored() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [a, b, c] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![a, b]);
        let one = bench.clone();
        let (last, (), evicted) = race(move || one.free(vec![c]), || (), || bench.take_sparse(2));
        if evicted.is_empty() {
            assert_eq!(last, Freed::Discard, "the last free came first");
        } else {
            assert!(!bench.is_discarded(PAGE), "a slab with evicted objects was discarded");
            let ends: Vec<Freed> = evicted.into_iter().map(|objects| bench.free(objects)).collect();
            assert!(ends.contains(&Freed::Discard) || last == Freed::Discard);
        }
        assert!(bench.is_discarded(PAGE));
        bench.audit();
    });
}

#[test]
fn part_of_a_freelist_goes_back_beside_the_last_free_and_a_shrink() {
    explore(|| {
        let (bench, mut slabs) = Bench::full(1, 3, 0, true);
        let [a, b, c] = <[_; 3]>::try_from(slabs.remove(0)).unwrap();
        bench.free(vec![a, b]);
        let (one, two) = (bench.clone(), bench.clone());
        let evicted = move || {
            let mut slabs = one.take_sparse(2);
            slabs.pop().map(|mut objects| {
                // Return at once the objects of pages that also hold parts of other objects.
                let kept = objects.split_off(1);
                one.free(objects);
                kept
            })
        };
        let (kept, (), _) = race(evicted, move || _ = two.free(vec![c]), || bench.trim());
        assert_eq!(bench.is_discarded(PAGE), kept.is_none());
        if let Some(kept) = kept {
            bench.free(kept);
            assert!(bench.is_discarded(PAGE));
        }
        bench.audit();
    });
}

#[test]
fn a_look_at_several_slabs_beside_frees_keeps_each_on_the_list() {
    explore(|| {
        // One slab is full and becomes partial, one is partial and becomes empty, and the scan
        // rotates the list.
        let (bench, mut slabs) = Bench::full(3, 2, 0, true);
        let full = slabs.pop().unwrap().remove(0);
        let last = slabs[1].pop().unwrap();
        bench.free(vec![slabs[0].remove(0)]);
        bench.free(vec![slabs[1].remove(0)]);
        let (one, two) = (bench.clone(), bench.clone());
        let (_, end, evicted) =
            race(move || one.free(vec![full]), move || two.free(vec![last]), || bench.take_sparse(1));
        let found = evicted.len();
        let ends: Vec<Freed> = evicted.into_iter().map(|objects| bench.free(objects)).collect();
        assert!((1..=3).contains(&found), "the first slab has a free object from the start");
        assert_eq!(1, ends.into_iter().chain([end]).filter(|&end| end == Freed::Discard).count());
        assert_eq!(bench.listed().len(), 2);
        bench.audit();
    });
}
