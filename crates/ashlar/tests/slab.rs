//! SLAB from near: its queues, its limits, its colours, its reaper. What both engines, `slab` and
//! `slab24`, have in common is tested with both.
//!
//! Threads are pinned, so that one CPU's array is the one that a test speaks of; tests of several
//! nodes run in children with fake nodes, where CPU `n` belongs to node `n % nodes`.

mod common;

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, BTreeSet};

use ashlar::{CacheArgs, Constructor, Engine, IndexArray, KmemCache, QueueInfo, QueueTunables, TuneError};
use common::{Rng, check, child, cpus, fill, pin};
use proptest::prelude::*;

const ARGS: CacheArgs = CacheArgs::DEFAULT.engine(Engine::Slab).no_merge(true);
/// Both editions of SLAB.
const EDITIONS: [Engine; 2] = [Engine::Slab, Engine::Slab24];

fn create(name: &str, size: usize, args: CacheArgs) -> KmemCache {
    KmemCache::create(name, size, &args).expect("a cache")
}

fn queues(cache: &KmemCache) -> QueueInfo {
    cache.info().queues.expect("a cache of SLAB has queues")
}

fn alloc(cache: &KmemCache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().expect("memory")).collect()
}

fn free(cache: &KmemCache, objects: impl IntoIterator<Item = NonNull<u8>>) {
    // SAFETY: live, each freed once: the callers pass them on.
    objects.into_iter().for_each(|object| unsafe { cache.free(object) });
}

/// Runs `f` on a thread of its own that stays on a CPU.
fn on<R: Send>(cpu: usize, f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            assert!(pin(cpu), "a thread may run on CPU {cpu}");
            f()
        });
        thread.join().expect("the thread ends well")
    })
}

/// Objects that are on their way between threads.
struct Sent(Vec<NonNull<u8>>);
// SAFETY: the thread that holds it owns the objects.
unsafe impl Send for Sent {}

unsafe extern "C" fn build(object: *mut u8) {
    // SAFETY: caches with this constructor have objects of at least 8 bytes.
    unsafe { object.cast::<u64>().write(7) };
}

/// Writes 7 to the start of an object.
// SAFETY: it writes 8 bytes, aligned to 8.
const BUILD: Constructor = unsafe { Constructor::new(Layout::new::<u64>(), build) };

