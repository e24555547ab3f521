//! Building C and C++ programs against this crate's header and libraries, and running them.
#![allow(dead_code, reason = "each test file uses a part")]

mod built;

use core::sync::atomic::{AtomicU32, Ordering};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use built::built;

/// Strict enough for any user's build.
pub(crate) const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the workspace").to_owned()
}

/// The folder with libashlar.so, libashlar.a, and the link libashlar.so.0 that programs look for
/// when they run.
pub(crate) fn libraries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = built("ashlar-c");
        let by_name = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-libraries", std::process::id()));
        std::fs::create_dir_all(&by_name).expect("a folder for the links");
        for (link, file) in
            [("libashlar.so.0", "libashlar.so"), ("libashlar.so", "libashlar.so"), ("libashlar.a", "libashlar.a")]
        {
            std::os::unix::fs::symlink(built.join(file), by_name.join(link)).expect("a link to the library");
        }
        by_name
    })
}

/// How a program gets the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Shared,
    Static,
}

fn compiler(language: &str) -> Command {
    let mut command = Command::new(if language.starts_with("c++") { "c++" } else { "cc" });
    if language.starts_with("c++") {
        // The sources are the C programs: what compiles as both shows that the headers are clean in
        // both.
        command.args(["-x", "c++"]);
    }
    command.arg(format!("-std={language}")).args(STRICT).arg("-I").arg(root().join("include"));
    command
}

/// Compiles a source as `language` (c99, c++11, …) without linking it: what the compiler says.
pub(crate) fn compile_text(language: &str, source: &str) -> Output {
    use std::io::Write;
    let mut command = compiler(language);
    if !language.starts_with("c++") {
        command.args(["-x", "c"]);
    }
    command.args(["-fsyntax-only", "-"]).stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("a compiler is installed");
    child.stdin.take().expect("piped").write_all(source.as_bytes()).expect("the compiler reads");
    child.wait_with_output().expect("the compiler ends")
}

/// Builds `source`, a path from the root of the repository; the program.
pub(crate) fn build(language: &str, source: &str, link: Link) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{number}-{}", std::process::id(), source.replace(['/', '.'], "-"));
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = compiler(language);
    command.arg("-O1").arg("-pthread").arg("-o").arg(&program).arg(root().join(source)).args(["-x", "none"]);
    match link {
        Link::Shared => command.arg("-L").arg(libraries()).arg("-lashlar"),
        Link::Static => command.arg("-static").arg(libraries().join("libashlar.a")),
    };
    let out = command.output().expect("a compiler is installed");
    assert!(out.status.success(), "{source} as {language}, {link:?}: {}", text(&out.stderr));
    program
}

/// A program, ready to run on the library with the given `ASHLAR_OPTIONS`.
pub(crate) fn program(path: &Path, options: &str) -> Command {
    let mut command = Command::new(path);
    command.env("LD_LIBRARY_PATH", libraries()).env("ASHLAR_OPTIONS", options);
    command
}

/// Runs a program that ends with the line `well`, in every way the library can work.
pub(crate) fn well_in_all_modes(path: &Path) {
    for options in ["", "percpu=lock", "sheaf=0", "nodes=2", "max_order=0"] {
        well(program(path, options).output().expect("it runs"), &format!("{}, options {options}", path.display()));
    }
}

#[track_caller]
pub(crate) fn well(out: Output, what: &str) {
    let seen = (text(&out.stderr), text(&out.stdout), out.status.code());
    assert_eq!(seen, (String::new(), "well\n".to_owned(), Some(0)), "{what}");
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
