//! Building C programs and running them on the library that this very `cargo test` built.

use core::sync::atomic::{AtomicU32, Ordering};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The shared library, beside the test program or one directory up.
pub(crate) fn library() -> PathBuf {
    let exe = std::env::current_exe().expect("the test program has a path");
    let dirs = exe.ancestors().skip(1).take(2);
    let found = dirs.map(|dir| dir.join("libashlar_malloc.so")).find(|path| path.is_file());
    found.expect("cargo builds the library with its tests: libashlar_malloc.so beside the test program")
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
