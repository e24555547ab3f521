//! What the allocator holds on to: resident memory after everything was freed, metadata, leftovers of threads, and
//! how it behaves where memory ends. Each test is a process of its own.

mod common;

use core::time::Duration;
use std::time::Instant;

use ashlar::{CacheArgs, KmemCache};
use common::{child, statm, tell};

const MIB: usize = 1 << 20;

/// A chain of objects, linked through their first word.
struct Chain {
    first: *mut *mut u8,
    length: usize,
}

/// Allocates objects of 64 bytes and links them, so that no side array counts as memory.
fn chain(length: usize) -> Chain {
    let mut first = core::ptr::null_mut();
    for _ in 0..length {
        let object = ashlar::kmalloc(64);
        assert!(!object.is_null());
        // SAFETY: 64 fresh bytes, aligned to 64. All of it is touched, as a program does.
        unsafe {
            object.cast::<[u64; 8]>().write([7; 8]);
            object.cast::<*mut u8>().write(first);
        }
        first = object;
    }
    Chain { first: first.cast(), length }
}

impl Chain {
    /// Frees all objects, out of order: eight walkers start at eight places of the chain and take turns.
    fn free(self) {
        const WALKERS: usize = 8;
        let part = self.length / WALKERS;
        let mut heads = [core::ptr::null_mut::<u8>(); WALKERS];
        let mut at = self.first.cast::<u8>();
        for i in 0..part * WALKERS {
            if i % part == 0 {
                heads[i / part] = at;
            }
            // SAFETY: the chain has `length` live objects, each of which starts with the address of the next.
            at = unsafe { at.cast::<*mut u8>().read() };
        }
        assert!(at.is_null(), "lengths are multiples of the walkers");
        for _ in 0..part {
            for head in &mut heads {
                let object = *head;
                // SAFETY: as above; every walker frees the objects of its own part, each once.
                unsafe {
                    *head = object.cast::<*mut u8>().read();
                    ashlar::kfree(object);
                }
            }
        }
    }
}

/// The one timed test: the figure is a promise in seconds. The clock starts when the last object is free; only
/// sleep follows, no call to the allocator.
#[test]
fn a_gibibyte_goes_back_within_two_and_a_half_seconds_of_idleness() {
    let test = "a_gibibyte_goes_back_within_two_and_a_half_seconds_of_idleness";
    let child = child(test, test, &[], || {
        let objects = chain(1024 * MIB / 64);
        let peak = statm(1);
        objects.free();
        std::thread::sleep(Duration::from_millis(2500));
        let now = statm(1);
        tell("peak", peak);
        assert!(peak > 1024 * MIB, "the objects were not touched");
        assert!(now * 20 < peak, "{} MiB of {} MiB are still resident", now / MIB, peak / MIB);
    });
    child.expect("the parent").succeeded();
}

/// Threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("procfs").count()
}

/// Waits until `done`, within a bound that only a thread that hangs can reach.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_background_thread_ends_when_nothing_is_left_and_comes_again() {
    let test = "the_background_thread_ends_when_nothing_is_left_and_comes_again";
    let child = child(test, test, &[], || {
        let before = threads();
        for round in 0..2 {
            chain(64 * MIB / 64).free();
            assert_eq!(threads(), before + 1, "round {round}: a thread for what was freed");
            wait_until("the background thread goes on for ever", || threads() == before);
            assert_eq!(ashlar::zone_stats().dirty, 0, "round {round}: it left something behind");
        }
        // Large objects use no barn: their pages go back by age alone.
        for round in 0..2 {
            let large: Vec<_> = (0..32).map(|_| ashlar::kzalloc(MIB)).collect();
            for at in large {
                // SAFETY: live, freed once; written to, so that there is something to give back.
                unsafe {
                    at.write_bytes(1, MIB);
                    ashlar::kfree(at);
                }
            }
            wait_until("the background thread goes on for ever", || threads() == before);
            assert_eq!(ashlar::zone_stats().dirty, 0, "large round {round}: it left something behind");
        }
    });
    child.expect("the parent").succeeded();
}

