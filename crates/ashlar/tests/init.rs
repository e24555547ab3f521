//! `init_on_alloc` and `init_on_free`, for every engine: memory is zero when it is allocated, or
//! holds nothing of what was there once it is freed.

mod common;

use core::alloc::Layout;
use core::ptr::NonNull;

use ashlar::{CacheArgs, Constructor, Engine, KmemCache, malloc};
use common::child;

/// What the program writes. No link of a freelist and no poison has four such bytes in a row.
const DIRT: u8 = 0xa5;
const SIZES: [usize; 11] = [1, 24, 100, 128, 700, 5000, 8192, 20_000, 50_000, 100_000, 3 << 20];

fn bytes_at<'a>(at: *const u8, bytes: usize) -> &'a [u8] {
    // SAFETY: the zone stays mapped, and no other thread writes to these bytes.
    unsafe { core::slice::from_raw_parts(at, bytes) }
}

#[track_caller]
fn is_zero(what: &str, at: *const u8, bytes: usize) {
    assert!(!at.is_null(), "{what}: no memory");
    let dirty = bytes_at(at, bytes).iter().position(|&byte| byte != 0);
    assert_eq!(dirty, None, "{what}: {bytes} bytes at {at:p}");
}

/// Panics if four bytes in a row are those that the program wrote.
#[track_caller]
fn is_forgotten(what: &str, at: *const u8, bytes: usize) {
    let left = bytes_at(at, bytes).windows(4).position(|bytes| bytes == [DIRT; 4]);
    assert_eq!(left, None, "{what}: {bytes} bytes at {at:p}");
}

fn soil(at: *mut u8, bytes: usize) {
    // SAFETY: the caller has just allocated that many bytes.
    unsafe { at.write_bytes(DIRT, bytes) };
}

/// How memory of one kind is allocated, measured and freed.
struct Kind {
    name: &'static str,
    alloc: fn(usize) -> *mut u8,
    bytes: unsafe fn(*const u8) -> usize,
    free: unsafe extern "C" fn(*mut u8),
}

fn kmalloc_here(size: usize) -> *mut u8 {
    ashlar::kmalloc_on(size, ashlar::NodeId(0))
}

fn aligned(size: usize) -> *mut u8 {
    malloc::malloc_aligned(256, size)
}

fn in_calloc(size: usize) -> *mut u8 {
    malloc::calloc(1, size)
}

const KINDS: [Kind; 5] = [
    Kind { name: "kmalloc", alloc: |size| ashlar::kmalloc(size), bytes: ashlar::ksize, free: ashlar::kfree },
    Kind { name: "kmalloc_on", alloc: kmalloc_here, bytes: ashlar::ksize, free: ashlar::kfree },
    Kind { name: "malloc", alloc: |size| malloc::malloc(size), bytes: malloc::malloc_usable_size, free: malloc::free },
    Kind { name: "malloc_aligned", alloc: aligned, bytes: malloc::malloc_usable_size, free: malloc::free },
    Kind { name: "calloc", alloc: in_calloc, bytes: malloc::malloc_usable_size, free: malloc::free },
];

/// Allocates, writes and frees memory of every size, twice. `fresh` looks at memory that was just
/// allocated, `gone` at memory that was just freed.
fn sizes(fresh: fn(&str, *const u8, usize), gone: fn(&str, *const u8, usize)) {
    for kind in KINDS {
        for size in SIZES {
            let what = format!("{} of {size}", kind.name);
            let count = if size > 10_000 { 3 } else { 70 };
            for _ in 0..3 {
                let all: Vec<_> = (0..count)
                    .map(|_| {
                        let at = (kind.alloc)(size);
                        // SAFETY: just allocated.
                        let bytes = unsafe { (kind.bytes)(at) };
                        assert!(bytes >= size, "{what}: {bytes} bytes");
                        fresh(&what, at, bytes);
                        soil(at, bytes);
                        (at, bytes)
                    })
                    .collect();
                for &(at, bytes) in &all {
                    // SAFETY: allocated above, and not used any more.
                    unsafe { (kind.free)(at) };
                    gone(&what, at, bytes);
                }
            }
        }
    }
}

