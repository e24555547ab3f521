//! Invalid use: reported by one exact line on standard error, and the end of the program; or, on
//! request, not the end. Each case is a child process that does what no program may do.

mod common;

use core::ptr::NonNull;
use std::os::unix::process::ExitStatusExt;

use ashlar::{CacheArgs, KmemCache};
use common::{child, conformance, cpus, pin, tell};

const NAME: &str = "misuse";

fn cache() -> KmemCache {
    KmemCache::create(NAME, 64, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache")
}

fn take(cache: &KmemCache) -> NonNull<u8> {
    cache.alloc().expect("memory")
}

/// Tells the parent the address that the report must name.
fn culprit(address: usize) {
    tell("address", format_args!("{address:#x}"));
}

/// Returns a report with the addresses that the child told.
fn filled(report: &str, child: &common::process::Child) -> String {
    let line = report.replace("{}", child.told("address"));
    if line.contains("{large}") { line.replace("{large}", child.told("large")) } else { line }
}

/// Runs `body` in children: with every engine one ends by SIGABRT after exactly the line `report`
/// (in which `{}` is the address that the body told); the others, told to go on, print the line too
/// and then go on: the default passes the conformance suite. Not with the engines `blind`, whose
/// design cannot see it: SAFETY.md says why.
fn reported(test: &str, report: &str, blind: &[&str], body: fn()) {
    for engine in ashlar::Engine::ALL.iter().map(|engine| engine.id()).filter(|id| !blind.contains(id)) {
        // Its reports are longer: see tests/debug.rs.
        if engine == "debug" {
            continue;
        }
        // Without links in free objects there is none to be corrupt. tests/slab_misuse.rs writes to
        // what there is.
        if engine.starts_with("slab") && report.contains("free link") {
            continue;
        }
        let options = format!("reaper=off,engine={engine}");
        if let Some(child) = child(test, &format!("{test} abort {engine}"), &[("ASHLAR_OPTIONS", &options)], body) {
            let line = format!("ashlar: {}\n", filled(report, &child));
            assert_eq!(child.stderr, line, "{engine}");
            assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{engine}: {:?}", child.status);
        }
        let options = format!("{options},on_error=quarantine");
        let outcome = child(test, &format!("{test} go on {engine}"), &[("ASHLAR_OPTIONS", &options)], || {
            body();
            goes_on();
        });
        if let Some(child) = outcome {
            let child = child.succeeded();
            let line = format!("ashlar: {}", filled(report, &child));
            assert_eq!(child.stderr.lines().next(), Some(&*line), "{engine}");
        }
    }
    let role = format!("{test} quarantine");
    let outcome = child(test, &role, &[("ASHLAR_OPTIONS", "reaper=off,on_error=quarantine")], || {
        body();
        conformance::run();
    });
    if let Some(child) = outcome {
        let child = child.succeeded();
        let line = format!("ashlar: {}", filled(report, &child));
        assert_eq!(child.stderr.lines().next(), Some(&*line));
    }
}

/// After a report that did not end the program, other caches and kmalloc are as good as before.
fn goes_on() {
    let cache = KmemCache::create("goes-on", 64, &CacheArgs::default()).expect("a cache");
    for round in 0..3 {
        let live: Vec<_> = (0..1000u64).map(|i| (take(&cache).as_ptr(), ashlar::kmalloc(64), i)).collect();
        for &(a, b, token) in &live {
            // SAFETY: 64 fresh bytes each.
            unsafe {
                common::fill(a, 64, token);
                common::fill(b, 64, !token);
            }
        }
        for (a, b, token) in live {
            // SAFETY: live, each freed once.
            unsafe {
                common::check(a, 64, 64, token);
                common::check(b, 64, 64, !token);
                cache.free(NonNull::new(a).expect("not null"));
                ashlar::kfree(b);
            }
        }
        assert_eq!(cache.info().usage.live, 0, "round {round}");
    }
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

/// A refill follows the freelists of several slabs at once. One that is corrupt is left, and what
/// it lacks leaves no hole: the others' objects are handed out, each once, and nothing else.
#[test]
fn a_corrupt_freelist_among_others_takes_nothing_with_it() {
    let test = "a_corrupt_freelist_among_others_takes_nothing_with_it";
    const EIGHT_SLABS: usize = 512;
    // The slab whose freelist is corrupt: which of them are followed together is not ours to say.
    for slab in 0..8 {
        let outcome = child(test, &slab.to_string(), &[("ASHLAR_OPTIONS", "reaper=off,on_error=quarantine")], || {
            let cache = cache();
            let mut live: Vec<usize> = (0..EIGHT_SLABS).map(|_| take(&cache).as_ptr() as usize).collect();
            live.sort_unstable();
            // Every fourth object stays, so that no slab is empty.
            let (kept, freed): (Vec<_>, Vec<_>) = live.iter().enumerate().partition(|(at, _)| at % 4 == 0);
            let kept: Vec<usize> = kept.into_iter().map(|(_, &at)| at).collect();
            for &(_, &at) in &freed {
                // SAFETY: live, freed once.
                unsafe { cache.free(NonNull::new(at as *mut u8).expect("not null")) };
            }
            cache.shrink();
            // SAFETY: violated on purpose; free memory is written to.
            unsafe { (live[64 * slab + 30] as *mut u8).write_bytes(0x5a, 64) };
            let mut all: Vec<usize> = (0..2 * EIGHT_SLABS).map(|_| take(&cache).as_ptr() as usize).collect();
            let again = all.iter().filter(|at| live.contains(at)).count();
            let lost = freed.len() - again;
            assert!((1..=64).contains(&lost), "{lost} objects are lost, more than one slab has, or none");
            all.extend(kept);
            all.sort_unstable();
            assert!(
                all.windows(2).all(|pair| pair[0] + 64 <= pair[1]),
                "an object was handed out twice, or lies in another"
            );
        });
        let Some(child) = outcome else { continue };
        let child = child.succeeded();
        assert!(child.stderr.starts_with("ashlar: cache misuse: free link at "), "{}", child.stderr);
    }
}

/// Many second frees, of which some come when the slab of the object has gone back: each report
/// calls them that.
#[test]
fn many_double_frees_are_called_so() {
    let test = "many_double_frees_are_called_so";
    for objects in [300usize, 3000] {
        let options = "reaper=off,on_error=quarantine";
        let outcome = child(test, &objects.to_string(), &[("ASHLAR_OPTIONS", options)], || {
            let cache = cache();
            let live: Vec<_> = (0..objects).map(|_| take(&cache)).collect();
            for _ in 0..2 {
                // SAFETY: violated on purpose; the second round frees what is free.
                live.iter().for_each(|&object| unsafe { cache.free(object) });
                cache.shrink();
            }
            assert_eq!(cache.info().usage.live, 0);
        });
        let Some(child) = outcome else { continue };
        let child = child.succeeded();
        assert_ne!(child.stderr, "");
        for line in child.stderr.lines() {
            let twice = line.ends_with(" was freed twice") || line.ends_with(": freed already, or never allocated");
            assert!(twice && line.starts_with("ashlar: cache misuse: "), "{line}");
        }
    }
}

macro_rules! misuses {
    ($($(#[$doc:meta])* $name:ident $(but for $($blind:literal)*)?: $report:literal, $body:expr;)*) => {
        $($(#[$doc])* #[test] fn $name() {
            reported(stringify!($name), $report, &[$($($blind),*)?], $body);
        })*
    };
}

misuses! {
    freed_twice_in_a_row: "cache misuse: object {} was freed twice", || {
        let cache = cache();
        let [a, _b] = [take(&cache), take(&cache)];
        culprit(a.as_ptr() as usize);
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe { cache.free(a); cache.free(a) };
        cache.shrink();
    };
    freed_twice_with_others_between: "cache misuse: object {} was freed twice", || {
        let cache = cache();
        let [a, b, _c] = [take(&cache), take(&cache), take(&cache)];
        culprit(a.as_ptr() as usize);
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe { cache.free(a); cache.free(b); cache.free(a) };
        cache.shrink();
    };
    /// The first free has reached the slab already: the object stands at the head of its freelist.
    /// (Behind others there it would not be seen: like the kernel without debugging, no code walks
    /// a freelist at each free. `slub-2010-ll` turns the freelist of a CPU around when it gives up
    /// its slab.)
    freed_again_after_it_reached_its_slab but for "slub-2010-ll": "cache misuse: object {} was freed twice", || {
        let args = CacheArgs::DEFAULT.sheaf_capacity(1);
        let cache = KmemCache::create(NAME, 64, &args).expect("a cache");
        let [a, _b] = [take(&cache), take(&cache)];
        culprit(a.as_ptr() as usize);
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe { cache.free(a) };
        cache.shrink();
        // SAFETY: as above.
        unsafe { cache.free(a) };
        cache.shrink();
    };
    /// The second free finds the object on top of the sheaf, and needs no flush to be found.
    freed_twice_in_a_row_is_found_at_once but for "slob" "slob-seg" "slob-cache" "slab" "slab24" "slub" "slub-emu" "slub+" "slub-o" "slub-2010" "slub-2010-ll" "slub-ll" "slub-bulk": "cache misuse: object {} was freed twice", || {
        // On another CPU, the object would lie on another sheaf.
        pin(cpus()[0]);
        let cache = cache();
        let [a, _b] = [take(&cache), take(&cache)];
        culprit(a.as_ptr() as usize);
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe { cache.free(a); cache.free_checked(a) };
        assert_ne!(take(&cache), take(&cache), "handed out twice");
    };
    freed_twice_by_kfree_is_found_at_once but for "slob" "slob-seg" "slob-cache" "slab" "slab24" "slub" "slub-emu" "slub+" "slub-o" "slub-2010" "slub-2010-ll" "slub-ll" "slub-bulk": "cache kmalloc-64: object {} was freed twice", || {
        // On another CPU, the object would lie on another sheaf.
        pin(cpus()[0]);
        let [a, _b] = [ashlar::kmalloc(64), ashlar::kmalloc(64)];
        culprit(a as usize);
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe { ashlar::kfree(a); ashlar::kfree(a) };
        assert_ne!(ashlar::kmalloc(64), ashlar::kmalloc(64), "handed out twice");
    };
    /// The first sheaf that is full is looked through.
    freed_to_another_cache_among_many but for "slob" "slob-seg" "slob-cache": "cache misuse: {} is an object of cache other", || {
        pin(cpus()[0]);
        let other = KmemCache::create("other", 64, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        let cache = cache();
        let object = take(&other);
        culprit(object.as_ptr() as usize);
        let live: Vec<_> = (0..1000).map(|_| take(&cache)).collect();
        // SAFETY: violated on purpose; the object is of another cache.
        unsafe { cache.free(object) };
        // SAFETY: live, each freed once.
        live.into_iter().for_each(|object| unsafe { cache.free(object) });
    };
    freed_twice_among_many but for "slob" "slob-seg" "slob-cache" "slab" "slab24" "slub" "slub-emu" "slub+" "slub-o" "slub-2010" "slub-2010-ll" "slub-ll" "slub-bulk": "cache misuse: object {} was freed twice", || {
        pin(cpus()[0]);
        let cache = cache();
        let live: Vec<_> = (0..1000).map(|_| take(&cache)).collect();
        culprit(live[3].as_ptr() as usize);
        // SAFETY: violated on purpose; an object is freed again after twenty others.
        live.iter().enumerate().for_each(|(at, &object)| unsafe {
            if at == 20 { cache.free(live[3]) }
            cache.free(object);
        });
    };
    freed_twice_by_kfree: "cache kmalloc-64: object {} was freed twice", || {
        let [a, _b] = [ashlar::kmalloc(64), ashlar::kmalloc(64)];
        culprit(a as usize);
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe { ashlar::kfree(a); ashlar::kfree(a) };
        ashlar::reap();
    };
    freed_twice_in_one_bulk: "cache misuse: object {} was freed twice", || {
        let cache = cache();
        let mut objects = [core::ptr::null_mut(); 20];
        assert!(cache.alloc_bulk(&mut objects));
        objects[7] = objects[3];
        culprit(objects[3] as usize);
        // SAFETY: violated on purpose; an object occurs twice.
        unsafe { cache.free_bulk(&objects) };
        cache.shrink();
    };
    freed_alone_and_again_in_a_bulk: "cache misuse: object {} was freed twice", || {
        let cache = cache();
        let [a, b] = [take(&cache), take(&cache)].map(NonNull::as_ptr);
        culprit(b as usize);
        // SAFETY: violated on purpose; the second free, inside the bulk, is what is tested.
        unsafe {
            cache.free(NonNull::new_unchecked(b));
            cache.free_bulk(&[b, a]);
        }
        cache.shrink();
    };
    freed_to_another_cache but for "slob" "slob-seg" "slob-cache": "cache misuse: {} is an object of cache other", || {
        let other = KmemCache::create("other", 64, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        let cache = cache();
        let object = take(&other);
        culprit(object.as_ptr() as usize);
        // SAFETY: violated on purpose; the object is of another cache.
        unsafe { cache.free(object) };
        cache.shrink();
    };
    freed_to_a_cache_from_the_stack: "cache misuse: {} is no object of this cache", || {
        let cache = cache();
        let mut local = [0u64; 8];
        let address = core::hint::black_box(&raw mut local);
        culprit(address as usize);
        // SAFETY: violated on purpose; the memory is not the allocator's.
        unsafe { cache.free(NonNull::new(address.cast()).expect("not null")) };
        cache.shrink();
    };
    freed_inside_an_object but for "slob": "cache misuse: no object starts at {}", || {
        let cache = cache();
        let inside = take(&cache).as_ptr().wrapping_add(8);
        culprit(inside as usize);
        // SAFETY: violated on purpose; the pointer is into the middle of an object.
        unsafe { cache.free(NonNull::new(inside).expect("not null")) };
        cache.shrink();
    };
    kfree_of_the_stack: "kfree({}): not allocated here, or a huge object freed long ago", || {
        ashlar::mode();
        let mut local = [0u64; 8];
        let address = core::hint::black_box(&raw mut local);
        culprit(address as usize);
        // SAFETY: violated on purpose; the memory is not the allocator's.
        unsafe { ashlar::kfree(address.cast()) };
    };
    kfree_inside_a_large_object: "kfree({}): inside the large object at {large}", || {
        let large = ashlar::kmalloc(100_000);
        tell("large", format_args!("{:#x}", large as usize));
        let inside = large.wrapping_add(8192);
        culprit(inside as usize);
        // SAFETY: violated on purpose; the pointer is into the middle of an object.
        unsafe { ashlar::kfree(inside) };
    };
    kfree_of_a_large_object_twice: "kfree({}): no object there: freed already, or never allocated", || {
        let large = ashlar::kmalloc(100_000);
        culprit(large as usize);
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe { ashlar::kfree(large); ashlar::kfree(large) };
    };
    kfree_of_a_mapping_twice: "kfree({}): huge object is free already", || {
        let large = ashlar::kmalloc(40 << 20);
        culprit(large as usize);
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe { ashlar::kfree(large); ashlar::kfree(large) };
    };
    ksize_of_the_stack: "ksize({}): not allocated here, or a huge object freed long ago", || {
        ashlar::mode();
        let local = [0u64; 8];
        let address = core::hint::black_box(&raw const local);
        culprit(address as usize);
        // SAFETY: violated on purpose; the memory is not the allocator's.
        assert_eq!(unsafe { ashlar::ksize(address.cast()) }, 0);
    };
    written_after_it_was_freed: "cache misuse: free link at {} is corrupt: written to after it was freed?", || {
        let cache = cache();
        let [_stays, object] = [take(&cache), take(&cache)];
        // SAFETY: live, freed once.
        unsafe { cache.free(object) };
        cache.shrink();
        // The link of a free object of 64 bytes stands in its middle; a free block of `slob` has it
        // at its start.
        let first_bytes = conformance::engine() == "slob";
        culprit(object.as_ptr() as usize + if first_bytes { 0 } else { 32 });
        // SAFETY: violated on purpose; the object is free.
        unsafe { object.as_ptr().cast::<[u64; 8]>().write([0x4141_4141_4141_4141; 8]) };
        // In `slub-2010-ll` the object is behind the rest of its slab.
        for _ in 0..64 {
            take(&cache);
        }
    };
}

#[test]
fn an_unknown_option_is_named_and_the_rest_applies() {
    let test = "an_unknown_option_is_named_and_the_rest_applies";
    let child = child(test, test, &[("ASHLAR_OPTIONS", "colour=blue,percpu=lock")], || tell("mode", ashlar::mode()));
    let child = child.expect("the parent").succeeded();
    assert_eq!(child.told("mode"), "lock");
    let line = child.stderr.strip_suffix('\n').expect("a line");
    assert!(line.starts_with("ashlar: ASHLAR_OPTIONS: option `colour=blue`: expected one of the keys "), "{line}");
    assert!(!line.contains('\n'), "more than one line: {line}");
}

#[test]
fn options_that_are_no_utf8_are_refused_as_a_whole() {
    let test = "options_that_are_no_utf8_are_refused_as_a_whole";
    let child = child(test, test, &[], || {
        // SAFETY: no other thread reads the environment yet.
        unsafe { libc::setenv(c"ASHLAR_OPTIONS".as_ptr(), c"percpu=lock,\xff".as_ptr(), 1) };
        ashlar::mode();
    });
    assert_eq!(child.expect("the parent").succeeded().stderr, "ashlar: ASHLAR_OPTIONS: expected UTF-8\n");
}

#[test]
fn options_come_too_late_after_the_start() {
    let test = "options_come_too_late_after_the_start";
    let child = child(test, test, &[], || {
        assert_eq!(ashlar::configure("percpu=lock,colour=blue").expect_err("unknown").part, "colour=blue");
        assert_eq!(ashlar::mode(), ashlar::Mode::Lock);
        assert!(ashlar::configure("percpu=auto").is_err());
        assert_eq!(ashlar::mode(), ashlar::Mode::Lock);
    });
    child.expect("the parent").succeeded();
}

#[test]
fn a_destroy_with_live_objects_is_reported() {
    let test = "a_destroy_with_live_objects_is_reported";
    let child = child(test, test, &[], || {
        let cache = cache();
        take(&cache);
        assert!(cache.destroy().is_err());
    });
    let expected = "ashlar: cache misuse: destroyed while 1 objects are in use: it stays\n";
    assert_eq!(child.expect("the parent").succeeded().stderr, expected);
}

#[test]
fn a_panic_of_a_library_for_c_is_a_line_and_the_end() {
    let test = "a_panic_of_a_library_for_c_is_a_line_and_the_end";
    if let Some(child) = child(test, test, &[], || ashlar::panicked(&"panicked at a place:\nfor a reason")) {
        assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{:?}", child.status);
        assert_eq!(child.stderr, "ashlar: panicked at a place:\nfor a reason\n");
    }
}