#[test]
fn slabs_start_at_every_colour_in_turn() {
    let cache = create("slab-colours", 704, ARGS);
    let info = cache.info();
    assert_eq!((info.objects_per_slab, info.order, queues(&cache).colours), (11, 1, 8));
    let live = alloc(&cache, 11 * 24);
    // What the object is behind the start of its slab, less whole objects, is the colour.
    let slab = 4096usize << info.order;
    let mut slabs = BTreeMap::new();
    for object in &live {
        let offset = object.as_ptr() as usize % slab;
        slabs.entry(object.as_ptr() as usize - offset).or_insert(offset % info.stride);
    }
    let colours: BTreeSet<_> = slabs.values().copied().collect();
    assert_eq!(colours, (0..8).map(|colour| colour * 64).collect());
    // Each as often as any other.
    assert!(colours.iter().all(|&c| slabs.values().filter(|&&other| other == c).count() == slabs.len() / 8));
    free(&cache, live);
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

#[test]
fn index_arrays_work_in_each_of_their_places() {
    for (size, ctor, array) in [
        (64, false, IndexArray::InObject),
        (8, false, IndexArray::OnSlab),
        (256, true, IndexArray::OffSlab),
        (104, true, IndexArray::OnSlab),
    ] {
        let cache = create("slab-places", size, {
            let mut args = ARGS;
            args.ctor = ctor.then_some(BUILD);
            args
        });
        assert_eq!(queues(&cache).array, array, "size {size}");
        let mut rng = Rng::new(size as u64);
        let mut live: Vec<NonNull<u8>> = Vec::new();
        for round in 0..20_000u64 {
            if live.is_empty() || rng.below(100) < if round / 2000 % 2 == 0 { 60 } else { 40 } {
                let object = cache.alloc().expect("memory");
                // SAFETY: `size` bytes of ours; a constructed one has its first word.
                unsafe {
                    assert!(!ctor || object.cast::<u64>().read() == 7, "an object lost its constructed state");
                    fill(object.as_ptr(), size, object.as_ptr() as u64);
                }
                live.push(object);
            } else {
                let object = live.swap_remove(rng.below(live.len()));
                // SAFETY: live, and freed once, constructed again.
                unsafe {
                    check(object.as_ptr(), size, size, object.as_ptr() as u64);
                    if ctor {
                        object.cast::<u64>().write(7);
                    }
                    cache.free(object);
                }
            }
        }
        assert_eq!(cache.info().usage.live, live.len());
        for &object in &live {
            // SAFETY: live.
            unsafe {
                check(object.as_ptr(), size, size, object.as_ptr() as u64);
                object.cast::<u64>().write(7);
            }
        }
        free(&cache, live);
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    }
}

/// Tunables change, the reaper makes its rounds, others look at counts, drain and work, all at
/// once: every array that is replaced is the replacing thread's alone.
#[test]
fn tuning_beside_work_rounds_and_looks_loses_no_object() {
    for edition in EDITIONS {
        for options in ["nodes=1", "nodes=4", "nodes=4,noaliencache=on", "nodes=4,percpu=lock"] {
            let test = "tuning_beside_work_rounds_and_looks_loses_no_object";
            let outcome = child(test, &format!("{edition:?} {options}"), &[("ASHLAR_OPTIONS", options)], || {
                let cache = create("slab-busy-tune", 96, ARGS.engine(edition));
                let stop = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    for thread in 0..3u64 {
                        let (cache, stop) = (&cache, &stop);
                        scope.spawn(move || {
                            let mut rng = Rng::new(thread);
                            while !stop.load(Ordering::Relaxed) {
                                let live: Vec<_> = (0..rng.below(300))
                                    .map(|i| match i % 3 {
                                        0 => cache.alloc_on(ashlar::NodeId((i % ashlar::nodes()) as u8)),
                                        _ => cache.alloc(),
                                    })
                                    .map(|object| object.expect("memory"))
                                    .collect();
                                // SAFETY: live, of 96 bytes.
                                live.iter().for_each(|o| unsafe { fill(o.as_ptr(), 96, o.as_ptr() as u64 ^ thread) });
                                for object in &live {
                                    // SAFETY: as above.
                                    unsafe { check(object.as_ptr(), 96, 96, object.as_ptr() as u64 ^ thread) };
                                }
                                free(cache, live);
                            }
                        });
                    }
                    let (cache, stop) = (&cache, &stop);
                    scope.spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            ashlar::testing::slab_round(cache);
                            core::hint::black_box(ashlar::total_counts());
                            ashlar::for_each_cache(|info| assert!(!info.name().is_empty()));
                        }
                    });
                    let mut rng = Rng::new(99);
                    for _ in 0..600 {
                        let limit = 1 + rng.below(500);
                        let tunables = QueueTunables { limit, batchcount: 1 + rng.below(limit), shared: rng.below(9) };
                        cache.set_queue_tunables(&tunables).expect("in range");
                        if rng.below(8) == 0 {
                            cache.shrink();
                        }
                    }
                    stop.store(true, Ordering::Relaxed);
                });
                assert_eq!(cache.info().usage.live, 0);
                assert!(cache.shrink(), "{:?} {:?}", cache.info().usage, queues(&cache));
                cache.destroy().map_err(|(_, e)| e).expect("empty");
            });
            if let Some(child) = outcome {
                child.succeeded();
            }
        }
    }
}

