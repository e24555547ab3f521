//! Names the shared library: `libashlar_malloc.so.0`, which programs linked with it look for when they run. The library
//! stays in memory once loaded: its background thread and fork handlers may outlive a `dlclose`.
//!
//! The standard library, which is here for its panic handler, wants GCC's unwinder, a shared library that C programs would load for nothing
//! whenever they start. So that is linked into this one, where the compiler has it in that form. Nothing here unwinds, and exceptions
//! of a program pass assembly frames only, by the program's own unwinder.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libashlar_malloc.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let native = variable("HOST") == variable("TARGET");
    if native && variable("CARGO_CFG_TARGET_ENV") == "gnu" {
        // Known to the compiler only as a whole path; where it has none the answer is the bare name.
        let linker = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
        let answer = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output();
        let path = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned()).unwrap_or_default();
        if Path::new(&path).is_absolute() && Path::new(&path).is_file() {
            println!("cargo:rustc-cdylib-link-arg=-Wl,--push-state,--whole-archive,{path},--pop-state");
        }
    }
}
