//! The engines `slub-2010` and `slub-2010-ll` from near: what they take locks for, and what becomes
//! of emptied slabs.

mod common;

use core::ptr::NonNull;
use std::sync::{Arc, Barrier, mpsc};

use ashlar::{CacheArgs, Counts, Engine, KmemCache};
use common::{Rng, check, child, cpus, fill, pin};
use proptest::prelude::*;

const ENGINES: [&str; 2] = ["slub-2010", "slub-2010-ll"];
/// Objects of 64 bytes in a slab, which is one page.
const OBJECTS: usize = 64;

fn cache_of(engine: &str, size: usize) -> KmemCache {
    let args = CacheArgs::DEFAULT.engine(Engine::from_id(engine).expect("an id")).no_merge(true);
    KmemCache::create("near", size, &args).expect("a cache")
}

fn alloc(cache: &KmemCache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().expect("memory")).collect()
}

fn free(cache: &KmemCache, objects: &[NonNull<u8>]) {
    // SAFETY: live, each freed once: the callers pass each once.
    objects.iter().for_each(|&object| unsafe { cache.free(object) });
}

fn end(cache: KmemCache) {
    cache.destroy().map_err(|(_, error)| error).expect("empty");
}

/// Runs `body` in a child process for each engine and mode, with its engine.
fn each(test: &str, body: fn(&str)) {
    for engine in ENGINES {
        for mode in ["rseq", "lock"] {
            let options = format!("reaper=off,percpu={mode},min_objects=20,min_partial=0");
            let outcome = child(test, &format!("{test} {engine} {mode}"), &[("ASHLAR_OPTIONS", &options)], || {
                pin(cpus()[0]);
                body(engine);
            });
            if let Some(outcome) = outcome {
                outcome.succeeded();
            }
        }
    }
}

/// The CPU locks, slab_locks and list_locks that `work` takes.
fn locks(cache: &KmemCache, work: impl FnOnce()) -> [u64; 3] {
    let of = |counts: Counts| [counts.cpu_locks, counts.slab_locks, counts.list_locks];
    // To read the figures takes list_locks, too.
    let [first, before] = [of(cache.info().counts), of(cache.info().counts)];
    work();
    let after = of(cache.info().counts);
    core::array::from_fn(|at| after[at] + first[at] - 2 * before[at])
}

/// Before, each free takes the CPU lock, and slab_lock if it goes to another slab. After, only the
/// frees that list a slab and that empty one take any lock.
#[test]
fn frees_to_other_slabs_take_the_locks_of_their_kernel() {
    each("frees_to_other_slabs_take_the_locks_of_their_kernel", |engine| {
        let cache = cache_of(engine, 64);
        let objects = alloc(&cache, 3 * OBJECTS);
        let partly = engine == "slub-2010-ll";
        let full = locks(&cache, || free(&cache, &objects[..1]));
        assert_eq!(full, [1, 1, 1], "{engine}: the first free lists the slab");
        let rest = locks(&cache, || free(&cache, &objects[1..OBJECTS - 1]));
        let frees = OBJECTS as u64 - 2;
        assert_eq!(rest, if partly { [0; 3] } else { [frees, frees, 0] }, "{engine}");
        let slabs = cache.info().usage.slabs;
        let last = locks(&cache, || free(&cache, &objects[OBJECTS - 1..OBJECTS]));
        assert_eq!(last, [1, 1, 1], "{engine}: the last free takes it off the list");
        assert_eq!(cache.info().usage.slabs, slabs - 1, "{engine}: emptied slabs go back at once");
        free(&cache, &objects[OBJECTS..]);
        end(cache);
    });
}

/// One CPU lock for the whole of a slow allocation, slab_lock for the slab that is used up and for
/// the next one. A new slab is made with interrupts on.
#[test]
fn slow_allocations_take_the_locks_of_their_kernel() {
    each("slow_allocations_take_the_locks_of_their_kernel", |engine| {
        let cache = cache_of(engine, 64);
        let mut objects = alloc(&cache, 3 * OBJECTS);
        // With interrupts off around every operation the fast path is a part of the same hold.
        let made = locks(&cache, || objects.push(cache.alloc().expect("memory")));
        assert_eq!(made[0], if engine == "slub-2010" { 3 } else { 2 }, "{engine}: {made:?}");
        assert_eq!(made[2], 0, "{engine}: a list without slabs is looked at without its lock");
        free(&cache, &objects[..1]);
        objects.extend(alloc(&cache, OBJECTS - 1));
        let taken = locks(&cache, || objects[0] = cache.alloc().expect("memory"));
        assert_eq!(taken, [1, 2, 1], "{engine}: a partial slab");
        free(&cache, &objects);
        end(cache);
    });
}

/// `get_partial_node` looks at the number of partial slabs before it takes list_lock.
#[test]
fn a_list_without_slabs_is_not_locked_by_any_slub() {
    let test = "a_list_without_slabs_is_not_locked_by_any_slub";
    let outcome = child(test, test, &[("ASHLAR_OPTIONS", "reaper=off,min_partial=0")], || {
        for engine in ["slub", "slub-emu", "slub+", "slub-o", "slub-2010", "slub-2010-ll", "slub-ll", "slub-bulk"] {
            let cache = cache_of(engine, 64);
            let mut objects = Vec::new();
            let made = locks(&cache, || objects = alloc(&cache, 20 * OBJECTS));
            assert_eq!(made[2], 0, "{engine}: twenty new slabs");
            free(&cache, &objects);
            end(cache);
        }
    });
    if let Some(outcome) = outcome {
        outcome.succeeded();
    }
}