#[test]
fn metadata_is_at_most_a_fortieth_of_small_objects() {
    let test = "metadata_is_at_most_a_fortieth_of_small_objects";
    let child = child(test, test, &[], || {
        const OBJECTS: usize = 4 << 20;
        // What the program itself and one object cost is not metadata of the others.
        ashlar::kmalloc(64);
        let before = statm(1);
        let objects = chain(OBJECTS);
        let overhead = (statm(1) - before).saturating_sub(OBJECTS * 64);
        assert!(overhead * 40 <= OBJECTS * 64, "{overhead} bytes on top of {} of objects", OBJECTS * 64);
        objects.free();
    });
    child.expect("the parent").succeeded();
}

#[test]
fn threads_leave_nothing_behind() {
    let test = "threads_leave_nothing_behind";
    for (role, env) in [("threads rseq", ""), ("threads lock", "percpu=lock")] {
        let child = child(test, role, &[("ASHLAR_OPTIONS", env)], || {
            let once = |i: usize| {
                let work = move || {
                    let at = ashlar::kmalloc(1 + i % 1000);
                    assert!(!at.is_null());
                    // SAFETY: live, freed once.
                    unsafe { ashlar::kfree(at) };
                };
                std::thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn(work)
                    .expect("a thread")
                    .join()
                    .expect("it ends");
            };
            // The first ones warm up every size class on every CPU, and the C library's cache of stacks.
            (0..2000).for_each(once);
            let (metadata, resident) = (ashlar::metadata_bytes(), statm(1));
            (0..10_000).for_each(once);
            // A few sheaves are made when a thread meets a CPU at an unusual moment: they stay with the CPU.
            let more = ashlar::metadata_bytes() - metadata;
            assert!(more < 64 << 10, "metadata grew by {more} bytes with 10,000 threads");
            let grown = statm(1).saturating_sub(resident);
            // Less than 32 bytes a thread: there is nothing that small.
            assert!(grown < 320 << 10, "{grown} bytes more after 10,000 threads");
        });
        if let Some(child) = child {
            child.succeeded();
        }
    }
}

