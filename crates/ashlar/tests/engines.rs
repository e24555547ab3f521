//! The same suite for every engine: each id of the option `engine`, with sheaves or CPU slabs protected by rseq and by
//! locks, on one node and on four. An engine that is added to `Engine::ALL` is in it by itself.

mod common;

use core::sync::atomic::{AtomicBool, Ordering};

use ashlar::{CacheArgs, Engine, KmemCache};
use common::{child, conformance, stress, tell};

/// Runs `body` in a child for every engine, with the options `rest` besides; prints the list of what ran.
fn each(test: &str, mode: &str, rest: &str, body: fn()) {
    for engine in Engine::ALL {
        let options = format!("engine={}{rest}", engine.id());
        let outcome = child(test, &options, &[("ASHLAR_OPTIONS", &options)], || {
            tell("mode", ashlar::mode());
            tell("engine", conformance::engine());
            body();
        });
        let Some(child) = outcome else { continue };
        let child = child.succeeded();
        assert_eq!((child.told("mode"), child.told("engine")), (mode, engine.id()));
        // Nothing of the suites is invalid use; destroying a cache with a live object is the only thing they are told of.
        let unexpected = child.stderr.lines().find(|l| l.starts_with("ashlar:") && !l.contains("destroyed while"));
        assert_eq!(unexpected, None, "{options}");
        println!("passed: {test}: {options} (mode {mode})");
    }
}

/// Some seconds of the owner oracle are enough where every engine takes its turn; tests/stress.rs runs the default longer.
fn stressed() {
    let freed = stress::run(1);
    assert!(freed > 2000, "only {freed} objects");
}

/// Takes the slabs, or sheaves, of busy CPUs away, by membarrier and by a visit to each CPU.
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
                        // SAFETY: 64 bytes of ours each.
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
    ($($name:ident: $mode:literal, $rest:literal, $body:expr;)*) => {
        $(#[test] fn $name() { each(stringify!($name), $mode, $rest, $body); })*
    };
}

#[cfg(target_arch = "x86_64")]
suites! {
    conformance_by_rseq: "rseq", "", conformance::run;
    conformance_by_rseq_on_four_nodes: "rseq", ",nodes=4", conformance::run;
    stress_by_rseq: "rseq", "", stressed;
    stress_by_rseq_on_four_nodes: "rseq", ",nodes=4", stressed;
    drain_by_rseq: "rseq", "", drained;
    stress_with_nothing_kept: "rseq", ",min_partial=0,max_order=0,barn=0,decay=0", stressed;
}

suites! {
    conformance_by_locks: "lock", ",percpu=lock", conformance::run;
    conformance_by_locks_on_four_nodes: "lock", ",percpu=lock,nodes=4", conformance::run;
    drain_by_locks: "lock", ",percpu=lock", drained;
    stress_by_locks: "lock", ",percpu=lock", stressed;
    stress_by_locks_on_four_nodes: "lock", ",percpu=lock,nodes=4", stressed;
}

/// Caches of all engines in one process: each choice holds, and kfree finds every object's way home.
#[test]
fn caches_of_all_engines_live_side_by_side() {
    let caches: Vec<_> = Engine::ALL
        .iter()
        .map(|&engine| {
            let args = CacheArgs { engine: Some(engine), ..CacheArgs::default() };
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
            if i % 2 == 0 { ashlar::kfree(at.as_ptr()) } else { caches[i % caches.len()].free(at) }
        }
    }
    for cache in caches {
        let counts = cache.info().counts;
        assert!(counts.alloc_slow > 0 && counts.locks() > 0, "{}: {counts:?}", cache.name());
        cache.destroy().map_err(|(_, e)| e).expect("empty");
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
