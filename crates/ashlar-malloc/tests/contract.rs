//! The functions' contracts, by C and C++ programs: on the shared library in every mode, and linked
//! statically.

mod common;

use std::process::Command;

use common::{archive, build, library, on_library, preloaded, text, well};

/// Builds a program that contains the archive and needs no shared library.
fn built_static(compiler: &str, source: &str) -> std::path::PathBuf {
    build(compiler, source, &["-static", &archive()])
}

#[test]
fn c_programs_find_what_the_manual_says() {
    // Linked with the library, too, because glibc has no free_sized yet.
    let program = build("cc", "c/contract.c", &[library().to_str().expect("a path in UTF-8")]);
    for options in ["", "percpu=lock", "sheaf=0", "nodes=2", "max_order=0", "engine=slab", "engine=slub+"] {
        well(&preloaded(&program, options), options);
    }
}

#[test]
fn a_static_program_finds_the_same() {
    let program = built_static("cc", "c/contract.c");
    well(&Command::new(&program).output().expect("it runs"), "static");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn cxx_programs_find_what_the_standard_says() {
    let program = build("c++", "c/cxx.cc", &["-std=c++17"]);
    for options in ["", "percpu=lock"] {
        well(&preloaded(&program, options), options);
    }
    let program = built_static("c++", "c/cxx.cc");
    well(&Command::new(&program).output().expect("it runs"), "static");
}

#[test]
#[cfg(target_env = "gnu")]
fn mallopt_answers_as_glibcs_does() {
    let program = build("cc", "c/mallopt.c", &[]);
    let answers = |command: &mut Command| {
        let out = command.output().expect("it runs");
        assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
        text(&out.stdout)
    };
    let expected = answers(&mut Command::new(&program));
    assert!(expected.contains("key 1:") && expected.contains("161=0/0"), "{expected}");
    assert_eq!(answers(&mut on_library(&program, "")), expected);
    assert_eq!(answers(&mut Command::new(built_static("cc", "c/mallopt.c"))), expected);
}

#[test]
fn threads_allocate_while_the_program_forks() {
    let program = build("cc", "c/fork.c", &[]);
    for options in ["", "percpu=lock"] {
        well(&preloaded(&program, options), options);
    }
}
