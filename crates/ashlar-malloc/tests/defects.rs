//! One program for each kind of misuse: its exact report, and death by SIGABRT, in both modes.

mod common;

use std::os::unix::process::ExitStatusExt;

use common::{build, preloaded, text};

/// Each program and its line on standard error. `{0}` and `{1}` are the addresses that the program
/// printed.
const DEFECTS: [(&str, &str); 20] = [
    ("double_free_at_once", "free({0}): object of cache malloc-64 is free already"),
    ("double_free_others_between", "free({0}): object of cache malloc-64 is free already"),
    ("double_free_delayed", "free({0}): no object there: freed already, or never allocated"),
    ("double_free_partial_slab", "free({0}): object of cache malloc-64 is free already"),
    ("double_free_other_thread", "free({0}): object of cache malloc-64 is free already"),
    ("double_free_overwritten", "free({0}): object of cache malloc-64 is free already"),
    ("double_free_large", "free({0}): no object there: freed already, or never allocated"),
    ("double_free_huge", "free({0}): huge object is free already"),
    ("realloc_freed_huge", "realloc({0}): huge object is free already"),
    ("interior_small", "free({0}): no object of cache malloc-208 starts there"),
    ("misaligned_small", "free({0}): no object of cache malloc-32 starts there"),
    ("interior_large", "free({0}): inside the large object at {1}"),
    ("misaligned_large", "free({0}): inside the large object at {1}"),
    ("interior_huge", "free({0}): inside the large object at {1}"),
    ("foreign", "free({0}): not allocated here, or a huge object freed long ago"),
    ("stack", "free({0}): not allocated here, or a huge object freed long ago"),
    ("static_memory", "free({0}): not allocated here, or a huge object freed long ago"),
    ("realloc_freed", "realloc({0}): object of cache malloc-64 is free already"),
    ("realloc_freed_large", "realloc({0}): no object there: freed already, or never allocated"),
    ("usable_size_freed", "malloc_usable_size({0}): object of cache malloc-64 is free already"),
];

const SIGABRT: i32 = 6;

/// With the option, the report has the functions of the program that led to it, from the one that
/// called `free` on.
#[test]
fn a_report_says_where_the_program_is_if_asked() {
    let program = build("cc", "defects/double_free_at_once.c", &[]);
    for options in ["backtrace=on", "backtrace=on,percpu=lock"] {
        let report = text(&preloaded(&program, options).stderr).to_owned();
        let mut lines = report.lines();
        assert!(
            lines.next().is_some_and(|line| line.ends_with("object of cache malloc-64 is free already")),
            "{report}"
        );
        let frames: Vec<&str> = lines.collect();
        let name = program.file_name().and_then(|name| name.to_str()).expect("text");
        assert!(frames.first().is_some_and(|line| line.contains(name)), "{report}");
        assert!(frames.iter().all(|line| line.starts_with("\t0x")), "{report}");
    }
}

#[test]
fn every_kind_of_misuse_ends_with_its_report() {
    for (name, expected) in DEFECTS {
        let program = build("cc", &format!("defects/{name}.c"), &[]);
        for options in ["", "percpu=lock", "sheaf=0"] {
            let out = preloaded(&program, options);
            let (told, report) = (text(&out.stdout), text(&out.stderr));
            let mut line = format!("ashlar: {expected}\n");
            for (at, address) in told.lines().enumerate() {
                line = line.replace(&format!("{{{at}}}"), address);
            }
            assert_eq!(report, line, "{name} under `{options}`");
            assert_eq!(out.status.signal(), Some(SIGABRT), "{name} under `{options}`");
        }
    }
}
