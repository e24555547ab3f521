//! Caches of the program while heap profiles start and stop beside threads that use them.
#![cfg(target_arch = "x86_64")]

mod common;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::os::fd::AsRawFd;

use ashlar::{CacheArgs, KmemCache, Tunable, profile};
use common::{child, tell};

/// The sizes of the objects of the caches.
const SIZES: [usize; 3] = [40, 700, 3000];
/// Objects that are in use at a time, of each cache; any thread may free each.
const PLACES: usize = 512;

struct Shared {
    caches: [KmemCache; SIZES.len()],
    places: [[AtomicPtr<u8>; PLACES]; SIZES.len()],
    stop: AtomicBool,
    rounds: AtomicUsize,
}

impl Shared {
    fn new() -> Shared {
        let cache = |size| KmemCache::create("switched", size, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        Shared {
            caches: SIZES.map(cache),
            places: [const { [const { AtomicPtr::new(core::ptr::null_mut()) }; PLACES] }; SIZES.len()],
            stop: AtomicBool::new(false),
            rounds: AtomicUsize::new(0),
        }
    }

    /// Marks a fresh object. An object that is in use already is found by its mark.
    fn marked(&self, which: usize, object: NonNull<u8>) -> *mut u8 {
        let at = object.as_ptr();
        // SAFETY: the object is fresh, and its last word is used by this test alone.
        unsafe { at.add(SIZES[which] - 8).cast::<usize>().write(at as usize) };
        at
    }

    /// Checks the mark of an object that this thread took from its place, and removes it.
    fn unmarked(&self, which: usize, at: *mut u8) -> Option<NonNull<u8>> {
        let object = NonNull::new(at)?;
        // SAFETY: as above; the thread owns the object.
        unsafe {
            let word = at.add(SIZES[which] - 8).cast::<usize>();
            assert_eq!(word.replace(0), at as usize, "an object was in use twice");
        }
        Some(object)
    }

    /// Replaces objects in random places, by each way that there is to allocate and free, until the
    /// test stops.
    fn work(&self, seed: u64) {
        let mut random = seed | 1;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % below
        };
        while !self.stop.load(Ordering::Relaxed) {
            self.rounds.fetch_add(1, Ordering::Relaxed);
            let (which, ways) = (next(SIZES.len()), next(16));
            let cache = &self.caches[which];
            let mut fresh = [core::ptr::null_mut(); 24];
            let count = 1 + next(fresh.len());
            let fresh = &mut fresh[..count];
            if ways & 1 == 0 {
                assert!(cache.alloc_bulk(fresh));
            } else {
                fresh.fill_with(|| cache.alloc().expect("memory").as_ptr());
            }
            let mut old = Vec::new();
            for object in fresh {
                let new = self.marked(which, NonNull::new(*object).expect("memory"));
                let out = self.places[which][next(PLACES)].swap(new, Ordering::AcqRel);
                old.extend(self.unmarked(which, out).map(NonNull::as_ptr));
            }
            self.free(which, ways >> 1, &old);
        }
    }

    fn free(&self, which: usize, ways: usize, objects: &[*mut u8]) {
        let cache = &self.caches[which];
        let each = objects.iter().filter_map(|&object| NonNull::new(object));
        // SAFETY: the objects were taken from their places, so only this thread has them.
        unsafe {
            match ways % 4 {
                0 => cache.free_bulk(objects),
                1 => each.for_each(|object| ashlar::kfree(object.as_ptr())),
                2 => each.for_each(|object| cache.free_checked(object)),
                _ => each.for_each(|object| cache.free(object)),
            }
        }
    }

    /// Frees all objects.
    fn empty(&self) {
        for (which, places) in self.places.iter().enumerate() {
            for place in places {
                let object = self.unmarked(which, place.swap(core::ptr::null_mut(), Ordering::AcqRel));
                self.free(which, 3, object.map(NonNull::as_ptr).as_slice());
            }
        }
    }

    /// Runs threads beside `beside`, until that is done and each of them has had its turns.
    fn run(&self, beside: impl FnOnce(&Shared)) {
        self.stop.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for seed in 1..=3 {
                scope.spawn(move || self.work(seed));
            }
            beside(self);
            let until = self.rounds.load(Ordering::Relaxed) + 300;
            while self.rounds.load(Ordering::Relaxed) < until {
                std::thread::yield_now();
            }
            self.stop.store(true, Ordering::Relaxed);
        });
    }
}

