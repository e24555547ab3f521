//! `quarantine` and `random`: freed objects that wait, and the order in which objects are handed
//! out, for every engine.

mod common;

use std::collections::BTreeSet;

use ashlar::{CacheArgs, Engine, KmemCache, malloc};
use common::{child, conformance, stress};

/// Engines without debugged caches, which have checks of their own.
fn engines() -> impl Iterator<Item = &'static Engine> {
    Engine::ALL.iter().filter(|&&engine| engine != Engine::Debug)
}

fn each(test: &str, options: &str, body: fn()) {
    for engine in engines() {
        let options = format!("engine={},{options}", engine.id());
        let Some(child) = child(test, &options, &[("ASHLAR_OPTIONS", &options)], body) else { continue };
        let child = child.succeeded();
        let unexpected = child.stderr.lines().find(|l| l.starts_with("ashlar:") && !l.contains("destroyed while"));
        assert_eq!(unexpected, None, "{options}");
    }
}

#[test]
fn a_freed_object_is_not_handed_out_before_the_others() {
    each("a_freed_object_is_not_handed_out_before_the_others", "quarantine=50", || {
        let cache = KmemCache::create("waits", 200, &CacheArgs::default()).expect("a cache");
        for _ in 0..3 {
            let first = cache.alloc().expect("memory");
            let other = malloc::malloc(200);
            // SAFETY: allocated above and in each round, freed once.
            unsafe {
                cache.free(first);
                malloc::free(other);
                for _ in 0..49 {
                    let next = cache.alloc().expect("memory");
                    assert_ne!(next, first);
                    cache.free(next);
                    let next = malloc::malloc(200);
                    assert_ne!(next, other);
                    malloc::free(next);
                }
            }
        }
    });
}

/// A program that writes to `at`, and then frees enough others for the object to leave, also where
/// chance decides which of a hundred leaves: it stays with a probability of e^-40.
fn writes_to(at: *mut u8, rest: impl Fn()) {
    // SAFETY: the mistake that is tested. The memory stays mapped.
    unsafe { at.add(8).write(1) };
    (0..4000).for_each(|_| rest());
}

#[test]
fn a_write_to_a_freed_object_is_reported_when_it_leaves() {
    let test = "a_write_to_a_freed_object_is_reported_when_it_leaves";
    let bodies: [(&str, fn()); 3] = [
        ("malloc-48", || {
            let at = malloc::malloc(40);
            // SAFETY: allocated above.
            unsafe { malloc::free(at) };
            // SAFETY: allocated in the same line.
            writes_to(at, || unsafe { malloc::free(malloc::malloc(40)) });
        }),
        ("kmalloc-64", || {
            let at = ashlar::kmalloc(40);
            // SAFETY: allocated above.
            unsafe { ashlar::kfree(at) };
            // SAFETY: allocated in the same line.
            writes_to(at, || unsafe { ashlar::kfree(ashlar::kmalloc(40)) });
        }),
        ("victim", || {
            let cache = KmemCache::create("victim", 40, &CacheArgs::default()).expect("a cache");
            let at = cache.alloc().expect("memory");
            // SAFETY: allocated above.
            unsafe { cache.free(at) };
            // SAFETY: allocated in the same line.
            writes_to(at.as_ptr(), || unsafe { cache.free(cache.alloc().expect("memory")) });
        }),
    ];
    for options in ["quarantine=100", "quarantine=100,init_on_free=on", "quarantine=100,random=on"] {
        for (name, body) in bodies {
            let Some(child) = child(test, &format!("{options}{name}"), &[("ASHLAR_OPTIONS", options)], body) else {
                continue;
            };
            assert!(!child.finished, "{options}: {name}");
            let expected = format!("ashlar: cache {name}: byte 8 of object 0x");
            assert!(child.stderr.contains(&expected), "{options}: {}", child.stderr);
        }
    }
}

