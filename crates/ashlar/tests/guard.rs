//! `guard=N`: objects that lie alone between pages without access. A child makes each mistake.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::os::unix::process::ExitStatusExt;

use ashlar::{CacheArgs, Constructor, Engine, KmemCache, malloc};
use common::{child, tell};

const EACH: [(&str, &str); 1] = [("ASHLAR_OPTIONS", "guard=1,cache.kmalloc-*.guard=on,cache.conn*.guard=on")];
const PAGE: usize = 4096;

/// Allocates until an object lies at the end of its page, or at the start.
fn object(size: usize, at_end: bool) -> *mut u8 {
    loop {
        let at = malloc::malloc(size);
        let end = (at.addr() + size).next_multiple_of(16) % PAGE;
        if (end == 0) == at_end {
            return at;
        }
        // SAFETY: allocated above.
        unsafe { malloc::free(at) };
    }
}

/// Runs a mistake in a child with each allocation guarded. Returns what it wrote, up to its end by
/// SIGABRT.
#[track_caller]
fn report_of(test: &str, role: &str, mistake: impl FnOnce()) -> Option<String> {
    let child = child(test, role, &EACH, mistake)?;
    assert!(!child.finished, "{role}: not noticed\n{}", child.stderr);
    assert_eq!(ExitStatusExt::signal(&child.status), Some(libc::SIGABRT), "{}", child.stderr);
    assert_eq!(child.stderr.matches("BUG: KFENCE: ").count(), 1, "{}", child.stderr);
    Some(child.stderr)
}

#[track_caller]
fn has(report: Option<String>, parts: &[&str]) {
    let Some(report) = report else { return };
    for part in parts {
        assert!(report.contains(part), "no `{part}` in\n{report}");
    }
}

#[test]
fn reads_and_writes_beyond_an_object_are_reported() {
    let test = "reads_and_writes_beyond_an_object_are_reported";
    let report = report_of(test, "read behind", || {
        let at = object(32, true);
        // SAFETY: the mistake that is tested.
        unsafe { at.add(32).read_volatile() };
    });
    let parts = [
        "BUG: KFENCE: out-of-bounds read",
        "(1B right of kfence-#",
        "size=32, cache=malloc-32\n",
        "allocated by thread",
    ];
    has(report, &parts);
    let report = report_of(test, "write far behind", || {
        let at = object(48, true);
        // SAFETY: the mistake that is tested.
        unsafe { at.add(48 + 99).write_volatile(1) };
    });
    has(report, &["BUG: KFENCE: out-of-bounds write", "(100B right of kfence-#", "cache=malloc-48\n"]);
    let report = report_of(test, "read before", || {
        let at = object(100, false);
        // SAFETY: the mistake that is tested.
        unsafe { at.sub(1).read_volatile() };
    });
    has(report, &["BUG: KFENCE: out-of-bounds read", "(1B left of kfence-#", "size=100, cache=malloc-112\n"]);
}

#[test]
fn uses_of_a_freed_object_are_reported_with_both_stacks() {
    let test = "uses_of_a_freed_object_are_reported_with_both_stacks";
    for (role, write) in [("read", false), ("write", true)] {
        let report = report_of(test, role, || {
            let at = malloc::malloc(64);
            // SAFETY: the mistake that is tested.
            unsafe {
                malloc::free(at);
                if write { at.write_volatile(1) } else { _ = at.add(63).read_volatile() }
            }
        });
        let bug = format!("BUG: KFENCE: use-after-free {role}");
        has(report.clone(), &[&bug, "(in kfence-#", "allocated by thread", "freed by thread"]);
        // Each of the three has a stack, with the file of this test in it.
        let frames = report.map_or(3, |report| report.split("\n\n").filter(|part| part.contains(" in guard-")).count());
        assert_eq!(frames, 3, "a stack each of the access, the allocation and the free");
    }
}