/// Returns the samples that were taken, and those that live, of the profile that runs.
fn samples() -> [u64; 2] {
    let mut path = std::env::temp_dir();
    path.push(format!("ashlar-profiles-{}", std::process::id()));
    let file = std::fs::File::create(&path).expect("a file");
    assert!(profile::dump(file.as_raw_fd()));
    let text = std::fs::read_to_string(&path).expect("text");
    let _ = std::fs::remove_file(path);
    let counts = text.lines().find_map(|line| line.strip_prefix("counts ")).expect("counts");
    let counts: Vec<u64> = counts.split(' ').map(|word| u64::from_str_radix(word, 16).expect("a number")).collect();
    let live = text.lines().filter(|line| line.starts_with("live ")).count() as u64;
    assert_eq!((counts[0] - counts[1], counts[2]), (live, 0), "{counts:?}");
    [counts[0], live]
}

fn switches() {
    let shared = Shared::new();
    let capacity = |cache: &KmemCache| cache.tunable(Tunable::SheafCapacity);
    let usual = shared.caches.each_ref().map(capacity);
    shared.run(|shared| {
        for round in 0..60 {
            profile::start([1, 200, 4096, 512 << 10][round % 4]).expect("a profile");
            let late = KmemCache::create("late", 96, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
            let object = late.alloc().expect("memory");
            // The tunables and the sheaves are there as ever.
            assert_eq!(shared.caches.each_ref().map(capacity), usual);
            shared.caches[round % SIZES.len()].shrink();
            let until = shared.rounds.load(Ordering::Relaxed) + 20;
            while shared.rounds.load(Ordering::Relaxed) < until {
                std::thread::yield_now();
            }
            if round % 3 == 0 {
                // Destroyed in the time of a profile, and in the time between two.
                // SAFETY: live, freed once.
                unsafe { late.free(object) };
                late.destroy().expect("empty");
                profile::stop();
            } else {
                profile::stop();
                // SAFETY: live, freed once.
                unsafe { late.free(object) };
                late.destroy().expect("empty");
            }
        }
    });
    // What is allocated after the start and freed before the stop is noticed, each of both.
    shared.empty();
    profile::start(1).expect("a profile");
    shared.run(|_| {});
    let [taken, live] = samples();
    // Without membarrier, and with a CPU that is off-line, no cache is sampled.
    assert!(taken > 300 && live > 0 || ashlar::testing::fence_fails(), "{taken} {live}");
    shared.empty();
    assert_eq!(samples()[1], 0);
    profile::stop();
    for cache in shared.caches {
        cache.destroy().expect("every object came back");
    }
    tell("samples", taken);
}

fn each_mode(test: &str, env: &[(&str, &str)]) {
    let body = || {
        // Slots are closed by visits of each CPU then.
        ashlar::testing::fail_fence(test.ends_with("_membarrier"));
        switches();
    };
    if let Some(child) = child(test, test, env, body) {
        let child = child.succeeded();
        assert_eq!(child.stderr.lines().find(|line| line.starts_with("ashlar:")), None);
        child.told("samples");
    }
}

macro_rules! modes {
    ($($name:ident: $env:expr;)*) => { $(#[test] fn $name() { each_mode(stringify!($name), &$env); })* };
}

modes! {
    no_object_is_lost: [];
    no_object_is_lost_without_membarrier: [];
    no_object_is_lost_by_locks: [("ASHLAR_OPTIONS", "percpu=lock")];
    no_object_is_lost_on_four_nodes: [("ASHLAR_OPTIONS", "nodes=4")];
    no_object_is_lost_on_four_nodes_by_locks: [("ASHLAR_OPTIONS", "percpu=lock,nodes=4")];
    no_object_is_lost_with_sheaves_of_one: [("ASHLAR_OPTIONS", "sheaf=1,barn=1")];
    no_object_is_lost_without_sheaves: [("ASHLAR_OPTIONS", "sheaf=0")];
    no_object_is_lost_in_a_quarantine: [("ASHLAR_OPTIONS", "quarantine=20,random=on,init_on_free=on")];
    no_object_is_lost_where_threads_are_adopted:
        [("GLIBC_TUNABLES", "glibc.pthread.rseq=0"), ("ASHLAR_OPTIONS", "percpu=rseq")];
}
