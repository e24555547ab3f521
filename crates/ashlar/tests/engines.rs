//! The same suite for every engine: each id of the option `engine`, with sheaves or CPU slabs
//! protected by rseq and by locks, on one node and on four. Tests every engine of `Engine::ALL`.

mod common;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ashlar::{CacheArgs, Engine, KmemCache};
use common::{child, conformance, stress, tell};

/// Runs `body` in a child for every engine, with the additional options `rest`. Prints each run
/// that passed.
fn each(test: &str, mode: &str, rest: &str, body: fn()) {
    Engine::ALL.iter().for_each(|&engine| run(engine, test, mode, rest, body));
}

fn run(engine: Engine, test: &str, mode: &str, rest: &str, body: fn()) {
    let options = format!("engine={}{rest}", engine.id());
    let outcome = child(test, &options, &[("ASHLAR_OPTIONS", &options)], || {
        tell("mode", ashlar::mode());
        tell("engine", conformance::engine());
        body();
    });
    let Some(child) = outcome else { return };
    let child = child.succeeded();
    assert_eq!((child.told("mode"), child.told("engine")), (mode, engine.id()));
    // The suites contain no invalid use. They only cause reports of caches destroyed while objects
    // are live.
    let unexpected = child.stderr.lines().find(|l| l.starts_with("ashlar:") && !l.contains("destroyed while"));
    assert_eq!(unexpected, None, "{options}");
    println!("passed: {test}: {options} (mode {mode})");
}

/// As [`each`], for the engines that take the lock of a CPU, which is biased.
fn each_biased(test: &str, mode: &str, rest: &str, body: fn()) {
    let locks = |engine: &&Engine| engine.id().starts_with("slub") || engine.id().starts_with("slab");
    for engine in Engine::ALL.iter().filter(locks) {
        run(*engine, test, mode, &format!(",irq=biased{rest}"), body);
    }
}

/// Runs the owner oracle for a second. tests/stress.rs runs it longer for the default engine.
fn stressed() {
    let freed = stress::run(1);
    assert!(freed > 2000, "only {freed} objects");
}

/// Drains the slabs, or sheaves, of busy CPUs, by membarrier and by a visit to each CPU.
fn drained() {
    for fail in [false, true] {
        ashlar::testing::fail_fence(fail);
        let cache = KmemCache::create("engines-drain", 64, &CacheArgs::default()).expect("a cache");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (cache, stop) = (&cache, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let objects: Vec<_> = (0..150).map(|_| cache.alloc().expect("memory")).collect();
                        // SAFETY: 64 bytes each that this thread allocated.
                        objects.iter().for_each(|object| unsafe { common::fill(object.as_ptr(), 64, thread) });
                        for object in objects {
                            // SAFETY: live, freed once.
                            unsafe {
                                common::check(object.as_ptr(), 64, 64, thread);
                                cache.free(object);
                            }
                        }
                    }
                });
            }
            for _ in 0..500 {
                cache.shrink();
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(cache.info().usage.live, 0);
        assert!(cache.shrink(), "an empty cache keeps no slab: {:?}", cache.info().usage);
        assert_eq!(cache.info().usage, ashlar::Usage::default());
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    }
    ashlar::testing::fail_fence(false);
}