#[test]
fn nodes_keep_as_many_empty_slabs_as_in_2010() {
    let test = "nodes_keep_as_many_empty_slabs_as_in_2010";
    let outcome = child(test, test, &[("ASHLAR_OPTIONS", "reaper=off")], || {
        for engine in ENGINES {
            for (size, kept) in [(8, 5), (64, 6), (256, 8), (1024, 10), (8192, 10)] {
                let cache = cache_of(engine, size);
                assert_eq!(cache.info().min_partial, kept, "{engine}, {size} bytes");
                end(cache);
            }
        }
    });
    if let Some(outcome) = outcome {
        outcome.succeeded();
    }
}

/// Threads free each other's objects, so slabs become partial and empty by several threads at once.
/// An emptied slab may be missed, because the count of its objects is racy, but not for ever, and
/// no object is in two hands.
#[test]
fn frees_of_many_threads_lose_and_double_nothing() {
    each("frees_of_many_threads_lose_and_double_nothing", |engine| {
        const THREADS: usize = 4;
        const ROUNDS: u64 = 3000;
        let cache = Arc::new(cache_of(engine, 512));
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<(usize, u64)>()).unzip();
        let start = Arc::new(Barrier::new(THREADS));
        let threads: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(number, inbox)| {
                let (cache, senders, start) = (cache.clone(), senders.clone(), start.clone());
                std::thread::spawn(move || {
                    pin(cpus()[number % cpus().len()]);
                    let mut rng = Rng::new(number as u64 + 1);
                    let give = |(at, token): (usize, u64)| {
                        let at = at as *mut u8;
                        // SAFETY: a live object of 512 bytes, which its sender gave up.
                        unsafe {
                            check(at, 512, 512, token);
                            cache.free(NonNull::new(at).expect("not null"));
                        }
                    };
                    start.wait();
                    for round in 0..ROUNDS {
                        let token = round << 8 | number as u64;
                        let at = cache.alloc().expect("memory").as_ptr();
                        // SAFETY: 512 fresh bytes.
                        unsafe { fill(at, 512, token) };
                        let to = rng.below(THREADS);
                        senders[to].send((at as usize, token)).expect("the threads live");
                        inbox.try_iter().for_each(&give);
                    }
                    drop(senders);
                    inbox.iter().for_each(give);
                })
            })
            .collect();
        drop(senders);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert_eq!(cache.info().usage.live, 0, "{engine}");
        cache.shrink();
        assert_eq!(cache.info().usage.slabs, 0, "{engine}: an empty slab stays for ever");
        end(Arc::into_inner(cache).expect("the only one"));
    });
}

#[derive(Clone, Debug)]
enum Op {
    Alloc(usize),
    Bulk(usize),
    /// Frees so many objects, from a place on.
    Free(usize, usize),
    FreeBulk(usize),
    Shrink,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1usize..200).prop_map(Op::Alloc),
        2 => (1usize..200).prop_map(Op::Bulk),
        6 => (any::<usize>(), 1usize..200).prop_map(|(at, count)| Op::Free(at, count)),
        2 => (1usize..200).prop_map(Op::FreeBulk),
        1 => Just(Op::Shrink),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Beside a list of what must be live: no overlap, no lost byte, and exact counts after every
    /// step.
    #[test]
    fn slabs_agree_with_a_model(
        size in prop_oneof![Just(8usize), Just(24), Just(64), Just(104), Just(704), Just(3000)],
        engine in proptest::sample::select(&ENGINES[..]),
        ops in proptest::collection::vec(op(), 1..60),
    ) {
        let cache = cache_of(engine, size);
        let (mut live, mut token) = (Vec::<(NonNull<u8>, u64)>::new(), 0);
        let mut put = |live: &mut Vec<(NonNull<u8>, u64)>, object: NonNull<u8>| {
            token += 1;
            // SAFETY: fresh, of `size` bytes.
            unsafe { fill(object.as_ptr(), size, token) };
            live.push((object, token));
        };
        let checked = |(object, token): (NonNull<u8>, u64)| {
            // SAFETY: live, of `size` bytes that `put` filled.
            unsafe { check(object.as_ptr(), size, size, token) };
            object
        };
        for op in ops {
            match op {
                Op::Alloc(count) => alloc(&cache, count).into_iter().for_each(|object| put(&mut live, object)),
                Op::Bulk(count) => {
                    let mut out = vec![core::ptr::null_mut(); count];
                    prop_assert!(cache.alloc_bulk(&mut out));
                    out.into_iter().for_each(|at| put(&mut live, NonNull::new(at).expect("all or none")));
                }
                Op::Free(at, count) => {
                    let at = at % (live.len() + 1);
                    let gone: Vec<_> = live.drain(at..live.len().min(at + count)).map(checked).collect();
                    free(&cache, &gone);
                }
                Op::FreeBulk(count) => {
                    let from = live.len().saturating_sub(count);
                    let gone: Vec<*mut u8> = live.drain(from..).map(|one| checked(one).as_ptr()).collect();
                    // SAFETY: live, each freed once.
                    unsafe { cache.free_bulk(&gone) };
                }
                Op::Shrink => _ = cache.shrink(),
            }
            prop_assert_eq!(cache.info().usage.live, live.len());
            let mut places: Vec<usize> = live.iter().map(|(object, _)| object.as_ptr() as usize).collect();
            places.sort_unstable();
            prop_assert!(places.windows(2).all(|two| two[1] - two[0] >= size), "objects overlap");
        }
        let rest: Vec<_> = live.drain(..).map(checked).collect();
        free(&cache, &rest);
        end(cache);
    }
}
