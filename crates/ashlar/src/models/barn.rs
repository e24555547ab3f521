//! The barn: sheaves that several threads put in and take out.
#![allow(unsafe_code, reason = "gives sheaves their memory")]

use std::boxed::Box;
use std::sync::Arc;
use std::vec::Vec;

use loom::cell::UnsafeCell;

use super::{explore, race};
use crate::engine::sheaves::barn::Barn;
use crate::percpu::sheaf::{SHEAF_PAGE_BYTES, Sheaf};

/// Objects in a sheaf of these models.
const CAPACITY: usize = 2;

#[repr(C, align(2048))]
struct Memory([u64; SHEAF_PAGE_BYTES / 8]);

/// A barn and the memory of its sheaves.
struct Bench {
    barn: Barn,
    memory: Vec<*mut Memory>,
    /// One cell for each sheaf, written by its owner. loom reports two owners at a time, and an
    /// owner whose access is not ordered after the previous one's.
    owner: Vec<UnsafeCell<()>>,
}

// SAFETY: sheaf memory is accessed only through its one `Sheaf`, which the models pass around. The
// cells are loom's and hold nothing.
unsafe impl Sync for Bench {}
// SAFETY: as above.
unsafe impl Send for Bench {}

impl Drop for Bench {
    fn drop(&mut self) {
        for &memory in &self.memory {
            // SAFETY: from `Box::into_raw` in `new`; the bench outlives the sheaves.
            drop(unsafe { Box::from_raw(memory) });
        }
    }
}

impl Bench {
    fn new(sheaves: usize) -> (Arc<Bench>, Vec<Sheaf>) {
        let memory: Vec<_> = (0..sheaves).map(|_| Box::into_raw(Box::new(Memory([0; SHEAF_PAGE_BYTES / 8])))).collect();
        let make = |&memory: &*mut Memory| {
            // SAFETY: zeroed memory of a sheaf's size and alignment with no other user.
            let mut sheaf = unsafe { Sheaf::from_top(memory as usize) };
            sheaf.set_capacity(CAPACITY);
            sheaf
        };
        let sheaves = memory.iter().map(make).collect();
        let owner = memory.iter().map(|_| UnsafeCell::new(())).collect();
        (Arc::new(Bench { barn: Barn::new(), memory, owner }), sheaves)
    }

    /// Returns the number of the sheaf, and writes its cell as its owner.
    fn own(&self, sheaf: &Sheaf) -> usize {
        let base = sheaf.objects().as_ptr() as usize & !(SHEAF_PAGE_BYTES - 1);
        let number = self.memory.iter().position(|&memory| memory as usize == base).expect("a sheaf of this bench");
        self.owner[number].with_mut(|_| ());
        number
    }

    /// Fills an empty sheaf with objects that encode its number.
    fn fill(&self, mut sheaf: Sheaf) -> Sheaf {
        assert_eq!(sheaf.len(), 0, "an empty sheaf holds objects");
        let number = self.own(&sheaf);
        while sheaf.push(100 + number) {}
        sheaf
    }

    /// Empties a full sheaf and checks that it holds the objects that `fill` put there.
    fn empty(&self, mut sheaf: Sheaf) -> Sheaf {
        let number = self.own(&sheaf);
        assert_eq!(sheaf.objects(), [100 + number; CAPACITY], "a full sheaf has lost objects");
        while sheaf.pop().is_some() {}
        sheaf
    }

    /// Stores a full sheaf unless the barn has `limit` already.
    fn put_full(&self, sheaf: Sheaf, limit: usize) -> Result<(), Sheaf> {
        self.own(&sheaf);
        self.barn.put_full(sheaf, limit * CAPACITY).map(|_| ())
    }

    /// Takes all sheaves out of the barn and returns the numbers of the full and of the empty ones.
    fn drain(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut full, mut empty) = (Vec::new(), Vec::new());
        while let Some(sheaf) = self.barn.get_full() {
            full.push(self.own(&self.empty(sheaf)));
        }
        while let Some(sheaf) = self.barn.get_empty() {
            empty.push(self.own(&self.empty(self.fill(sheaf))));
        }
        (full, empty)
    }
}

