//! Page sources of the caller: fixed arenas, system pages of other sizes, and sources that fail at
//! any request.
//!
//! The allocator starts once per process, so each case is a child. `cargo test
//! --no-default-features --test arena` runs this file without an operating system below the
//! allocator.

// Only this part of `common`, because the rest needs the feature `os`.
#[path = "common/process.rs"]
mod common;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;

use ashlar::{ArenaSource, CacheArgs, Engine, KmemCache, NodeId, PageSource};
use common::{Rng, check, child, fill, tell};

const MIB: usize = 1 << 20;

/// Returns zeroed memory that lives as long as the process.
fn arena(bytes: usize, skew: usize) -> NonNull<u8> {
    let memory = vec![0u8; bytes + skew].leak();
    NonNull::new(memory[skew..].as_mut_ptr()).expect("not null")
}

/// A source over one range that checks the allocator's side of the contract. Every size and address
/// is a multiple of the page size. Only reserved memory is committed, and only committed memory is
/// released. Released memory is filled with garbage, which shows in code that takes it for zeros or
/// still uses it.
struct Strict {
    arena: ArenaSource,
    page_size: usize,
    reserved: Mutex<Vec<(usize, usize)>>,
    committed: Mutex<Vec<(usize, usize)>>,
    released: AtomicUsize,
    /// How long `release` takes.
    release_takes: Duration,
    /// Whether released memory reads as zeros.
    zeroes: AtomicBool,
}

impl Strict {
    fn new(arena: ArenaSource, page_size: usize, release_takes: Duration) -> &'static Strict {
        let (reserved, committed) = Default::default();
        Box::leak(Box::new(Strict {
            arena,
            page_size,
            reserved,
            committed,
            released: AtomicUsize::new(0),
            release_takes,
            zeroes: AtomicBool::new(false),
        }))
    }

    fn aligned(&self, at: NonNull<u8>, bytes: usize) -> (usize, usize) {
        let start = at.as_ptr() as usize;
        assert!(start.is_multiple_of(self.page_size), "{start:#x} is no multiple of {:#x}", self.page_size);
        assert!(bytes.is_multiple_of(self.page_size), "{bytes:#x} is no multiple of {:#x}", self.page_size);
        (start, start + bytes)
    }

    fn inside(ranges: &Mutex<Vec<(usize, usize)>>, (start, end): (usize, usize)) -> bool {
        // Ranges may be adjacent, so check the requested one page by page.
        let ranges = ranges.lock().expect("no panic under it");
        (start..end).step_by(4096).all(|page| ranges.iter().any(|&(from, to)| (from..to).contains(&page)))
    }
}

// SAFETY: the arena below keeps the contract. This source only checks, and overwrites released
// memory, which the contract allows if `release` returns false.
unsafe impl PageSource for Strict {
    fn page_size(&self) -> usize {
        self.page_size
    }
    fn zone_bytes(&self) -> usize {
        self.arena.zone_bytes()
    }
    fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let at = self.arena.reserve(bytes, align)?;
        let range = self.aligned(at, bytes);
        self.reserved.lock().expect("no panic under it").push(range);
        Some(at)
    }
    unsafe fn commit(&self, at: NonNull<u8>, bytes: usize) -> bool {
        let range = self.aligned(at, bytes);
        assert!(Self::inside(&self.reserved, range), "commits what it never reserved");
        self.committed.lock().expect("no panic under it").push(range);
        // SAFETY: passes the caller's contract on.
        unsafe { self.arena.commit(at, bytes) }
    }
    unsafe fn release(&self, at: NonNull<u8>, bytes: usize) -> bool {
        assert!(Self::inside(&self.committed, self.aligned(at, bytes)), "releases what it never committed");
        self.released.fetch_add(bytes, Ordering::Relaxed);
        std::thread::sleep(self.release_takes);
        // SAFETY: the caller gives up the contents of this committed range.
        unsafe { at.as_ptr().write_bytes(0xdb, bytes) };
        if self.zeroes.load(Ordering::Relaxed) {
            // SAFETY: as above.
            unsafe { at.as_ptr().write_bytes(0, bytes) };
            return true;
        }
        false
    }
    unsafe fn bind(&self, _: NonNull<u8>, _: usize, _: NodeId) {}
    fn map_direct(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.arena.map_direct(bytes)
    }
    unsafe fn unmap_direct(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: passes the caller's contract on.
        unsafe { self.arena.unmap_direct(at, bytes) }
    }
}

