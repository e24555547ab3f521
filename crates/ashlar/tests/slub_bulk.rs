//! The engine `slub-bulk` from near: its CPU's partial slabs go to the node and come from there
//! under one list_lock, and its detached freelists are whole.

mod common;

use core::ptr::NonNull;
use std::collections::BTreeSet;

use ashlar::{CacheArgs, Engine, KmemCache};
use common::{Rng, child, cpus, pin};

/// Objects of 512 bytes in a slab of a page.
const OBJECTS: usize = 8;
const OPTIONS: &str = "reaper=off,max_order=0,cpu_partial=6,min_partial=0";

fn cache() -> KmemCache {
    let args = CacheArgs::DEFAULT.engine(Engine::from_id("slub-bulk").expect("an id")).no_merge(true);
    KmemCache::create("near", 512, &args).expect("a cache")
}

fn alloc(cache: &KmemCache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().expect("memory")).collect()
}

fn free(cache: &KmemCache, objects: &[NonNull<u8>]) {
    // SAFETY: live, each freed once: the callers pass each once.
    objects.iter().for_each(|&object| unsafe { cache.free(object) });
}

/// Runs `body` in a child process for each mode.
fn each(test: &str, body: fn()) {
    for mode in ["rseq", "lock"] {
        let options = format!("{OPTIONS},percpu={mode}");
        let outcome = child(test, &format!("{test} {mode}"), &[("ASHLAR_OPTIONS", &options)], || {
            pin(cpus()[0]);
            body();
        });
        if let Some(outcome) = outcome {
            outcome.succeeded();
        }
    }
}

/// The list_locks that `work` takes.
fn list_locks(cache: &KmemCache, work: impl FnOnce()) -> u64 {
    // To read the figures takes list_locks, too.
    let [first, before] = [cache.info().counts.list_locks, cache.info().counts.list_locks];
    work();
    cache.info().counts.list_locks + first - 2 * before
}

#[test]
fn partial_slabs_move_to_the_node_and_back_under_one_list_lock() {
    each("partial_slabs_move_to_the_node_and_back_under_one_list_lock", || {
        let cache = cache();
        let mut objects = alloc(&cache, 20 * OBJECTS);
        // The first free to each full slab makes it one of the CPU's. Seven have more than six free
        // objects, so the eighth sends them to the node.
        let frees: Vec<u64> =
            (0..8).map(|slab| list_locks(&cache, || free(&cache, &objects[slab * OBJECTS..][..1]))).collect();
        assert_eq!(frees, [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(cache.info().usage.partial, 7, "the eighth is the CPU's");
        // The CPU's own slab is used up, then its one partial slab. Then it takes four slabs, which
        // together have more than three free objects.
        objects[7 * OBJECTS] = cache.alloc().expect("memory");
        let refill = list_locks(&cache, || objects[0] = cache.alloc().expect("memory"));
        assert_eq!((refill, cache.info().usage.partial), (1, 3));
        let own =
            list_locks(&cache, || (1..4).for_each(|slab| objects[slab * OBJECTS] = cache.alloc().expect("memory")));
        assert_eq!((own, cache.info().usage.partial), (0, 3), "the other three are the CPU's");
        // Those of three slabs are free still.
        for slab in [6, 5, 4] {
            objects.swap_remove(slab * OBJECTS);
        }
        free(&cache, &objects);
        cache.shrink();
        assert_eq!(cache.info().usage.slabs, 0);
        cache.destroy().map_err(|(_, error)| error).expect("empty");
    });
}

/// Arrays whose objects are of one slab, of slabs in turn, and of slabs in any order.
#[test]
fn every_object_of_an_array_is_freed_once_whatever_slabs_they_are_of() {
    each("every_object_of_an_array_is_freed_once_whatever_slabs_they_are_of", || {
        let cache = cache();
        let mut rng = Rng::new(7);
        for round in 0..200 {
            let mut objects = alloc(&cache, 1 + rng.below(300));
            let slabs = 1 + round % 5;
            match round % 3 {
                0 => {}
                1 => objects.sort_by_key(|object| object.as_ptr() as usize / ashlar::PAGE_SIZE % slabs),
                _ => (1..objects.len()).for_each(|at| objects.swap(at, rng.below(at + 1))),
            }
            let mut array: Vec<*mut u8> = objects.iter().map(|object| object.as_ptr()).collect();
            // SAFETY: live, each freed once.
            unsafe { cache.free_bulk(&array) };
            assert_eq!(cache.info().usage.live, 0);
            let again: BTreeSet<_> = alloc(&cache, array.len()).into_iter().collect();
            assert_eq!(again.len(), array.len(), "an object was handed out twice");
            array.clear();
            array.extend(again.iter().map(|object| object.as_ptr()));
            // SAFETY: as above.
            unsafe { cache.free_bulk(&array) };
        }
        cache.shrink();
        assert_eq!(cache.info().usage.slabs, 0);
        cache.destroy().map_err(|(_, error)| error).expect("empty");
    });
}
