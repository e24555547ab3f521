//! Memory that the allocator keeps: what stays resident after all frees, metadata, and leftovers of
//! ended threads. Also its behaviour when memory runs out. Each test runs in its own process.

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

/// Allocates objects of 64 bytes. Links them, because an array of pointers would count as memory.
fn chain(length: usize) -> Chain {
    let mut first = core::ptr::null_mut();
    for _ in 0..length {
        let object = ashlar::kmalloc(64);
        assert!(!object.is_null());
        // SAFETY: 64 fresh bytes, aligned to 64. Writes all of them, as a program would.
        unsafe {
            object.cast::<[u64; 8]>().write([7; 8]);
            object.cast::<*mut u8>().write(first);
        }
        first = object;
    }
    Chain { first: first.cast(), length }
}

impl Chain {
    /// Frees all objects, out of order: eight walkers start at eight places of the chain and take
    /// turns.
    fn free(self) {
        const WALKERS: usize = 8;
        let part = self.length / WALKERS;
        let mut heads = [core::ptr::null_mut::<u8>(); WALKERS];
        let mut at = self.first.cast::<u8>();
        for i in 0..part * WALKERS {
            if i % part == 0 {
                heads[i / part] = at;
            }
            // SAFETY: the chain has `length` live objects, each of which starts with the address of
            // the next.
            at = unsafe { at.cast::<*mut u8>().read() };
        }
        assert!(at.is_null(), "the length is a multiple of WALKERS");
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

/// Starts the background thread if the role asks for it.
fn start_reaper_if(wanted: bool) {
    if wanted {
        ashlar::start_reaper().expect("a thread");
    }
}

/// The two ways to return memory: by the background thread, and by calls of the allocator.
const WITH_THREAD_AND_WITHOUT: [(&str, bool); 2] = [("thread", true), ("calls", false)];

/// Checks a promise in seconds, so it is the only timed test. The clock starts when the last object
/// is free. From then on the test sleeps, and does not call the allocator.
#[test]
fn a_gibibyte_goes_back_within_two_and_a_half_seconds_of_idleness() {
    let test = "a_gibibyte_goes_back_within_two_and_a_half_seconds_of_idleness";
    for (role, thread) in WITH_THREAD_AND_WITHOUT {
        let child = child(test, role, &[], || {
            start_reaper_if(thread);
            let objects = chain(1024 * MIB / 64);
            let peak = statm(1);
            objects.free();
            std::thread::sleep(Duration::from_millis(2500));
            let now = statm(1);
            tell("peak", peak);
            assert!(peak > 1024 * MIB, "the objects were not touched");
            assert!(now * 20 < peak, "{} MiB of {} MiB are still resident", now / MIB, peak / MIB);
        });
        if let Some(child) = child {
            child.succeeded();
        }
    }
}

/// Tests sizes of which barns hold the most bytes, and large objects, which barns do not hold.
#[test]
fn without_the_thread_little_of_what_was_freed_stays_resident() {
    let test = "without_the_thread_little_of_what_was_freed_stays_resident";
    let child = child(test, test, &[], || {
        let start = statm(1);
        for size in [4096, 1000, MIB, 100_000, 8 * MIB, 64] {
            let all: Vec<_> = (0..256 * MIB / size).map(|_| ashlar::kmalloc(size)).collect();
            for &at in &all {
                // SAFETY: fresh memory of that size.
                unsafe { at.write_bytes(1, size) };
            }
            let peak = statm(1);
            for at in all {
                // SAFETY: live, freed once.
                unsafe { ashlar::kfree(at) };
            }
            // The bound is 8 MiB. The rest allows for the test's own vector.
            let left = statm(1) - start;
            assert!(peak - start > 250 * MIB && left < 80 * MIB, "{size}: {} MiB left", left / MIB);
            // What is needed again within a second counts as returned too early.
            std::thread::sleep(Duration::from_millis(1100));
        }
        assert_eq!(threads(), 2, "only the test's own two threads run");
    });
    child.expect("the parent").succeeded();
}

/// Returns the number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("procfs").count()
}

/// Waits until `done` returns true. Panics after 20 seconds, so that a hang fails the test.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_background_thread_lives_from_its_start_to_its_stop_and_leaves_nothing_resident() {
    let test = "the_background_thread_lives_from_its_start_to_its_stop_and_leaves_nothing_resident";
    let child = child(test, test, &[], || {
        let before = threads();
        for round in 0..3 {
            ashlar::start_reaper().expect("a thread");
            ashlar::start_reaper().expect("the same thread");
            chain(64 * MIB / 64).free();
            wait_until("free memory stays resident", || ashlar::zone_stats().dirty == 0);
            // Barns do not hold large objects: their pages are returned by age alone.
            let large: Vec<_> = (0..32).map(|_| ashlar::kzalloc(MIB)).collect();
            for at in large {
                // SAFETY: live, freed once. The write makes the pages resident.
                unsafe {
                    at.write_bytes(1, MIB);
                    ashlar::kfree(at);
                }
            }
            wait_until("large objects stay resident", || ashlar::zone_stats().dirty == 0);
            assert_eq!(threads(), before + 1, "round {round}");
            ashlar::stop_reaper();
            assert_eq!(threads(), before, "round {round}");
            ashlar::stop_reaper();
        }
    });
    child.expect("the parent").succeeded();
}