#[test]
fn bad_frees_are_reported() {
    let test = "bad_frees_are_reported";
    let report = report_of(test, "twice", || {
        let at = malloc::malloc(64);
        // SAFETY: the mistake that is tested.
        unsafe {
            malloc::free(at);
            malloc::free(at);
        }
    });
    has(report, &["BUG: KFENCE: invalid free", "by free (in kfence-#", "freed by thread"]);
    let report = report_of(test, "inside", || {
        let at = ashlar::kmalloc(64);
        // SAFETY: the mistake that is tested.
        unsafe { ashlar::kfree(at.add(16)) };
    });
    has(report, &["BUG: KFENCE: invalid free", "by kfree (in kfence-#", "cache=kmalloc-64\n"]);
}

#[test]
fn bytes_beside_an_object_are_checked_when_it_is_freed() {
    let test = "bytes_beside_an_object_are_checked_when_it_is_freed";
    let report = report_of(test, "behind", || {
        // Up to 15 bytes lie between the object and the end of its page.
        let at = object(33, true);
        // SAFETY: the mistake that is tested.
        unsafe {
            at.add(34).write(0x11);
            malloc::free(at);
        }
    });
    has(
        report,
        &["BUG: KFENCE: memory corruption", "Corrupted memory at 0x", "[ 0x11 . . . . . . . . . . . . . ]", "size=33"],
    );
}