/// The same for caches, and for bulk calls and reserves of objects.
fn caches(fresh: fn(&str, *const u8, usize), gone: fn(&str, *const u8, usize)) {
    for size in [24, 100, 700, 5000] {
        let cache = KmemCache::create("init", size, &CacheArgs::default()).expect("a cache");
        for _ in 0..3 {
            let mut all: Vec<*mut u8> = (0..200).map(|_| cache.alloc().expect("memory").as_ptr()).collect();
            let mut bulk = [core::ptr::null_mut(); 40];
            assert!(cache.alloc_bulk(&mut bulk));
            all.extend(bulk);
            let mut reserve = cache.prefill_sheaf(20).expect("memory");
            all.extend((0..20).map(|_| reserve.alloc().expect("reserved").as_ptr()));
            all.push(cache.alloc_on(ashlar::NodeId(0)).expect("memory").as_ptr());
            for &object in &all {
                fresh("cache", object, size);
                soil(object, size);
            }
            let (bulk, single) = all.split_at(100);
            // SAFETY: allocated above, each freed once.
            unsafe {
                cache.free_bulk(bulk);
                single.iter().for_each(|&object| cache.free(NonNull::new(object).expect("an object")));
            }
            all.iter().for_each(|&object| gone("cache", object, size));
        }
        cache.destroy().map_err(|(_, error)| error).expect("empty");
    }
}

unsafe extern "C" fn construct(object: *mut u8) {
    // SAFETY: an object of 64 bytes.
    unsafe { object.write_bytes(DIRT, 64) };
}

/// A constructed object keeps its state through a free.
fn constructed() {
    let layout = Layout::from_size_align(64, 8).expect("a layout");
    // SAFETY: the function writes 64 bytes and nothing else.
    let ctor = unsafe { Constructor::new(layout, construct) };
    let args = CacheArgs::default().ctor(ctor).align(8);
    let cache = KmemCache::create("constructed", 64, &args).expect("a cache");
    for _ in 0..300 {
        let object = cache.alloc().expect("memory");
        assert_eq!(bytes_at(object.as_ptr(), 64), [DIRT; 64]);
        // SAFETY: allocated above, in the state that the constructor left.
        unsafe { cache.free(object) };
    }
}

/// Runs `body` in a child for every engine but that of debugged caches, whose objects are poison,
/// with each of `rests` behind the options.
fn each(test: &str, options: &str, rests: &[&str], body: fn()) {
    for engine in Engine::ALL.iter().filter(|&&engine| engine != Engine::Debug) {
        for rest in rests {
            let options = format!("engine={},{options}{rest}", engine.id());
            let Some(child) = child(test, &options, &[("ASHLAR_OPTIONS", &options)], body) else { continue };
            let child = child.succeeded();
            assert!(!child.stderr.contains("ashlar"), "{options}: {}", child.stderr);
        }
    }
}

#[test]
fn memory_is_zero_when_allocated() {
    each("memory_is_zero_when_allocated", "init_on_alloc=1", &["", ",nodes=4"], || {
        sizes(is_zero, |_, _, _| {});
        caches(is_zero, |_, _, _| {});
        constructed();
    });
}

#[test]
fn memory_is_cleared_when_freed() {
    each("memory_is_cleared_when_freed", "init_on_free=on", &["", ",nodes=4"], || {
        sizes(|_, _, _| {}, is_forgotten);
        caches(|_, _, _| {}, is_forgotten);
        constructed();
    });
}

#[test]
fn both_options_hold_together() {
    each("both_options_hold_together", "init_on_alloc=on,init_on_free=on", &[",percpu=lock"], || {
        sizes(is_zero, is_forgotten);
        caches(is_zero, is_forgotten);
    });
}