#[test]
fn the_background_thread_blocks_signals_and_has_a_name() {
    let test = "the_background_thread_blocks_signals_and_has_a_name";
    let child = child(test, test, &[], || {
        ashlar::start_reaper().expect("a thread");
        // The thread sets its name before anything else.
        let mut status = String::new();
        wait_until("the thread has no name", || {
            let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
            let texts = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
            status = texts.filter(|text| text.starts_with("Name:\tashlar-reaper\n")).collect();
            !status.is_empty()
        });
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).expect("a line of masks");
        let blocked = u64::from_str_radix(blocked, 16).expect("a number");
        // All signals but SIGKILL, SIGSTOP, and the two that the C library reserves.
        let kept = 1 << (9 - 1) | 1 << (19 - 1) | 3 << (32 - 1);
        assert_eq!(blocked | kept, u64::MAX, "{blocked:x}");
        assert_eq!(blocked & 1 << (33 - 1), 0, "the C library's signal for setuid is blocked");
    });
    child.expect("the parent").succeeded();
}

#[test]
fn the_option_decides_about_the_thread() {
    let test = "the_option_decides_about_the_thread";
    for option in ["reaper=calls", "reaper=off"] {
        let child = child(test, option, &[("ASHLAR_OPTIONS", option)], || {
            let before = threads();
            assert_eq!(ashlar::start_reaper(), Err(ashlar::ReaperError::Off));
            assert_eq!(threads(), before);
            chain(256 * MIB / 64).free();
            let left = ashlar::zone_stats().dirty * ashlar::PAGE_SIZE;
            if std::env::var("ASHLAR_OPTIONS").is_ok_and(|option| option == "reaper=off") {
                assert!(left > 128 * MIB, "only {left} bytes are left: reaper=off did not keep them");
            } else {
                assert!(left < 64 * MIB, "{left} bytes are left");
            }
        });
        if let Some(child) = child {
            child.succeeded();
        }
    }
}

#[test]
fn metadata_is_at_most_a_fortieth_of_small_objects() {
    let test = "metadata_is_at_most_a_fortieth_of_small_objects";
    let child = child(test, test, &[], || {
        const OBJECTS: usize = 4 << 20;
        // Starts the allocator, so that the cost of its start is not counted.
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
            // Warm up every size class on every CPU, and the C library's cache of stacks.
            (0..2000).for_each(once);
            let (metadata, resident) = (ashlar::metadata_bytes(), statm(1));
            (0..10_000).for_each(once);
            // In rare states of a CPU, a thread creates another sheaf. It stays with the CPU.
            let more = ashlar::metadata_bytes() - metadata;
            assert!(more < 64 << 10, "metadata grew by {more} bytes with 10,000 threads");
            let grown = statm(1).saturating_sub(resident);
            // About 32 bytes a thread, less than any leftover of one.
            assert!(grown < 320 << 10, "{grown} bytes more after 10,000 threads");
        });
        if let Some(child) = child {
            child.succeeded();
        }
    }
}