#[test]
fn off_slab_arrays_are_used_again() {
    let args = ARGS.ctor(BUILD);
    let cache = create("slab-off", 256, args);
    let mut after_first = 0;
    for round in 0..20 {
        let mut live = alloc(&cache, 4000);
        // SAFETY: live, put back into constructed state.
        live.iter_mut().for_each(|object| unsafe { object.cast::<u64>().write(7) });
        free(&cache, live);
        assert!(cache.shrink());
        if round == 0 {
            after_first = ashlar::metadata_bytes();
        }
    }
    // Other tests of this process use metadata too, but not as much as 19 rounds of 250 arrays
    // would.
    let more = ashlar::metadata_bytes() - after_first;
    assert!(more < 8 * 250 * 16 || cfg!(debug_assertions), "metadata grew by {more} bytes");
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

#[test]
fn defaults_go_by_size() {
    for edition in EDITIONS {
        for (size, limit, batchcount) in
            [(64, 120, 60), (256, 120, 60), (264, 54, 27), (1032, 24, 12), (4104, 8, 4), (140_000, 1, 1)]
        {
            let cache = create("slab-defaults", size, ARGS.engine(edition));
            let tunables = queues(&cache).tunables;
            assert_eq!((tunables.limit, tunables.batchcount), (limit, batchcount), "size {size}");
            assert!(size <= ashlar::PAGE_SIZE || tunables.shared == 0);
            cache.destroy().map_err(|(_, e)| e).expect("empty");
        }
    }
}

#[test]
fn arrays_keep_to_their_limit_and_nodes_to_theirs() {
    let cache = create("slab-limits", 128, ARGS);
    let tunables = QueueTunables { limit: 10, batchcount: 4, shared: 2 };
    cache.set_queue_tunables(&tunables).expect("in range");
    assert_eq!(queues(&cache).tunables, tunables);
    on(cpus()[0], || {
        let live = alloc(&cache, 2000);
        free(&cache, live);
        let (info, queues) = (cache.info(), queues(&cache));
        // One CPU was at work: its array and the shared one. Slabs without an object in use stay
        // below the limit only.
        assert!(info.usage.cached <= 10 + 8, "{:?}", info.usage);
        let free = info.usage.objects - info.usage.cached;
        assert!(free <= queues.free_limit || queues.free_slabs == 0, "{free} free objects: {queues:?}");
        let cpus_of_the_node = (queues.free_limit - info.objects_per_slab) / 4 - 1;
        assert!(cpus_of_the_node >= cpus().len(), "{queues:?}");
        assert!(info.counts.free_slow > 400, "each batch is one slow path: {:?}", info.counts);
    });
    // Larger at run time, and smaller again with the array full.
    let tunables = QueueTunables { limit: 1000, batchcount: 500, shared: 0 };
    cache.set_queue_tunables(&tunables).expect("in range");
    on(cpus()[0], || {
        let live = alloc(&cache, 2000);
        free(&cache, live);
        let cached = cache.info().usage.cached;
        assert!((500..=1000).contains(&cached), "{cached} objects");
        cache.set_queue_tunables(&QueueTunables { limit: 1, batchcount: 1, shared: 0 }).expect("in range");
        assert!(cache.info().usage.cached <= 1, "{:?}", cache.info().usage);
        assert_eq!(cache.info().usage.live, 0);
    });
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

#[test]
fn tunables_out_of_range_are_refused_with_the_range() {
    let cache = create("slab-range", 128, ARGS);
    let before = queues(&cache).tunables;
    for (limit, batchcount, shared, says) in [
        (0, 1, 0, "limit: expected 1 to 8192 (objects)"),
        (8193, 1, 0, "limit: expected 1 to 8192 (objects)"),
        (10, 0, 0, "batchcount: expected 1 to limit (objects)"),
        (10, 11, 0, "batchcount: expected 1 to limit (objects)"),
        (10, 5, 65, "shared: expected 0 to 64 (batches), and at most 65536 objects"),
        (8192, 8192, 9, "shared: expected 0 to 64 (batches), and at most 65536 objects"),
    ] {
        let error = cache.set_queue_tunables(&QueueTunables { limit, batchcount, shared }).expect_err("out of range");
        assert_eq!(error.to_string(), says);
    }
    assert_eq!(queues(&cache).tunables, before);
    cache.destroy().map_err(|(_, e)| e).expect("empty");
    let other = create("slab-range-other", 128, ARGS.engine(Engine::Sheaves));
    let error = other.set_queue_tunables(&before).expect_err("another engine");
    assert!(matches!(error, TuneError::Engine(_)));
    assert_eq!(error.to_string(), "limit, batchcount and shared: expected a cache of the engine slab or slab24");
    assert_eq!(other.info().queues, None);
    other.destroy().map_err(|(_, e)| e).expect("empty");
}

/// What one CPU frees, another gets by way of the shared array, without a look at slabs.
#[test]
fn a_cpu_refills_from_what_another_flushed() {
    for edition in EDITIONS {
        let cache = create("slab-shared", 64, ARGS.engine(edition));
        cache.set_queue_tunables(&QueueTunables { limit: 20, batchcount: 10, shared: 8 }).expect("in range");
        let all = cpus();
        let (first, last) = (all[0], all[all.len() - 1]);
        let freed: BTreeSet<usize> = on(first, || {
            let live = alloc(&cache, 200);
            let addresses = live.iter().map(|object| object.as_ptr() as usize).collect();
            free(&cache, live);
            addresses
        });
        assert_eq!(queues(&cache).shared_avail, 80, "the shared array is full");
        let before = queues(&cache).shared_refills;
        let live = Sent(on(last, || Sent(alloc(&cache, 60))).0);
        let (after, shared) = (queues(&cache).shared_refills, queues(&cache).shared_avail);
        if first == last {
            eprintln!("one CPU only: its own array serves part of it");
        } else {
            assert!(after - before >= 5 && shared <= 80 - 50, "{before} to {after} refills, {shared} left");
            assert!(live.0.iter().all(|object| freed.contains(&(object.as_ptr() as usize))));
        }
        free(&cache, live.0);
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    }
}

/// Frees to another node gather in the alien cache, twelve at a time.
#[test]
fn alien_caches_gather_frees_and_drain() {
    for edition in EDITIONS {
        let test = "alien_caches_gather_frees_and_drain";
        for mode in ["rseq", "lock"] {
            for without in [false, true] {
                let options = format!("nodes=2,percpu={mode}{}", if without { ",noaliencache=on" } else { "" });
                let outcome = child(test, &format!("{edition:?} {options}"), &[("ASHLAR_OPTIONS", &options)], || {
                    let cache = create("slab-alien", 64, ARGS.engine(edition));
                    // No shared array, so that what leaves an alien cache is back in slabs.
                    cache.set_queue_tunables(&QueueTunables { limit: 8, batchcount: 4, shared: 0 }).expect("in range");
                    on(cpus()[0], || {
                        let here = ashlar::node_of(alloc_one(&cache).as_ptr()).expect("of a node");
                        let other = ashlar::NodeId(1 - here.0);
                        let far: Vec<_> = (0..30).map(|_| cache.alloc_on(other).expect("memory")).collect();
                        assert!(far.iter().all(|object| ashlar::node_of(object.as_ptr()) == Some(other)));
                        let before = cache.info().counts.alien_locks;
                        let looks = cache.info().counts.alien_locks - before;
                        free(&cache, far);
                        let locks = cache.info().counts.alien_locks - before - looks;
                        let queues = queues(&cache);
                        if without {
                            assert_eq!((queues.alien_frees, queues.alien_avail), (0, 0));
                            assert_eq!(locks, looks, "only those of the looks at it");
                        } else {
                            assert_eq!((queues.alien_frees, queues.alien_overflows, queues.alien_avail), (30, 2, 6));
                            assert_eq!(locks, looks + 30);
                            // The reaper sends one alien cache home in a round.
                            (0..4).for_each(|_| ashlar::testing::slab_round(&cache));
                            assert_eq!(alien_avail(&cache), 0);
                        }
                        // None of them is on this CPU's array: it only ever hands out objects of
                        // its own node.
                        let near = alloc(&cache, 40);
                        assert!(near.iter().all(|object| ashlar::node_of(object.as_ptr()) == Some(here)));
                        free(&cache, near);
                    });
                    assert_eq!(cache.info().usage.live, 1);
                });
                if let Some(child) = outcome {
                    child.succeeded();
                }
            }
        }
    }
}

fn alloc_one(cache: &KmemCache) -> NonNull<u8> {
    cache.alloc().expect("memory")
}

fn alien_avail(cache: &KmemCache) -> usize {
    queues(cache).alien_avail
}

#[test]
fn the_reaper_gives_back_what_is_not_in_use() {
    for edition in EDITIONS {
        let cache = create("slab-reaper", 256, ARGS.engine(edition));
        on(cpus()[0], || free(&cache, alloc(&cache, 5000)));
        let before = cache.info().usage;
        assert!(before.cached > 100 && before.slabs > 10, "{before:?}");
        let arrays = || cache.info().usage.cached - queues(&cache).shared_avail;
        // The first round only sees that the CPU's array was used; the next takes a fifth of its
        // limit. No CPU took from the shared array, so it falls from the start.
        let (full, shared) = (arrays(), queues(&cache).shared_avail);
        ashlar::testing::slab_round(&cache);
        assert_eq!(arrays(), full);
        assert!(shared == 0 || queues(&cache).shared_avail == shared - 480 / 5, "{shared}: {:?}", queues(&cache));
        ashlar::testing::slab_round(&cache);
        assert_eq!(arrays(), full - 120 / 5);
        for _ in 0..40 {
            ashlar::testing::slab_round(&cache);
        }
        assert_eq!(cache.info().usage, ashlar::Usage::default(), "queues: {:?}", queues(&cache));
        assert!(queues(&cache).reaped >= 100);
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    }
}

/// Work in one cache takes another, idle one apart: the slow paths' own rounds. It sleeps for the
/// time between two rounds.
#[test]
fn slow_paths_reap_idle_caches_without_a_thread() {
    let test = "slow_paths_reap_idle_caches_without_a_thread";
    let outcome = child(test, test, &[("ASHLAR_OPTIONS", "reaper=off")], || {
        let (idle, busy) = (create("slab-idle", 256, ARGS), create("slab-busy", 64, ARGS));
        on(cpus()[0], || {
            free(&idle, alloc(&idle, 1000));
            for _ in 0..4 {
                free(&busy, alloc(&busy, 60_000));
                std::thread::sleep(core::time::Duration::from_millis(2100));
            }
            free(&busy, alloc(&busy, 60_000));
        });
        assert!(queues(&idle).reaped > 0, "{:?}", queues(&idle));
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// One step of the model test.
#[derive(Clone, Debug)]
enum Op {
    Alloc(usize),
    Free(usize, usize),
    Bulk(usize),
    Tune(usize, usize, usize),
    Shrink,
    Round,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1usize..200).prop_map(Op::Alloc),
        6 => (any::<usize>(), 1usize..200).prop_map(|(at, count)| Op::Free(at, count)),
        2 => (1usize..300).prop_map(Op::Bulk),
        2 => (1usize..200, 1usize..200, 0usize..9).prop_map(|(l, b, s)| Op::Tune(l, b.min(l), s)),
        1 => Just(Op::Shrink),
        2 => Just(Op::Round),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Beside a map of what must be live: no overlap, no lost byte, exact counts, limits kept,
    /// after every step.
    #[test]
    fn queues_agree_with_a_model(
        size in prop_oneof![Just(8usize), Just(24), Just(64), Just(104), Just(704), Just(3000)],
        ctor: bool,
        edition in proptest::sample::select(&EDITIONS[..]),
        ops in proptest::collection::vec(op(), 1..60),
    ) {
        let mut args = ARGS.engine(edition);
        args.ctor = ctor.then_some(BUILD);
        let cache = create("slab-model", size, args);
        let mut live: Vec<NonNull<u8>> = Vec::new();
        for op in ops {
            let old = live.len();
            match op {
                Op::Alloc(count) => live.extend(alloc(&cache, count)),
                Op::Bulk(count) => {
                    let mut out = vec![core::ptr::null_mut(); count];
                    prop_assert!(cache.alloc_bulk(&mut out));
                    live.extend(out.into_iter().filter_map(NonNull::new));
                }
                Op::Free(at, count) if !live.is_empty() => {
                    for _ in 0..count.min(live.len()) {
                        let object = live.swap_remove(at % live.len());
                        // SAFETY: live; constructed again; freed once.
                        unsafe {
                            check(object.as_ptr(), size, size, object.as_ptr() as u64);
                            object.cast::<u64>().write(7);
                            cache.free(object);
                        }
                    }
                }
                Op::Free(..) => {}
                Op::Tune(limit, batchcount, shared) => {
                    cache.set_queue_tunables(&QueueTunables { limit, batchcount, shared }).expect("in range");
                }
                Op::Shrink => prop_assert_eq!(cache.shrink(), live.is_empty()),
                Op::Round => ashlar::testing::slab_round(&cache),
            }
            for object in live.iter().skip(old) {
                // SAFETY: fresh, of `size` bytes; constructed ones have their first word.
                unsafe {
                    prop_assert!(!ctor || object.cast::<u64>().read() == 7);
                    fill(object.as_ptr(), size, object.as_ptr() as u64);
                }
            }
            let (info, queues) = (cache.info(), queues(&cache));
            prop_assert_eq!(info.usage.live, live.len());
            let tunables = queues.tunables;
            prop_assert!(queues.shared_avail <= tunables.shared * tunables.batchcount);
            prop_assert!(info.usage.cached - queues.shared_avail <= tunables.limit * cpus().len());
        }
        for &object in &live {
            // SAFETY: live; constructed again.
            unsafe {
                check(object.as_ptr(), size, size, object.as_ptr() as u64);
                object.cast::<u64>().write(7);
            }
        }
        free(&cache, live);
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    }
}
