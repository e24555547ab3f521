//! The program from outside: what it refuses, and what it notices.

use std::path::PathBuf;
use std::process::{Command, Output};

/// The program without what this environment says to allocators.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar-workload"));
    command.env_remove("LD_PRELOAD");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ASHLAR_") {
            command.env_remove(name);
        }
    }
    command
}

fn run(args: &[&str]) -> Output {
    command().args(args).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A field of the answer, without quotes.
fn field(answer: &str, name: &str) -> String {
    let rest = answer.split(&format!("\"{name}\":")).nth(1).unwrap_or_else(|| panic!("no {name} in {answer}"));
    rest.split([',', '}']).next().unwrap_or_default().trim_matches('"').to_owned()
}

/// A path for a file of this test process alone.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

#[test]
fn bad_input_is_named_and_exits_with_2() {
    for (args, told) in [
        (&["nosuch"][..], "ashlar-workload: NAME: `nosuch`, expected one of numbers"),
        (&[], "ashlar-workload: NAME: ``, expected one of numbers"),
        (&["words", "--scale", "much"], "ashlar-workload: --scale: `much`, expected a number from 0.0001 to 100"),
        (&["words", "--nonsense"], "ashlar-workload: --nonsense: unknown option, expected"),
    ] {
        let out = run(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).starts_with(told), "{args:?}: {}", text(&out.stderr));
        assert!(out.stdout.is_empty(), "{args:?} printed a result");
    }
}

#[test]
fn help_has_every_workload() {
    let help = text(&run(&["--help"]).stdout);
    for workload in ashlar_workload::Workload::all() {
        assert!(help.contains(workload.what), "no {} in:\n{help}", workload.name);
    }
}

/// Of shared libraries, so that a preloaded malloc is the only one.
#[test]
fn the_program_is_linked_with_the_c_library_alone() {
    let out = Command::new("ldd").arg(env!("CARGO_BIN_EXE_ashlar-workload")).output().expect("ldd");
    let linked = text(&out.stdout);
    let others: Vec<&str> = linked
        .lines()
        .filter(|line| {
            !["linux-vdso", "libc.", "libgcc_s.", "ld-linux", "libm."].iter().any(|name| line.contains(name))
        })
        .collect();
    assert!(out.status.success() && others.is_empty(), "{others:?}");
}

/// Linked with another allocator, the program would have what its constructor takes: TCMalloc's
/// takes 6 MiB.
#[test]
fn a_workload_has_no_memory_of_allocators_that_it_does_not_run_on() {
    let out = run(&["numbers", "--scale", "0.0001"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let anonymous: u64 = field(&text(&out.stdout), "peak_anon_kib").parse().expect("a number");
    assert!((1..2048).contains(&anonymous), "{anonymous} KiB");
}

/// A library that answers for another allocator: the figures would be of the wrong one.
#[test]
fn a_preload_without_effect_is_noticed() {
    let out = run(&["numbers", "--scale", "0.001", "--preload", "/lib/libother.so"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("the preload has no effect: malloc is served by"), "{}", text(&out.stderr));
    assert!(out.stdout.is_empty());
    assert_eq!(run(&["numbers", "--scale", "0.001"]).status.code(), Some(0));
}

/// Builds a shared library and returns where it is.
fn shared_library(name: &str, source: &str) -> PathBuf {
    let (code, library) = (scratch(&format!("{name}.c")), scratch(&format!("{name}.so")));
    std::fs::write(&code, source).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&code).status();
    assert!(built.expect("cc").success());
    library
}

/// An allocator that hands the same memory out twice must not go unnoticed.
#[test]
fn a_wrong_allocator_changes_the_checksum() {
    let library = shared_library(
        "twice",
        r#"
        #include <stddef.h>
        extern void *__libc_malloc(size_t);
        extern void __libc_free(void *);
        static void *shared; static int turn;
        void *malloc(size_t size) {
            if (size != 24) return __libc_malloc(size);
            if (turn++ % 50) return __libc_malloc(size);
            if (!shared) shared = __libc_malloc(size);
            return shared;
        }
        void free(void *p) { if (p != shared || !p) __libc_free(p); }
        "#,
    );
    let checksum = |preload: Option<&PathBuf>| {
        let mut command = command();
        command.args(["numbers", "--scale", "0.01"]);
        if let Some(library) = preload {
            command.arg("--preload").arg(library).env("LD_PRELOAD", library);
        }
        let out = command.output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        field(&text(&out.stdout), "checksum")
    };
    assert_eq!(checksum(None), checksum(None));
    assert_ne!(checksum(Some(&library)), checksum(None));
}
