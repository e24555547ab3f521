//! Forks while other threads are in all kinds of operations.
//!
//! The child has one thread and a copy of every lock. If a thread that does not exist in the child
//! held one, the child would wait for ever. A watchdog in the parent turns that into a failure.

mod common;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

use ashlar::{CacheArgs, KmemCache};
use common::{Rng, check, child, fill};

const WATCHDOG: Duration = Duration::from_secs(20);

/// The work of the other threads: everything that takes a lock.
fn busy(thread: u64, stop: &AtomicBool) {
    let mut rng = Rng::new(thread);
    while !stop.load(Ordering::Relaxed) {
        let live: Vec<(*mut u8, usize)> = (0..300)
            .map(|_| {
                let size = if rng.below(100) == 0 { 1 + rng.below(50 << 20) } else { 1 + rng.below(3000) };
                (ashlar::kmalloc(size), size)
            })
            .collect();
        // SAFETY: live, each freed once.
        live.into_iter().for_each(|(at, _)| unsafe { ashlar::kfree(at) });
        match thread {
            0 => drop(ashlar::reap()),
            1 => {
                let cache = KmemCache::create("fork-busy", 100, &CacheArgs::default()).expect("a cache");
                let object = cache.alloc().expect("memory");
                // SAFETY: live, freed once.
                unsafe { cache.free(object) };
                cache.destroy().map_err(|(_, e)| e).expect("empty");
            }
            _ => {}
        }
    }
}

/// Uses the inherited allocator in the child of a fork. Returns 0, or the number of the failed
/// step.
fn grandchild(inherited: &[(*mut u8, usize)]) -> i32 {
    for (i, &(at, size)) in inherited.iter().enumerate() {
        // SAFETY: live since before the fork; the child has its own copy, and frees it once.
        unsafe {
            check(at, size, size, i as u64);
            ashlar::kfree(at);
        }
    }
    let mut rng = Rng::new(5);
    let sizes: [usize; 400] = core::array::from_fn(|i| if i == 7 { 34 << 20 } else { 1 + rng.below(20_000) });
    let live = sizes.map(|size| ashlar::kmalloc(size));
    for (at, size) in live.into_iter().zip(sizes) {
        if at.is_null() {
            return 2;
        }
        // SAFETY: memory that was just allocated.
        unsafe { fill(at, size, at as u64) };
    }
    for (at, size) in live.into_iter().zip(sizes) {
        // SAFETY: live, freed once.
        unsafe {
            check(at, size, size, at as u64);
            ashlar::kfree(at);
        }
    }
    let Ok(cache) = KmemCache::create("fork-child", 64, &CacheArgs::default()) else { return 3 };
    let mut objects = [core::ptr::null_mut(); 1000];
    if !cache.alloc_bulk(&mut objects) {
        return 4;
    }
    objects[..500].iter().filter_map(|&object| NonNull::new(object)).for_each(|object| {
        // SAFETY: live, freed once.
        unsafe { cache.free(object) };
    });
    // SAFETY: live, freed once.
    unsafe { cache.free_bulk(&objects[500..]) };
    ashlar::reap();
    if cache.destroy().is_err() { 5 } else { 0 }
}

