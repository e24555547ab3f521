//! The static library in programs of every kind: C and C++, at a fixed address and not, with
//! another C library.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{archive, build, preloaded, shared_flags, skipped, well};

/// Runs a program that needs no library.
#[track_caller]
fn alone(program: &PathBuf, what: &str) {
    well(&Command::new(program).output().expect("it runs"), what);
}

#[test]
fn static_programs_start_fork_thread_and_end() {
    for kind in ["-static", "-static-pie"] {
        // Without early.c, because a resolver of a static program runs before there is a thread
        // pointer; glibc's malloc fails, too.
        for source in ["c/busy.c", "c/forks.c", "c/vforks.c"] {
            alone(&build("cc", source, &[kind, &archive()]), &format!("{source} {kind}"));
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn static_cxx_programs_need_no_flag_to_throw() {
    for kind in ["-static", "-static-pie"] {
        for source in ["c/cxx.cc", "c/cxx_throw_any.cc", "c/cxx_throw_named.cc", "c/cxx_containers.cc"] {
            let program = build("c++", source, &["-std=c++17", kind, &archive()]);
            alone(&program, &format!("{source} {kind}"));
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn cxx_programs_without_exceptions_have_new_and_nothrow() {
    let program = build("c++", "c/cxx_no_exceptions.cc", &["-std=c++17", "-fno-exceptions", "-fno-rtti"]);
    well(&preloaded(&program, ""), "preloaded");
    let flags = ["-std=c++17", "-fno-exceptions", "-fno-rtti", "-static", &archive()];
    alone(&build("c++", "c/cxx_no_exceptions.cc", &flags), "static");
}

#[test]
fn a_program_linked_with_the_shared_library_needs_no_preloading() {
    let flags = shared_flags();
    let program = build("cc", "c/busy.c", &flags.each_ref().map(String::as_str));
    alone(&program, "linked");
}

#[test]
fn a_musl_program_runs_on_the_static_library() {
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        return skipped("no musl-gcc");
    }
    alone(&build("musl-gcc", "c/musl.c", &["-static", &archive(), "-lgcc_eh"]), "musl");
}