/// Limits the address space to `more` bytes above its present size.
fn limit(more: usize) {
    let bytes = (statm(0) + more) as libc::rlim_t;
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the limit is readable.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// Allocates objects of `size` until memory runs out, and frees them. Returns their number.
fn until_the_end(size: usize) -> usize {
    let (mut first, mut count) = (core::ptr::null_mut::<u8>(), 0);
    loop {
        let object = ashlar::kmalloc(size);
        if object.is_null() {
            break;
        }
        // SAFETY: fresh, and large enough for the link.
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
                // The second count must not be much lower: no memory was lost when it ran out.
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
        assert_eq!(cache.info().usage.live, whole * objects.len(), "the refused bulk kept objects");
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

/// Checks that decay returns memory while the program keeps calling the allocator.
#[test]
fn a_busy_program_gives_back_what_it_no_longer_needs() {
    let test = "a_busy_program_gives_back_what_it_no_longer_needs";
    for (role, thread) in WITH_THREAD_AND_WITHOUT {
        let child = child(test, role, &[("ASHLAR_OPTIONS", "decay=250")], || {
            start_reaper_if(thread);
            let objects = chain(256 * MIB / 64);
            let full = statm(1);
            objects.free();
            let start = Instant::now();
            // No time is promised here. The long wait ends as soon as the memory is returned.
            while statm(1) * 2 > full {
                assert!(start.elapsed() < Duration::from_secs(60), "memory is not returned while the program is busy");
                let live: Vec<_> = (0..1000).map(|i| ashlar::kmalloc(i)).collect();
                // SAFETY: live, freed once.
                live.into_iter().for_each(|at| unsafe { ashlar::kfree(at) });
            }
        });
        if let Some(child) = child {
            child.succeeded();
        }
    }
}

/// Checks that the rest of a block behind a large object serves other large objects.
#[test]
fn large_objects_lie_close_to_each_other_across_blocks() {
    let test = "large_objects_lie_close_to_each_other_across_blocks";
    let child = child(test, test, &[("ASHLAR_OPTIONS", "reaper=off")], || {
        for size in [5 * MIB / 4, 11 * MIB / 4] {
            let used = || {
                let stats = ashlar::zone_stats();
                ((stats.committed - stats.free) * ashlar::PAGE_SIZE, stats.committed * ashlar::PAGE_SIZE)
            };
            let (used_before, before) = used();
            let free = before - used_before;
            let all: Vec<_> = (0..24).map(|_| ashlar::kmalloc(size)).collect();
            assert!(all.iter().all(|at| !at.is_null()));
            let needed = 24 * size;
            let grown = used().1 - before;
            // The zone may grow by an eighth of its size more than needed.
            let most = needed.saturating_sub(free) + (before + needed) / 8 + 4 * MIB;
            assert!(grown <= most, "{size} bytes: grew by {grown} for {needed}, with {free} free before");
            // Objects of the same size must fit into the holes of freed ones.
            // SAFETY: live, freed once each.
            all.iter().skip(1).step_by(2).for_each(|&at| unsafe { ashlar::kfree(at) });
            let before = used().1;
            let again: Vec<_> = (0..12).map(|_| ashlar::kmalloc(size)).collect();
            assert_eq!(used().1, before, "{size} bytes: the holes were not reused");
            for at in all.into_iter().step_by(2).chain(again) {
                // SAFETY: live, freed once each.
                unsafe { ashlar::kfree(at) };
            }
        }
    });
    child.expect("the parent").succeeded();
}

/// Returns the page faults of this process so far.
fn faults() -> usize {
    // SAFETY: getrusage fills the record, for which zeros are valid.
    unsafe {
        let mut usage: libc::rusage = core::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage.ru_minflt as usize
    }
}

/// Checks that a program that frees much and needs it again at once soon gets resident pages,
/// whatever the amount: trims on the way down are not taken for good ones.
#[test]
fn what_is_needed_again_at_once_is_kept() {
    let test = "what_is_needed_again_at_once_is_kept";
    let outcome = child(test, test, &[("ASHLAR_OPTIONS", "reaper=calls")], || {
        const OBJECTS: usize = 1 << 20;
        let round = || {
            let before = faults();
            chain(OBJECTS).free();
            faults() - before
        };
        let first = round();
        (0..3).for_each(|_| _ = round());
        let later = (0..3).map(|_| round()).max().expect("rounds");
        assert!(first > OBJECTS * 64 / 4096 / 2, "{first} faults for {OBJECTS} fresh objects");
        assert!(later < first / 8, "{later} faults in a later round, {first} in the first one");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}