/// Waits for a process and returns its status. Kills it and panics after `WATCHDOG`.
fn wait(pid: libc::pid_t) -> i32 {
    let start = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: the status is writable; the process is a child of ours.
        let done = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
        if done == pid {
            return status;
        }
        if start.elapsed() > WATCHDOG {
            // SAFETY: the process is a child of ours that was not waited for yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            panic!("the child of a fork hangs");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn forks(count: usize) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let stop = &stop;
            scope.spawn(move || busy(thread, stop));
        }
        let outcome = std::panic::catch_unwind(|| {
            for round in 0..count {
                let live: Vec<(*mut u8, usize)> =
                    (0..50).map(|i| (i * 53 + round) % 5000 + 1).map(|size| (ashlar::kmalloc(size), size)).collect();
                for (i, &(at, size)) in live.iter().enumerate() {
                    // SAFETY: memory that was just allocated.
                    unsafe { fill(at, size, i as u64) };
                }
                // Forks in turn by the C library, which runs handlers registered at load, and by
                // the bare system call.
                let bare = round % 2 == 1;
                if bare {
                    ashlar::fork::prepare();
                }
                // SAFETY: the child only runs `grandchild`, which takes no lock but the
                // allocator's, and ends.
                let pid = unsafe {
                    if bare {
                        libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t
                    } else {
                        libc::fork()
                    }
                };
                if pid == 0 {
                    // SAFETY: `prepare` was called above, by the thread that forked; `_exit` ends
                    // the child.
                    unsafe {
                        if bare {
                            ashlar::fork::after_in_child();
                        }
                        libc::_exit(grandchild(&live));
                    }
                }
                if bare {
                    // SAFETY: `prepare` was called above.
                    unsafe { ashlar::fork::after_in_parent() };
                }
                assert!(pid > 0, "fork failed");
                assert_eq!(wait(pid), 0, "wait status of child {round}");
                for (i, (at, size)) in live.into_iter().enumerate() {
                    // SAFETY: the child freed its own copy; ours is live, and freed once.
                    unsafe {
                        check(at, size, size, i as u64);
                        ashlar::kfree(at);
                    }
                }
            }
        });
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    ashlar::for_each_cache(|cache| assert_eq!(cache.usage.live, 0, "objects of {} were lost", cache.name()));
}

macro_rules! in_modes {
    ($($name:ident: $count:literal forks, $env:expr;)*) => {
        $(#[test] fn $name() {
            let child = child(stringify!($name), stringify!($name), &$env, || forks($count));
            child.expect("the parent").succeeded();
        })*
    };
}

in_modes! {
    children_of_busy_parents_live: 200 forks, [];
    with_own_registration: 40 forks, [("GLIBC_TUNABLES", "glibc.pthread.rseq=0"), ("ASHLAR_OPTIONS", "percpu=rseq")];
    with_locks: 80 forks, [("ASHLAR_OPTIONS", "percpu=lock")];
    with_four_nodes: 40 forks, [("ASHLAR_OPTIONS", "nodes=4")];
}

/// Engines have further locks: a lock of each CPU in every mode, and slab_lock.
#[test]
fn with_every_engine() {
    for engine in ashlar::Engine::ALL {
        for rest in ["", ",percpu=lock", ",nodes=4", ",irq=biased"] {
            let options = format!("engine={}{rest}", engine.id());
            if let Some(child) = child("with_every_engine", &options, &[("ASHLAR_OPTIONS", &options)], || forks(15)) {
                child.succeeded();
            }
        }
    }
}

/// The child has no background thread. It must be able to start one, which returns its memory.
#[test]
fn the_background_thread_may_be_started_again_in_the_child() {
    let test = "the_background_thread_may_be_started_again_in_the_child";
    let child = child(test, test, &[], || {
        let burst = || {
            let at = ashlar::kmalloc(20 << 20);
            // SAFETY: fresh, freed once.
            unsafe {
                at.write_bytes(1, 20 << 20);
                ashlar::kfree(at);
            }
        };
        ashlar::start_reaper().expect("a thread");
        burst();
        ashlar::fork::prepare();
        // SAFETY: the child runs the code below, which takes no lock but the allocator's, and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: `prepare` was called above, by the thread that forked.
            unsafe { ashlar::fork::after_in_child() };
            if ashlar::start_reaper().is_err() {
                // SAFETY: ends the child.
                unsafe { libc::_exit(2) };
            }
            burst();
            let full = common::statm(1);
            // Waits for the fall itself, because a fixed sleep could be too short on a busy
            // machine.
            let start = Instant::now();
            while common::statm(1) + (15 << 20) > full {
                if start.elapsed() > WATCHDOG {
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(1) };
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: `prepare` was called above.
        unsafe { ashlar::fork::after_in_parent() };
        assert_eq!(wait(pid), 0, "wait status of the child; 256 if its memory does not fall");
    });
    child.expect("the parent").succeeded();
}
