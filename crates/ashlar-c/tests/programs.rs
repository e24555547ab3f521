//! The contract of each function, tested by programs that are both C and C++: with the shared
//! library in all modes, and with the archive.

mod common;

use std::process::Command;

use common::{Link, build, program, well, well_in_all_modes};

fn in_c_and_cxx(source: &str) {
    for language in ["c99", "c++11"] {
        well_in_all_modes(&build(language, source, Link::Shared));
        let path = build(language, source, Link::Static);
        well(program(&path, "").output().expect("it runs"), &format!("{source} as {language}, static"));
    }
}

#[test]
fn caches_and_sheaves_do_what_the_header_says() {
    in_c_and_cxx("crates/ashlar-c/tests/c/caches.c");
}

#[test]
fn the_kmalloc_family_does_what_the_header_says() {
    in_c_and_cxx("crates/ashlar-c/tests/c/kmalloc.c");
}

#[test]
fn a_reserve_lasts_when_memory_has_ended() {
    let path = build("c99", "crates/ashlar-c/tests/c/reserve.c", Link::Shared);
    for options in ["", "percpu=lock", "nodes=2"] {
        let run = format!("ulimit -v 300000; exec {}", path.display());
        let mut command = Command::new("sh");
        command.args(["-c", &run]).env("LD_LIBRARY_PATH", common::libraries()).env("ASHLAR_OPTIONS", options);
        well(command.output().expect("it runs"), options);
    }
}

#[test]
fn call_sites_choose_the_caches_of_kmalloc() {
    for link in [Link::Shared, Link::Static] {
        let path = build("c99", "crates/ashlar-c/tests/c/sites.c", link);
        for (options, fewest) in [("random_kmalloc=on", 60), ("", 0)] {
            let out = program(&path, options).output().expect("it runs");
            let (told, errors) = (common::text(&out.stdout), common::text(&out.stderr));
            assert!(out.status.success(), "{options}: {told}\n{errors}");
            let apart: usize = told.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
            // Of 120 pairs, one in 16 shares a copy by chance: 7.
            let known = cfg!(target_arch = "x86_64");
            assert!(if known && fewest > 0 { apart >= fewest } else { apart <= 60 }, "{options}: {told}");
        }
    }
}

#[test]
fn threads_allocate_while_the_program_forks() {
    let path = build("gnu99", "crates/ashlar-c/tests/c/fork.c", Link::Shared);
    for options in ["", "percpu=lock"] {
        well(program(&path, options).output().expect("it runs"), options);
    }
}

#[test]
fn kernel_code_compiles_unchanged_and_works() {
    for link in [Link::Shared, Link::Static] {
        let path = build("gnu11", "crates/ashlar-c/tests/c/module.c", link);
        well_in_all_modes(&path);
    }
}

#[test]
fn the_example_of_the_readme_works() {
    let path = build("c99", "crates/ashlar-c/examples/quick_start.c", Link::Shared);
    let out = program(&path, "").output().expect("it runs");
    assert_eq!(common::text(&out.stderr), "");
    assert!(out.status.success() && common::text(&out.stdout).contains("request 1 starts with 42"), "{out:?}");
}

#[test]
fn memory_comes_from_the_node_that_was_asked_for() {
    let path = build("c99", "crates/ashlar-c/tests/c/nodes.c", Link::Shared);
    for options in ["nodes=4", "nodes=4,percpu=lock", "nodes=4,sheaf=0"] {
        well(program(&path, options).output().expect("it runs"), options);
    }
}

#[test]
fn options_are_set_before_the_first_allocation_and_the_environment_wins() {
    let path = build("c99", "crates/ashlar-c/tests/c/configure.c", Link::Shared);
    well(program(&path, "").arg("lock").output().expect("it runs"), "by the program alone");
    well(program(&path, "percpu=emulate").arg("emulate").output().expect("it runs"), "by the environment too");
}

#[test]
fn the_kernels_corruption_tests_count_as_many_errors_as_there() {
    for language in ["c99", "c++11"] {
        let path = build(language, "crates/ashlar-c/tests/c/debug.c", Link::Shared);
        for options in ["on_error=quarantine", "on_error=quarantine,percpu=lock,nodes=2"] {
            let out = program(&path, options).output().expect("it runs");
            let stderr = common::text(&out.stderr);
            assert!(
                out.status.success() && common::text(&out.stdout).contains("well"),
                "{language} {options}: {stderr}"
            );
            for part in ["Right Redzone overwritten", "Freechain corrupt", "Poison overwritten", "Objects remaining"] {
                assert!(stderr.contains(part), "{part} in {stderr}");
            }
        }
    }
}

#[test]
fn the_figures_of_a_process_are_printed_by_a_call_and_at_exit() {
    in_c_and_cxx("crates/ashlar-c/tests/c/stats.c");
    for link in [Link::Shared, Link::Static] {
        let path = build("c99", "crates/ashlar-c/tests/c/stats.c", link);
        let out = program(&path, "").env("ASHLAR_STATS", "json").output().expect("it runs");
        let line = common::text(&out.stderr);
        assert!(out.status.success() && line.starts_with("{\"ashlar\":") && line.lines().count() == 1, "{line}");
        assert!(line.contains("\"name\":\"counted\",\"bytes\":"), "{line}");
        let out = program(&path, "").env("ASHLAR_STATS", "text").output().expect("it runs");
        assert!(common::text(&out.stderr).contains("\ncounted "), "{}", common::text(&out.stderr));
    }
}
