//! Several CPUs under a kernel: threads that move, interrupts, drains, CPUs that come and go, as
//! random numbers from a seed decide; see `common/kernel.rs`. `platform_steps.rs` tries each place.
#![cfg(not(feature = "os"))]

// Only these parts of `common`, because the rest needs the feature `os`.
mod common {
    #![allow(dead_code, reason = "the other tests use the rest")]

    pub(crate) mod conformance;
    pub(crate) mod model;
    pub(crate) mod process;

    pub(crate) use process::*;

    /// The numbers that `pin` takes. The machine moves threads by itself.
    pub(crate) fn cpus() -> Vec<usize> {
        vec![0]
    }

    pub(crate) fn pin(_cpu: usize) -> bool {
        true
    }
}
#[path = "common/kernel.rs"]
mod kernel;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use ashlar::{ArenaSource, CacheArgs, DestroyError, Engine, KmemCache, NodeId, PageSource, Tunable};
use common::{Rng, child, is_parent, tell};
use kernel::{
    CHANCE, CPU, DEATHS, FENCES, HANDLER, Handler, INTERRUPTS, MOVES, Machine, PASSED, REFUSED, cache, free, start,
};

const ARENA: usize = 256 << 20;

/// Starts the allocator on a machine, and runs `threads` on it. In the end nothing is lost.
fn run(machine: &'static Machine, cpus: usize, engine: &str, threads: u64, steps: usize, seed: u64) {
    // The threads of this process allocate by the allocator of the host, not by ours.
    ashlar::configure(&format!("engine={engine}")).expect("before the start");
    start(machine, ARENA);
    let caches = [cache("one"), cache("other")];
    assert_eq!(caches[0].engine().id(), engine);
    machine.give_cpu();
    let end = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    CHANCE.set(Some(Rng::new(seed * 1000 + thread)));
                    machine.take_cpu();
                    HANDLER.set(Some(Handler::new(seed * 7777 + thread, &caches, 20)));
                    let mut own = Handler::new(seed * 99 + thread, &caches, 200);
                    for step in 0..steps {
                        own.run();
                        // Drains go on beside all that.
                        match own.rng.below(400) {
                            0 => _ = caches[step % 2].shrink(),
                            1 => _ = ashlar::reap(),
                            2 => ashlar::poll(),
                            _ => {}
                        }
                    }
                    own.live.into_iter().for_each(free);
                    let handler = HANDLER.with_borrow_mut(Option::take).expect("no handler runs");
                    handler.live.into_iter().for_each(free);
                    CHANCE.set(None);
                    machine.give_cpu();
                })
            })
            .collect();
        if cpus > 1 {
            scope.spawn(|| machine.take_cpus_away(&end));
        }
        all.into_iter().for_each(|thread| thread.join().expect("no panic"));
        end.store(1, Ordering::Relaxed);
    });
    machine.take_cpu();
    PASSED.lock().expect("no panic").drain(..).for_each(free);
    kernel::nothing_is_lost(machine);
    let (interrupts, moves) = (INTERRUPTS.load(Ordering::Relaxed), MOVES.load(Ordering::Relaxed));
    assert!(interrupts > steps / 4 && moves > steps / 4, "{interrupts} interrupts, {moves} moves");
}

/// The machines: numbers of CPUs, which may have holes, and the number of nodes.
const MACHINES: [(&str, &[u32], u32); 4] = [
    ("one CPU", &[0], 1),
    ("three CPUs", &[0, 1, 2], 1),
    ("numbers with holes", &[0, 3, 4, 9], 1),
    ("four nodes", &[0, 1, 2, 3, 4, 5, 6, 7], 4),
];

#[test]
fn threads_that_move_and_interrupts_lose_nothing() {
    let test = "threads_that_move_and_interrupts_lose_nothing";
    let seeds: u64 = std::env::var("ASHLAR_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number"));
    let (mut tried, mut deaths) = (0, 0);
    for engine in Engine::ALL.iter().map(|engine| engine.id()) {
        for (machine, cpus, nodes) in MACHINES {
            for (seed, fences) in (1..=seeds).flat_map(|seed| [(seed, true), (seed, false)]) {
                let role = format!("{engine}, {machine}, seed {seed}, fences {fences}");
                let outcome = child(test, &role, &[], || {
                    run(Machine::new(cpus, nodes, fences), cpus.len(), engine, 4, 1500, seed);
                    let fence = if fences { &FENCES } else { &REFUSED };
                    assert!(cpus.len() == 1 || !has_sheaves(engine) || fence.load(Ordering::Relaxed) > 0);
                    tell("deaths", DEATHS.load(Ordering::Relaxed));
                });
                let Some(outcome) = outcome else { continue };
                assert!(outcome.status.success(), "{role}: {outcome:?}");
                deaths += outcome.succeeded().told("deaths").parse::<usize>().expect("a number");
                tried += 1;
            }
        }
    }
    println!("{tried} machines, {deaths} CPUs that went and came back, nothing lost");
    assert!(!is_parent() || deaths > tried, "{deaths} CPUs lost on {tried} machines");
}

