//! Debugged caches: what is caught, how it is reported, and the kernel's own tests of it.
//!
//! Each case is a child process, with `ASHLAR_DEBUG` or with flags of its own.

mod common;

use core::ptr::NonNull;
use std::os::unix::process::ExitStatusExt;

use ashlar::{CacheArgs, DebugFlags, Engine, KmemCache};
use common::{child, conformance, tell};

const Z: DebugFlags = DebugFlags::RED_ZONE;
const P: DebugFlags = DebugFlags::POISON;
const U: DebugFlags = DebugFlags::STORE_USER;
const GO_ON: (&str, &str) = ("ASHLAR_OPTIONS", "reaper=off,on_error=quarantine");

fn cache(flags: DebugFlags) -> KmemCache {
    KmemCache::create("victim", 64, &CacheArgs::DEFAULT.debug(flags)).expect("a cache")
}

fn take(cache: &KmemCache) -> *mut u8 {
    cache.alloc().expect("memory").as_ptr()
}

fn give(cache: &KmemCache, object: *mut u8) {
    // SAFETY: an object of the cache, or an address whose free is what is tested.
    unsafe { cache.free(NonNull::new(object).expect("not null")) };
}

/// Writes a byte that differs from what is there.
fn damage(at: *mut u8) {
    // SAFETY: a byte of a slab of ours. Writing to it is what is tested.
    unsafe { at.write_volatile(!at.read_volatile()) };
}

fn validate(cache: &KmemCache) -> usize {
    cache.validate().expect("a debugged cache")
}

/// Runs `body` in a child that goes on after reports. Returns what it printed.
fn printed(test: &str, role: &str, env: &[(&str, &str)], body: fn()) -> Option<String> {
    let env: Vec<_> = [GO_ON].iter().chain(env).copied().collect();
    Some(child(test, role, &env, body)?.succeeded().stderr)
}

/// The tests of the kernel's lib/tests/slub_kunit.c, from their description: the number of errors
/// that a validation counts is that of the kernel.
#[test]
fn the_kernels_tests_count_as_many_errors_as_there() {
    let test = "the_kernels_tests_count_as_many_errors_as_there";
    printed(test, test, &[], || {
        // test_clobber_zone
        let zoned = cache(Z);
        let object = take(&zoned);
        damage(object.wrapping_add(64));
        assert_eq!(validate(&zoned), 2, "test_clobber_zone");
        assert_eq!(validate(&zoned), 0, "it was restored");
        give(&zoned, object);

        // test_next_pointer: the link lies behind the object.
        let poisoned = cache(P);
        let object = take(&poisoned);
        give(&poisoned, object);
        let link = object.wrapping_add(64).cast::<u64>();
        // SAFETY: the word lies in the slab; to write there is what is tested.
        let good = unsafe { link.read_volatile() };
        damage(link.cast());
        assert_eq!(validate(&poisoned), 3, "test_next_pointer: the chain, the count, and its repair");
        // SAFETY: as above.
        unsafe { link.write_volatile(good) };
        assert_eq!(validate(&poisoned), 2, "the count, and its repair");
        assert_eq!(validate(&poisoned), 0);

        // test_first_word, test_clobber_50th_byte
        for (at, name) in [(0, "test_first_word"), (50, "test_clobber_50th_byte")] {
            let poisoned = cache(P);
            let object = take(&poisoned);
            give(&poisoned, object);
            // SAFETY: as above.
            unsafe { object.wrapping_add(at).write_volatile(0x78) };
            assert_eq!(validate(&poisoned), 2, "{name}");
            assert_eq!(validate(&poisoned), 0);
        }

        // test_clobber_redzone_free
        let zoned = cache(Z);
        let object = take(&zoned);
        give(&zoned, object);
        damage(object.wrapping_add(64));
        assert_eq!(validate(&zoned), 2, "test_clobber_redzone_free");

        // test_leak_destroy
        let leaking = cache(Z);
        let object = take(&leaking);
        let (leaking, _) = leaking.destroy().expect_err("an object is in use");
        give(&leaking, object);
        assert_eq!(validate(&leaking), 0);
        leaking.destroy().map_err(|(_, error)| error).expect("empty");
    });
}

