//! Names the shared library: `libashlar_malloc.so.0`, which programs linked with it look for when they run. The library
//! stays in memory once loaded: its background thread and fork handlers may outlive a `dlclose`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libashlar_malloc.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