/// Whether drains of the engine wait for sections.
fn has_sheaves(engine: &str) -> bool {
    engine == "ashlar" || engine == "slub+"
}

/// The suite that every mode passes, on a machine with eight CPUs, moves and interrupts.
#[test]
fn the_suite_passes_with_every_engine() {
    let test = "the_suite_passes_with_every_engine";
    for engine in Engine::ALL.iter().map(|engine| engine.id()) {
        let outcome = child(test, engine, &[], || {
            let machine = Machine::new(&[0, 1, 2, 3, 4, 5, 6, 7], 1, true);
            ashlar::configure(&format!("engine={engine}")).expect("before the start");
            start(machine, 1 << 30);
            assert!(kernel::GIVES.set(machine).is_ok());
            let caches = [cache("one"), cache("other")];
            CHANCE.set(Some(Rng::new(5)));
            HANDLER.set(Some(Handler::new(6, &caches, 20)));
            common::conformance::run();
            let handler = HANDLER.with_borrow_mut(Option::take).expect("no handler runs");
            handler.live.into_iter().for_each(free);
            CHANCE.set(None);
            kernel::nothing_is_lost(machine);
            assert!(INTERRUPTS.load(Ordering::Relaxed) > 1000);
        });
        let Some(outcome) = outcome else { continue };
        assert!(outcome.status.success(), "{engine}: {outcome:?}");
        outcome.succeeded();
    }
}

/// The memory of a CPU's node serves it, and a request for another node gets that node's.
#[test]
fn cpus_take_memory_of_their_node() {
    let outcome = child("cpus_take_memory_of_their_node", "nodes", &[], || {
        let machine = Machine::new(&[2], 4, true);
        start(machine, ARENA);
        assert_eq!(ashlar::nodes(), 4);
        let cache = KmemCache::create("local", 100, &CacheArgs::DEFAULT).expect("a cache");
        for _ in 0..200 {
            let object = cache.alloc().expect("memory");
            assert_eq!(ashlar::node_of(object.as_ptr()), Some(NodeId(2)));
        }
        let far = ashlar::kmalloc_on(100, NodeId(1));
        assert_eq!(ashlar::node_of(far), Some(NodeId(1)));
    });
    if let Some(outcome) = outcome {
        outcome.succeeded();
    }
}

/// Nodes that grow in turn share the addresses of a small arena, and one that grows alone may have
/// nearly all of them.
#[test]
fn a_small_arena_is_divided_among_its_nodes() {
    const OBJECT: usize = 4096;
    for arena in [16 << 20, 64 << 20, 320 << 20] {
        for alone in [false, true] {
            let name = format!("{} MiB, {}", arena >> 20, if alone { "one node" } else { "four nodes" });
            let outcome = child("a_small_arena_is_divided_among_its_nodes", &name, &[], || {
                start(Machine::new(&[2], 4, true), arena);
                assert_eq!(ashlar::nodes(), 4);
                let nodes: &[u8] = if alone { &[2] } else { &[0, 1, 2, 3] };
                let each = arena / 4 * 3 / OBJECT / nodes.len();
                for number in 0..each {
                    for &node in nodes {
                        let object = ashlar::kmalloc_on(OBJECT, NodeId(node));
                        assert!(!object.is_null(), "{number} of {each} for node {node}");
                        assert_eq!(ashlar::node_of(object), Some(NodeId(node)), "{number} of {each}");
                    }
                }
            });
            if let Some(outcome) = outcome {
                outcome.succeeded();
            }
        }
    }
}

/// What is wrong is reported by the platform, and ends the program.
#[test]
fn reports_go_to_the_platform() {
    let outcome = child("reports_go_to_the_platform", "report", &[], || {
        let machine = Machine::new(&[0], 1, true);
        start(machine, ARENA);
        let object = ashlar::kmalloc(64);
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe {
            ashlar::kfree(object);
            ashlar::kfree(object);
        }
        ashlar::reap();
    });
    if is_parent() {
        let outcome = outcome.expect("the parent");
        assert!(!outcome.status.success());
        assert!(outcome.stderr.contains("ashlar: cache kmalloc-64: object"), "{}", outcome.stderr);
    }
}

