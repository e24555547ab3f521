//! Slabs of which few objects are left give their free pages back to the system, and the objects in
//! them come back (`engine/sheaves/sparse.rs`). Each test is a process of its own.

mod common;

use common::{Rng, check, child, fill, pin, statm, tell};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;

use ashlar::{CacheArgs, KmemCache};

const MIB: usize = 1 << 20;
const SIZE: usize = 2000;
const OPTIONS: &[(&str, &str)] = &[("ASHLAR_OPTIONS", "reaper=off")];

fn cache() -> KmemCache {
    KmemCache::create("sparse", SIZE, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache")
}

fn take(cache: &KmemCache, token: u64) -> (usize, u64) {
    let object = cache.alloc().expect("memory").as_ptr();
    // SAFETY: memory that was just allocated.
    unsafe { fill(object, SIZE, token) };
    (object as usize, token)
}

fn put(cache: &KmemCache, (object, token): (usize, u64)) {
    // SAFETY: live, freed once.
    unsafe {
        check(object as *mut u8, SIZE, SIZE, token);
        cache.free(NonNull::new(object as *mut u8).expect("not null"));
    }
}

/// Makes `count` objects and frees nine of ten in random order; those that stay.
fn few_of(cache: &KmemCache, count: usize) -> Vec<(usize, u64)> {
    let mut all: Vec<_> = (0..count as u64).map(|token| take(cache, token)).collect();
    let mut rng = Rng::new(3);
    (1..count).rev().for_each(|at| all.swap(at, rng.below(at + 1)));
    let kept = all.split_off(count - count / 10);
    all.into_iter().for_each(|object| put(cache, object));
    kept
}

#[test]
fn what_nine_of_ten_objects_leave_is_room_for_others() {
    let test = "what_nine_of_ten_objects_leave_is_room_for_others";
    for (role, env) in
        [("room", "reaper=off"), ("room nodes", "reaper=off,nodes=2"), ("room lock", "reaper=off,percpu=lock")]
    {
        let outcome = child(test, role, &[("ASHLAR_OPTIONS", env)], || {
            // Objects stay on their node: where there are several, another's CPUs would open slabs
            // of their own.
            pin(common::cpus()[0]);
            let cache = cache();
            let count = 64 * MIB / SIZE;
            let kept = few_of(&cache, count);
            let others: Vec<_> = (0..64 * MIB / 512)
                .map(|_| {
                    let object = ashlar::kmalloc(512);
                    assert!(!object.is_null());
                    // SAFETY: memory that was just allocated.
                    unsafe { object.write_bytes(5, 512) };
                    object
                })
                .collect();
            // Nothing went back since: this is the most there was since the first objects were
            // freed.
            tell("resident", statm(1));
            assert_eq!(cache.info().usage.live, kept.len());
            let mut all: Vec<_> = (kept.len()..count).map(|token| take(&cache, !0 - token as u64)).collect();
            let usage = cache.info().usage;
            assert!(usage.objects <= count + 1000, "objects were lost: {usage:?} for {count}");
            all.extend(kept);
            let mut places: Vec<usize> = all.iter().map(|&(at, _)| at).collect();
            places.sort_unstable();
            assert!(places.windows(2).all(|pair| pair[0] + SIZE <= pair[1]), "an object was handed out twice");
            all.into_iter().for_each(|object| put(&cache, object));
            // SAFETY: live, freed once each.
            others.into_iter().for_each(|object| unsafe { ashlar::kfree(object) });
            assert_eq!(cache.info().usage.live, 0);
            ashlar::reap();
            tell("after", statm(1));
            cache.destroy().map_err(|(_, e)| e).expect("empty");
        });
        let Some(child) = outcome else { continue };
        let child = child.succeeded();
        let told = |key| child.told(key).parse::<usize>().expect("a number") / MIB;
        let (resident, after) = (told("resident"), told("after"));
        println!("{role}: {resident} MiB, {after} MiB after");
        assert!(resident < 104, "{role}: {resident} MiB for 64 MiB beside a tenth of 64 MiB");
        assert!(after < 16, "{role}: {after} MiB after all was freed");
    }
}

#[test]
fn an_idle_program_keeps_the_pages_of_live_objects_and_no_others() {
    let test = "an_idle_program_keeps_the_pages_of_live_objects_and_no_others";
    let outcome = child(test, test, OPTIONS, || {
        let cache = cache();
        let kept = few_of(&cache, 64 * MIB / SIZE);
        ashlar::reap();
        tell("resident", statm(1));
        // Half of the remaining ones, again and again: slabs that only evicted objects keep become
        // empty at the next look.
        let mut kept = kept.into_iter();
        for _ in 0..5 {
            kept.by_ref().take(64 * MIB / SIZE / 100).for_each(|object| put(&cache, object));
            ashlar::reap();
        }
        let rest: HashSet<usize> = kept.as_slice().iter().map(|&(at, _)| at / (32 << 10)).collect();
        let usage = cache.info().usage;
        assert_eq!(usage.live, kept.len());
        assert!(usage.slabs <= rest.len() + 16, "{} slabs for objects in {}", usage.slabs, rest.len());
        kept.for_each(|object| put(&cache, object));
        assert!(cache.shrink(), "{:?}", cache.info().usage);
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    });
    let Some(child) = outcome else { return };
    let resident: usize = child.succeeded().told("resident").parse().expect("a number");
    println!("{} MiB", resident / MIB);
    assert!(resident < 36 * MIB, "{} MiB for a tenth of 64 MiB", resident / MIB);
}

/// A page that is given back while an object in it is in use loses that object's contents: threads
/// allocate, free and look, while others look for free pages all the time.
#[test]
fn pages_of_live_objects_stay_whatever_others_do() {
    let test = "pages_of_live_objects_stay_whatever_others_do";
    const THREADS: u64 = 3;
    for (role, env) in [("races", "reaper=off"), ("races none", "reaper=off,sheaf=0")] {
        let outcome = child(test, role, &[("ASHLAR_OPTIONS", env)], || {
            let cache = cache();
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let reaper = scope.spawn(|| {
                    let mut given = 0;
                    while !done.load(Ordering::Relaxed) {
                        given += ashlar::reap();
                    }
                    given
                });
                let workers: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        let cache = &cache;
                        scope.spawn(move || {
                            let mut rng = Rng::new(thread + 1);
                            let mut live = Vec::new();
                            for turn in 0..60_000u64 {
                                // Up to 2000 objects and down to 200, by turns.
                                let grow = (turn / 3000).is_multiple_of(2);
                                if rng.below(10) < if grow { 9 } else { 1 } || live.is_empty() {
                                    live.push(take(cache, turn << 8 | thread));
                                } else {
                                    let at = rng.below(live.len());
                                    put(cache, live.swap_remove(at));
                                }
                            }
                            live.into_iter().for_each(|object| put(cache, object));
                        })
                    })
                    .collect();
                let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
                done.store(true, Ordering::Relaxed);
                assert!(ends.iter().all(Result::is_ok), "an object was lost");
                assert!(reaper.join().expect("it ends") > 0, "nothing was given back");
            });
            cache.destroy().map_err(|(_, e)| e).expect("empty");
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

#[test]
fn a_double_free_of_an_object_without_pages_is_reported() {
    let test = "a_double_free_of_an_object_without_pages_is_reported";
    let outcome = child(test, test, OPTIONS, || {
        let all: Vec<*mut u8> = (0..4000).map(|_| ashlar::malloc::malloc(SIZE)).collect();
        // SAFETY: memory that was just allocated.
        all.iter().for_each(|&at| unsafe { at.write_bytes(7, SIZE) });
        for (at, &object) in all.iter().enumerate().filter(|(at, _)| at % 8 != 0) {
            assert!(at > 0);
            // SAFETY: live, freed once.
            unsafe { ashlar::malloc::free(object) };
        }
        ashlar::reap();
        let gone =
            *all.iter().find(|&&object| common::resident(object, 1) == 0).expect("an object whose page went back");
        tell("address", format_args!("{gone:p}"));
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe { ashlar::malloc::free(gone) };
    });
    let Some(child) = outcome else { return };
    assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{}", child.stderr);
    assert!(child.stderr.contains(child.told("address")), "{}", child.stderr);
}
