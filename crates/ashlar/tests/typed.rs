//! `Cache<T>`: values of one type, constructed objects, and the end of a cache. Each case runs in a
//! child for every engine, by rseq where that is to be had and by locks.

mod common;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Barrier, OnceLock};

use ashlar::{Cache, CacheArgs, Constructed, Engine, MAX_CACHES};
use common::{Child, child};

/// Runs `body` in a child for every engine, protected either way, and hands what became of it to
/// `judge`.
fn each(test: &str, body: fn(), judge: impl Fn(Child)) {
    for engine in Engine::ALL {
        for percpu in ["auto", "auto,nodes=4", "lock"] {
            let options = format!("engine={},percpu={percpu}", engine.id());
            if let Some(child) = child(test, &options, &[("ASHLAR_OPTIONS", &options)], body) {
                judge(child);
            }
        }
    }
}

/// What is to succeed and to report nothing.
fn quiet(child: Child) {
    assert_eq!(child.succeeded().stderr, "");
}

/// A type whose `construct` does everything that it may.
struct Busy {
    number: u64,
    text: [u8; 40],
}

static BUSY: OnceLock<Cache<Busy>> = OnceLock::new();
static CONSTRUCTED: AtomicUsize = AtomicUsize::new(0);

impl Constructed for Busy {
    fn construct() -> Self {
        // The first three build on another object of the same cache.
        if CONSTRUCTED.fetch_add(1, Ordering::Relaxed) < 3 {
            let cache = BUSY.get().expect("the cache was made before");
            let other = cache.get().expect("memory");
            assert_eq!((other.number, other.text), (7, [9; 40]));
            // Caches that begin and end meanwhile, kmalloc, and the reaper.
            let strings = Cache::<String>::new("strings").expect("a cache");
            drop(strings.alloc("text".repeat(1000)).expect("memory"));
            drop(strings);
            let memory = ashlar::kmalloc(5000);
            // SAFETY: allocated just above, and not used again.
            unsafe { ashlar::kfree(memory) };
            ashlar::reap();
        }
        Busy { number: 7, text: [9; 40] }
    }
}

#[test]
fn construct_may_use_the_allocator_and_its_own_cache() {
    let body = || {
        BUSY.set(Cache::constructed("busy").expect("a cache")).unwrap_or_else(|_| panic!("only this sets it"));
        let cache = BUSY.get().expect("set");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let boxes: Vec<_> = (0..300).map(|_| cache.get().expect("memory")).collect();
                        assert!(boxes.iter().all(|b| b.number == 7 && b.text == [9; 40]));
                    }
                });
            }
        });
        assert_eq!(cache.info().usage.live, 0);
    };
    each("construct_may_use_the_allocator_and_its_own_cache", body, quiet);
}

struct Endless(u64);

static ENDLESS: OnceLock<Cache<Endless>> = OnceLock::new();

impl Constructed for Endless {
    fn construct() -> Self {
        Endless(ENDLESS.get().expect("made before").get().expect("memory").0)
    }
}

#[test]
fn construct_without_end_is_reported() {
    let body = || {
        ENDLESS.set(Cache::constructed("endless").expect("a cache")).unwrap_or_else(|_| panic!("only this sets it"));
        // A thread of the usual size.
        let got = std::thread::spawn(|| ENDLESS.get().expect("set").get().is_ok()).join();
        panic!("it came to an end: {got:?}");
    };
    each("construct_without_end_is_reported", body, |child| {
        let line = "ashlar: construct() of typed::Endless calls itself without end, through its own cache\n";
        assert_eq!((child.stderr.as_str(), child.status.signal()), (line, Some(libc::SIGABRT)));
    });
}

/// Says that it panics when it drops.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        // Quietly: the panic hook has nothing to say.
        std::panic::resume_unwind(Box::new("bang"));
    }
}

#[test]
fn a_panic_in_drop_loses_no_memory() {
    let body = || {
        let cache = Cache::<(Bomb, [u64; 9])>::new("bombs").expect("a cache");
        for _ in 0..1000 {
            let bomb = cache.alloc((Bomb, [1; 9])).unwrap_or_else(|_| panic!("memory"));
            assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| drop(bomb))).is_err());
        }
        assert_eq!(cache.info().usage.live, 0);
    };
    each("a_panic_in_drop_loses_no_memory", body, quiet);
}

#[test]
fn objects_keep_what_was_left_in_them() {
    struct Counter(u64);
    impl Constructed for Counter {
        fn construct() -> Self {
            Counter(1000)
        }
    }
    let body = || {
        let cache = Cache::<Counter>::constructed("counters").expect("a cache");
        let mut most = 0;
        for _ in 0..10_000 {
            let mut counter = cache.get().expect("memory");
            assert!((1000..1000 + 10_000).contains(&counter.0));
            counter.0 += 1;
            most = most.max(counter.0);
        }
        // One object, again and again, but for engines that construct at each allocation.
        let engine = cache.as_raw().engine().id();
        assert_eq!(most > 1001, !engine.starts_with("slob"), "{most}");
    };
    each("objects_keep_what_was_left_in_them", body, quiet);
}

/// Names of the caches that the program has.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    ashlar::for_each_cache(|info| names.push(info.name().to_string()));
    ashlar::for_each_alias(|info| names.push(info.name().to_string()));
    names.sort();
    names
}

struct Twenty([u64; 20]);

