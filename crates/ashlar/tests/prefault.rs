//! Which memory is there before the program looks at it: zeros that were asked for, up to the
//! option `prefault`.

#![cfg(target_os = "linux")]

mod common;

use common::{child, resident, tell};

/// More than caches serve and less than the default bound; and much more.
const SMALL: usize = 48 << 10;
const LARGE: usize = 8 << 20;

/// Whether this kernel knows the advice.
fn is_known() -> bool {
    // SAFETY: a new mapping, which is never unmapped.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let at = libc::mmap(core::ptr::null_mut(), 1 << 16, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        libc::madvise(at, 1 << 16, libc::MADV_POPULATE_WRITE) == 0
    }
}

/// The requests whose fresh memory a child with these options finds resident as a whole; the others
/// find next to nothing there.
fn there(test: &str, options: &str) -> Option<String> {
    if !is_known() {
        println!("this kernel does not know the advice: skipped");
        return None;
    }
    let child = child(test, test, &[("ASHLAR_OPTIONS", options)], || {
        let all = [
            ("small", ashlar::malloc::calloc(SMALL, 1), SMALL),
            ("middle", ashlar::malloc::calloc(100, 1000), 100_000),
            ("calloc", ashlar::malloc::calloc(LARGE, 1), LARGE),
            ("kzalloc", ashlar::kzalloc(LARGE), LARGE),
            ("beyond", ashlar::malloc::calloc(2 * LARGE, 1), 2 * LARGE),
            ("malloc", ashlar::malloc::malloc(SMALL), SMALL),
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
        assert_eq!(names, "small");
    }
}

#[test]
fn the_bound_is_an_option() {
    for (options, expected) in
        [("prefault=0", ""), ("prefault=1M", "small middle"), ("prefault=16M", "small middle calloc kzalloc beyond")]
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
    let objects = [ashlar::kzalloc(LARGE), ashlar::kmalloc(5 * LARGE), ashlar::malloc::calloc(LARGE, 1)];
    // SAFETY: as above.
    assert_eq!(unsafe { *libc::__errno_location() }, 77);
    for object in objects {
        assert!(!object.is_null());
        // SAFETY: live, freed once.
        unsafe { ashlar::kfree(object) };
    }
}

/// Of memory that was used before, what may hold something is cleared, and nothing else is touched.
#[test]
fn zeros_beside_freed_memory_stay_untouched() {
    let test = "zeros_beside_freed_memory_stay_untouched";
    let child = child(test, test, &[("ASHLAR_OPTIONS", "reaper=off")], || {
        const USED: usize = 1 << 20;
        let used = ashlar::malloc::malloc(USED);
        // SAFETY: fresh memory of that size, freed once.
        unsafe {
            used.write_bytes(7, USED);
            ashlar::malloc::free(used);
        }
        let zeros = ashlar::malloc::calloc(LARGE, 1);
        assert_eq!(zeros, used, "another place: this test tests nothing");
        let found = resident(zeros, LARGE);
        assert!((USED / 4096..USED / 4096 + 16).contains(&found), "{found} pages are resident");
        // SAFETY: live memory of that size.
        assert!(unsafe { core::slice::from_raw_parts(zeros, LARGE) }.iter().all(|&byte| byte == 0));
        // SAFETY: live, freed once.
        unsafe { ashlar::malloc::free(zeros) };
    });
    child.expect("the parent").succeeded();
}
