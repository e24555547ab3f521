//! Which mappings get huge pages, by the option and by the kind of request. A mapping that asked
//! for them has the flag `hg` in /proc/self/smaps.

#![cfg(target_os = "linux")]

mod common;

use common::{child, tell};
use std::fs;
use std::path::Path;

/// Larger than the zone allocates, so it gets a mapping of its own.
const HUGE: usize = 40 << 20;
/// Several blocks of the zone.
const LARGE: usize = 16 << 20;

/// Returns whether the mapping at `address` has the flag `hg`.
fn is_asked(address: *mut u8) -> bool {
    let mut inside = false;
    for line in fs::read_to_string("/proc/self/smaps").expect("a list of mappings").lines() {
        if let Some((from, to)) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')) {
            let number = |text| usize::from_str_radix(text, 16);
            if let (Ok(from), Ok(to)) = (number(from), number(to)) {
                inside = (from..to).contains(&(address as usize));
            }
        }
        if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
            return flags.split_whitespace().any(|flag| flag == "hg");
        }
    }
    panic!("no mapping with flags at {address:p}");
}

/// Returns the names of the requests that got huge pages in a child with these options.
fn asked(test: &str, options: &str) -> Option<String> {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        println!("no huge pages in this kernel: skipped");
        return None;
    }
    let child = child(test, test, &[("ASHLAR_OPTIONS", options)], || {
        // SAFETY: live, and freed once; a moved object stays live at its new address.
        let grown = unsafe { ashlar::malloc::realloc(ashlar::malloc::malloc(HUGE), 2 * HUGE) };
        let all = [
            ("malloc", ashlar::malloc::malloc(HUGE)),
            ("realloc", grown),
            ("aligned", ashlar::malloc::malloc_aligned(1 << 23, HUGE)),
            ("kmalloc", ashlar::kmalloc(HUGE)),
            ("calloc", ashlar::malloc::calloc(HUGE, 1)),
            ("kzalloc", ashlar::kzalloc(HUGE)),
            ("zone", ashlar::malloc::malloc(LARGE)),
        ];
        let mut names = String::new();
        for (name, at) in all {
            assert!(!at.is_null(), "{name}");
            if is_asked(at) {
                names = names + " " + name;
            }
        }
        tell("asked", names.trim());
        // SAFETY: live, and freed once; each function frees memory that the other family allocated.
        all.into_iter().for_each(|(_, at)| unsafe { ashlar::malloc::free(at) });
    });
    child.map(|child| child.succeeded().told("asked").to_owned())
}

#[test]
fn by_default_huge_mappings_that_were_not_asked_to_be_zero() {
    let test = "by_default_huge_mappings_that_were_not_asked_to_be_zero";
    for options in ["", "hugepages=auto"] {
        if let Some(names) = asked(test, options) {
            assert_eq!(names, "malloc realloc aligned kmalloc", "{options}");
        }
    }
}

#[test]
fn off_is_none() {
    if let Some(names) = asked("off_is_none", "hugepages=off") {
        assert_eq!(names, "");
    }
}

#[test]
fn on_is_all() {
    if let Some(names) = asked("on_is_all", "hugepages=on") {
        assert_eq!(names, "malloc realloc aligned kmalloc calloc kzalloc zone");
    }
}
