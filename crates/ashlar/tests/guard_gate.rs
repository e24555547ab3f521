//! `guard=Nms`: one allocation in N milliseconds is guarded, and others take their usual paths.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use std::time::Instant;

use ashlar::{CacheArgs, KmemCache, malloc};
use common::child;

/// Bytes of an object that show whether it is guarded: those that were asked for, or those of its
/// class.
const BYTES: usize = 100;
/// The milliseconds of the option.
const EVERY: u128 = 20;
const SAMPLES: usize = 8;

/// Runs `body` in a child with these options. It must print nothing.
#[track_caller]
fn run(test: &str, options: &str, body: impl FnOnce()) {
    if let Some(child) = child(test, options, &[("ASHLAR_OPTIONS", options)], body) {
        assert_eq!(child.succeeded().stderr, "", "{options}");
    }
}

fn is_guarded(at: *mut u8) -> bool {
    // SAFETY: the caller has just allocated it.
    unsafe { malloc::malloc_usable_size(at) == BYTES }
}

/// Allocates and frees so many objects at a time that slow paths are taken. Returns how many were
/// guarded.
fn batch(count: usize) -> usize {
    let objects: Vec<_> = (0..count).map(|_| malloc::malloc(BYTES)).collect();
    let guarded = objects.iter().filter(|&&at| is_guarded(at)).count();
    // SAFETY: allocated above.
    objects.into_iter().for_each(|at| unsafe { malloc::free(at) });
    guarded
}

/// Runs `some`, which returns the samples that it had, until there are enough. There are no more
/// than the time allows.
fn until_sampled(mut some: impl FnMut() -> usize) {
    let (start, mut guarded) = (Instant::now(), 0);
    while guarded < SAMPLES {
        guarded += some();
    }
    // The first one comes when the time has passed since the start of the allocator.
    let most = start.elapsed().as_millis() / EVERY + 2;
    assert!(guarded as u128 <= most, "{guarded} of at most {most}");
}

#[test]
fn one_allocation_in_the_time_is_guarded() {
    let test = "one_allocation_in_the_time_is_guarded";
    let others =
        ["", ",percpu=lock", ",engine=slab", ",engine=slob", ",init_on_alloc=on", ",quarantine=9", ",reaper=off"];
    for rest in others {
        run(test, &format!("guard={EVERY}ms{rest}"), || until_sampled(|| batch(1000)));
    }
}

/// A program that never takes a slow path has samples by the tick of the background thread.
#[test]
fn the_background_thread_opens_the_gate() {
    run("the_background_thread_opens_the_gate", "guard=1ms", || {
        batch(1);
        ashlar::start_reaper().expect("a thread");
        for _ in 0..3 {
            // Nothing is allocated here meanwhile.
            while malloc::has_fast_paths() {
                std::thread::sleep(core::time::Duration::from_millis(1));
            }
            while !malloc::has_fast_paths() {
                batch(1);
            }
        }
    });
}

#[test]
fn between_samples_the_fast_paths_are_open() {
    let test = "between_samples_the_fast_paths_are_open";
    run(test, "guard=3600000ms", || {
        for _ in 0..1000 {
            assert_eq!((batch(100), malloc::has_fast_paths()), (0, true));
        }
    });
    run(test, "guard=1000000", || {
        batch(1);
        assert!(!malloc::has_fast_paths(), "each call counts");
    });
}

/// Calls of a class that is not guarded shut the gate in the end, and leave samples to others.
#[test]
fn calls_that_are_not_guarded_pass_the_gate() {
    let test = "calls_that_are_not_guarded_pass_the_gate";
    run(test, "guard=1ms,cache.malloc-*.guard=off", || {
        let mut shut = 0;
        while shut < SAMPLES {
            while malloc::has_fast_paths() {
                assert_eq!(batch(1000), 0);
            }
            // The gate is open.
            while !malloc::has_fast_paths() {
                assert_eq!(batch(1), 0);
            }
            shut += 1;
        }
    });
    run(test, "guard=20ms,cache.malloc-*.guard=off,cache.malloc-112.guard=on", || {
        until_sampled(|| {
            // SAFETY: allocated here.
            (0..10).for_each(|_| unsafe { malloc::free(malloc::malloc(5000)) });
            batch(1000)
        });
    });
}

/// kmalloc and caches of the program share the gate with malloc.
#[test]
fn kmalloc_and_caches_are_sampled_where_that_is_asked_for() {
    let options = format!("guard={EVERY}ms,cache.kmalloc-*.guard=on,cache.conn.guard=on");
    run("kmalloc_and_caches_are_sampled_where_that_is_asked_for", &options, || {
        until_sampled(|| {
            let objects: Vec<_> = (0..1000).map(|_| ashlar::kmalloc(BYTES)).collect();
            // SAFETY: allocated here, and freed once.
            unsafe {
                let guarded = objects.iter().filter(|&&at| ashlar::ksize(at) == BYTES).count();
                objects.into_iter().for_each(|at| ashlar::kfree(at));
                guarded
            }
        });
        let cache = KmemCache::create("conn", BYTES, &CacheArgs::DEFAULT).expect("a cache");
        until_sampled(|| {
            let objects: Vec<_> = (0..1000).map(|_| cache.alloc().expect("memory")).collect();
            // SAFETY: allocated here, and freed once.
            unsafe {
                // Objects of caches lie below 64 TiB, and the pool elsewhere.
                let guarded = objects.iter().filter(|at| at.addr().get() > 64 << 40).count();
                objects.into_iter().for_each(|at| cache.free(at));
                guarded
            }
        });
        cache.destroy().expect("every object came back");
    });
}

#[test]
fn a_profile_runs_beside_the_gate() {
    run("a_profile_runs_beside_the_gate", &format!("guard={EVERY}ms"), || {
        for rate in [1 << 10, 1] {
            ashlar::profile::start(rate).expect("a profile");
            assert!(!malloc::has_fast_paths());
            until_sampled(|| batch(1000));
            ashlar::profile::stop();
            until_sampled(|| batch(1000));
            while !malloc::has_fast_paths() {
                batch(1);
            }
        }
    });
}

/// Threads meet at the gate: it lets one of them through.
#[test]
fn one_thread_goes_through_the_gate() {
    run("one_thread_goes_through_the_gate", &format!("guard={EVERY}ms"), || {
        until_sampled(|| {
            std::thread::scope(|scope| {
                let threads = [(); 4].map(|()| scope.spawn(|| batch(3000)));
                threads.into_iter().map(|thread| thread.join().expect("a thread that ends")).sum()
            })
        });
    });
}

/// The child of a fork has a gate of its own.
#[test]
fn the_child_of_a_fork_is_sampled() {
    run("the_child_of_a_fork_is_sampled", &format!("guard={EVERY}ms"), || {
        for _ in 0..5 {
            // SAFETY: the child uses the allocator alone, and ends.
            unsafe {
                let pid = libc::fork();
                if pid == 0 {
                    until_sampled(|| batch(1000));
                    libc::_exit(0);
                }
                let mut status = 1;
                assert_eq!((libc::waitpid(pid, &mut status, 0), status), (pid, 0));
            }
        }
    });
}
