//! The engine `slab` and invalid use: what it sees beyond the suite of tests/misuse.rs, and how
//! creation fails.

mod common;

use core::ptr::NonNull;
use std::collections::BTreeSet;

use ashlar::{CacheArgs, CreateError, Engine, KmemCache, QueueTunables};
use common::{child, tell};

const ARGS: CacheArgs = CacheArgs::DEFAULT.engine(Engine::Slab).no_merge(true);

fn create(name: &str, size: usize) -> KmemCache {
    KmemCache::create(name, size, &ARGS).expect("a cache")
}

fn alloc(cache: &KmemCache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().expect("memory")).collect()
}

fn free(cache: &KmemCache, objects: impl IntoIterator<Item = NonNull<u8>>) {
    // SAFETY: live, each freed once: the callers pass them on.
    objects.into_iter().for_each(|object| unsafe { cache.free(object) });
}

/// A colour is no part of an object: an address in it is none.
#[test]
fn addresses_before_the_first_object_are_none() {
    let test = "addresses_before_the_first_object_are_none";
    let options = [("ASHLAR_OPTIONS", "on_error=quarantine")];
    let outcome = child(test, test, &options, || {
        let cache = create("slab-before", 704);
        let live = alloc(&cache, 11 * 8);
        let slab = 4096usize << cache.info().order;
        let coloured: Vec<_> =
            live.iter().map(|object| object.as_ptr()).filter(|at| !(*at as usize % slab).is_multiple_of(704)).collect();
        assert!(coloured.len() > 11, "most slabs have a colour");
        for at in coloured {
            let start = at.map_addr(|address| address & !(slab - 1));
            // SAFETY: invalid on purpose; it is reported and changes nothing.
            unsafe {
                assert_eq!(ashlar::ksize(start), 0);
                ashlar::kfree(start);
                cache.free(NonNull::new(start).expect("an address"));
            }
        }
        assert_eq!(cache.info().usage.live, live.len());
        free(&cache, live);
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    });
    if let Some(child) = outcome {
        assert!(child.succeeded().stderr.contains("slab-before"));
    }
}

/// Each cache takes two places in the per-CPU areas. When they end, the error says so, and attempts
/// leave nothing behind.
#[test]
fn creating_caches_beyond_the_last_place_is_refused_and_costs_nothing() {
    let test = "creating_caches_beyond_the_last_place_is_refused_and_costs_nothing";
    let outcome = child(test, test, &[], || {
        let mut caches = Vec::new();
        let error = loop {
            assert!(caches.len() < ashlar::MAX_CACHES);
            match KmemCache::create("slab-many", 64, &ARGS) {
                Ok(cache) => caches.push(cache),
                Err(error) => break error,
            }
        };
        assert_eq!(error, CreateError::TooManyCaches);
        assert!(caches.len() > ashlar::MAX_CACHES / 2 - 100, "{} caches", caches.len());
        let before = ashlar::metadata_bytes();
        for _ in 0..1000 {
            assert_eq!(KmemCache::create("slab-many", 64, &ARGS).err(), Some(CreateError::TooManyCaches));
        }
        let more = ashlar::metadata_bytes() - before;
        assert!(more < 1 << 16, "1000 failed attempts took {more} bytes");
        for cache in caches {
            cache.destroy().map_err(|(_, e)| e).expect("empty");
        }
        let cache = create("slab-again", 64);
        free(&cache, alloc(&cache, 1000));
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

#[test]
fn double_frees_are_reported() {
    let test = "double_frees_are_reported";
    for way in ["array", "slab"] {
        let options = "on_error=quarantine,reaper=off";
        let outcome = child(test, way, &[("ASHLAR_OPTIONS", options), ("WAY", way)], || {
            let way = std::env::var("WAY").expect("set above");
            let cache = create("slab-twice", 64);
            let live = alloc(&cache, 3);
            // SAFETY: the second free of the object is what is tested; it must change nothing.
            unsafe {
                cache.free(live[0]);
                if way == "slab" {
                    cache.shrink();
                }
                cache.free(live[0]);
                if way == "slab" {
                    cache.shrink();
                }
            }
            assert_eq!(cache.info().usage.live, 2);
            let more = alloc(&cache, 500);
            let distinct: BTreeSet<_> = more.iter().chain(&live[1..]).map(|object| object.as_ptr()).collect();
            assert_eq!(distinct.len(), 502, "an object was handed out twice");
        });
        if let Some(child) = outcome {
            let child = child.succeeded();
            assert!(child.stderr.contains("slab-twice"), "{way}: {}", child.stderr);
        }
    }
}

/// The array of free indices lies in the object that came back to the full slab first. A write to
/// it is seen by the next allocation that finds an index that no object has.
#[test]
fn a_write_to_the_free_object_that_holds_the_indices_is_reported() {
    let test = "a_write_to_the_free_object_that_holds_the_indices_is_reported";
    let outcome = child(test, test, &[("ASHLAR_OPTIONS", "on_error=quarantine,reaper=off,nodes=1")], || {
        let cache = create("slab-written", 64);
        cache.set_queue_tunables(&QueueTunables { limit: 1, batchcount: 1, shared: 0 }).expect("in range");
        let mut live = alloc(&cache, 64);
        assert_eq!(cache.info().usage.slabs, 1);
        let (first, second) = (live.remove(0), live.remove(0));
        tell("slab", format_args!("{:#x}", first.as_ptr() as usize & !4095));
        free(&cache, [first]);
        cache.shrink();
        free(&cache, [second]);
        cache.shrink();
        // SAFETY: violated on purpose; the object is free.
        unsafe { first.cast::<[u8; 64]>().write([0x41; 64]) };
        let more = alloc(&cache, 200);
        assert!(more.iter().all(|object| !live.contains(object) && *object != first && *object != second));
        // The slab stays as it is, and what else comes back to it is not handed out again.
        free(&cache, live);
        cache.shrink();
        assert!(
            alloc(&cache, 200).iter().all(|object| object.as_ptr() as usize & !4095 != first.as_ptr() as usize & !4095)
        );
    });
    if let Some(child) = outcome {
        let child = child.succeeded();
        let line = format!("ashlar: cache slab-written: freelist of the slab at {} is corrupt\n", child.told("slab"));
        assert_eq!(child.stderr, line);
    }
}