/// A validation returns its count, even where the same finding by a free would end the program.
#[test]
fn a_validation_does_not_end_the_program() {
    let test = "a_validation_does_not_end_the_program";
    let outcome = child(test, test, &[("ASHLAR_OPTIONS", "reaper=off")], || {
        let zoned = cache(Z);
        damage(take(&zoned).wrapping_add(64));
        assert_eq!(validate(&zoned), 2);
        assert_eq!(validate(&zoned), 0);
    });
    if let Some(child) = outcome {
        assert!(child.succeeded().stderr.contains("Right Redzone overwritten"));
    }
}

/// test_kmalloc_redzone_access and test_krealloc_redzone_zeroing of the kernel.
#[test]
fn the_red_zone_of_kmalloc_begins_behind_the_bytes_that_were_asked_for() {
    let test = "the_red_zone_of_kmalloc_begins_behind_the_bytes_that_were_asked_for";
    let stderr = printed(test, test, &[("ASHLAR_DEBUG", "ZU,kmalloc-32,kmalloc-64,kmalloc-128")], || {
        let small = ashlar::kmalloc(18);
        damage(small.wrapping_add(18));
        damage(small.wrapping_add(19));
        let counted = counted("kmalloc-32");
        assert_eq!(counted, Some(2), "test_kmalloc_redzone_access");
        // SAFETY: live.
        unsafe { ashlar::kfree(small) };

        // SAFETY: each is live, and its bytes are its own.
        unsafe {
            let first = ashlar::kmalloc(48);
            first.write_bytes(0xff, 48);
            let bytes =
                |at: *mut u8, range: core::ops::Range<usize>| range.map(|i| at.add(i).read()).collect::<Vec<_>>();
            assert_eq!(bytes(first, 48..64), [0xcc; 16]);
            let shrunk = ashlar::krealloc(first, 40);
            assert_eq!(shrunk, first);
            assert_eq!(bytes(shrunk, 40..64), [0xcc; 24]);
            let grown = ashlar::krealloc(shrunk, 56);
            assert_eq!(grown, shrunk);
            assert_eq!(bytes(grown, 0..40), [0xff; 40]);
            assert_eq!(bytes(grown, 56..64), [0xcc; 8]);
            assert_eq!(ashlar::ksize(grown), 56);
            let moved = ashlar::krealloc(grown, 112);
            assert_ne!(moved, grown);
            assert_eq!(bytes(moved, 0..40), [0xff; 40]);
            assert_eq!(bytes(moved, 112..128), [0xcc; 16]);
            ashlar::kfree(moved);
        }
        for name in ["kmalloc-32", "kmalloc-64", "kmalloc-128"] {
            assert_eq!(self::counted(name), Some(0), "{name}");
        }
    });
    if let Some(stderr) = stderr {
        assert_eq!(stderr.matches("BUG ").count(), 1, "{stderr}");
        assert!(stderr.contains("Requested size Redzone overwritten"), "{stderr}");
    }
}

/// Validates a cache of the library's own.
fn counted(name: &str) -> Option<usize> {
    ashlar::validate(name)
}

macro_rules! cases {
    ($($name:ident: $flags:expr, [$($part:expr),*], $fix:expr, $body:expr;)*) => {$(
        /// Ends the program after its report by default, and goes on if told so.
        #[test]
        fn $name() {
            let test = stringify!($name);
            let body: fn(&KmemCache) = $body;
            let run = move || body(&cache($flags));
            if let Some(child) = child(test, test, &[("ASHLAR_OPTIONS", "reaper=off")], run) {
                assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{}", child.stderr);
                $(assert!(child.stderr.contains($part), "{} in {}", $part, child.stderr);)*
            }
            let outcome = child(test, &format!("{test} goes on"), &[GO_ON], move || {
                run();
                conformance::run();
            });
            if let Some(child) = outcome {
                let stderr = child.succeeded().stderr;
                assert_eq!(stderr.matches("BUG ").count(), 1, "{stderr}");
                for part in [$($part,)* $fix] {
                    assert!(stderr.contains(part), "{part} in {stderr}");
                }
            }
        }
    )*};
}