/// Each byte of the page around an object, also where the object ends in the middle of a word.
#[test]
fn every_byte_beside_an_object_is_checked() {
    let outcome = child("every_byte_beside_an_object_is_checked", "every", &CACHES, || {
        let cache = KmemCache::create("connected", 51, &CacheArgs::DEFAULT).expect("a cache");
        for at_end in [false, true] {
            let object = object_of(&cache, at_end);
            let page = object.addr().get() & !(PAGE - 1);
            let own = object.addr().get() - page..object.addr().get() - page + 51;
            for offset in (0..PAGE).filter(|offset| !own.contains(offset)).step_by(7) {
                // SAFETY: the byte lies on the object's page. Writing there is the mistake that is
                // tested, and is undone.
                unsafe {
                    let byte = object.as_ptr().with_addr(page + offset);
                    let before = byte.read();
                    byte.write(before ^ 1);
                    assert_eq!(cache.validate(), Some(1), "{offset}");
                    byte.write(before);
                }
            }
            assert_eq!(cache.validate(), Some(0));
            // SAFETY: allocated above.
            unsafe { cache.free(object) };
        }
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

#[test]
fn the_program_goes_on_where_that_was_asked_for() {
    let options = [("ASHLAR_OPTIONS", "guard=1,on_error=quarantine")];
    let outcome = child("the_program_goes_on_where_that_was_asked_for", "goes on", &options, || {
        let at = malloc::malloc(64);
        // SAFETY: the mistake that is tested. The page becomes readable.
        unsafe {
            malloc::free(at);
            at.write_volatile(7);
            assert_eq!(at.read_volatile(), 7);
        }
    });
    if let Some(child) = outcome {
        let child = child.succeeded();
        assert_eq!(child.stderr.matches("BUG: KFENCE: use-after-free write").count(), 1, "{}", child.stderr);
    }
}

/// A page that a fault opened is closed again when an object beside it is freed.
#[test]
fn each_object_finds_the_pages_beside_it_closed() {
    let test = "each_object_finds_the_pages_beside_it_closed";
    let options = [("ASHLAR_OPTIONS", "guard=1,on_error=quarantine")];
    let outcome = child(test, "closed again", &options, || {
        let at = object(64, true);
        // SAFETY: the mistake that is tested, twice: the first opens the page.
        unsafe {
            at.add(64).write_volatile(1);
            at.add(64).write_volatile(2);
            malloc::free(at);
        }
        // The same page and its neighbours come again when all others were used.
        let again = loop {
            let next = object(64, true);
            // SAFETY: allocated here, freed once.
            unsafe {
                if next == at {
                    break next;
                }
                malloc::free(next);
            }
        };
        // SAFETY: the mistake that is tested.
        unsafe { again.add(64).write_volatile(3) };
    });
    if let Some(child) = outcome {
        let child = child.succeeded();
        assert_eq!(child.stderr.matches("BUG: KFENCE: out-of-bounds write").count(), 2, "{}", child.stderr);
    }
}

/// Sizes are exact, and contents survive.
#[test]
fn guarded_objects_are_resized_and_measured() {
    let outcome = child("guarded_objects_are_resized_and_measured", "resize", &EACH, || {
        for size in [1, 16, 33, 500, 4000, 4096] {
            let at = malloc::malloc(size);
            assert!(at.addr().is_multiple_of(16));
            // SAFETY: allocated here, and each old address is dead after its realloc.
            unsafe {
                assert_eq!(malloc::malloc_usable_size(at), size, "the end is exact");
                common::fill(at, size, 1);
                let at = malloc::realloc(at, size * 3);
                common::check(at, size, size, 1);
                let at = malloc::realloc(at, 8);
                common::check(at, size.min(8), size.min(8), 1);
                malloc::free(at);
            }
            let at = ashlar::kmalloc(size);
            assert!(at.addr().is_multiple_of(1 << size.trailing_zeros()), "{size} at {at:p}");
            // SAFETY: as above.
            unsafe {
                assert_eq!(ashlar::ksize(at), size);
                ashlar::kfree_sized(ashlar::krealloc(at, size + 100), size + 100);
                let zeros = malloc::calloc(size, 1);
                assert!((0..size).all(|at| zeros.add(at).read() == 0));
                malloc::free(zeros);
                let aligned = malloc::malloc_aligned(64, size);
                assert!(aligned.addr().is_multiple_of(64), "{size} at {aligned:p}");
                malloc::free(aligned);
            }
        }
    });
    if let Some(child) = outcome {
        assert_eq!(child.succeeded().stderr, "");
    }
}

/// Whether an object of 100 bytes is guarded: others have 112.
fn is_guarded(at: *mut u8) -> bool {
    // SAFETY: the caller has just allocated it.
    unsafe { malloc::malloc_usable_size(at) == 100 }
}

#[test]
fn about_one_of_so_many_is_guarded_and_the_pool_is_bounded() {
    let test = "about_one_of_so_many_is_guarded_and_the_pool_is_bounded";
    for rest in ["", ",percpu=lock", ",engine=slab", ",init_on_alloc=on", ",quarantine=9"] {
        let options = format!("guard=100{rest}");
        let outcome = child(test, &options, &[("ASHLAR_OPTIONS", &options)], || {
            let mut guarded = 0;
            for _ in 0..100_000 {
                let at = malloc::malloc(100);
                guarded += usize::from(is_guarded(at));
                // SAFETY: allocated above.
                unsafe { malloc::free(at) };
            }
            // The standard deviation is about 30.
            assert!((800..1250).contains(&guarded), "{guarded} of 100000");
            let live: Vec<_> = (0..100_000).map(|_| malloc::malloc(100)).collect();
            let guarded = live.iter().filter(|&&at| is_guarded(at)).count();
            assert_eq!(guarded, 255, "as many as the pool has room for");
            // SAFETY: allocated above.
            live.iter().for_each(|&at| unsafe { malloc::free(at) });
        });
        if let Some(child) = outcome {
            assert_eq!(child.succeeded().stderr, "", "{options}");
        }
    }
}

/// The child of a fork goes on with its copy of the pool, while threads of the parent use it.
#[test]
fn children_of_forks_have_a_pool_of_their_own() {
    let outcome = child("children_of_forks_have_a_pool_of_their_own", "fork", &EACH, || {
        let stop = core::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let at = malloc::malloc(200);
                        // SAFETY: allocated above.
                        unsafe {
                            at.write_bytes(9, 200);
                            malloc::free(at);
                        }
                    }
                });
            }
            for _ in 0..50 {
                let kept = malloc::malloc(300);
                // SAFETY: the child calls malloc and free alone, and ends.
                unsafe {
                    kept.write_bytes(5, 300);
                    let pid = libc::fork();
                    if pid == 0 {
                        for _ in 0..300 {
                            malloc::free(malloc::malloc(64));
                        }
                        let whole = (0..300).all(|at| kept.add(at).read() == 5);
                        malloc::free(kept);
                        libc::_exit(if whole { 0 } else { 1 });
                    }
                    let mut status = 0;
                    assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                    assert_eq!(status, 0);
                    malloc::free(kept);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    if let Some(child) = outcome {
        assert_eq!(child.succeeded().stderr, "");
    }
}

/// Frees that the profile and the pool both know, and objects that the profile counts.
#[test]
fn a_profile_runs_beside_guards() {
    let test = "a_profile_runs_beside_guards";
    for options in ["guard=100", "guard=100,init_on_free=on", "guard=1"] {
        let outcome = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            let share = |count: usize| {
                let is_guarded_now = |_| {
                    let at = malloc::malloc(100);
                    let guarded = is_guarded(at);
                    // SAFETY: allocated above.
                    unsafe { malloc::free(at) };
                    usize::from(guarded)
                };
                (0..count).map(is_guarded_now).sum::<usize>()
            };
            let mean = if options == "guard=1" { 20_000 } else { 200 };
            for rate in [0, 1 << 10, 0, 1] {
                if rate != 0 {
                    ashlar::profile::start(rate).expect("a profile");
                }
                let guarded = share(20_000);
                ashlar::profile::stop();
                // Five and more standard deviations.
                assert!((mean - mean / 3..=mean + mean / 3).contains(&guarded), "{guarded} of 20000 at rate {rate}");
            }
        });
        if let Some(child) = outcome {
            assert_eq!(child.succeeded().stderr, "", "{options}");
        }
    }
}

const CACHES: [(&str, &str); 1] = [("ASHLAR_OPTIONS", "guard=1,cache.conn*.guard=on")];

/// Allocates until an object lies at the end of its page, or at the start.
fn object_of(cache: &KmemCache, at_end: bool) -> NonNull<u8> {
    loop {
        let at = cache.alloc().expect("memory");
        let is_at_start = at.addr().get().is_multiple_of(PAGE);
        if is_at_start != at_end {
            return at;
        }
        // SAFETY: allocated above.
        unsafe { cache.free(at) };
    }
}

fn conn() -> KmemCache {
    KmemCache::create("connection", 104, &CacheArgs::DEFAULT).expect("a cache")
}

#[test]
fn objects_of_named_caches_are_guarded() {
    let test = "objects_of_named_caches_are_guarded";
    let report = report_of(test, "behind", || {
        let cache = conn();
        let at = object_of(&cache, true);
        // SAFETY: the mistake that is tested.
        unsafe { at.add(104).write_volatile(1) };
    });
    has(report, &["BUG: KFENCE: out-of-bounds write", "(1B right of", "size=104, cache=connection\n"]);
    let report = report_of(test, "before", || {
        let cache = conn();
        let at = object_of(&cache, false);
        // SAFETY: the mistake that is tested.
        unsafe { at.sub(32).read_volatile() };
    });
    has(report, &["BUG: KFENCE: out-of-bounds read", "(32B left of", "cache=connection\n"]);
    let report = report_of(test, "after destruction", || {
        let cache = conn();
        let at = cache.alloc().expect("memory");
        // SAFETY: freed once; the last is the mistake that is tested.
        unsafe {
            cache.free(at);
            cache.destroy().expect("no object is left");
            at.read_volatile();
        }
    });
    has(report, &["BUG: KFENCE: use-after-free read", "cache=connection\n", "freed by thread"]);
    let report = report_of(test, "twice", || {
        let cache = conn();
        let at = cache.alloc().expect("memory");
        // SAFETY: the mistake that is tested.
        unsafe {
            cache.free(at);
            cache.free(at);
        }
    });
    has(report, &["BUG: KFENCE: invalid free", "by kmem_cache_free (in kfence-#"]);
    let wrong = child(test, "of another cache", &CACHES, || {
        let (cache, other) = (conn(), KmemCache::create("conn2", 104, &CacheArgs::DEFAULT).expect("a cache"));
        let at = other.alloc().expect("memory");
        // SAFETY: the mistake that is tested.
        unsafe { cache.free(at) };
    });
    if let Some(child) = wrong {
        assert!(child.stderr.contains("is an object of cache conn2"), "{}", child.stderr);
    }
}

#[test]
fn named_caches_do_what_others_do() {
    let test = "named_caches_do_what_others_do";
    for rest in ["", ",engine=slab", ",engine=slob", ",percpu=lock", ",quarantine=9,random=on", ",nodes=4"] {
        let options = format!("guard=3,cache.conn*.guard=on,cache.malloc-*.guard=off{rest}");
        let outcome = child(test, &options, &[("ASHLAR_OPTIONS", &options)], || {
            extern "C" fn fill(at: *mut u8) {
                // SAFETY: an object of the cache below.
                unsafe { at.write_bytes(7, 200) };
            }
            // SAFETY: the function fills 200 bytes.
            let ctor = unsafe { Constructor::new(Layout::array::<u8>(200).expect("a layout"), fill) };
            let made = KmemCache::create("conn-made", 200, &CacheArgs::DEFAULT.ctor(ctor)).expect("a cache");
            let cache = conn();
            for _ in 0..20 {
                let mut bulk = [core::ptr::null_mut(); 40];
                assert!(cache.alloc_bulk(&mut bulk));
                let (one, two) = (cache.zalloc().expect("memory"), made.alloc().expect("memory"));
                // SAFETY: allocated here, and freed once.
                unsafe {
                    // Pages of that engine do not say which cache an object is of.
                    let by_address = cache.engine() != Engine::Slob;
                    assert!(!by_address || ashlar::ksize(one.as_ptr()) == 104);
                    assert!((0..104).all(|at| one.add(at).read() == 0));
                    assert!((0..200).all(|at| two.add(at).read() == 7));
                    assert!(bulk.iter().enumerate().all(|(at, object)| !bulk[..at].contains(object)));
                    assert_eq!(cache.info().usage.live, 41);
                    if by_address {
                        ashlar::kfree(one.as_ptr())
                    } else {
                        cache.free(one)
                    }
                    made.free(two);
                    cache.free_bulk(&bulk);
                }
                assert_eq!(cache.info().usage.live, 0);
            }
            // An object that is in use keeps the cache, wherever it lies.
            let kept: Vec<_> = (0..9).map(|_| cache.alloc().expect("memory")).collect();
            let (cache, _) = cache.destroy().expect_err("objects are in use");
            // SAFETY: allocated above.
            kept.into_iter().for_each(|at| unsafe { cache.free(at) });
            assert!(cache.destroy().is_ok() && made.destroy().is_ok());
        });
        if let Some(child) = outcome {
            let child = child.succeeded();
            let unexpected = child.stderr.lines().find(|line| !line.contains("destroyed while 9 objects"));
            assert_eq!(unexpected, None, "{options}");
        }
    }
}

#[test]
fn kmalloc_is_guarded_where_that_was_asked_for() {
    let test = "kmalloc_is_guarded_where_that_was_asked_for";
    for (options, guarded) in [("guard=1", false), ("guard=1,cache.kmalloc-*.guard=on", true)] {
        let outcome = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            for size in [1, 8, 33, 100, 4096] {
                let at = ashlar::kmalloc(size);
                let align = 1 << size.trailing_zeros();
                assert!(at.addr().is_multiple_of(align), "{size} at {at:p}");
                // SAFETY: allocated here; each old address is dead after its krealloc.
                unsafe {
                    at.write_bytes(3, size);
                    assert_eq!(
                        ashlar::ksize(at) == size && size != 8 && size != 4096,
                        guarded && size != 8 && size != 4096
                    );
                    ashlar::kfree_sized(ashlar::krealloc(at, size + 100), size + 100);
                    let zeros = ashlar::kzalloc(size);
                    assert!((0..size).all(|at| zeros.add(at).read() == 0));
                    ashlar::kfree_bulk(&[zeros, ashlar::kmalloc(size)]);
                }
            }
        });
        if let Some(child) = outcome {
            assert_eq!(child.succeeded().stderr, "", "{options}");
        }
    }
}