macro_rules! suites {
    ($each:ident: $($name:ident: $mode:literal, $rest:literal, $body:expr;)*) => {
        $(#[test] fn $name() { $each(stringify!($name), $mode, $rest, $body); })*
    };
}

/// Two threads that allocate and free under the lock of one CPU, while a third takes it from
/// outside. Each object has one owner at a time.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn locked_from_outside() {
    let cache = KmemCache::create("engines-outside", 64, &CacheArgs::default()).expect("a cache");
    let (stop, rounds) = (AtomicBool::new(false), [AtomicUsize::new(0), AtomicUsize::new(0)]);
    std::thread::scope(|scope| {
        for (thread, rounds) in rounds.iter().enumerate() {
            let (cache, stop) = (&cache, &stop);
            scope.spawn(move || {
                assert!(common::pin(common::cpus()[0]), "a thread may run on its CPU");
                while !stop.load(Ordering::Relaxed) {
                    let objects: Vec<_> = (0..300).map(|_| cache.alloc().expect("memory")).collect();
                    // SAFETY: 64 bytes each, of this thread.
                    objects.iter().for_each(|at| unsafe { common::fill(at.as_ptr(), 64, thread as u64) });
                    for at in objects {
                        // SAFETY: live, freed once.
                        unsafe {
                            common::check(at.as_ptr(), 64, 64, thread as u64);
                            cache.free(at);
                        }
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for (fail, wanted) in [(false, 20), (true, 40)] {
            // Without membarrier this thread moves to the CPU.
            ashlar::testing::fail_fence(fail);
            while rounds.iter().any(|rounds| rounds.load(Ordering::Relaxed) < wanted) {
                cache.shrink();
                ashlar::reap();
                _ = cache.info();
            }
        }
        ashlar::testing::fail_fence(false);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(cache.info().usage.live, 0);
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
suites! {
    each_biased:
    biased_conformance_by_rseq: "rseq", "", conformance::run;
    biased_conformance_by_rseq_on_four_nodes: "rseq", ",nodes=4", conformance::run;
    biased_stress_by_rseq: "rseq", "", stressed;
    biased_stress_by_rseq_on_four_nodes: "rseq", ",nodes=4", stressed;
    biased_drain_by_rseq: "rseq", "", drained;
    biased_locks_are_taken_from_outside: "rseq", "", locked_from_outside;
    biased_conformance_by_locks: "lock", ",percpu=lock", conformance::run;
    biased_conformance_by_locks_on_four_nodes: "lock", ",percpu=lock,nodes=4", conformance::run;
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
suites! {
    each:
    conformance_by_rseq: "rseq", "", conformance::run;
    conformance_by_rseq_on_four_nodes: "rseq", ",nodes=4", conformance::run;
    stress_by_rseq: "rseq", "", stressed;
    stress_by_rseq_on_four_nodes: "rseq", ",nodes=4", stressed;
    drain_by_rseq: "rseq", "", drained;
    stress_with_nothing_kept: "rseq", ",min_partial=0,max_order=0,barn=0,decay=0", stressed;
}

suites! {
    each:
    conformance_by_locks: "lock", ",percpu=lock", conformance::run;
    conformance_by_locks_on_four_nodes: "lock", ",percpu=lock,nodes=4", conformance::run;
    drain_by_locks: "lock", ",percpu=lock", drained;
    stress_by_locks: "lock", ",percpu=lock", stressed;
    stress_by_locks_on_four_nodes: "lock", ",percpu=lock,nodes=4", stressed;
}

/// Caches of all engines in one process: each keeps its engine, and kfree returns every object to
/// its cache.
#[test]
fn caches_of_all_engines_live_side_by_side() {
    let caches: Vec<_> = Engine::ALL
        .iter()
        .map(|&engine| {
            let args = CacheArgs::DEFAULT.engine(engine);
            let cache = KmemCache::create(&format!("side-{}", engine.id()), 72, &args).expect("a cache");
            assert_eq!((cache.engine(), cache.info().engine), (engine, engine));
            cache
        })
        .collect();
    let mut live = Vec::new();
    for round in 0..2000u64 {
        for cache in &caches {
            let at = cache.alloc().expect("memory");
            // SAFETY: 72 fresh bytes.
            unsafe { common::fill(at.as_ptr(), 72, round) };
            live.push((at, round));
        }
    }
    for (i, (at, token)) in live.into_iter().enumerate() {
        // SAFETY: live, freed once, by its cache or by kfree.
        unsafe {
            common::check(at.as_ptr(), 72, 72, token);
            let cache = &caches[i % caches.len()];
            // Only its cache can free an object of `slob`.
            let by_kfree = i / caches.len() % 2 == 0 && cache.engine() != Engine::Slob;
            if by_kfree { ashlar::kfree(at.as_ptr()) } else { cache.free(at) }
        }
    }
    for cache in caches {
        let counts = cache.info().counts;
        assert!(counts.alloc_slow > 0 && counts.locks() > 0, "{}: {counts:?}", cache.name());
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    }
}

/// kfree may free an object of malloc. It must remove the object from the map, or `free` would
/// accept it a second time.
#[test]
fn kfree_of_an_object_of_malloc_takes_it_from_the_object_map() {
    let test = "kfree_of_an_object_of_malloc_takes_it_from_the_object_map";
    for engine in Engine::ALL {
        let options = format!("on_error=quarantine,engine={}", engine.id());
        let outcome = child(test, &options, &[("ASHLAR_OPTIONS", &options)], || {
            let objects: Vec<_> = (0..3).map(|_| ashlar::malloc::malloc(100)).collect();
            // SAFETY: live. Calls with an object that was freed before are only reported.
            unsafe {
                ashlar::kfree(objects[1]);
                assert_eq!(ashlar::malloc::malloc_usable_size(objects[1]), 0);
                ashlar::malloc::free(objects[1]);
                ashlar::malloc::free(objects[0]);
                ashlar::kfree_bulk(&objects[2..]);
            }
            ashlar::for_each_cache(|cache| assert_eq!(cache.usage.live, 0, "{}", cache.name()));
        });
        let Some(child) = outcome else { continue };
        let child = child.succeeded();
        let functions: Vec<_> =
            child.stderr.lines().filter_map(|l| l.strip_prefix("ashlar: ")?.split('(').next()).collect();
        assert_eq!(functions, ["malloc_usable_size", "free"], "{options}: {}", child.stderr);
    }
}

/// Caches of the segregated engines share pages. Each counts the objects freed to it. kfree does
/// not get the cache, so objects that it freed never prevent the destruction of a cache.
#[test]
fn caches_that_share_pages_count_their_own_objects() {
    for engine in [Engine::SlobSeg, Engine::SlobCache] {
        let args = CacheArgs::DEFAULT.engine(engine);
        let make = |name: &str, size| KmemCache::create(name, size, &args).expect("a cache");
        // Both have one size class and would merge by the rules. No other test of this process
        // creates caches that fit.
        let (a, b) = (make("share-a", 254), make("share-b", 256));
        let take = |cache: &KmemCache| cache.alloc().expect("memory");
        let (of_a, of_b): (Vec<_>, Vec<_>) = (0..50).map(|_| (take(&a), take(&b))).unzip();
        let page = |at: &core::ptr::NonNull<u8>| at.as_ptr() as usize / ashlar::PAGE_SIZE;
        assert!(of_a.iter().any(|x| of_b.iter().any(|y| page(x) == page(y))), "{}: no page is shared", engine.id());
        let live = |cache: &KmemCache| cache.info().usage.live;
        assert_eq!((live(&a), live(&b)), (50, 50));
        // One of the two counts the pages.
        let slabs = |cache: &KmemCache| cache.info().usage.slabs;
        assert_eq!((slabs(&a) > 0, slabs(&b)), (true, 0));
        // SAFETY: live, each freed once.
        unsafe {
            of_a[..20].iter().for_each(|&at| a.free(at));
            assert_eq!((live(&a), live(&b)), (30, 50));
            of_a[20..].iter().for_each(|at| ashlar::kfree(at.as_ptr()));
        }
        // 50 objects of the class are live. All 30 that `a` counts may be among them.
        assert_eq!((live(&a), live(&b)), (30, 50));
        a.destroy().map_err(|(_, e)| e).expect("kfree freed the rest");
        // Now all 50 belong to the remaining cache, which also counts the pages.
        assert_eq!(live(&b), 50);
        assert!(slabs(&b) > 0);
        let ((), b) = match b.destroy() {
            Err((b, ashlar::DestroyError::LiveObjects(50))) => ((), b),
            other => panic!("{}: {other:?}", engine.id()),
        };
        let objects: Vec<_> = of_b.iter().map(|at| at.as_ptr()).collect();
        // SAFETY: live, each freed once.
        unsafe { ashlar::kfree_bulk(&objects) };
        assert_eq!(live(&b), 0);
        b.destroy().map_err(|(_, e)| e).expect("empty");
    }
}

/// `min_partial` also applies to the segregated engines, as the number of empty pages that a list
/// keeps.
#[test]
fn a_list_of_pages_keeps_as_many_empty_ones_as_min_partial_says() {
    for engine in [Engine::SlobSeg, Engine::SlobCache] {
        for (min_partial, expected) in [(None, 1), (Some(0), 0), (Some(3), 3)] {
            let mut args = CacheArgs::DEFAULT.engine(engine);
            args.min_partial = min_partial;
            let cache = KmemCache::create("kept", 700, &args).expect("a cache");
            let objects: Vec<_> = (0..100).map(|_| cache.alloc().expect("memory")).collect();
            // SAFETY: live, each freed once.
            objects.into_iter().for_each(|at| unsafe { cache.free(at) });
            assert_eq!(cache.info().usage.slabs, expected, "{} {min_partial:?}", engine.id());
            assert!(cache.shrink());
            cache.destroy().map_err(|(_, e)| e).expect("empty");
        }
    }
}

#[test]
fn an_unknown_engine_is_refused_and_the_known_ones_are_listed() {
    let test = "an_unknown_engine_is_refused_and_the_known_ones_are_listed";
    let child = child(test, test, &[("ASHLAR_OPTIONS", "engine=slabs")], || tell("engine", conformance::engine()));
    let child = child.expect("the parent").succeeded();
    assert_eq!(child.told("engine"), "ashlar");
    let line = child.stderr.trim_end();
    assert!(line.starts_with("ashlar: ASHLAR_OPTIONS: option `engine=slabs`: expected engine= and one of"), "{line}");
    assert!(Engine::ALL.iter().all(|engine| line.contains(engine.id())), "{line}");
}
