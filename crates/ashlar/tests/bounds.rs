//! The bounds of `slob-seg` and `slob-cache`: the instructions of a call on any heap, and the
//! memory for a number of live bytes in any program.
#![cfg(target_arch = "x86_64")]

mod common;

use core::ptr::NonNull;

use ashlar::{CacheArgs, KmemCache};
use common::{Rng, child, step::stepped, tell};

const ENGINES: [&str; 2] = ["slob-seg", "slob-cache"];

/// Most instructions of a call that the lists of objects serve, including a few of the caller and
/// of the step counter.
const LISTS: usize = 300;
/// Most instructions of a call that opens or returns a page, by the CPU's list or by the zone.
const PAGES: usize = 900;

/// Returns the result and the number of instructions of `operation`, and whether a page was opened
/// or returned.
fn measured<R>(operation: impl FnOnce() -> R) -> (R, usize, bool) {
    let free_pages = || ashlar::zone_stats().free;
    let before = free_pages();
    let mut count = 0;
    let result = stepped(&mut |_| count += 1, operation);
    (result, count, free_pages() != before)
}

/// Most instructions seen in calls that the lists of objects served and in calls that opened or
/// returned a page.
#[derive(Default)]
struct Worst {
    lists: usize,
    pages: usize,
}

impl Worst {
    fn see(&mut self, count: usize, page: bool) {
        let worst = if page { &mut self.pages } else { &mut self.lists };
        *worst = count.max(*worst);
    }
}

/// Allocates and frees objects, one call at a time, and records the worst of each.
struct Calls {
    cache: KmemCache,
    alloc: Worst,
    free: Worst,
    /// Whether the next calls are counted, which takes thousands of times as long.
    counted: bool,
}

/// A live object, and whether it is of the cache.
type Object = (*mut u8, bool);

impl Calls {
    /// Allocates by `kmalloc`, or from the cache if the size is 0.
    fn alloc(&mut self, size: usize) -> Object {
        let cache = &self.cache;
        let of_cache = || cache.alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr);
        let (at, count, page) = match (size, self.counted) {
            (0, true) => measured(of_cache),
            (_, true) => measured(|| ashlar::kmalloc(size)),
            (0, false) => (of_cache(), 0, false),
            (_, false) => (ashlar::kmalloc(size), 0, false),
        };
        assert!(!at.is_null());
        self.alloc.see(count, page);
        (at, size == 0)
    }

    fn free(&mut self, (at, of_cache): Object) {
        let object = NonNull::new(at).expect("live");
        // SAFETY: live, freed once.
        let free = || unsafe { if of_cache { self.cache.free(object) } else { ashlar::kfree(at) } };
        let ((), count, page) = if self.counted { measured(free) } else { (free(), 0, false) };
        self.free.see(count, page);
    }
}

/// Builds heaps of three sizes, each 400 times as large as the one before, and frees at random, so
/// that every page has holes. Then measures single calls. They find an object, take the last of a
/// page, open a page, free to a full page, or return a page.
fn on_fragmented_heaps() {
    let mut rng = Rng::new(5);
    let cache = KmemCache::create("bounds", 300, &CacheArgs::default()).expect("a cache");
    let mut calls = Calls { cache, alloc: Worst::default(), free: Worst::default(), counted: false };
    for live in [100, 2000, 40_000] {
        (calls.alloc, calls.free, calls.counted) = Default::default();
        let sizes = [8, 64, 200, 1000, 0];
        let mut objects: Vec<Object> = (0..2 * live).map(|i| calls.alloc(sizes[i % sizes.len()])).collect();
        for _ in 0..live {
            calls.free(objects.swap_remove(rng.below(objects.len())));
        }
        calls.counted = true;
        let sizes = [8, 64, 200, 1000, 2000, 0];
        for i in 0..400 {
            objects.push(calls.alloc(sizes[i % sizes.len()]));
            calls.free(objects.swap_remove(rng.below(objects.len())));
        }
        while let Some(object) = objects.pop() {
            calls.counted = objects.len() < 600;
            calls.free(object);
        }
        for size in [8, 64, 200, 1000, 2000, 4096, 0] {
            let object = calls.alloc(size);
            calls.free(object);
        }
        // More pages than a CPU's list holds, so that some come from the zone and go there.
        let pages: Vec<_> = (0..100).map(|_| calls.alloc(4096)).collect();
        pages.into_iter().for_each(|page| calls.free(page));
        for (name, worst) in [("alloc", &calls.alloc), ("free", &calls.free)] {
            tell(&format!("{live} live, {name}"), format_args!("lists {} pages {}", worst.lists, worst.pages));
            assert!(worst.lists > 20 && worst.lists <= LISTS, "{name}, {live} live: {} instructions", worst.lists);
            // Calls that opened or returned a page were seen, and kept their bound.
            assert!(worst.pages > worst.lists, "{name}, {live} live: no page");
            assert!(worst.pages <= PAGES, "{name} with a page, {live} live: {} instructions", worst.pages);
        }
    }
}

