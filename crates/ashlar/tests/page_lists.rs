//! Per-CPU page lists: what they save, that nothing stays on them, and that what they hold can be
//! had by everybody.

mod common;

use core::ptr::NonNull;

use ashlar::{ArenaSource, CacheArgs, Engine, KmemCache};
use common::{child, cpus, pin};

const MIB: usize = 1 << 20;

fn cache_of(engine: &str, size: usize) -> KmemCache {
    let mut args = CacheArgs::DEFAULT;
    args.engine = Engine::from_id(engine);
    KmemCache::create("listed", size, &args).expect("memory")
}

/// As many objects as asked for, or all that there are.
fn take(cache: &KmemCache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map_while(|_| cache.alloc()).collect()
}

fn give(cache: &KmemCache, objects: Vec<NonNull<u8>>) {
    for object in objects {
        // SAFETY: live objects of the cache, freed once.
        unsafe { cache.free(object) };
    }
}

#[test]
fn slabs_come_and_go_without_a_zone_lock_for_each() {
    let test = "slabs_come_and_go_without_a_zone_lock_for_each";
    for engine in ["slub", "slub+", "slub-2010", "slub-2010-ll", "slub-ll", "slub-bulk", "slab", "slab24"] {
        let role = format!("{test} {engine}");
        let options = [("ASHLAR_OPTIONS", "reaper=off,min_partial=0,max_order=0")];
        let outcome = child(test, &role, &options, || {
            pin(cpus()[0]);
            let cache = cache_of(engine, 1024);
            let zone_locks = || ashlar::total_counts().zone_locks;
            let before = zone_locks();
            let objects = take(&cache, 4000);
            let slabs = cache.info().usage.slabs as u64;
            let taken = zone_locks() - before;
            assert!(slabs >= 1000 && taken * 10 < slabs, "{engine}: {taken} zone locks for {slabs} slabs");
            let before = zone_locks();
            give(&cache, objects);
            cache.shrink();
            let taken = zone_locks() - before;
            assert!(taken * 10 < slabs, "{engine}: {taken} zone locks to give {slabs} slabs back");
            cache.destroy().map_err(|(_, error)| error).expect("empty");
            ashlar::reap();
            let zone = ashlar::zone_stats();
            assert_eq!(zone.dirty, 0, "{engine}: {zone:?}");
        });
        if let Some(outcome) = outcome {
            outcome.succeeded();
        }
    }
}

#[test]
fn what_the_lists_hold_is_there_for_who_finds_the_arena_empty() {
    let test = "what_the_lists_hold_is_there_for_who_finds_the_arena_empty";
    for engine in ["slub", "slub-2010-ll", "slub-bulk", "slab", "slab24"] {
        let role = format!("{test} {engine}");
        let outcome = child(test, &role, &[], || {
            ashlar::configure("min_partial=0,max_order=0").expect("before the start");
            let memory = vec![0u8; 4 * MIB].leak();
            // SAFETY: leaked, zeroed memory with no other user.
            let source = unsafe { ArenaSource::new(NonNull::from(&mut memory[0]), 4 * MIB) };
            ashlar::start_on(Box::leak(Box::new(source))).expect("not started");
            let pages = || ashlar::zone_stats();
            let cache = cache_of(engine, 1024);
            let all = take(&cache, usize::MAX);
            assert!(all.len() > 1000, "{engine}: {} objects", all.len());
            assert_eq!(pages().free, 0, "{engine}: {:?}", pages());
            // All of it back: the last pages stay on the list of this CPU.
            give(&cache, all);
            cache.shrink();
            let free = pages().free;
            // The default engine takes slabs from the zone alone.
            let other = cache_of("ashlar", 1024);
            let rest = take(&other, usize::MAX);
            assert_eq!(pages().free, 0, "{engine}: {:?}", pages());
            assert_eq!(other.info().usage.slabs, free, "{engine}: slabs of all free pages");
            give(&other, rest);
            other.destroy().map_err(|(_, error)| error).expect("empty");
            cache.destroy().map_err(|(_, error)| error).expect("empty");
        });
        if let Some(outcome) = outcome {
            outcome.succeeded();
        }
    }
}
