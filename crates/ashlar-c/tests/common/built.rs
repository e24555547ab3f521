//! The libraries that C programs link. Cargo builds for tests only what Rust can link, and these
//! are not: so they are asked for here, in the profile of the test. What is tested is then what is
//! used: programs get libraries in which panics do not unwind.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Has the libraries of `package` built; the folder they are in.
pub(crate) fn built(package: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("the test program has a path");
    let folder = exe.ancestors().nth(2).expect("target/PROFILE/deps/program").to_owned();
    let profile = folder.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
    let out = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--lib", "--package", package, "--profile"])
        .arg(if profile == "debug" { "dev" } else { profile })
        .arg("--target-dir")
        .arg(folder.parent().expect("target/PROFILE"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    folder
}