cases! {
    an_overflow_by_a_byte_is_found_by_the_free: Z, ["BUG victim (ashlar", "Right Redzone overwritten",
        "First byte 0x33 instead of 0xcc"], "FIX victim: Restoring Right Redzone", |cache| {
        let object = take(cache);
        damage(object.wrapping_add(64));
        give(cache, object);
    };
    an_underflow_is_found_by_the_free: Z, ["Left Redzone overwritten", "Redzone  "], "not freed", |cache| {
        let object = take(cache);
        damage(object.wrapping_sub(1));
        give(cache, object);
    };
    a_write_after_the_free_is_found_by_the_allocation: P, ["Poison overwritten",
        "First byte 0x94 instead of 0x6b"], "Marking all objects used", |cache| {
        let object = take(cache);
        give(cache, object);
        damage(object.wrapping_add(10));
        take(cache);
    };
    a_write_to_the_last_byte_after_the_free_is_found: P, ["End Poison overwritten"], "FIX victim: Restoring End Poison", |cache| {
        let object = take(cache);
        give(cache, object);
        damage(object.wrapping_add(63));
        take(cache);
    };
    a_second_free_is_found_at_once: DebugFlags::CONSISTENCY_CHECKS, ["Object already free"], "not freed", |cache| {
        let object = take(cache);
        give(cache, object);
        give(cache, object);
    };
    an_address_inside_an_object_is_no_object: U, ["Invalid object pointer"], "not freed", |cache| {
        give(cache, take(cache).wrapping_add(8));
    };
    an_object_of_another_cache_is_refused_and_its_cache_named: DebugFlags::DEFAULT,
        ["Wrong slab cache. victim but object", "is from other"], "not freed", |cache| {
        let other = KmemCache::create("other", 64, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        let object = take(&other);
        give(cache, object);
        give(&other, object);
    };
    the_stack_is_outside_of_every_slab: DebugFlags::DEFAULT, ["Attempt to free object(0x", "outside of slab"], "not freed", |cache| {
        let mut local = [0u64; 8];
        give(cache, core::hint::black_box(&raw mut local).cast());
    };
    a_link_that_was_overwritten_is_not_followed: P, ["Freechain corrupt"], "Freechain corrupt", |cache| {
        let [first, second] = [take(cache), take(cache)];
        give(cache, second);
        give(cache, first);
        damage(first.wrapping_add(64));
        for _ in 0..100 {
            assert_ne!(take(cache), core::ptr::null_mut());
        }
    };
    padding_between_objects_is_watched: P, ["Object padding overwritten"], "Restoring Object padding", |cache| {
        let object = take(cache);
        // Behind the object lie its link, its mark, and the padding of an alignment.
        let args = CacheArgs::DEFAULT.debug(P).align(64);
        let aligned = KmemCache::create("aligned", 64, &args).expect("a cache");
        let wide = take(&aligned);
        damage(wide.wrapping_add(64 + 16));
        give(&aligned, wide);
        give(cache, object);
    };
}

/// Each of the two parties is named, with the thread and the time.
#[test]
fn reports_say_who_allocated_and_who_freed() {
    let test = "reports_say_who_allocated_and_who_freed";
    let stderr = printed(test, test, &[], || {
        let cache = cache(U);
        let object = take(&cache) as usize;
        std::thread::spawn(move || {
            // SAFETY: reads the number of the thread.
            tell("freer", unsafe { libc::gettid() });
            object
        })
        .join()
        .expect("a thread");
        // SAFETY: as above.
        tell("owner", unsafe { libc::gettid() });
        give(&cache, object as *mut u8);
        give(&cache, object as *mut u8);
    });
    if let Some(stderr) = stderr {
        for part in ["Allocated: age=", "Freed: age=", " ms cpu=", "Found: age="] {
            assert!(stderr.contains(part), "{part} in {stderr}");
        }
    }
}

/// Objects are filled when they are allocated and when they are freed, but not those of a
/// constructor.
#[test]
fn poison_shows_what_was_never_written_and_leaves_constructed_objects_alone() {
    unsafe extern "C" fn construct(object: *mut u8) {
        // SAFETY: memory of the cache's size.
        unsafe { object.write_bytes(0x11, 64) };
    }
    let bytes = |at: *mut u8| {
        // SAFETY: 64 bytes of a slab.
        unsafe { core::slice::from_raw_parts(at, 64) }.to_vec()
    };
    let poisoned = cache(P);
    let object = take(&poisoned);
    let fresh = bytes(object);
    assert!(fresh[..63].iter().all(|&byte| byte == 0x6b) && fresh[63] == 0xa5, "{fresh:x?}");
    give(&poisoned, object);
    assert_eq!(bytes(object), fresh);
    // SAFETY: the function writes to memory of this size.
    let ctor = unsafe { ashlar::Constructor::new(core::alloc::Layout::new::<[u8; 64]>(), construct) };
    let args = CacheArgs::DEFAULT.debug(DebugFlags::DEFAULT).ctor(ctor);
    let constructed = KmemCache::create("constructed", 64, &args).expect("a cache");
    let object = take(&constructed);
    assert_eq!(bytes(object), [0x11; 64]);
    give(&constructed, object);
    assert_eq!(bytes(object), [0x11; 64], "the program's state stays");
    assert_eq!(validate(&constructed), 0);
}

/// `ASHLAR_DEBUG` reaches caches of the program, of kmalloc and of malloc, by name, and the others
/// stay as they were.
#[test]
fn the_environment_chooses_caches_by_name() {
    let test = "the_environment_chooses_caches_by_name";
    printed(test, test, &[("ASHLAR_DEBUG", "FZ,conn*,kmalloc-64;P,malloc-*")], || {
        let flags = |name: &str, args: &CacheArgs| {
            let cache = KmemCache::create(name, 100, args).expect("a cache");
            (cache.engine(), cache.debug_flags())
        };
        let fz = DebugFlags::CONSISTENCY_CHECKS.with(Z);
        assert_eq!(flags("connection", &CacheArgs::DEFAULT), (Engine::Debug, fz));
        assert_eq!(flags("con", &CacheArgs::DEFAULT), (Engine::Sheaves, DebugFlags::NONE));
        assert_eq!(flags("connection", &CacheArgs::DEFAULT.no_user_debug(true)).0, Engine::Sheaves);
        assert_eq!(flags("connect", &CacheArgs::DEFAULT.debug(U)).1, fz.with(U));
        let engine = |name: &str| common::of_cache(name, |info| info.engine);
        ashlar::kmalloc(1);
        assert_eq!((engine("kmalloc-64"), engine("kmalloc-32")), (Engine::Debug, Engine::Sheaves));
        let object = ashlar::malloc::malloc(100);
        assert_eq!(engine("malloc-112"), Engine::Debug);
        // SAFETY: live.
        unsafe {
            assert_eq!(ashlar::malloc::malloc_usable_size(object), 100, "as many as were asked for");
            assert_eq!(object.read(), 0x6b);
            ashlar::malloc::free(object);
        }
    });
}

/// malloc of debugged classes: the byte behind what was asked for is watched, and realloc keeps
/// what it must.
#[test]
fn malloc_is_watched_to_the_byte() {
    let test = "malloc_is_watched_to_the_byte";
    let stderr = printed(test, test, &[("ASHLAR_DEBUG", "")], || {
        use ashlar::malloc::{calloc, free, malloc, realloc};
        // SAFETY: each is live and freed once; the writes beyond the end are what is tested.
        unsafe {
            for size in [1usize, 7, 16, 20, 100, 1000, 5000, 28_000] {
                let object = malloc(size);
                assert!(object.is_aligned_to_16(), "{size}");
                object.write_bytes(1, size);
                let grown = realloc(object, size + 3);
                grown.write_bytes(2, size + 3);
                let shrunk = realloc(grown, size);
                assert_eq!(shrunk.read(), 2);
                free(shrunk);
                let zeroed = calloc(1, size);
                assert!((0..size).all(|at| zeroed.add(at).read() == 0));
                free(zeroed);
            }
            let object = malloc(20);
            damage(object.add(20));
            free(object);
        }
    });
    if let Some(stderr) = stderr {
        assert_eq!(stderr.matches("BUG ").count(), 1, "{stderr}");
        assert!(stderr.contains("BUG malloc-32") && stderr.contains("Requested size Redzone overwritten"), "{stderr}");
    }
}

trait Aligned {
    fn is_aligned_to_16(&self) -> bool;
}

impl Aligned for *mut u8 {
    fn is_aligned_to_16(&self) -> bool {
        (*self as usize).is_multiple_of(16)
    }
}

/// Every combination of flags, sizes and alignments: objects are aligned, apart, and hold what was
/// written, and a validation finds nothing.
#[test]
fn every_combination_of_flags_serves_objects_of_every_shape() {
    let all = [DebugFlags::CONSISTENCY_CHECKS, Z, P, U];
    for bits in 1..16usize {
        let chosen = all.iter().enumerate().filter(|(at, _)| bits & 1 << at != 0);
        let flags = chosen.fold(DebugFlags::NONE, |sum, (_, &flag)| sum.with(flag));
        for (size, align) in [(1, 0), (8, 0), (24, 8), (61, 64), (512, 512), (3000, 0), (4096, 4096), (70_000, 0)] {
            let args = CacheArgs::DEFAULT.debug(flags).align(align);
            let cache = KmemCache::create("shape", size, &args).expect("a cache");
            let mut live: Vec<_> = (0..40u64).map(|token| (take(&cache), token)).collect();
            for &(at, token) in &live {
                assert!((at as usize).is_multiple_of(align.max(8)), "{flags} {size} {align}");
                // SAFETY: fresh bytes.
                unsafe { common::fill(at, size, token) };
            }
            for (at, token) in live.drain(..).step_by(2).collect::<Vec<_>>() {
                // SAFETY: live, freed once.
                unsafe { common::check(at, size, size, token) };
                give(&cache, at);
            }
            assert_eq!(validate(&cache), 0, "{flags} {size} {align}");
            cache.shrink();
        }
    }
}

/// `A`: allocations fail as `ASHLAR_FAILSLAB` says, in caches with the flag alone.
#[test]
fn allocations_fail_as_failslab_says() {
    let test = "allocations_fail_as_failslab_says";
    let env = [("ASHLAR_DEBUG", "A,failing"), ("ASHLAR_FAILSLAB", "10,100,0,7")];
    printed(test, test, &env, || {
        let failing = KmemCache::create("failing", 64, &CacheArgs::DEFAULT).expect("a cache");
        let other = KmemCache::create("other", 64, &CacheArgs::DEFAULT).expect("a cache");
        let failed: Vec<_> = (1..=200).filter(|_| failing.alloc().is_none()).collect();
        assert_eq!(failed, [10, 20, 30, 40, 50, 60, 70], "one in ten, seven times");
        assert!((0..200).all(|_| other.alloc().is_some()));
    });
}

/// `T` prints a line for each call.
#[test]
fn a_traced_cache_prints_its_calls() {
    let test = "a_traced_cache_prints_its_calls";
    let stderr = printed(test, test, &[("ASHLAR_DEBUG", "T,traced")], || {
        let traced = KmemCache::create("traced", 64, &CacheArgs::DEFAULT).expect("a cache");
        for _ in 0..3 {
            give(&traced, take(&traced));
        }
    });
    if let Some(stderr) = stderr {
        assert_eq!(stderr.matches("TRACE traced alloc 0x").count(), 3, "{stderr}");
        assert_eq!(stderr.matches("TRACE traced free 0x").count(), 3, "{stderr}");
    }
}

/// `O`: caches whose slabs would need a higher order go without what makes objects larger.
#[test]
fn higher_orders_can_be_excluded() {
    let test = "higher_orders_can_be_excluded";
    printed(test, test, &[("ASHLAR_DEBUG", "FZPUO")], || {
        let flags = |size| KmemCache::create("sized", size, &CacheArgs::DEFAULT).expect("a cache").debug_flags();
        assert_eq!(flags(64), DebugFlags::DEFAULT);
        assert_eq!(flags(4096), DebugFlags::CONSISTENCY_CHECKS);
    });
}

#[test]
fn what_is_not_in_the_grammar_is_named_and_left_out() {
    let test = "what_is_not_in_the_grammar_is_named_and_left_out";
    let env = [("ASHLAR_DEBUG", "FXZ"), ("ASHLAR_FAILSLAB", "1,2")];
    let stderr = printed(test, test, &env, || {
        assert_eq!(cache(DebugFlags::NONE).debug_flags(), DebugFlags::NONE);
    });
    if let Some(stderr) = stderr {
        let lines: Vec<_> = stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{stderr}");
        assert!(lines[0].starts_with("ashlar: ASHLAR_DEBUG: option `X`: expected letters"), "{stderr}");
        assert!(lines[1].starts_with("ashlar: ASHLAR_FAILSLAB: expected INTERVAL"), "{stderr}");
    }
}

/// Threads allocate and free objects of one cache while another thread validates it.
#[test]
fn a_validation_beside_work_finds_nothing() {
    let cache = cache(DebugFlags::DEFAULT);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let cache = &cache;
            scope.spawn(move || {
                let mut live = Vec::new();
                for round in 0..3000u64 {
                    let token = thread << 32 | round;
                    let at = take(cache);
                    // SAFETY: fresh bytes.
                    unsafe { common::fill(at, 64, token) };
                    live.push((at, token));
                    if live.len() > 60 {
                        let (at, token) = live.swap_remove(round as usize % 60);
                        // SAFETY: live, freed once.
                        unsafe { common::check(at, 64, 64, token) };
                        give(cache, at);
                    }
                }
                live.into_iter().for_each(|(at, _)| give(cache, at));
            });
        }
        for _ in 0..50 {
            assert_eq!(validate(&cache), 0);
        }
    });
    assert_eq!(validate(&cache), 0);
    cache.destroy().map_err(|(_, error)| error).expect("empty");
}