/// Allocates objects of `size` until memory ends, checks that none overlap, and frees them. Returns
/// their number.
fn exhaust(size: usize) -> usize {
    let mut live = Vec::new();
    loop {
        let at = ashlar::kmalloc(size);
        if at.is_null() {
            break;
        }
        // SAFETY: memory that was just allocated.
        unsafe { fill(at, size, live.len() as u64) };
        live.push(at);
        assert!(live.len() < 1 << 24, "a small arena has no end");
    }
    let count = live.len();
    for (i, at) in live.into_iter().enumerate() {
        // SAFETY: live, freed once.
        unsafe {
            check(at, size, size, i as u64);
            ashlar::kfree(at);
        }
    }
    count
}

/// A live object: address, size, token, and whether it is of the cache.
type Live = (*mut u8, usize, u64, bool);

/// Checks an object and frees it.
fn bury(cache: Option<&KmemCache>, (at, size, token, of_cache): Live) {
    // SAFETY: live, freed once.
    unsafe {
        check(at, size, size, token);
        match (cache, NonNull::new(at)) {
            // Only its cache can find the owner of an object of `slob`.
            (Some(cache), Some(at)) if of_cache && (token % 2 == 0 || cache.engine() == Engine::Slob) => cache.free(at),
            _ => ashlar::kfree(at),
        }
    }
}

/// Runs a program on a small heap, with a cache and kmalloc, where allocations may fail; checks
/// that no memory is lost.
fn life(steps: usize) {
    let cache = KmemCache::create("arena", 200, &CacheArgs::default()).ok();
    let mut rng = Rng::new(11);
    let mut live: Vec<Live> = Vec::new();
    for step in 0..steps {
        if rng.below(5) < 3 {
            let of_cache = cache.as_ref().filter(|_| rng.below(3) == 0);
            let most = if rng.below(20) == 0 { 30_000 } else { 600 };
            let (at, size) = match of_cache {
                Some(cache) => (cache.alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr), 200),
                None => {
                    let size = 1 + rng.below(most);
                    (ashlar::kmalloc(size), size)
                }
            };
            if !at.is_null() {
                // SAFETY: memory that was just allocated.
                unsafe { fill(at, size, step as u64) };
                live.push((at, size, step as u64, of_cache.is_some()));
            }
        } else if !live.is_empty() {
            bury(cache.as_ref(), live.swap_remove(rng.below(live.len())));
        }
    }
    let mut bulk = [core::ptr::null_mut(); 300];
    if let Some(cache) = cache.as_ref().filter(|c| c.alloc_bulk(&mut bulk)) {
        // SAFETY: live, freed once.
        unsafe { cache.free_bulk(&bulk) };
    }
    live.into_iter().for_each(|object| bury(cache.as_ref(), object));
    if let Some(cache) = cache {
        cache.destroy().map_err(|(_, e)| e).expect("empty");
    }
    ashlar::reap();
    ashlar::for_each_cache(|c| assert_eq!((c.usage.live, c.usage.slabs), (0, 0), "{} keeps something", c.name()));
    let zone = ashlar::zone_stats();
    assert_eq!(zone.free, zone.free.max(zone.dirty), "{zone:?}");
}

/// The engines that use an arena in their own way, or all.
const SOME: &[&str] = &["ashlar", "slab", "slab24", "slob", "slob-seg", "slob-cache"];
fn all() -> Vec<&'static str> {
    ashlar::Engine::ALL.iter().map(|engine| engine.id()).collect()
}

/// Sets the engine of the process, before the start.
fn choose(engine: &str) {
    ashlar::configure(&format!("engine={engine}")).expect("before the start");
}

/// Returns the tenths of an arena that objects of one size must be able to fill. A page of `slob`
/// holds 31 of kmalloc's objects of 64 bytes. They are aligned to their size and have 8 bytes
/// before them, so every other place is lost.
fn tenths(engine: &str) -> usize {
    match engine {
        // What the debug flags keep for an object is five times as large as its 64 bytes.
        "debug" => 1,
        "slob" => 3,
        _ => 4,
    }
}

fn lives_in(test: &str, engine: &str, bytes: usize, page_size: usize, skew: usize) {
    let role = format!("{test} {engine} {bytes} {page_size} {skew}");
    let outcome = child(test, &role, &[], || {
        choose(engine);
        // SAFETY: leaked, zeroed memory with no other user.
        let arena = unsafe { ArenaSource::with_page_size(arena(bytes, skew), bytes, page_size) };
        let source = Strict::new(arena, page_size, Duration::ZERO);
        assert_eq!(ashlar::start_on(source), Ok(true));
        assert!(ashlar::start_on(source).is_err(), "a second start");
        let probe = KmemCache::create("probe", 8, &CacheArgs::default()).expect("a cache");
        assert_eq!(probe.engine().id(), engine);
        probe.destroy().map_err(|(_, e)| e).expect("empty");
        life(3000);
        tell("metadata", ashlar::metadata_bytes());
        for size in [64, 1000, 8192, 20_000, 64] {
            let counts = [exhaust(size), exhaust(size)];
            // Objects fill much of the arena, and the second time as much as the first.
            let least = bytes * tenths(engine) / 10;
            assert!(counts[0] * size >= least, "only {counts:?} objects of {size} bytes in {bytes}");
            assert!(counts[1] * 10 >= counts[0] * 9, "{counts:?} objects of {size} bytes");
            ashlar::reap();
        }
        life(3000);
        assert!(ashlar::kmalloc(bytes).is_null() && ashlar::kmalloc(64 * MIB).is_null());
        tell("released", source.released.load(Ordering::Relaxed));
    });
    if let Some(child) = outcome {
        let released: usize = child.succeeded().told("released").parse().expect("a number");
        assert!(released > bytes / 4, "a reap gives free pages back to the source");
    }
}