impl Constructed for Twenty {
    fn construct() -> Self {
        Twenty([20; 20])
    }
}

#[test]
fn caches_that_drop_are_gone() {
    const ROUNDS: usize = 10_000;
    const { assert!(ROUNDS > 2 * MAX_CACHES) };
    let body = || {
        let alone = CacheArgs { no_merge: true, ..CacheArgs::default() };
        let mut after_warm_up = (Vec::new(), 0, 0);
        for round in 0..ROUNDS {
            let name = format!("round-{round}");
            if round % 2 == 0 {
                let cache = Cache::<[u64; 20]>::with_args(&name, &alone).expect("a cache");
                let boxes: Vec<_> = (0..50).map(|i| cache.alloc([i; 20]).expect("memory")).collect();
                assert!(boxes.iter().enumerate().all(|(i, b)| **b == [i as u64; 20]));
            } else {
                let cache = Cache::<Twenty>::constructed(&name).expect("a cache");
                let boxes: Vec<_> = (0..50).map(|_| cache.get().expect("memory")).collect();
                assert!(boxes.iter().all(|b| b.0 == [20; 20]));
            }
            // What is there after a while is all that there ever is.
            if round == 100 {
                after_warm_up = (names(), ashlar::metadata_bytes(), pages());
            }
        }
        let (names_then, metadata, pages_then) = after_warm_up;
        assert_eq!(names(), names_then);
        assert!(!names_then.iter().any(|name| name.starts_with("round-")));
        assert!(ashlar::metadata_bytes() <= metadata + (64 << 10), "{metadata} to {}", ashlar::metadata_bytes());
        assert!(pages() <= pages_then + 64, "{pages_then} to {}", pages());
    };
    each("caches_that_drop_are_gone", body, quiet);
}

/// Pages of the zone that are in use.
fn pages() -> usize {
    let stats = ashlar::zone_stats();
    stats.committed - stats.free
}

#[test]
fn the_last_of_several_threads_ends_the_cache() {
    let body = || {
        for round in 0..200 {
            let cache = Arc::new(Cache::<Twenty>::constructed("shared").expect("a cache"));
            let start = Arc::new(Barrier::new(4));
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let (cache, start) = (cache.clone(), start.clone());
                    std::thread::spawn(move || {
                        let boxes: Vec<_> = (0..100).map(|_| cache.get().expect("memory")).collect();
                        start.wait();
                        // The handle of the main thread drops about now, with boxes in use here.
                        if round % 3 == thread {
                            std::thread::yield_now();
                        }
                        assert!(boxes.iter().all(|b| b.0 == [20; 20]));
                    })
                })
                .collect();
            start.wait();
            drop(cache);
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            assert!(!names().contains(&"shared".to_string()), "round {round}");
        }
    };
    each("the_last_of_several_threads_ends_the_cache", body, quiet);
}

#[test]
fn boxes_move_between_threads_and_go_back_from_there() {
    let body = || {
        let cache = Cache::<Vec<u64>>::new("moved").expect("a cache");
        std::thread::scope(|scope| {
            let (into, out) = std::sync::mpsc::sync_channel(100);
            let cache = &cache;
            scope.spawn(move || {
                for i in 0..10_000 {
                    into.send(cache.alloc(vec![i; 3]).expect("memory")).expect("a receiver");
                }
            });
            scope.spawn(move || out.iter().enumerate().for_each(|(i, b)| assert_eq!(**b, [i as u64; 3])));
        });
        drop(cache);
        assert!(!names().contains(&"moved".to_string()));
    };
    each("boxes_move_between_threads_and_go_back_from_there", body, quiet);
}

#[test]
fn a_forgotten_box_keeps_the_cache() {
    let body = || {
        let args = CacheArgs { no_merge: true, ..CacheArgs::default() };
        let cache = Cache::<[u64; 20]>::with_args("kept", &args).expect("a cache");
        let raw = cache.alloc([5; 20]).expect("memory").into_raw();
        core::mem::forget(cache.alloc([6; 20]).expect("memory"));
        drop(cache);
        // SAFETY: the object was never given back, and so its cache stays.
        assert_eq!(unsafe { raw.read() }, [5; 20]);
        assert!(names().contains(&"kept".to_string()));
    };
    each("a_forgotten_box_keeps_the_cache", body, |child| {
        let line = "ashlar: cache kept: destroyed while 2 objects are in use: it stays\n";
        assert_eq!(child.succeeded().stderr, line);
    });
}

#[test]
fn merged_caches_end_one_by_one() {
    let body = || {
        let [one, two] = ["merged-one", "merged-two"].map(|name| Cache::<[u32; 33]>::new(name).expect("a cache"));
        let kept = two.alloc([2; 33]).expect("memory");
        drop(one);
        assert_eq!(*kept, [2; 33]);
        assert!(names().iter().any(|name| name.starts_with("merged-two")));
        drop(kept);
        drop(two);
        assert!(!names().iter().any(|name| name.starts_with("merged-")));
    };
    each("merged_caches_end_one_by_one", body, quiet);
}

#[test]
fn a_cache_may_die_after_what_its_values_borrowed() {
    let cache = Cache::<&str>::new("borrows").expect("a cache");
    let text = String::from("declared after the cache, so it drops first");
    let borrow = cache.alloc(&text).expect("memory");
    assert_eq!(borrow.len(), text.len());
}
