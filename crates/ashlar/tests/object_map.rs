//! The object map of malloc (`pages/objmap.rs`): what memory it takes; and where its place is taken
//! the fast paths stay closed, and all the same holds.

mod common;

use common::{Rng, check, child, fill, resident, tell};
use std::os::unix::process::ExitStatusExt;

/// Takes the places of the maps of all zones that the kernel may choose, as far as they are free,
/// and lets the allocator start, whose place must be among them.
fn start_without_the_place() {
    const STEP: usize = 1 << 36;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let mut taken = Vec::new();
    // A zone is not below 1 TiB; its map is at a sixteenth of its address.
    for at in (STEP..1 << 43).step_by(STEP) {
        // SAFETY: replaces no mapping.
        let got = unsafe { libc::mmap(at as *mut libc::c_void, STEP, libc::PROT_NONE, flags, -1, 0) };
        if got as usize == at {
            taken.push(at..at + STEP);
        }
    }
    let object = ashlar::malloc::malloc(100);
    let place = object as usize / 16;
    assert!(taken.iter().any(|range| range.contains(&place)), "the place of {object:p} was not taken");
    assert!(!ashlar::malloc::has_fast_paths());
    // SAFETY: live, freed once.
    unsafe { ashlar::malloc::free(object) };
}

/// Allocates and frees in random order, with patterns.
fn exercise() {
    let mut rng = Rng::new(7);
    let mut live: Vec<(*mut u8, usize, u64)> = Vec::new();
    for turn in 0..20_000 {
        if live.len() > 500 || (rng.below(2) == 0 && !live.is_empty()) {
            let (at, size, token) = live.swap_remove(rng.below(live.len()));
            // SAFETY: live, freed once.
            unsafe {
                check(at, size, size, token);
                ashlar::malloc::free(at);
            }
        } else {
            let size = 1 + rng.below(if turn % 100 == 0 { 100_000 } else { 2000 });
            let at = ashlar::malloc::malloc(size);
            assert!(!at.is_null());
            // SAFETY: memory that was just allocated.
            unsafe { fill(at, size, turn) };
            live.push((at, size, turn));
        }
    }
    for (at, size, token) in live {
        // SAFETY: live, freed once; or resized before.
        unsafe {
            check(at, size, size, token);
            let at = ashlar::malloc::realloc(at, 3 * size);
            assert!(ashlar::malloc::malloc_usable_size(at) >= 3 * size);
            ashlar::malloc::free(at);
        }
    }
}

/// Allocates objects of one size until `bytes` are reached.
fn objects(size: usize, bytes: usize) -> Vec<*mut u8> {
    (0..bytes / size).map(|_| ashlar::malloc::malloc(size)).inspect(|at| assert!(!at.is_null())).collect()
}

/// Most of the map goes back to the system; the entries of what is live must not go with it.
fn give_back_around_live_objects() {
    let mut all = objects(48, 16 << 20);
    all.sort_unstable();
    // One in 400 KiB: some pages of the map stand for free memory only, and others for an object
    // and what is free around it.
    let (live, rest): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(number, _)| number % 8501 == 0);
    // SAFETY: live, each freed once.
    rest.into_iter().for_each(|(_, at)| unsafe { ashlar::malloc::free(at) });
    ashlar::reap();
    assert!(live.len() > 30);
    for (_, at) in live {
        // SAFETY: live, freed once.
        unsafe {
            assert_eq!(ashlar::malloc::malloc_usable_size(at), 48);
            ashlar::malloc::free(at);
        }
    }
}

#[test]
fn malloc_works_where_the_place_of_its_map_is_taken() {
    let test = "malloc_works_where_the_place_of_its_map_is_taken";
    for options in ["", "percpu=lock", "nodes=2"] {
        let outcome = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            start_without_the_place();
            exercise();
            give_back_around_live_objects();
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

#[test]
fn a_double_free_is_found_where_the_place_of_the_map_is_taken() {
    let test = "a_double_free_is_found_where_the_place_of_the_map_is_taken";
    let outcome = child(test, test, &[], || {
        start_without_the_place();
        let at = ashlar::malloc::malloc(48);
        tell("address", format_args!("{at:p}"));
        // SAFETY: none, for the second one: that is the point.
        unsafe {
            ashlar::malloc::free(at);
            ashlar::malloc::free(at);
        }
    });
    let Some(child) = outcome else { return };
    assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{}", child.stderr);
    let line = format!("free({}): object of cache malloc-48 is free already\n", child.told("address"));
    assert!(child.stderr.ends_with(&line), "{}, not {line}", child.stderr);
}

#[test]
fn entries_of_live_objects_stay_when_the_map_goes_back_around_them() {
    let test = "entries_of_live_objects_stay_when_the_map_goes_back_around_them";
    if let Some(child) = child(test, test, &[], give_back_around_live_objects) {
        child.succeeded();
    }
}

#[test]
fn the_map_takes_a_64th_of_the_memory_for_each_plane_that_objects_need_and_gives_it_back() {
    const BYTES: usize = 16 << 20;
    let test = "the_map_takes_a_64th_of_the_memory_for_each_plane_that_objects_need_and_gives_it_back";
    for (size, planes) in [(16, 4), (48, 4), (64, 1), (96, 2), (128, 1), (160, 2), (1024, 1), (3072, 1)] {
        let outcome = child(test, &size.to_string(), &[("ASHLAR_OPTIONS", "reaper=off")], || {
            // SAFETY: asks for a constant, and that pages of this process have their own size.
            let page = unsafe {
                libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
                libc::sysconf(libc::_SC_PAGESIZE) as usize
            };
            let live = objects(size, BYTES);
            // Pages beyond 16 KiB hold several planes.
            if !ashlar::malloc::has_fast_paths() || page > 16 << 10 {
                println!("the map may be anywhere, or has no planes: skipped");
                return;
            }
            let (low, high) =
                live.iter().fold((usize::MAX, 0), |(low, high), &at| (low.min(at as usize), high.max(at as usize)));
            let (start, end) = (low & !0xf_ffff, (high | 0xf_ffff) + 1);
            let held = || resident((start / 16) as *mut u8, (end - start) / 16) * page;
            let (full, expected) = (held(), BYTES / 64 * planes);
            // What slabs do not use of themselves, and pages that stand for a part of the objects
            // only.
            assert!((expected..expected + expected / 8 + 16 * page).contains(&full), "{full} bytes, not {expected}");
            // SAFETY: live, each freed once.
            live.into_iter().for_each(|at| unsafe { ashlar::malloc::free(at) });
            ashlar::reap();
            let rest = held();
            assert!(rest <= full / 8 + 8 * page, "{rest} bytes of {full} stay");
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}