#[test]
fn what_an_address_is_can_be_asked() {
    let outcome = child("what_an_address_is_can_be_asked", "dump", &EACH, || {
        let at = object(40, true);
        assert!(ashlar::dump_obj(at.wrapping_add(5)));
        // SAFETY: allocated above.
        unsafe { malloc::free(at) };
        assert!(ashlar::dump_obj(at));
        assert!(ashlar::dump_obj(at.wrapping_add(PAGE)));
        ashlar::reap();
    });
    if let Some(child) = outcome {
        let child = child.succeeded();
        for line in
            ["lies on the page of a guarded object, in use", "of a guarded object, free", "between guarded objects"]
        {
            assert!(child.stderr.contains(line), "{}", child.stderr);
        }
    }
}

#[test]
fn a_validation_finds_what_lies_beside_objects_in_use() {
    let outcome = child("a_validation_finds_what_lies_beside_objects_in_use", "validate", &CACHES, || {
        let cache = conn();
        let at = object_of(&cache, false);
        // SAFETY: allocated above. One byte behind it is the mistake that is tested.
        unsafe {
            assert_eq!(cache.validate(), Some(0));
            at.add(104).write(9);
            assert_eq!((cache.validate(), ashlar::validate("connection")), (Some(1), Some(1)));
            assert_eq!(ashlar::validate("malloc-112"), None);
            malloc::free(malloc::malloc(112));
            assert_eq!(ashlar::validate("malloc-112"), Some(0));
            at.add(104).write(0xaa ^ ((at.addr().get() + 104) & 7) as u8);
            cache.free(at);
        }
    });
    if let Some(child) = outcome {
        let child = child.succeeded();
        let found = child.stderr.matches("BUG: KFENCE: memory corruption").count();
        assert_eq!(found, 2, "{}", child.stderr);
    }
}

#[test]
fn paranoid_checks_debug_and_sample() {
    let test = "paranoid_checks_debug_and_sample";
    for (role, debug, expected) in [("alone", None, "FZP"), ("with letters", Some("U,conn*"), "U")] {
        let options = [("ASHLAR_OPTIONS", "checks=paranoid"), ("ASHLAR_DEBUG", debug.unwrap_or(""))];
        let options = &options[..1 + usize::from(debug.is_some())];
        let outcome = child(test, role, options, || {
            tell("flags", conn().debug_flags());
            let mut guarded = 0;
            for _ in 0..100_000 {
                let at = malloc::malloc(100);
                // Debugged objects of 100 bytes start behind a red zone, others at any place.
                guarded += usize::from([0, 112].iter().any(|to| (at.addr() + to).is_multiple_of(PAGE)));
                // SAFETY: allocated above.
                unsafe { malloc::free(at) };
            }
            assert!(guarded >= 50, "{guarded} of 100000");
        });
        if let Some(child) = outcome {
            assert_eq!(child.succeeded().told("flags"), expected, "{role}");
        }
    }
}
