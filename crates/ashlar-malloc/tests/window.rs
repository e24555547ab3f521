//! The window: the mapping by which tools outside of a process find the allocator's counters.
#![cfg(target_os = "linux")]

mod common;

use common::{NOT_HERE, archive, build, on_library, skipped, text, well};

#[test]
fn a_process_and_its_child_have_one_window_that_nothing_can_write() {
    let shown = "parent r--p ashlar\nchild r--p ashlar\nwell\n";
    let program = build("cc", "c/window.c", &[]);
    for options in ["", "percpu=lock", "nodes=2", "engine=slab"] {
        let out = on_library(&program, options).output().expect("it runs");
        assert_eq!((text(&out.stderr), text(&out.stdout)), (String::new(), shown.to_owned()), "{options}");
    }
    let program = build("cc", "c/window.c", &["-static", &archive()]);
    let out = std::process::Command::new(&program).output().expect("it runs");
    assert_eq!((text(&out.stderr), text(&out.stdout)), (String::new(), shown.to_owned()), "a static program");
}

#[test]
fn where_the_option_or_the_system_refuses_it_there_is_no_window() {
    let program = build("cc", "c/window.c", &[]);
    well(&on_library(&program, "window=off").output().expect("it runs"), "window=off");
    let forbid = build("cc", "c/forbid.c", &[]);
    for code in ["1", "38"] {
        let out = on_library(&forbid, "").args([code, "memfd_create"]).arg(&program).output().expect("it runs");
        if out.status.code() == Some(NOT_HERE) {
            return skipped("seccomp filters are not allowed here");
        }
        well(&out, &format!("memfd_create fails by {code}"));
    }
    // The kernel sends a signal for a write beyond this limit.
    let limited = build("cc", "c/limited.c", &[]);
    let out = on_library(&limited, "").args(["fsize", "100"]).arg(&program).output().expect("it runs");
    well(&out, "no file may be that large");
}
