//! malloc where the place of its object map is taken (`page/objmap.rs`): the fast paths stay closed, and all the same holds.

mod common;

use common::{Rng, check, child, fill, tell};
use std::os::unix::process::ExitStatusExt;

/// Takes the places of the maps of all zones that the kernel may choose, as far as nobody has them.
fn take_places() {
    const STEP: usize = 1 << 36;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let mut taken = 0;
    // A zone is not below 1 TiB; its map is at a sixteenth of its address.
    for at in (STEP..1 << 43).step_by(STEP) {
        // SAFETY: replaces no mapping.
        let got = unsafe { libc::mmap(at as *mut libc::c_void, STEP, libc::PROT_NONE, flags, -1, 0) };
        taken += usize::from(got as usize == at);
    }
    assert!(taken > 100, "only {taken} places taken");
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
            take_places();
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
        take_places();
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
