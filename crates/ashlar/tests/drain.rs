//! Drains of other CPUs' sheaves: by membarrier, by affinity if membarrier is refused, and an error
//! if both are refused.

mod common;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use ashlar::{CacheArgs, DestroyError, KmemCache};
use common::{child, conformance, cpus, pin, tell};

fn cache(name: &str) -> KmemCache {
    KmemCache::create(name, 64, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache")
}

/// Leaves free objects in the sheaves of every CPU.
fn warm_every_cpu(cache: &KmemCache) {
    std::thread::scope(|scope| {
        for cpu in cpus() {
            scope.spawn(move || {
                assert!(pin(cpu));
                // 100 objects leave the sheaf about half full.
                let objects: Vec<_> = (0..100).map(|_| cache.alloc().expect("memory")).collect();
                // SAFETY: live, each freed once.
                objects.into_iter().for_each(|object| unsafe { cache.free(object) });
            });
        }
    });
    let usage = cache.info().usage;
    assert!(usage.cached >= 100, "nothing is cached: {usage:?}");
    assert_eq!(usage.live, 0);
}

/// Makes system calls of this thread and its children fail with EPERM, as a container's filter may
/// do.
fn refuse(calls: &[libc::c_long]) {
    let op = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    // Loads the number of the system call, the first word of seccomp_data.
    let mut filter = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (i, &call) in calls.iter().enumerate() {
        let to_refusal = (calls.len() - i) as u8;
        filter.push(op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, to_refusal, 0));
    }
    filter.push(op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    filter.push(op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both calls take integers and one program that is alive for the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

#[test]
fn shrink_and_destroy_reach_the_sheaves_of_all_cpus() {
    let cache = cache("drain-all");
    warm_every_cpu(&cache);
    assert!(cache.shrink());
    assert_eq!(cache.info().usage, ashlar::Usage::default());
    warm_every_cpu(&cache);
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

#[test]
fn without_membarrier_the_drain_visits_each_cpu() {
    let test = "without_membarrier_the_drain_visits_each_cpu";
    let child = child(test, test, &[], || {
        let cache = cache("drain-visit");
        let before = cpus();
        warm_every_cpu(&cache);
        ashlar::testing::fail_fence(true);
        assert!(cache.shrink());
        assert_eq!(cache.info().usage.cached, 0);
        assert_eq!(cpus(), before, "the affinity of the thread was changed for good");
        warm_every_cpu(&cache);
        cache.destroy().map_err(|(_, e)| e).expect("empty");
        conformance::run();
    });
    child.expect("the parent").succeeded();
}

#[test]
fn drains_by_either_way_lose_nothing_of_busy_threads() {
    let test = "drains_by_either_way_lose_nothing_of_busy_threads";
    let child = child(test, test, &[], || {
        for fail in [false, true] {
            ashlar::testing::fail_fence(fail);
            let cache = cache("drain-busy");
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for thread in 0..4u64 {
                    let (cache, stop) = (&cache, &stop);
                    scope.spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            let objects: Vec<_> = (0..70).map(|_| cache.alloc().expect("memory")).collect();
                            for object in &objects {
                                // SAFETY: 64 bytes that this thread allocated.
                                unsafe { common::fill(object.as_ptr(), 64, thread) };
                            }
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
                for _ in 0..1000 {
                    cache.shrink();
                }
                stop.store(true, Ordering::Relaxed);
            });
            assert_eq!(cache.info().usage.live, 0);
            cache.destroy().map_err(|(_, e)| e).expect("empty");
        }
    });
    child.expect("the parent").succeeded();
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn where_everything_is_refused_destroy_says_so_and_the_cache_lives() {
    if cpus().len() < 2 {
        return; // There is no other CPU whose sheaves could be out of reach.
    }
    let test = "where_everything_is_refused_destroy_says_so_and_the_cache_lives";
    let child = child(test, test, &[("ASHLAR_OPTIONS", "reaper=off")], || {
        let cpus = cpus();
        let cache = cache("drain-refused");
        warm_every_cpu(&cache);
        assert!(pin(cpus[0]));
        refuse(&[libc::SYS_membarrier, libc::SYS_sched_setaffinity]);
        let (cache, error) = cache.destroy().expect_err("sheaves of another CPU cannot be reached");
        assert_eq!(error, DestroyError::CannotDrain);
        assert_eq!(cache.info().usage.live, 0);
        let object = cache.alloc().expect("the cache still works");
        assert_eq!(cache.info().usage.live, 1);
        // SAFETY: live, freed once.
        unsafe { cache.free(object) };
        assert!(!cache.shrink());
    });
    child.expect("the parent").succeeded();
}

#[test]
fn where_membarrier_is_refused_from_the_start_locks_are_used() {
    let test = "where_membarrier_is_refused_from_the_start_locks_are_used";
    let child = child(test, test, &[], || {
        refuse(&[libc::SYS_membarrier]);
        tell("mode", ashlar::mode());
        conformance::run();
    });
    assert_eq!(child.expect("the parent").succeeded().told("mode"), "lock");
}

#[test]
fn where_rseq_is_refused_locks_are_used() {
    let test = "where_rseq_is_refused_locks_are_used";
    let child =
        child(test, test, &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0"), ("ASHLAR_OPTIONS", "percpu=rseq")], || {
            refuse(&[libc::SYS_rseq]);
            tell("mode", ashlar::mode());
            conformance::run();
        });
    assert_eq!(child.expect("the parent").succeeded().told("mode"), "lock");
}

#[test]
fn a_cpu_beyond_the_reserved_areas_works_without_sheaves() {
    let test = "a_cpu_beyond_the_reserved_areas_works_without_sheaves";
    let child = child(test, test, &[], || {
        tell("mode", ashlar::mode());
        for limit in [1, 0] {
            ashlar::testing::limit_cpus(limit);
            let cache = cache("drain-beyond");
            for cpu in cpus() {
                assert!(pin(cpu));
                let objects: Vec<_> = (0..1000).map(|_| cache.alloc().expect("memory")).collect();
                // SAFETY: live, each freed once.
                objects.into_iter().for_each(|object| unsafe { cache.free(object) });
                let mut bulk = [core::ptr::null_mut(); 300];
                assert!(cache.alloc_bulk(&mut bulk));
                assert_eq!(cache.info().usage.live, 300);
                // SAFETY: live, each freed once.
                unsafe { cache.free_bulk(&bulk) };
                if cpu >= limit as usize && ashlar::mode() == ashlar::Mode::Rseq {
                    assert_eq!(ashlar::testing::cpu_pop(&cache), core::ptr::null_mut());
                }
            }
            assert!(cache.shrink());
            cache.destroy().map_err(|(_, e)| e).expect("empty");
            conformance::run();
        }
    });
    child.expect("the parent").succeeded();
}

#[test]
fn the_reaper_never_makes_a_cache_look_used() {
    // While the reaper holds a sheaf, its objects are neither in a CPU's sheaf nor in their slabs.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                ashlar::reap();
            }
        });
        let outcome = std::panic::catch_unwind(|| {
            for _ in 0..300 {
                let cache = cache("drain-reaped");
                let mut objects = [core::ptr::null_mut(); 700];
                assert!(cache.alloc_bulk(&mut objects));
                for object in objects.into_iter().filter_map(NonNull::new) {
                    // SAFETY: live, freed once.
                    unsafe { cache.free(object) };
                }
                for _ in 0..50 {
                    assert_eq!(cache.info().usage.live, 0, "a count while the reaper is at work");
                }
                cache.destroy().map_err(|(_, e)| e).expect("an empty cache is destroyed");
            }
        });
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}
