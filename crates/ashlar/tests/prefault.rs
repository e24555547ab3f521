//! Which memory is there before the program looks at it: zeros that were asked for, up to the option `prefault`.

#![cfg(target_os = "linux")]

mod common;

use common::{child, resident, tell};

/// The default bound, and twice that.
const BOUND: usize = 8 << 20;
const BEYOND: usize = 2 * BOUND;

/// Whether this kernel knows the advice.
fn is_known() -> bool {
    // SAFETY: a mapping of our own, which stays.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let at = libc::mmap(core::ptr::null_mut(), 1 << 16, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        libc::madvise(at, 1 << 16, libc::MADV_POPULATE_WRITE) == 0
    }
}

/// The requests whose fresh memory a child with these options finds resident as a whole; the others find next to nothing there.
fn there(test: &str, options: &str) -> Option<String> {
    if !is_known() {
        println!("this kernel does not know the advice: skipped");
        return None;
    }
    let child = child(test, test, &[("ASHLAR_OPTIONS", options)], || {
        let all = [
            ("calloc", ashlar::malloc::calloc(BOUND, 1), BOUND),
            ("kzalloc", ashlar::kzalloc(BOUND), BOUND),
            ("small", ashlar::malloc::calloc(100, 1000), 100_000),
            ("beyond", ashlar::malloc::calloc(BEYOND, 1), BEYOND),
            ("malloc", ashlar::malloc::malloc(BOUND), BOUND),
        ];
        let mut names = String::new();
        for (name, at, bytes) in all {
            assert!(!at.is_null(), "{name}");
            let (found, whole) = (resident(at, bytes), bytes / 4096);
            if found >= whole {
                names = names + " " + name;
            } else {
                assert!(found <= whole / 16, "{name}: {found} pages of {whole}");
            }
        }
        tell("there", names.trim());
        // SAFETY: live, freed once; each function frees what the other family allocated.
        all.into_iter().for_each(|(_, at, _)| unsafe { ashlar::malloc::free(at) });
    });
    child.map(|child| child.succeeded().told("there").to_owned())
}

#[test]
fn zeros_up_to_the_bound_are_there() {
    if let Some(names) = there("zeros_up_to_the_bound_are_there", "") {
        assert_eq!(names, "calloc kzalloc small");
    }
}

#[test]
fn the_bound_is_an_option() {
    for (options, expected) in
        [("prefault=0", ""), ("prefault=1M", "small"), ("prefault=16M", "calloc kzalloc small beyond")]
    {
        if let Some(names) = there("the_bound_is_an_option", options) {
            assert_eq!(names, expected, "{options}");
        }
    }
}

#[test]
fn a_refused_hint_leaves_errno_alone() {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = 77 };
    let objects = [ashlar::kzalloc(BOUND), ashlar::kmalloc(5 * BOUND), ashlar::malloc::calloc(BOUND, 1)];
    // SAFETY: as above.
    assert_eq!(unsafe { *libc::__errno_location() }, 77);
    for object in objects {
        assert!(!object.is_null());
        // SAFETY: live, freed once.
        unsafe { ashlar::kfree(object) };
    }
}
