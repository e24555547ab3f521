//! Names the shared library: `libashlar_malloc.so.0`, which programs linked with it look for when
//! they run. The library stays in memory once loaded: its background thread and fork handlers may
//! outlive a `dlclose`. What few programs run lies apart, by `layout.ld`, where the linker takes
//! such scripts.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=layout.ld");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libashlar_malloc.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Without `std` nothing else names the C library. Old ones have threads and `dlsym` apart.
    if std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|os| os == "linux") {
        for library in ["-Wl,--as-needed", "-lpthread", "-ldl", "-lc"] {
            println!("cargo:rustc-cdylib-link-arg={library}");
        }
        // The C compiler's start files may lack landing pads, and a library needs nothing of them.
        // What else lacks the mark is only called by its name.
        if std::env::var_os("CARGO_CFG_ASHLAR_BTI").is_some() {
            println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
            println!("cargo:rustc-cdylib-link-arg=-Wl,-z,force-bti");
        }
    }
    let script = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("layout.ld");
    let Some(script) = script.to_str() else { return };
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") && linker_takes(script) {
        // So that windows of 16 pages lie in memory as they lie in the file.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,max-page-size=65536");
        println!("cargo:rustc-cdylib-link-arg=-T");
        println!("cargo:rustc-cdylib-link-arg={script}");
    }
}

/// Whether a library can be linked with the script: LLD and GNU ld have `INSERT`, mold does not.
/// Only trying it says so of the linker that will be used.
fn linker_takes(script: &str) -> bool {
    let var = |name| env::var_os(name).filter(|value| !value.is_empty());
    let (Some(rustc), Some(target), Some(out)) = (var("RUSTC"), var("TARGET"), var("OUT_DIR")) else { return false };
    let source = PathBuf::from(&out).join("probe.rs");
    // With a table, since sections are inserted after those of tables.
    let text = "#![no_std]\n#[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! {\n    loop {}\n}\n\
                #[unsafe(no_mangle)]\npub static TABLE: [u64; 4] = [1, 2, 3, 4];\n";
    if std::fs::write(&source, text).is_err() {
        return false;
    }
    let mut probe = Command::new(rustc);
    probe.args(["--crate-type=cdylib", "--crate-name=probe", "-Cpanic=abort", "-Copt-level=1"]);
    probe.arg("--target").arg(target).arg("--out-dir").arg(out).arg(source);
    if let Some(linker) = var("RUSTC_LINKER") {
        probe.arg(format!("-Clinker={}", linker.to_string_lossy()));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    probe.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    probe.args(["-Clink-arg=-T", &format!("-Clink-arg={script}")]);
    probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
