//! Libraries opened with `RTLD_DEEPBIND`, which would find the C library's `free` before this
//! library's.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

mod common;

use std::path::PathBuf;
use std::process::{Command, Output};

use common::{NOT_HERE, archive, build, build_library, on_library, shared_flags, skipped, text, well};

fn program() -> PathBuf {
    build("cc", "c/deepbind.c", &["-ldl"])
}

fn plugin() -> PathBuf {
    build_library("cc", "c/deepbind_plugin.c")
}

#[track_caller]
fn run(options: &str, arguments: &[&str]) -> Output {
    on_library(&program(), options).arg(plugin()).args(arguments).output().expect("it runs")
}

#[test]
fn a_library_of_its_own_scope_exchanges_memory_with_the_program() {
    for options in ["", "deepbind=drop", "percpu=lock"] {
        well(&run(options, &[]), options);
    }
}

#[test]
fn programs_that_are_linked_with_the_library_do_so_too() {
    let shared = shared_flags();
    let archive = archive();
    for flags in [shared.each_ref().map(String::as_str).as_slice(), &[&archive, "-rdynamic"]] {
        let program = build("cc", "c/deepbind.c", &[&["-ldl"], flags].concat());
        well(&Command::new(&program).arg(plugin()).output().expect("it runs"), &flags.concat());
    }
}

#[test]
fn the_flag_is_kept_where_an_option_says_so() {
    for (options, found) in [("deepbind=keep", "apart\n"), ("", "one\n"), ("deepbind=drop", "one\n")] {
        let out = run(options, &["apart"]);
        assert_eq!((text(&out.stdout), text(&out.stderr)), (found.to_owned(), String::new()), "`{options}`");
    }
}

#[test]
fn a_library_is_found_by_the_runpath_of_the_one_that_opens_it() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("runpath-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let inner = dir.join("libdeepbind-inner.so");
    std::fs::copy(plugin(), &inner).expect("a copy");
    let path = format!("-Wl,--enable-new-dtags,-rpath,{}", dir.display());
    let opener = build("cc", "c/deepbind_opener.c", &["-shared", "-fPIC", &path]);
    let out = on_library(&program(), "").arg(&inner).arg(&opener).arg("libdeepbind-inner.so").output();
    well(&out.expect("it runs"), "by its name");
}

#[test]
fn a_static_program_opens_what_it_could_open_before() {
    let without = build("cc", "c/static_dlopen.c", &["-static"]);
    if Command::new(&without).status().expect("it runs").code() == Some(NOT_HERE) {
        return skipped("static programs cannot open shared libraries");
    }
    let program = build("cc", "c/static_dlopen.c", &["-static", &archive()]);
    well(&Command::new(&program).output().expect("it runs"), "static");
}

#[test]
fn it_is_said_once_where_an_option_asks_and_counted_in_figures() {
    let out = run("deepbind=warn", &[]);
    let lines = text(&out.stderr);
    assert_eq!(text(&out.stdout), "well\n");
    assert!(lines.lines().count() == 1 && lines.starts_with("ashlar: dlopen: "), "{lines}");
    assert!(lines.contains("/nowhere/libnothing.so") && lines.contains("RTLD_DEEPBIND"), "{lines}");
    for (form, figure) in [("text", "RTLD_DEEPBIND left out 3 times\n"), ("json", "\"deepbind_dropped\":3,")] {
        let mut command = on_library(&program(), "");
        let out = command.env("ASHLAR_STATS", form).arg(plugin()).output().expect("it runs");
        assert!(text(&out.stderr).contains(figure), "{}", text(&out.stderr));
        let out =
            on_library(&program(), "deepbind=keep").env("ASHLAR_STATS", form).args([plugin(), "apart".into()]).output();
        let figures = text(&out.expect("it runs").stderr);
        assert!(figures.contains("ashlar") && !figures.contains(figure) && !figures.contains("left out"), "{figures}");
    }
}