/// Lets this process map so many bytes more than it has.
fn limit(more: usize) {
    let bytes = (statm(0) + more) as libc::rlim_t;
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the limit is readable.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// Allocates objects of `size` until there are no more; frees them; how many.
fn until_the_end(size: usize) -> usize {
    let (mut first, mut count) = (core::ptr::null_mut::<u8>(), 0);
    loop {
        let object = ashlar::kmalloc(size);
        if object.is_null() {
            break;
        }
        // SAFETY: fresh; the chain needs no memory of its own.
        unsafe { object.cast::<*mut u8>().write(first) };
        first = object;
        count += 1;
    }
    while !first.is_null() {
        let object = first;
        // SAFETY: live; the link was written above; freed once.
        unsafe {
            first = object.cast::<*mut u8>().read();
            ashlar::kfree(object);
        }
    }
    count
}

#[test]
fn under_a_limit_of_address_space_memory_ends_and_comes_back() {
    let test = "under_a_limit_of_address_space_memory_ends_and_comes_back";
    for (role, env) in [("limit", ""), ("limit nodes", "nodes=4"), ("limit lock", "percpu=lock")] {
        let child = child(test, role, &[("ASHLAR_OPTIONS", env)], || {
            limit(256 * MIB);
            for size in [64, 1000, 8192, 100_000, 3 * MIB, 64] {
                let counts = [until_the_end(size), until_the_end(size)];
                let least = 32 * MIB / size;
                assert!(counts[0] >= least && counts[1] >= least, "only {counts:?} objects of {size} bytes");
                // The second time must not find much less: nothing was lost at the end of memory.
                assert!(counts[1] * 10 >= counts[0] * 9, "{counts:?} objects of {size} bytes");
            }
            ashlar::reap();
            ashlar::for_each_cache(|cache| assert_eq!(cache.usage.live, 0, "{}", cache.name()));
        });
        if let Some(child) = child {
            child.succeeded();
        }
    }
}

#[test]
fn bulk_at_the_end_of_memory_is_all_or_nothing() {
    let test = "bulk_at_the_end_of_memory_is_all_or_nothing";
    let child = child(test, test, &[], || {
        limit(128 * MIB);
        let cache = KmemCache::create("oom", 1000, &CacheArgs::default()).expect("a cache");
        let mut objects = vec![core::ptr::null_mut::<u8>(); 10_000];
        let mut first = core::ptr::null_mut::<*mut u8>();
        let mut whole = 0;
        while cache.alloc_bulk(&mut objects) {
            whole += 1;
            for &object in &objects {
                // SAFETY: 1000 fresh bytes.
                unsafe { object.cast::<*mut *mut u8>().write(first) };
                first = object.cast();
            }
        }
        assert!(whole > 2);
        assert_eq!(cache.info().usage.live, whole * objects.len(), "the part of the refused bulk stayed");
        assert!(ashlar::kzalloc(200 * MIB).is_null());
        assert!(ashlar::kmalloc_aligned(200 * MIB, 2 * MIB).is_null());
        while !first.is_null() {
            let object = first;
            // SAFETY: live; freed once.
            unsafe {
                first = object.cast::<*mut *mut u8>().read();
                cache.free(core::ptr::NonNull::new(object.cast()).expect("not null"));
            }
        }
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    });
    child.expect("the parent").succeeded();
}

/// Decay gives memory back while the program goes on, too.
#[test]
fn a_busy_program_gives_back_what_it_no_longer_needs() {
    let test = "a_busy_program_gives_back_what_it_no_longer_needs";
    let child = child(test, test, &[("ASHLAR_OPTIONS", "decay=250")], || {
        chain(256 * MIB / 64).free();
        let full = statm(1);
        let start = Instant::now();
        // No figure is promised here: the wait is long and ends as soon as the memory is back.
        while statm(1) * 2 > full {
            assert!(start.elapsed() < Duration::from_secs(60), "memory does not go back while the program is busy");
            let live: Vec<_> = (0..1000).map(|i| ashlar::kmalloc(i)).collect();
            // SAFETY: live, freed once.
            live.into_iter().for_each(|at| unsafe { ashlar::kfree(at) });
        }
    });
    child.expect("the parent").succeeded();
}

/// What is left of a block at the end of a large object is of use for the next one.
#[test]
fn large_objects_lie_close_to_each_other_across_blocks() {
    let test = "large_objects_lie_close_to_each_other_across_blocks";
    let child = child(test, test, &[("ASHLAR_OPTIONS", "reaper=off")], || {
        for size in [5 * MIB / 4, 11 * MIB / 4] {
            let used = || {
                let stats = ashlar::zone_stats();
                ((stats.committed - stats.free) * 4096, stats.committed * 4096)
            };
            let (used_before, before) = used();
            let free = before - used_before;
            let all: Vec<_> = (0..24).map(|_| ashlar::kmalloc(size)).collect();
            assert!(all.iter().all(|at| !at.is_null()));
            let needed = 24 * size;
            let grown = used().1 - before;
            // Growth is by an eighth of what there is, too.
            let most = needed.saturating_sub(free) + (before + needed) / 8 + 4 * MIB;
            assert!(grown <= most, "{size} bytes: {grown} more for {needed} beside {free} that were free");
            // Holes that some of them leave take as many again.
            // SAFETY: live, freed once each.
            all.iter().skip(1).step_by(2).for_each(|&at| unsafe { ashlar::kfree(at) });
            let before = used().1;
            let again: Vec<_> = (0..12).map(|_| ashlar::kmalloc(size)).collect();
            assert_eq!(used().1, before, "{size} bytes: the holes are not found");
            for at in all.into_iter().step_by(2).chain(again) {
                // SAFETY: live, freed once each.
                unsafe { ashlar::kfree(at) };
            }
        }
    });
    child.expect("the parent").succeeded();
}