/// Allocates by a call stack of its own.
#[inline(never)]
fn first_site(cache: &KmemCache) -> *mut u8 {
    core::hint::black_box(take(core::hint::black_box(cache)))
}

#[inline(never)]
fn second_site(cache: &KmemCache) -> *mut u8 {
    core::hint::black_box(take(core::hint::black_box(cache))).wrapping_add(core::hint::black_box(0))
}

#[test]
fn traces_count_objects_by_the_stacks_that_allocated_and_freed_them() {
    let test = "traces_count_objects_by_the_stacks_that_allocated_and_freed_them";
    printed(test, test, &[], || {
        let cache = cache(U);
        let mut live: Vec<_> = (0..core::hint::black_box(70)).map(|_| first_site(&cache)).collect();
        live.extend((0..core::hint::black_box(30)).map(|_| second_site(&cache)));
        let mut counts = Vec::new();
        let stacks = cache.alloc_traces(|trace| {
            assert!(!trace.frames().is_empty() && trace.frames().iter().all(|&frame| frame != 0), "{trace:?}");
            counts.push(trace.count);
        });
        assert_eq!((stacks, &*counts), (Some(2), [70, 30].as_slice()));
        let threads = |trace: &ashlar::Trace| (trace.thread_min, trace.thread_max, trace.cpus.count_ones() > 0);
        let own = std::process::id();
        cache.alloc_traces(|trace| assert!(threads(trace).0 >= own && threads(trace).2, "{trace:?}"));
        assert_eq!(cache.free_traces(|_| panic!("none was freed")), Some(0));
        for &object in &live[..core::hint::black_box(40)] {
            give(&cache, object);
        }
        let mut freed = Vec::new();
        // The callback may allocate from the same cache.
        cache.free_traces(|trace| {
            freed.push((trace.count, trace.age_min <= trace.age_max));
            give(&cache, take(&cache));
        });
        assert_eq!(freed, [(40, true)]);
        let mut left = Vec::new();
        cache.alloc_traces(|trace| left.push(trace.count));
        assert_eq!(left, [30, 30]);
        assert_eq!(self::cache(Z).alloc_traces(|_| {}), None, "without U");
    });
}

