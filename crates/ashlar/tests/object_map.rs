//! malloc where the place of its object map is taken (`page/objmap.rs`): the fast paths stay closed, and all the same holds.

mod common;

use common::{Rng, check, child, fill, tell};
use std::os::unix::process::ExitStatusExt;

/// Takes the places of the maps of all zones that the kernel may choose, as far as nobody has them, and lets the allocator start, whose
/// place must be among them.
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
            // SAFETY: fresh.
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

#[test]
fn malloc_works_where_the_place_of_its_map_is_taken() {
    let test = "malloc_works_where_the_place_of_its_map_is_taken";
    for options in ["", "percpu=lock", "nodes=2"] {
        let outcome = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            start_without_the_place();
            exercise();
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