#[test]
fn no_call_takes_more_instructions_on_a_larger_heap() {
    let test = "no_call_takes_more_instructions_on_a_larger_heap";
    for engine in ENGINES {
        let options = format!("percpu=emulate,reaper=off,engine={engine}");
        if let Some(child) = child(test, engine, &[("ASHLAR_OPTIONS", &options)], on_fragmented_heaps) {
            let child = child.succeeded();
            child.stdout.lines().filter(|line| line.contains("live, ")).for_each(|line| println!("{engine}: {line}"));
        }
    }
}

/// Bytes of a page.
const PAGE: usize = ashlar::PAGE_SIZE;
/// Most bytes that the program has live.
const LIVE: usize = 1 << 20;

/// Returns the bytes in pages of kmalloc's caches.
fn footprint() -> usize {
    let mut bytes = 0;
    ashlar::for_each_cache(|cache| bytes += cache.usage.slabs * PAGE);
    bytes
}

/// Robson's adversary: fills the memory with objects of one size, frees all but one of each page,
/// and goes on to the next size. So the pages of every size stay in use. It asks for the smallest
/// size of each class, which wastes most.
fn adversary() {
    let (mut kept, mut live) = (Vec::<(*mut u8, usize)>::new(), 0);
    let (mut most, mut classes, mut rounding) = (0, 0, 1.0f64);
    for size in [8usize, 9, 17, 33, 65, 129, 257, 513, 1025, 2049] {
        let class = ashlar::kmalloc_size_roundup(size);
        let per_page = PAGE / class;
        rounding = rounding.max(PAGE as f64 / (per_page * size) as f64);
        classes += 1;
        let mut round = Vec::new();
        while live + size <= LIVE {
            let at = ashlar::kmalloc(size);
            assert!(!at.is_null());
            round.push(at);
            live += size;
        }
        // No page is opened while another one has room. So when the last page was opened, all
        // others were full of live objects.
        let bound = classes as f64 * (rounding * LIVE as f64 + PAGE as f64);
        most = most.max(footprint());
        assert!(most as f64 <= bound, "{most} bytes in pages, for {LIVE} live: more than {bound}");
        round.sort_unstable();
        let mut page = 0;
        for at in round {
            if at as usize / PAGE == page {
                // SAFETY: live, freed once.
                unsafe { ashlar::kfree(at) };
                live -= size;
            } else {
                page = at as usize / PAGE;
                kept.push((at, size));
            }
        }
    }
    tell(
        "bytes in pages for one live",
        format_args!(
            "{:.2} of at most {:.2}",
            most as f64 / LIVE as f64,
            f64::from(classes) * (rounding + PAGE as f64 / LIVE as f64)
        ),
    );
    assert!(most > 4 * LIVE, "no adversary: only {most} bytes");
    for (at, _) in kept {
        // SAFETY: live, freed once.
        unsafe { ashlar::kfree(at) };
    }
    // At most one empty page of each class is kept.
    assert!(footprint() <= classes as usize * PAGE, "{} bytes stay", footprint());
}

#[test]
fn the_memory_for_the_live_bytes_of_an_adversary_is_bounded() {
    let test = "the_memory_for_the_live_bytes_of_an_adversary_is_bounded";
    for engine in ENGINES {
        let options = format!("reaper=off,engine={engine}");
        if let Some(child) = child(test, engine, &[("ASHLAR_OPTIONS", &options)], adversary) {
            let child = child.succeeded();
            println!("{engine}: {}", child.told("bytes in pages for one live"));
        }
    }
}