#[test]
fn a_mebibyte_is_enough() {
    all().iter().for_each(|engine| lives_in("a_mebibyte_is_enough", engine, MIB, 4096, 0));
}

#[test]
fn arenas_need_not_be_aligned() {
    all().iter().for_each(|engine| lives_in("arenas_need_not_be_aligned", engine, MIB + 12_345, 4096, 777));
}

/// A thread on a CPU without an area (on an arena every CPU but the first) works without sheaves
/// and barns. It must still be able to use their objects.
#[test]
fn a_cpu_without_an_area_gets_what_barns_hold() {
    let outcome = child("a_cpu_without_an_area_gets_what_barns_hold", "barns", &[], || {
        // SAFETY: leaked, zeroed memory with no other user.
        let source = Box::leak(Box::new(unsafe { ArenaSource::new(arena(MIB, 0), MIB) }));
        assert_eq!(ashlar::start_on(source), Ok(true));
        let with_area = exhaust(64);
        ashlar::testing::limit_cpus(0);
        let without = exhaust(64);
        // Two sheaves of the first CPU stay in its slots.
        assert!(without + 2 * ashlar::MAX_SHEAF_CAPACITY >= with_area, "{without} objects after {with_area}");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

#[test]
fn system_pages_of_every_size_work() {
    for page_size in [4096, 16_384, 65_536] {
        for &engine in SOME {
            // Searches of `slob` are slow.
            let size = if engine == "slob" { 4 * MIB } else { 16 * MIB };
            lives_in("system_pages_of_every_size_work", engine, size, page_size, 24);
        }
    }
}

/// Free pages of slabs in use are returned too, as whole system pages. Whether the source takes
/// them or not, every object exists and is freed once.
#[test]
fn pages_of_slabs_in_use_go_back_as_the_system_has_them() {
    const SIZE: usize = 1000;
    let test = "pages_of_slabs_in_use_go_back_as_the_system_has_them";
    for (page_size, zeroes) in [(4096, true), (16_384, true), (65_536, true), (4096, false)] {
        let outcome = child(test, &format!("{page_size} {zeroes}"), &[], || {
            ashlar::configure("reaper=off,max_order=5,min_order=5").expect("before the start");
            // SAFETY: leaked, zeroed memory with no other user.
            let arena = unsafe { ArenaSource::with_page_size(arena(32 * MIB, 24), 32 * MIB, page_size) };
            let source = Strict::new(arena, page_size, Duration::ZERO);
            source.zeroes.store(zeroes, Ordering::Relaxed);
            assert_eq!(ashlar::start_on(source), Ok(true));
            let cache = KmemCache::create("sparse", SIZE, &CacheArgs::default()).expect("a cache");
            let take = |token| {
                let object = cache.alloc().expect("memory").as_ptr();
                // SAFETY: memory that was just allocated.
                unsafe { fill(object, SIZE, token) };
                (object, SIZE, token, true)
            };
            let mut live: Vec<Live> = (0..10_000).map(take).collect();
            for round in 0..3 {
                // Keep every 150th, and with it its slab.
                let (kept, freed): (Vec<Live>, Vec<Live>) = live.into_iter().partition(|live| live.2 % 150 == round);
                freed.into_iter().for_each(|object| bury(Some(&cache), object));
                let before = source.released.load(Ordering::Relaxed);
                ashlar::reap();
                assert!(source.released.load(Ordering::Relaxed) > before || !zeroes, "nothing went back");
                assert_eq!(cache.info().usage.live, kept.len());
                live = kept;
                live.extend((0..10_000).map(take));
                let mut places: Vec<usize> = live.iter().map(|live| live.0 as usize).collect();
                places.sort_unstable();
                assert!(places.windows(2).all(|pair| pair[0] + SIZE <= pair[1]), "an object was handed out twice");
                assert!(cache.info().usage.objects < live.len() + 3000, "objects were lost: {:?}", cache.info().usage);
            }
            live.into_iter().for_each(|object| bury(Some(&cache), object));
            cache.destroy().map_err(|(_, e)| e).expect("empty");
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

/// Memory that the reaper is returning is free memory that no thread finds. A thread that finds no
/// other memory waits for it.
#[test]
fn memory_that_is_being_given_back_is_waited_for() {
    let outcome = child("memory_that_is_being_given_back_is_waited_for", "waits", &[], || {
        ashlar::configure("reaper=off").expect("before the start");
        // SAFETY: leaked, zeroed memory with no other user.
        let arena = unsafe { ArenaSource::new(arena(4 * MIB, 0), 4 * MIB) };
        let source = Strict::new(arena, 4096, Duration::from_millis(5));
        assert_eq!(ashlar::start_on(source), Ok(true));
        let most = exhaust(8192);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    ashlar::reap();
                    // A round, then a pause, as in the background thread.
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
            for round in 0..10 {
                let released = source.released.load(Ordering::Relaxed);
                while source.released.load(Ordering::Relaxed) == released {
                    std::thread::yield_now();
                }
                let count = exhaust(8192);
                over.store(count * 10 < most * 9, Ordering::Relaxed);
                assert!(count * 10 >= most * 9, "round {round}: {count} objects, {most} without a reaper");
            }
            over.store(true, Ordering::Relaxed);
        });
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// All free memory is in stores, and several threads find none at the same time. One of them asks
/// for it; the others wait for the result, and none is refused.
#[test]
fn who_is_not_the_first_to_ask_for_memory_waits_for_the_first() {
    const THREADS: usize = 4;
    let test = "who_is_not_the_first_to_ask_for_memory_waits_for_the_first";
    for engine in ["ashlar", "slab", "slab24", "slub-bulk"] {
        let outcome = child(test, &format!("{test} {engine}"), &[("ASHLAR_OPTIONS", "reaper=off")], || {
            // SAFETY: leaked, zeroed memory with no other user.
            let source = Box::leak(Box::new(unsafe { ArenaSource::new(arena(4 * MIB, 0), 4 * MIB) }));
            choose(engine);
            assert_eq!(ashlar::start_on(source), Ok(true));
            exhaust(1024);
            let most = exhaust(4096);
            for round in 0..200 {
                // All memory goes to the stores of another size.
                exhaust(1024);
                let start = std::sync::Barrier::new(THREADS);
                let each = most * 9 / 10 / THREADS;
                let take = || {
                    let mut live = Vec::with_capacity(each);
                    start.wait();
                    live.extend((0..each).map(|_| ashlar::kmalloc(4096).addr()));
                    live
                };
                let live: Vec<usize> = std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(take)).collect();
                    threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
                });
                let refused = live.iter().filter(|&&at| at == 0).count();
                // SAFETY: live, or null; freed once.
                live.into_iter().for_each(|at| unsafe { ashlar::kfree(at as *mut u8) });
                assert_eq!(refused, 0, "{engine}, round {round}: refused of {}", THREADS * each);
            }
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

/// Runs a life on an arena where the n-th request for memory and all later ones fail. Returns the
/// number of requests.
fn fails_at(test: &str, engine: &str, n: usize) -> Option<usize> {
    let steps = if engine == "slob" { 4000 } else { 20_000 };
    let outcome = child(test, &format!("{test} {engine} {n}"), &[], || {
        choose(engine);
        // SAFETY: leaked, zeroed memory with no other user.
        let source = Box::leak(Box::new(unsafe { ArenaSource::new(arena(8 * MIB, 0), 8 * MIB) }));
        source.fail_from(n);
        let started = ashlar::start_on(source).expect("the first start");
        if !started {
            assert!(ashlar::kmalloc(8).is_null() && ashlar::kzalloc(100_000).is_null());
            assert!(KmemCache::create("never", 8, &CacheArgs::default()).is_err());
            // SAFETY: null is ignored.
            unsafe { ashlar::kfree(core::ptr::null_mut()) };
        }
        life(steps);
        tell("requests", source.requests());
        // Memory is available again, and the refusals must not have broken anything.
        source.fail_from(usize::MAX);
        if started {
            assert!(exhaust(64) * 64 > tenths(engine) * MIB, "the arena cannot be used after a refusal");
            life(steps);
        }
    });
    outcome.map(|child| child.succeeded().told("requests").parse().expect("a number"))
}

#[test]
fn any_request_for_memory_may_fail() {
    let test = "any_request_for_memory_may_fail";
    for engine in SOME {
        // One run without failures counts the requests; then each of them fails once.
        let Some(requests) = fails_at(test, engine, usize::MAX) else {
            (0..MOST).for_each(|n| _ = fails_at(test, engine, n));
            continue;
        };
        assert!((8..MOST).contains(&requests), "{requests} requests: too few to show much, or too many for this test");
        for n in 0..=requests {
            fails_at(test, engine, n);
        }
    }
}

/// Most requests that the test tries one by one. More would mean that it tests something else.
const MOST: usize = 150;
