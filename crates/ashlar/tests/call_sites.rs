//! `random_kmalloc`: the place of a call chooses among copies of the caches of kmalloc.

mod common;

use std::collections::BTreeSet;

use ashlar::{Engine, NodeId};
use common::{child, of_cache};

const ON: &str = "random_kmalloc=on";
/// Engines whose caches have slabs of their own.
fn engines() -> impl Iterator<Item = Engine> {
    let shared = [Engine::Slob, Engine::SlobSeg, Engine::SlobCache];
    Engine::ALL.iter().copied().filter(move |engine| !shared.contains(engine))
}

/// Defines functions that allocate at a call site each.
macro_rules! sites {
    ($($name:ident)*) => {
        $(#[inline(never)]
        fn $name(size: usize) -> *mut u8 {
            // The compiler makes one function of those that are the same, and jumps to what is
            // called last.
            core::hint::black_box(stringify!($name).as_ptr());
            core::hint::black_box(ashlar::kmalloc(core::hint::black_box(size)))
        })*
        const SITES: [fn(usize) -> *mut u8; 24] = [$($name),*];
    };
}

sites!(s00 s01 s02 s03 s04 s05 s06 s07 s08 s09 s10 s11 s12 s13 s14 s15 s16 s17 s18 s19 s20 s21 s22 s23);

/// Returns the caches of kmalloc for 64 bytes with the number of their live objects.
fn copies() -> Vec<(String, usize)> {
    let mut found = Vec::new();
    ashlar::for_each_cache(|info| {
        if info.name().starts_with("kmalloc") && info.name().ends_with("-64") {
            found.push((info.name().to_string(), info.usage.live));
        }
    });
    found
}

/// Returns the cache that a call site is served by.
fn cache_of(site: fn(usize) -> *mut u8) -> String {
    let before = copies();
    let object = site(64);
    let after = copies();
    let grown: Vec<_> = after.iter().filter(|cache| !before.contains(cache) && cache.1 > 0).collect();
    assert_eq!(grown.len(), 1, "{before:?}, {after:?}");
    // SAFETY: allocated above.
    unsafe { ashlar::kfree(object) };
    grown[0].0.clone()
}

/// Whether the entry point of kmalloc can pass on where a call returns to.
fn knows_callers() -> bool {
    cfg!(target_arch = "x86_64") || cfg!(all(target_arch = "aarch64", not(debug_assertions)))
}

/// Runs `body` in a child for each such engine, with each of `rests` behind the options.
fn each(test: &str, rests: &[&str], body: fn()) {
    for engine in engines() {
        for rest in rests {
            let options = format!("engine={},{ON}{rest}", engine.id());
            let Some(child) = child(test, &options, &[("ASHLAR_OPTIONS", &options)], body) else { continue };
            let child = child.succeeded();
            assert!(!child.stderr.contains("ashlar"), "{options}: {}", child.stderr);
        }
    }
}

#[test]
fn a_call_site_has_one_copy_and_others_have_others() {
    each("a_call_site_has_one_copy_and_others_have_others", &["", ",nodes=3", ",percpu=lock"], || {
        if !knows_callers() {
            return;
        }
        ashlar::testing::set_kmalloc_seed(0x0123_4567_89ab_cdef);
        let first: Vec<_> = SITES.iter().map(|&site| cache_of(site)).collect();
        let again: Vec<_> = SITES.iter().map(|&site| cache_of(site)).collect();
        assert_eq!(first, again);
        let different: BTreeSet<_> = first.iter().collect();
        assert!(different.len() >= 8, "{different:?}");
        for name in &different {
            let (number, class) = (name.strip_prefix("kmalloc-rnd-"), name.strip_suffix("-64"));
            let known = name.as_str() == "kmalloc-64"
                || number.is_some_and(|n| (1..16).contains(&n[..2].parse::<usize>().expect("a number")));
            assert!(known && class.is_some(), "{name}");
        }
        // Another seed deals them out otherwise.
        ashlar::testing::set_kmalloc_seed(0xfeed_0f0f_1234_4321);
        let dealt: Vec<_> = SITES.iter().map(|&site| cache_of(site)).collect();
        assert_ne!(first, dealt);
    });
}

/// Objects of all sites and sizes hold what was written to them, and every way to free them works.
#[test]
fn objects_are_freed_in_every_way() {
    each("objects_are_freed_in_every_way", &["", ",nodes=3", ",percpu=lock"], || {
        let sizes = [1, 8, 24, 64, 96, 100, 192, 700, 1024, 5000, 8192, 20_000, 60_000, 100_000];
        for round in 0..6 {
            let mut live = Vec::new();
            for (number, site) in SITES.iter().enumerate() {
                for size in sizes {
                    let at = site(size);
                    assert!(!at.is_null());
                    // SAFETY: just allocated.
                    assert!(unsafe { ashlar::ksize(at) } >= size);
                    assert!(!size.is_power_of_two() || size > 4096 || (at as usize).is_multiple_of(size.max(8)));
                    // SAFETY: it has that many bytes.
                    unsafe { at.write_bytes(number as u8, size) };
                    live.push((at, size, number as u8));
                }
            }
            live.push((ashlar::kmalloc_on(64, NodeId((round % 3) as u8)), 0, 0));
            let bulk: Vec<_> = live.iter().step_by(7).map(|&(at, ..)| at).collect();
            // SAFETY: each was allocated above with that size, and is freed once.
            unsafe {
                for (index, &(at, size, number)) in live.iter().enumerate() {
                    let bytes = core::slice::from_raw_parts(at, size);
                    assert!(bytes.iter().all(|&byte| byte == number), "an object of {size} bytes");
                    match index % 7 {
                        0 => {}
                        1..4 if size > 0 => ashlar::kfree_sized(at, size),
                        4 if size > 0 => {
                            let moved = ashlar::krealloc(at, size * 3);
                            let bytes = core::slice::from_raw_parts(moved, size);
                            assert!(bytes.iter().all(|&byte| byte == number), "a moved object of {size} bytes");
                            ashlar::kfree(moved);
                        }
                        _ => ashlar::kfree(at),
                    }
                }
                ashlar::kfree_bulk(&bulk);
            }
        }
        ashlar::for_each_cache(|info| {
            if info.name().starts_with("kmalloc") {
                assert_eq!(info.usage.live, 0, "{}", info.name());
            }
        });
    });
}