#[test]
fn a_second_free_of_an_object_that_waits_is_reported_at_once() {
    let test = "a_second_free_of_an_object_that_waits_is_reported_at_once";
    let outcome = child(test, "twice", &[("ASHLAR_OPTIONS", "quarantine=100")], || {
        let [one, other] = [ashlar::kmalloc(40), ashlar::kmalloc(40)];
        // SAFETY: the last one is the mistake that is tested.
        unsafe {
            ashlar::kfree(one);
            ashlar::kfree(other);
            ashlar::kfree(one);
        }
    });
    if let Some(child) = outcome {
        assert!(!child.finished && child.stderr.contains("kmalloc-64: object 0x"), "{}", child.stderr);
        assert!(child.stderr.contains("was freed twice"), "{}", child.stderr);
    }
}

/// What is held back is not in use, and goes back when the cache shrinks or is destroyed.
#[test]
fn a_cache_gives_up_what_it_holds_back() {
    each("a_cache_gives_up_what_it_holds_back", "quarantine=200,random=on", || {
        let cache = KmemCache::create("gives", 100, &CacheArgs::default()).expect("a cache");
        let live = cache.alloc().expect("memory");
        for _ in 0..2 {
            let objects: Vec<_> = (0..150).map(|_| cache.alloc().expect("memory")).collect();
            assert_eq!(cache.info().usage.live, 151);
            // SAFETY: allocated above, freed once.
            objects.iter().for_each(|&object| unsafe { cache.free(object) });
            assert_eq!(cache.info().usage.live, 1);
            assert!(!cache.shrink(), "an object is in use");
        }
        // SAFETY: allocated above.
        unsafe { cache.free(live) };
        cache.destroy().map_err(|(_, error)| error).expect("no object is in use");
    });
}

/// Returns the addresses of the first objects of a new cache, relative to the least of them.
fn order() -> String {
    let cache = KmemCache::create("order", 64, &CacheArgs::default()).expect("a cache");
    let objects: Vec<usize> = (0..64).map(|_| cache.alloc().expect("memory").as_ptr().addr()).collect();
    assert_eq!(objects.iter().collect::<BTreeSet<_>>().len(), 64, "each object is handed out once");
    let least = *objects.iter().min().expect("objects");
    format!("{:x?}", objects.iter().map(|object| object - least).collect::<Vec<_>>())
}

#[test]
fn the_order_of_a_new_slab_differs_from_run_to_run() {
    let test = "the_order_of_a_new_slab_differs_from_run_to_run";
    for engine in engines() {
        let options = format!("engine={},random=on", engine.id());
        let run = |role: &str| {
            child(test, &format!("{options}{role}"), &[("ASHLAR_OPTIONS", &options)], || common::tell("order", order()))
        };
        let (Some(one), Some(other)) = (run("1"), run("2")) else { continue };
        let (one, other) = (one.succeeded(), other.succeeded());
        assert_ne!(one.told("order"), other.told("order"), "{options}");
    }
}

/// No object is lost or handed out twice, whatever threads do.
#[test]
fn threads_get_each_object_once() {
    each("threads_get_each_object_once", "quarantine=32,random=on", || {
        conformance::run();
        let freed = stress::run(1);
        assert!(freed > 1000, "only {freed} objects");
    });
}

/// What waits for its turn waits on the node that it is of.
#[test]
fn objects_in_random_order_are_of_the_cpus_node() {
    let test = "objects_in_random_order_are_of_the_cpus_node";
    for options in ["nodes=2,random=on", "nodes=2,random=on,percpu=lock", "nodes=64,random=on"] {
        let outcome = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            let cache = KmemCache::create("near", 200, &CacheArgs::DEFAULT).expect("a cache");
            let nodes = ashlar::nodes() as usize;
            let mut live = Vec::new();
            for _ in 0..200 {
                for cpu in common::cpus() {
                    if !common::pin(cpu) {
                        continue;
                    }
                    let at = [cache.alloc().expect("memory").as_ptr(), malloc::malloc(200), ashlar::kmalloc(200)];
                    for object in at {
                        assert_eq!(ashlar::node_of(object).map(|node| node.0 as usize), Some(cpu % nodes));
                    }
                    live.push(at);
                }
            }
            for [object, block, other] in live {
                // SAFETY: allocated above, each freed once.
                unsafe {
                    cache.free(core::ptr::NonNull::new(object).expect("memory"));
                    malloc::free(block);
                    ashlar::kfree(other);
                }
            }
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}