/// Prints what of a heap programs cannot have, for docs/kernel.md: objects of a page, and of 64
/// bytes, that fit in heaps of several sizes.
#[test]
fn most_of_a_heap_is_for_objects() {
    let test = "most_of_a_heap_is_for_objects";
    for (mib, cpus) in [(1, 1), (4, 8), (64, 8), (4096, 8)] {
        for size in [4096, 64] {
            // Objects of 64 bytes in 4 GiB would need that much memory of the host.
            if size == 64 && mib > 64 {
                continue;
            }
            let outcome = child(test, &format!("{mib} MiB, {size}"), &[], || {
                let machine = Machine::new(&[0, 1, 2, 3, 4, 5, 6, 7][..cpus], 1, true);
                let bytes = mib << 20;
                start(machine, bytes);
                let count = core::iter::repeat_with(|| ashlar::kmalloc(size)).take_while(|p| !p.is_null()).count();
                tell("part", 1000 * count * size / bytes);
            });
            let Some(outcome) = outcome.map(common::Child::succeeded) else { continue };
            let thousandths: usize = outcome.told("part").parse().expect("a number");
            println!("{mib} MiB, {cpus} CPU(s), objects of {size} bytes: {}.{} %", thousandths / 10, thousandths % 10);
            assert!(thousandths >= if mib < 16 { 500 } else { 750 }, "{mib} MiB, {size}: {thousandths}");
        }
    }
}

/// An arena that counts the bytes that are returned to it.
struct Counting(ArenaSource);
static RETURNED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: as the arena. What is returned is cleared, so that it reads as zeros.
unsafe impl PageSource for Counting {
    fn page_size(&self) -> usize {
        self.0.page_size()
    }
    fn zone_bytes(&self) -> usize {
        self.0.zone_bytes()
    }
    fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        self.0.reserve(bytes, align)
    }
    unsafe fn commit(&self, at: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: passed on.
        unsafe { self.0.commit(at, bytes) }
    }
    unsafe fn release(&self, at: NonNull<u8>, bytes: usize) -> bool {
        RETURNED.fetch_add(bytes, Ordering::Relaxed);
        // SAFETY: no thread reads the range, by the caller's promise.
        unsafe { at.as_ptr().write_bytes(0, bytes) };
        true
    }
    unsafe fn bind(&self, _at: NonNull<u8>, _bytes: usize, _node: NodeId) {}
    fn map_direct(&self, _bytes: usize) -> Option<NonNull<u8>> {
        None
    }
    unsafe fn unmap_direct(&self, _at: NonNull<u8>, _bytes: usize) {}
}

/// Frees 16 MiB and then goes on for `seconds`, in quarters, with small objects. Calls `each` after
/// each quarter, with the milliseconds since then and the MiB that were returned.
fn free_and_go_on(clock: bool, seconds: u64, mut each: impl FnMut(u64, usize)) {
    let bytes = 64 << 20;
    let memory = NonNull::new(vec![0u8; bytes].leak().as_mut_ptr()).expect("not null");
    // SAFETY: leaked, zeroed memory with no other user.
    let source = Box::leak(Box::new(Counting(unsafe { ArenaSource::new(memory, bytes) })));
    const START: u64 = 5000;
    kernel::CLOCK.store(if clock { START } else { 0 }, Ordering::Relaxed);
    kernel::start_on(Machine::new(&[0, 1], 1, true), source);
    let cache = cache("small");
    ashlar::poll();
    let large: Vec<_> = (0..16).map(|_| ashlar::kmalloc(1 << 20)).collect();
    // SAFETY: live, each freed once.
    large.into_iter().for_each(|object| unsafe { ashlar::kfree(object) });
    for quarter in 1..=4 * seconds {
        let small: Vec<_> = (0..1000).map(|_| cache.alloc().expect("memory")).collect();
        // SAFETY: live, each freed once.
        small.into_iter().for_each(|object| unsafe { cache.free(object) });
        if clock {
            kernel::CLOCK.store(START + 250 * quarter, Ordering::Relaxed);
        }
        // A kernel calls this as often as it likes.
        (0..3).for_each(|_| ashlar::poll());
        each(250 * quarter, RETURNED.load(Ordering::Relaxed) >> 20);
    }
}

