//! Tells the tool what it was built with: the compiler, the profile, and the versions of the peers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Peers whose library cannot be asked for its version at run time, so the lock file is.
const FROM_LOCK: [(&str, &str); 3] =
    [("snmalloc-sys", "ASHLAR_SNMALLOC"), ("rpmalloc-sys", "ASHLAR_RPMALLOC"), ("libtcmalloc-sys", "ASHLAR_TCMALLOC")];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|out| String::from_utf8(out.stdout).ok())
        .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
    println!("cargo:rustc-env=ASHLAR_RUSTC={version}");
    let opt = env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=ASHLAR_OPT_LEVEL={opt}");

    let lock = find_lock().map(|path| {
        println!("cargo:rerun-if-changed={}", path.display());
        fs::read_to_string(path).unwrap_or_default()
    });
    for (package, variable) in FROM_LOCK {
        let version = lock.as_deref().and_then(|text| locked_version(text, package)).unwrap_or("unknown");
        println!("cargo:rustc-env={variable}={version}");
    }
}

/// The workspace's lock file, or that of the package when it is built by itself.
fn find_lock() -> Option<PathBuf> {
    let manifest = env::var("CARGO_MANIFEST_DIR").ok()?;
    Path::new(&manifest).ancestors().map(|dir| dir.join("Cargo.lock")).find(|path| path.is_file())
}

fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let mut lines = lock.lines();
    lines.find(|line| *line == format!("name = \"{package}\""))?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}
