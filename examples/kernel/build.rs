//! Hands the linker what a kernel needs: addresses that are fixed, and the order of sections.

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/kernel.ld");
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rustc-link-arg-bins=--no-pie");
}
