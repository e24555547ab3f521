//! `Cache<T>`: values of one type, constructed objects, and the end of a cache. Each case runs in a child for every
//! engine, by rseq where that is to be had and by locks.

mod common;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::os::unix::process::ExitStatusExt;
use std::sync::OnceLock;

use ashlar::{Cache, Constructed, Engine};
use common::{Child, child};

/// Runs `body` in a child for every engine, protected either way, and hands what became of it to `judge`.
fn each(test: &str, body: fn(), judge: impl Fn(Child)) {
    for engine in Engine::ALL {
        for percpu in ["auto", "lock"] {
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