#[test]
fn an_address_is_told_whose_it_is() {
    let test = "an_address_is_told_whose_it_is";
    let out = printed(test, test, &[], || {
        let debugged = cache(U.with(Z));
        let object = take(&debugged);
        let line = |what: &str, at: *const u8| {
            eprintln!("- {what}");
            eprintln!("= {}", ashlar::dump_obj(at));
        };
        line("inside", object.wrapping_add(5));
        line("red zone", object.wrapping_sub(3));
        give(&debugged, object);
        line("freed", object);
        let plain = KmemCache::create("plain", 64, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        line("plain", take(&plain));
        line("malloc", ashlar::malloc::malloc(100).wrapping_add(99));
        let large = ashlar::malloc::malloc(100_000);
        line("large", large.wrapping_add(50_000));
        let local = 0u8;
        line("stack", &raw const local);
        line("null", core::ptr::null());
    });
    let Some(out) = out else { return };
    let part = |what: &str| {
        out.split(&format!("- {what}\n")).nth(1).and_then(|rest| rest.split("\n= ").next()).expect("printed")
    };
    let has = |what: &str, words: &[&str]| {
        let text = part(what);
        assert!(words.iter().all(|word| text.contains(word)), "{what}: {text}");
    };
    has("inside", &[" is 5 bytes into the object ", " of 64 bytes of cache victim, in use", "\nAllocated: age="]);
    has("red zone", &[" is 3 bytes before the object "]);
    has("freed", &[" is 0 bytes into the object ", "cache victim, free", "\nAllocated: ", "\nFreed: "]);
    has("plain", &["of cache plain, in use or free"]);
    has("malloc", &[" is 99 bytes into the object ", " of 112 bytes of cache malloc-112, in use"]);
    has("large", &[" is 50000 bytes into the large object "]);
    has("stack", &[" is no memory of ashlar"]);
    has("null", &[" is no memory of ashlar"]);
    assert_eq!(out.matches("\n= true").count(), 6);
}
