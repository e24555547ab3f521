//! The library gives a program C's names, and none of the kernel's: a program may have a `kmalloc` of its own. And it asks for no
//! library but C's.

mod common;

use common::library;
use std::process::Command;

/// What a tool prints.
fn said(command: &mut Command) -> String {
    let out = command.output().expect("the tool comes with the compiler");
    String::from_utf8(out.stdout).expect("names in UTF-8")
}

#[test]
#[cfg(target_env = "gnu")]
fn a_c_program_loads_no_library_but_this_and_those_of_c() {
    let text = said(Command::new("readelf").arg("-dW").arg(library()));
    let needed: Vec<&str> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!needed.is_empty(), "{text}");
    assert!(needed.iter().all(|line| line.contains("[libc.so") || line.contains("[ld-linux")), "{needed:?}");
}

#[test]
fn no_name_of_the_kernel_is_exported() {
    let text = said(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert!(names.contains(&"malloc") && names.contains(&"posix_memalign"), "{names:?}");
    let kernels = ["kmalloc", "kfree", "kmem_cache", "krealloc", "kvmalloc", "ksize", "ashlar_"];
    let taken: Vec<&&str> = names.iter().filter(|name| kernels.iter().any(|k| name.starts_with(k))).collect();
    assert!(taken.is_empty(), "{taken:?}");
}
