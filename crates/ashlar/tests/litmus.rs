//! Order of memory accesses: one test for each row of the table in docs/aarch64.md that the library
//! keeps by itself. Threads on several CPUs do what needs the order, and each object carries words
//! that a stale read would show. A processor that keeps stores in order can fail none of them, so
//! they say most on aarch64. `ASHLAR_LITMUS_ROUNDS` sets how often each is tried (20).

mod common;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::Barrier;
use std::thread;

use ashlar::{CacheArgs, KmemCache, kfree, kmalloc, malloc};
use common::{child, cpus, pin};

const THREADS: usize = 4;

fn rounds() -> usize {
    std::env::var("ASHLAR_LITMUS_ROUNDS").map_or(20, |rounds| rounds.parse().expect("a number"))
}

fn live(object: *mut u8) -> NonNull<u8> {
    NonNull::new(object).expect("memory")
}

/// Writes words into an object that no other object of the same owner and number has.
fn mark(object: NonNull<u8>, bytes: usize, seal: usize) {
    for word in 0..bytes / 8 {
        // SAFETY: the object is the caller's, and has `bytes` bytes.
        unsafe { object.cast::<usize>().add(word).write_volatile(seal ^ word) };
    }
}

fn check(object: NonNull<u8>, bytes: usize, seal: usize) {
    for word in 0..bytes / 8 {
        // SAFETY: as in `mark`.
        let found = unsafe { object.cast::<usize>().add(word).read_volatile() };
        assert_eq!(found, seal ^ word, "word {word} of an object of {bytes} bytes");
    }
}

/// Runs `work` on [`THREADS`] threads, on all CPUs, from one moment on.
fn together(work: impl Fn(usize) + Sync) {
    let (start, cpus) = (Barrier::new(THREADS), cpus());
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (start, cpus, work) = (&start, &cpus, &work);
            scope.spawn(move || {
                assert!(pin(cpus[number % cpus.len()]));
                start.wait();
                work(number);
            });
        }
    });
}

/// What start-up writes before it opens the fast paths; and the caches of size classes, each made
/// by the first thread that needs it. Each round is a process of its own.
#[test]
fn first_calls_of_several_threads_see_what_start_up_wrote() {
    let test = "first_calls_of_several_threads_see_what_start_up_wrote";
    for _ in 0..rounds() {
        let child = child(test, test, &[], || {
            together(|number| {
                let sizes = || (0..60usize).map(|at| 8 << (at % 11)).map(|size: usize| size.max(16));
                let objects: Vec<_> = sizes()
                    .enumerate()
                    .map(|(at, size)| {
                        let object = live(if at % 2 == 0 { malloc::malloc(size) } else { kmalloc(size) });
                        mark(object, size, number << 32 | at);
                        (object, size)
                    })
                    .collect();
                for (at, (object, size)) in objects.into_iter().enumerate() {
                    check(object, size, number << 32 | at);
                    // SAFETY: live, and freed once, by the family that allocated it.
                    unsafe { if at % 2 == 0 { malloc::free(object.as_ptr()) } else { kfree(object.as_ptr()) } }
                }
            });
        });
        let Some(child) = child else { return };
        child.succeeded();
    }
}

/// Passes objects around a ring of threads, by a store with release and nothing else.
fn ring(count: usize, bytes: usize, alloc: impl Fn() -> NonNull<u8> + Sync, free: impl Fn(NonNull<u8>) + Sync) {
    let places: [AtomicPtr<u8>; THREADS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; THREADS];
    let done = AtomicUsize::new(0);
    together(|number| {
        let (mine, next) = (&places[number], &places[(number + 1) % THREADS]);
        let before = (number + THREADS - 1) % THREADS;
        let (mut sent, mut received) = (0, 0);
        while sent < count || received < count {
            if sent < count && next.load(Ordering::Relaxed).is_null() {
                let object = alloc();
                mark(object, bytes, number << 32 | sent);
                next.store(object.as_ptr(), Ordering::Release);
                sent += 1;
            }
            if let Some(object) = NonNull::new(mine.load(Ordering::Acquire)) {
                mine.store(core::ptr::null_mut(), Ordering::Relaxed);
                check(object, bytes, before << 32 | received);
                free(object);
                received += 1;
            } else {
                thread::yield_now();
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(done.into_inner(), THREADS);
}

/// An object that one thread allocates and another frees; full and empty sheaves that go from one
/// CPU to another by barns.
#[test]
fn objects_that_others_free_come_back_whole() {
    let cache = KmemCache::create("litmus-ring", 64, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
    let count = rounds() * 500;
    // SAFETY: live, and freed once.
    ring(count, 64, || cache.alloc().expect("memory"), |object| unsafe { cache.free(object) });
    ring(
        count,
        48,
        || live(malloc::malloc(48)),
        // SAFETY: as above.
        |object| unsafe { malloc::free(object.as_ptr()) },
    );
    assert_eq!(cache.info().usage.live, 0);
    cache.destroy().map_err(|(_, error)| error).expect("empty");
}

/// Tables that grow: an object of a new block is freed by a thread that last saw the bound of the
/// tables before that block.
#[test]
fn objects_of_new_blocks_are_known_to_the_thread_that_frees_them() {
    let count = rounds() * 20;
    ring(
        count,
        20_000,
        || live(malloc::malloc(20_000)),
        // SAFETY: live, and freed once.
        |object| unsafe { malloc::free(object.as_ptr()) },
    );
    // What stays allocated makes the zone grow meanwhile.
    let kept: Vec<_> = (0..rounds() * 10)
        .map(|_| {
            let large = live(kmalloc(1 << 20));
            ring(
                2,
                1000,
                || live(kmalloc(1000)),
                // SAFETY: live, and freed once.
                |object| unsafe { kfree(object.as_ptr()) },
            );
            large
        })
        .collect();
    // SAFETY: live, and freed once.
    kept.into_iter().for_each(|large| unsafe { kfree(large.as_ptr()) });
}

/// The gate: a drain reads the slots of CPUs whose sections it has stopped, and no object is on two
/// CPUs afterwards.
#[test]
fn drains_beside_sections_hand_out_no_object_twice() {
    let cache = KmemCache::create("litmus-drain", 128, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
    let running = AtomicBool::new(true);
    let drains = rounds() * 10;
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..drains {
                cache.shrink();
                thread::yield_now();
            }
            running.store(false, Ordering::Relaxed);
        });
        together(|number| {
            let mut turn = 0;
            while running.load(Ordering::Relaxed) || turn == 0 {
                let objects: Vec<_> = (0..20)
                    .map(|at| {
                        let object = cache.alloc().expect("memory");
                        mark(object, 128, number << 48 | turn << 8 | at);
                        object
                    })
                    .collect();
                for (at, object) in objects.into_iter().enumerate() {
                    check(object, 128, number << 48 | turn << 8 | at);
                    // SAFETY: live, and freed once.
                    unsafe { cache.free(object) };
                }
                turn += 1;
            }
        });
    });
    assert_eq!(cache.info().usage.live, 0);
    assert!(cache.shrink());
    cache.destroy().map_err(|(_, error)| error).expect("empty");
}
