//! Names the shared library: `libashlar.so.0`, where the number moves with every change that breaks
//! programs linked before. The library stays in memory once loaded: its background thread and fork
//! handlers may outlive a `dlclose`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libashlar.so.0");
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
}
