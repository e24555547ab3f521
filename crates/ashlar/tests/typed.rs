//! `Cache<T>`: values of one type, constructed objects, and the end of a cache. Each case runs in a child for every
//! engine, by rseq where that is to be had and by locks.

mod common;

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
