//! Building C programs and running them on the library.
#![allow(dead_code, reason = "each test file uses a part of it")]

#[path = "../../../ashlar-c/tests/common/built.rs"]
mod built;

use core::sync::atomic::{AtomicU32, Ordering};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

pub(crate) use built::built;

/// The shared library.
pub(crate) fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("ashlar-malloc").join("libashlar_malloc.so")).clone()
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Compiles `tests/<source>` with `compiler`; the program's path.
pub(crate) fn build(compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
    static BUILT: AtomicU32 = AtomicU32::new(0);
    let number = BUILT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{number}-{}", std::process::id(), source.replace(['/', '.'], "-"));
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let out = Command::new(compiler)
        .args(["-O1", "-w", "-fno-builtin", "-pthread", "-o"])
        .arg(&program)
        .arg(tests().join(source))
        .args(flags)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(out.status.success(), "{source}: {}", String::from_utf8_lossy(&out.stderr));
    program
}

/// Compiles `tests/<source>` as a shared library; its path.
pub(crate) fn build_library(compiler: &str, source: &str) -> PathBuf {
    build(compiler, source, &["-shared", "-fPIC"])
}

/// What links a program with the shared library so that it runs without preloading: the loader
/// finds it by its name.
pub(crate) fn shared_flags() -> [String; 2] {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("named-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let _ = std::os::unix::fs::symlink(library(), dir.join("libashlar_malloc.so.0"));
    [library().to_str().expect("a path in UTF-8").to_owned(), format!("-Wl,-rpath,{}", dir.display())]
}

/// The static library.
pub(crate) fn archive() -> String {
    library().with_extension("a").to_str().expect("a path in UTF-8").to_owned()
}

/// Prints "well", and nothing on standard error, and ends with 0.
#[track_caller]
pub(crate) fn well(out: &Output, what: &str) {
    let told = (text(&out.stderr), text(&out.stdout), out.status.code());
    assert_eq!(told, (String::new(), "well\n".to_owned(), Some(0)), "{what}");
}

/// Says, in a way that a log can be searched for, that a machine cannot do what a test needs.
pub(crate) fn skipped(why: &str) {
    println!("SKIPPED: {why}");
}

/// What a launcher under `tests/c` answers when the system does not allow what it is for.
pub(crate) const NOT_HERE: i32 = 77;

/// A command that runs on the library with the given `ASHLAR_OPTIONS`.
pub(crate) fn on_library(program: &Path, options: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).env("ASHLAR_OPTIONS", options);
    command
}

/// Runs a program on the library with the given `ASHLAR_OPTIONS`.
pub(crate) fn preloaded(program: &Path, options: &str) -> Output {
    Command::new(program)
        .env("LD_PRELOAD", library())
        .env("ASHLAR_OPTIONS", options)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