#[test]
fn of_two_full_sheaves_at_the_limit_one_is_stored_and_one_comes_back() {
    explore(|| {
        let (bench, sheaves) = Bench::new(3);
        let [a, b, c] = <[_; 3]>::try_from(sheaves).unwrap();
        let (a, b, c) = (bench.fill(a), bench.fill(b), bench.fill(c));
        bench.put_full(a, 2).unwrap();
        let one = bench.clone();
        let (b, (), c) = race(move || one.put_full(b, 2), || (), || bench.put_full(c, 2));
        let back: Vec<_> = [b, c].into_iter().filter_map(Result::err).collect();
        assert_eq!((back.len(), bench.barn.full_sheaves()), (1, 2));
        let (mut all, _) = bench.drain();
        all.extend(back.into_iter().map(|sheaf| bench.own(&bench.empty(sheaf))));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

#[test]
fn a_full_sheaf_goes_to_one_of_two_takers() {
    explore(|| {
        let (bench, sheaves) = Bench::new(2);
        let [a, b] = <[_; 2]>::try_from(sheaves).unwrap();
        let (a, b) = (bench.fill(a), bench.fill(b));
        bench.put_full(a, 9).unwrap();
        let take = |bench: Arc<Bench>| move || bench.barn.get_full().map(|sheaf| bench.own(&bench.empty(sheaf)));
        let (x, y, stored) = race(take(bench.clone()), take(bench.clone()), || bench.put_full(b, 9).is_ok());
        assert!(stored && (x.is_none() || x != y), "one sheaf, two owners");
        let mut all: Vec<_> = [x, y].into_iter().flatten().chain(bench.drain().0).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1], "a sheaf was lost");
    });
}

#[test]
fn an_empty_sheaf_goes_to_one_of_two_takers() {
    explore(|| {
        let (bench, sheaves) = Bench::new(2);
        let [a, b] = <[_; 2]>::try_from(sheaves).unwrap();
        bench.barn.put_empty(a).unwrap();
        let take =
            |bench: Arc<Bench>| move || bench.barn.get_empty().map(|sheaf| bench.own(&bench.empty(bench.fill(sheaf))));
        let put = || {
            bench.own(&b);
            bench.barn.put_empty(b).is_ok()
        };
        let (x, y, stored) = race(take(bench.clone()), take(bench.clone()), put);
        assert!(stored && (x.is_none() || x != y), "one sheaf, two owners");
        let mut all: Vec<_> = [x, y].into_iter().flatten().chain(bench.drain().1).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1], "a sheaf was lost");
    });
}

#[test]
fn what_is_robbed_and_kept_belongs_to_one_at_a_time() {
    explore(|| {
        let (bench, sheaves) = Bench::new(4);
        for sheaf in sheaves {
            bench.put_full(bench.fill(sheaf), 9).unwrap();
        }
        let take = |bench: Arc<Bench>| move || bench.barn.get_full().map(|sheaf| bench.own(&bench.empty(sheaf)));
        // Takes two of four or three sheaves, uses one and leaves the other in the barn.
        let rob = |bench: Arc<Bench>| {
            move || {
                let mut robbed = bench.barn.rob_full(2, false);
                assert_eq!(robbed.len(), 2, "half of the sheaves, at most two");
                let (first, _) = robbed.pop_full()?;
                bench.barn.keep_full(robbed);
                Some(bench.own(&bench.empty(first)))
            }
        };
        let (x, y, ()) = race(take(bench.clone()), rob(bench.clone()), || ());
        let mut all: Vec<_> = [x, y].into_iter().flatten().chain(bench.drain().0).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3], "a sheaf was lost, or was there twice");
    });
}

#[test]
fn empty_sheaves_that_are_robbed_and_kept_belong_to_one_at_a_time() {
    explore(|| {
        let (bench, sheaves) = Bench::new(3);
        for sheaf in sheaves {
            bench.barn.put_empty(sheaf).unwrap();
        }
        let rob = |bench: Arc<Bench>| {
            move || {
                let mut robbed = bench.barn.rob_empty(4);
                let first = robbed.pop_empty()?;
                bench.barn.keep_empty(robbed);
                Some(bench.own(&bench.empty(bench.fill(first))))
            }
        };
        let (x, y, ()) = race(rob(bench.clone()), rob(bench.clone()), || ());
        let mut all: Vec<_> = [x, y].into_iter().flatten().chain(bench.drain().1).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2], "a sheaf was lost, or was there twice");
    });
}

#[test]
fn cpus_that_exchange_full_for_empty_sheaves_lose_none_and_keep_the_limit() {
    explore(|| {
        // One CPU allocates: it takes a full sheaf and puts it back empty. The other one frees: it
        // takes an empty sheaf and puts it back full. At the limit it returns the objects to their
        // slabs and puts the sheaf back empty.
        let (bench, sheaves) = Bench::new(2);
        let [a, b] = <[_; 2]>::try_from(sheaves).unwrap();
        bench.put_full(bench.fill(a), 1).unwrap();
        bench.barn.put_empty(b).unwrap();
        let (one, two) = (bench.clone(), bench.clone());
        let allocates = move || {
            let sheaf = one.empty(one.barn.get_full()?);
            one.barn.put_empty(sheaf).ok()
        };
        let frees = move || {
            let sheaf = two.fill(two.barn.get_empty()?);
            match two.put_full(sheaf, 1) {
                Ok(()) => Some(()),
                Err(full) => two.barn.put_empty(two.empty(full)).ok(),
            }
        };
        race(allocates, frees, || assert!(bench.barn.full_sheaves() <= 1, "more full sheaves than the limit"));
        let (full, empty) = bench.drain();
        assert!(full.len() <= 1);
        let mut all = [full, empty].concat();
        all.sort_unstable();
        assert_eq!(all, [0, 1], "a sheaf was lost");
    });
}

#[test]
fn a_use_between_two_looks_of_the_reaper_is_seen_by_exactly_one_of_them() {
    explore(|| {
        let (bench, sheaves) = Bench::new(2);
        for sheaf in sheaves {
            bench.put_full(bench.fill(sheaf), 9).unwrap();
        }
        bench.barn.take_surplus();
        let one = bench.clone();
        let (_, (), (used, unused)) = race(move || one.barn.get_full().is_some(), || (), || bench.barn.take_surplus());
        assert_eq!(unused, if used { 1 } else { 2 }, "unused sheaves");
        assert_eq!(bench.barn.take_surplus(), (!used, 1));
    });
}
