//! Bulk calls: all objects or none, wherever memory ends.

mod common;

use core::ptr::NonNull;
use std::collections::HashSet;

use ashlar::{ArenaSource, CacheArgs, Engine, KmemCache};
use common::{child, cpus, pin};

/// Starts on an arena of the given number of bytes.
fn start(bytes: usize) {
    let memory = NonNull::new(vec![0u8; bytes].leak().as_mut_ptr()).expect("not null");
    // SAFETY: leaked, zeroed memory with no other user.
    let source = Box::leak(Box::new(unsafe { ArenaSource::new(memory, bytes) }));
    assert_eq!(ashlar::start_on(source), Ok(true));
}

/// Memory ends at each object of calls of every length, up to more than a sheaf holds. There are
/// `free` pages left and a page for each object. A call for `count` objects fills the slice if
/// `count <= free`, and takes nothing otherwise.
#[test]
fn memory_may_end_at_every_object() {
    const MOST: usize = 70;
    const SIZE: usize = 4096;
    let test = "memory_may_end_at_every_object";
    for (engine, percpu) in Engine::ALL.iter().flat_map(|engine| [(engine.id(), "auto"), (engine.id(), "lock")]) {
        let options = format!("engine={engine},percpu={percpu},reaper=off,max_order=0,sheaf=30");
        let outcome = child(test, &format!("{test} {engine} {percpu}"), &[("ASHLAR_OPTIONS", &options)], || {
            pin(cpus()[0]);
            start(4 << 20);
            let cache = KmemCache::create("bulk", SIZE, &CacheArgs::default()).expect("a cache");
            let mut live: Vec<_> = core::iter::from_fn(|| cache.alloc()).map(NonNull::as_ptr).collect();
            assert!(live.len() > 2 * MOST, "{} objects", live.len());
            let all: HashSet<_> = live.iter().copied().collect();
            for count in 0..=MOST {
                for free in 0..=count {
                    let rest = live.split_off(live.len() - free);
                    // SAFETY: live, each freed once.
                    unsafe { cache.free_bulk(&rest) };
                    let mut out = vec![core::ptr::null_mut(); count];
                    let filled = cache.alloc_bulk(&mut out);
                    assert_eq!(filled, free == count, "{count} objects, {free} pages");
                    // After a refusal, all objects can still be allocated.
                    let again =
                        if filled { out } else { core::iter::from_fn(|| cache.alloc()).map(NonNull::as_ptr).collect() };
                    live.extend(again);
                    assert_eq!(cache.info().usage.live, all.len(), "{count} objects, {free} pages");
                    let now: HashSet<_> = live.iter().copied().collect();
                    assert_eq!(now, all, "{count} objects, {free} pages");
                }
            }
            // SAFETY: live, each freed once.
            unsafe { cache.free_bulk(&live) };
            cache.destroy().map_err(|(_, error)| error).expect("empty");
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

/// A bulk free of objects of the CPU slab returns them to the CPU's freelist, where the next
/// allocations find them at once.
#[test]
fn objects_of_the_cpu_slab_go_back_to_its_freelist() {
    let test = "objects_of_the_cpu_slab_go_back_to_its_freelist";
    for percpu in ["auto", "lock"] {
        let options = format!("engine=slub-bulk,percpu={percpu},reaper=off");
        let outcome = child(test, &format!("{test} {percpu}"), &[("ASHLAR_OPTIONS", &options)], || {
            pin(cpus()[0]);
            let cache = KmemCache::create("local", 200, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
            let take = || core::array::from_fn::<_, 6, _>(|_| cache.alloc().expect("memory").as_ptr());
            let kept = take();
            let first = take();
            let before = cache.info().counts;
            for _ in 0..100 {
                let objects = take();
                // SAFETY: live, freed once.
                unsafe { cache.free_bulk(&objects) };
                let again = take();
                assert_eq!(HashSet::from(again), HashSet::from(objects));
                // SAFETY: as above.
                unsafe { cache.free_bulk(&again) };
            }
            let after = cache.info().counts;
            assert_eq!((after.alloc_slow, after.free_slow), (before.alloc_slow, before.free_slow));
            // SAFETY: live, freed once.
            unsafe {
                cache.free_bulk(&kept);
                cache.free_bulk(&first);
            }
            cache.destroy().map_err(|(_, error)| error).expect("empty");
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

/// On an arena with a few free pieces left, bulk allocations of every length either fill the slice
/// or take nothing. Objects that were live before are unchanged.
#[test]
fn calls_of_every_length_fill_the_slice_or_take_nothing() {
    const PIECE: usize = 70_000;
    let test = "calls_of_every_length_fill_the_slice_or_take_nothing";
    for engine in Engine::ALL.iter().map(|engine| engine.id()) {
        let options = format!("engine={engine}");
        let outcome = child(test, engine, &[("ASHLAR_OPTIONS", &options)], || {
            start(4 << 20);
            let cache = KmemCache::create("bulk", 500, &CacheArgs::default()).expect("a cache");
            let live: Vec<_> = (0..10u64).map(|i| (cache.alloc().expect("memory"), i)).collect();
            // SAFETY: 500 bytes each.
            live.iter().for_each(|(object, i)| unsafe { common::fill(object.as_ptr(), 500, *i) });
            let mut taken: Vec<*mut u8> =
                core::iter::from_fn(|| Some(ashlar::kmalloc(PIECE)).filter(|piece| !piece.is_null())).collect();
            assert!(taken.len() > 20);
            let (mut filled, mut refused) = (0, 0);
            for pieces in 0..6 {
                for count in (1..40).chain((40..900).step_by(17)) {
                    let mut out = vec![core::ptr::null_mut(); count];
                    let all = cache.alloc_bulk(&mut out);
                    let usage = cache.info().usage;
                    if all {
                        filled += 1;
                        let distinct: HashSet<_> = out.iter().copied().collect();
                        assert!(distinct.len() == count && !distinct.contains(&core::ptr::null_mut()));
                        assert_eq!(usage.live, 10 + count, "{pieces} pieces, {count} objects");
                        // SAFETY: live, each written inside and freed once.
                        unsafe {
                            out.iter().for_each(|object| object.write_bytes(7, 500));
                            cache.free_bulk(&out);
                        }
                    } else {
                        refused += 1;
                    }
                    assert_eq!(cache.info().usage.live, 10, "{pieces} pieces, {count} objects: {all}");
                }
                for (object, i) in &live {
                    // SAFETY: live since the start.
                    unsafe { common::check(object.as_ptr(), 500, 500, *i) };
                }
                cache.shrink();
                let piece = taken.pop().expect("more than six");
                // SAFETY: live, freed once.
                unsafe { ashlar::kfree(piece) };
            }
            assert!(filled > 20 && refused > 20, "{filled} filled, {refused} refused");
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}