/// Many threads meet at the making of the copies: none is made twice.
#[test]
fn threads_that_need_a_copy_at_once_share_it() {
    each("threads_that_need_a_copy_at_once_share_it", &[""], || {
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..200 {
                        // SAFETY: allocated in the same line, with that size.
                        SITES.iter().for_each(|site| unsafe { ashlar::kfree_sized(site(40), 40) });
                    }
                });
            }
        });
        let copies = copies();
        let names: BTreeSet<_> = copies.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), copies.len(), "{copies:?}");
        assert!(copies.iter().all(|(_, live)| *live == 0), "{copies:?}");
    });
}

#[test]
fn the_child_of_a_fork_keeps_the_choice() {
    let outcome = child("the_child_of_a_fork_keeps_the_choice", "fork", &[("ASHLAR_OPTIONS", ON)], || {
        let mine: Vec<_> = SITES.iter().map(|&site| cache_of(site)).collect();
        // SAFETY: the child only compares, and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let same = SITES.iter().map(|&site| cache_of(site)).eq(mine);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if same { 0 } else { 3 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child above.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0);
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// Hardening, debug flags, guard sampling and a profile hold for the copies.
#[test]
fn other_options_hold_for_copies() {
    let test = "other_options_hold_for_copies";
    let body = || {
        for _ in 0..300 {
            for site in SITES {
                let at = site(50);
                // SAFETY: just allocated, with that many bytes.
                unsafe {
                    at.write_bytes(7, 50);
                    ashlar::kfree_sized(at, 50);
                }
            }
        }
    };
    let cases = [
        ("quarantine=20,random=on,init_on_free=on", ""),
        ("init_on_alloc=on", "FZP,kmalloc-*"),
        ("", "FZPU,kmalloc-rnd-*"),
        ("guard=50,cache.kmalloc-*.guard=on", ""),
        ("guard=1ms,cache.kmalloc-*.guard=on", ""),
        ("profile=4096", ""),
    ];
    for (options, debug) in cases {
        let all = format!("{ON},{options}");
        let env = [("ASHLAR_OPTIONS", all.as_str()), ("ASHLAR_DEBUG", debug)];
        let Some(child) = child(test, &format!("{options} {debug}"), &env, body) else { continue };
        let child = child.succeeded();
        assert!(!child.stderr.contains("ashlar"), "{options}: {}", child.stderr);
    }
}

/// A defect is reported with the name of the copy.
#[test]
fn a_report_names_the_copy() {
    let test = "a_report_names_the_copy";
    let env = [("ASHLAR_OPTIONS", ON), ("ASHLAR_DEBUG", "FZ,kmalloc-*")];
    let outcome = child(test, "overrun", &env, || {
        let site = SITES.into_iter().find(|&site| cache_of(site) != "kmalloc-64").expect("a copy");
        common::tell("cache", cache_of(site));
        let at = site(64);
        // SAFETY: the write behind the object is the mistake that is tested; there is a red zone.
        unsafe {
            at.add(64).write(1);
            ashlar::kfree(at);
        }
    });
    if let Some(child) = outcome {
        let name = child.told("cache").to_string();
        assert!(name.starts_with("kmalloc-rnd-"), "{name}");
        assert!(child.stderr.contains(&format!("BUG {name} ")), "{}", child.stderr);
    }
}

/// Engines that share pages among caches refuse the option, and the calls work as without it.
#[test]
fn engines_that_share_pages_refuse() {
    for engine in ["slob", "slob-seg", "slob-cache"] {
        let options = format!("engine={engine},{ON}");
        let Some(child) = child("engines_that_share_pages_refuse", &options, &[("ASHLAR_OPTIONS", &options)], || {
            // SAFETY: allocated in the same line.
            SITES.iter().for_each(|site| unsafe { ashlar::kfree(site(64)) });
            assert!(copies().iter().all(|(name, _)| !name.contains("rnd")), "{:?}", copies());
        }) else {
            continue;
        };
        let child = child.succeeded();
        assert!(child.stderr.contains("random_kmalloc"), "{options}: {}", child.stderr);
    }
}

/// Without the option there are no copies, and fast paths serve the calls.
#[test]
fn without_the_option_there_are_no_copies() {
    let outcome = child("without_the_option_there_are_no_copies", "off", &[("ASHLAR_OPTIONS", "")], || {
        // SAFETY: allocated in the same line.
        SITES.iter().for_each(|site| unsafe { ashlar::kfree(site(64)) });
        assert_eq!(copies().len(), 1);
        assert_eq!(of_cache("kmalloc-64", |info| info.usage.live), 0);
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}