/// A larger object in place has zeros behind its old end, where the program never had bytes.
#[test]
fn what_realloc_adds_is_zero() {
    let outcome = child("what_realloc_adds_is_zero", "grow", &[("ASHLAR_OPTIONS", "init_on_alloc=on")], || {
        // Dirty pages, which are free again.
        let pages: Vec<_> = (0..8).map(|_| malloc::malloc(1 << 20)).collect();
        for &at in &pages {
            soil(at, 1 << 20);
            // SAFETY: allocated above.
            unsafe { malloc::free(at) };
        }
        let mut stayed = 0;
        for size in [40_000, 100_000, 300_000] {
            let old = malloc::malloc(size);
            // SAFETY: allocated above; `new` replaces it.
            let (old_bytes, new) = unsafe { (malloc::malloc_usable_size(old), malloc::realloc(old, size * 2)) };
            stayed += usize::from(new == old);
            // SAFETY: just allocated.
            let bytes = unsafe { malloc::malloc_usable_size(new) };
            is_zero("realloc", new.wrapping_add(old_bytes), bytes - old_bytes);
        }
        assert!(stayed > 0, "none grew in place");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// The pages that a run loses are cleared, too.
#[test]
fn what_realloc_gives_up_is_cleared() {
    let outcome = child("what_realloc_gives_up_is_cleared", "cut", &[("ASHLAR_OPTIONS", "init_on_free=on")], || {
        let at = malloc::malloc(200_000);
        soil(at, 200_000);
        // SAFETY: allocated above.
        assert_eq!(unsafe { malloc::realloc(at, 60_000) }, at, "a run shrinks in place");
        is_forgotten("realloc", at.wrapping_add(61_440), 138_000);
        assert_eq!(bytes_at(at, 60_000), [DIRT; 60_000], "what stays is not touched");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// As in the kernel, poison counts for more; without it the options hold for debugged caches.
#[test]
fn debugged_caches_are_cleared_unless_they_are_poisoned() {
    let test = "debugged_caches_are_cleared_unless_they_are_poisoned";
    let both = ("ASHLAR_OPTIONS", "init_on_alloc=on,init_on_free=on");
    let plain = child(test, "plain", &[both, ("ASHLAR_DEBUG", "FZU")], || {
        sizes(is_zero, is_forgotten);
        caches(is_zero, is_forgotten);
        let at = ashlar::kmalloc(70);
        // SAFETY: allocated above, and grown in place.
        unsafe {
            assert_eq!(ashlar::krealloc(at, 90), at);
            is_zero("krealloc", at, 90);
            ashlar::kfree(at);
        }
    });
    if let Some(child) = plain {
        let child = child.succeeded();
        assert!(!child.stderr.contains("BUG"), "{}", child.stderr);
    }
    let poisoned = child(test, "poisoned", &[both, ("ASHLAR_DEBUG", "P")], || {
        let at = malloc::malloc(100);
        assert_eq!(bytes_at(at, 99), [0x6b; 99]);
        is_zero("calloc", malloc::calloc(4, 25), 100);
    });
    if let Some(child) = poisoned {
        child.succeeded();
    }
}

/// A second free is found as it is without the options.
#[test]
fn a_second_free_is_reported() {
    for options in ["init_on_free=on", "init_on_alloc=on"] {
        let outcome = child("a_second_free_is_reported", options, &[("ASHLAR_OPTIONS", options)], || {
            let at = malloc::malloc(100);
            // SAFETY: the second one is the mistake that is tested.
            unsafe {
                malloc::free(at);
                malloc::free(at);
            }
        });
        let Some(child) = outcome else { continue };
        assert!(!child.finished && child.stderr.contains("malloc-112"), "{options}: {}", child.stderr);
    }
}

/// In other processes the fast paths are as before.
#[test]
fn without_the_options_the_fast_paths_are_open() {
    for (options, open) in [("init_on_free=off", "true"), ("init_on_free=on", "false")] {
        let outcome =
            child("without_the_options_the_fast_paths_are_open", options, &[("ASHLAR_OPTIONS", options)], || {
                // SAFETY: allocated in the same line.
                unsafe { malloc::free(malloc::malloc(1)) };
                common::tell("open", malloc::has_fast_paths());
            });
        let Some(child) = outcome else { continue };
        let child = child.succeeded();
        if cfg!(target_arch = "x86_64") && !child.stdout.contains("mode: lock") {
            assert_eq!(child.told("open"), open, "{options}");
        }
    }
}