/// With a clock, free pages are returned after their decay time, a second; without, by `reap`.
#[test]
fn free_pages_wait_for_their_decay_time() {
    let test = "free_pages_wait_for_their_decay_time";
    let with = child(test, "clock", &[], || {
        free_and_go_on(true, 3, |ms, mib| match ms {
            ..=250 => assert_eq!(mib, 0, "after {ms} ms"),
            2000.. => assert!(mib >= 15, "{mib} MiB after {ms} ms"),
            _ => {}
        });
    });
    let without = child(test, "no clock", &[], || {
        free_and_go_on(false, 3, |ms, mib| assert_eq!(mib, 0, "after {ms} ms"));
        ashlar::reap();
        assert!(RETURNED.load(Ordering::Relaxed) >= 15 << 20);
    });
    with.into_iter().chain(without).for_each(|outcome| _ = outcome.succeeded());
}

/// What lets another CPU's objects go back to their slabs.
#[derive(Clone, Copy, Debug)]
enum Release {
    /// The drain waits for the CPU.
    Fence,
    /// The CPU, which was asked, calls `poll`.
    Poll,
    /// It frees an object of another cache.
    Free,
    /// It allocates one.
    Alloc,
    /// It dies.
    Death,
}

/// A cache whose objects another CPU holds can be destroyed once that CPU has given them back.
fn destroys_after(release: Release, engine: &str) {
    ashlar::configure(&format!("engine={engine}")).expect("before the start");
    let machine = Machine::new(&[0, 1], 1, matches!(release, Release::Fence));
    start(machine, 64 << 20);
    let run_on = |cpu| CPU.set(cpu);
    run_on(0);
    let cache = KmemCache::create("held", 72, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
    let (object, of_kmalloc) = (cache.alloc().expect("memory"), ashlar::kmalloc(100));
    // SAFETY: live, freed once.
    unsafe { cache.free(object) };
    run_on(1);
    let destroyed = cache.destroy().map_err(|(cache, error)| {
        assert_eq!(error, DestroyError::CannotDrain);
        cache
    });
    let Err(cache) = destroyed else {
        assert!(matches!(release, Release::Fence), "it was destroyed without a fence");
        return;
    };
    run_on(0);
    match release {
        Release::Fence => panic!("a fence is enough"),
        Release::Poll => ashlar::poll(),
        // SAFETY: live, freed once.
        Release::Free => unsafe { ashlar::kfree(of_kmalloc) },
        Release::Alloc => _ = ashlar::kmalloc(100),
        Release::Death => {
            run_on(1);
            assert!(ashlar::cpu_dead(0) && !ashlar::cpu_dead(2));
        }
    }
    run_on(1);
    cache.destroy().map_err(|(_, error)| error).expect("the other CPU gave its objects back");
}

#[test]
fn a_cache_is_destroyed_once_every_cpu_has_given_its_objects_back() {
    let test = "a_cache_is_destroyed_once_every_cpu_has_given_its_objects_back";
    for engine in ["ashlar", "slub+", "slub-bulk"] {
        for release in [Release::Fence, Release::Poll, Release::Free, Release::Alloc, Release::Death] {
            let role = format!("{engine}, {release:?}");
            let Some(outcome) = child(test, &role, &[], || destroys_after(release, engine)) else { continue };
            assert!(outcome.status.success(), "{role}: {outcome:?}");
            outcome.succeeded();
        }
    }
}

/// No drain of a thread with interrupts on holds a lock while it waits for other CPUs: a fence with
/// a lock held is refused, because interrupts are off then.
#[test]
fn drains_wait_without_a_lock() {
    let outcome = child("drains_wait_without_a_lock", "drains", &[], || {
        let machine = Machine::new(&[0, 1], 1, true);
        start(machine, 64 << 20);
        let cache = KmemCache::create("drained", 72, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        let drains: [(&str, &dyn Fn()); 3] = [
            ("shrink", &|| _ = cache.shrink()),
            ("reap", &|| _ = ashlar::reap()),
            ("sheaf_capacity", &|| cache.set_tunable(Tunable::SheafCapacity, 20).expect("in range")),
        ];
        for (name, drain) in drains {
            let before = FENCES.load(Ordering::Relaxed);
            let object = cache.alloc().expect("memory");
            // SAFETY: live, freed once.
            unsafe { cache.free(object) };
            drain();
            assert!(FENCES.load(Ordering::Relaxed) > before, "{name} waits for nothing");
        }
        cache.destroy().map_err(|(_, error)| error).expect("empty");
        // The last attempt of a request that fails.
        let before = FENCES.load(Ordering::Relaxed);
        while !ashlar::kmalloc(1 << 20).is_null() {}
        assert!(FENCES.load(Ordering::Relaxed) > before, "a request fails before other CPUs are drained");
        assert_eq!(REFUSED.load(Ordering::Relaxed), 0, "a drain waits with a lock held");
    });
    if let Some(outcome) = outcome {
        outcome.succeeded();
    }
}
