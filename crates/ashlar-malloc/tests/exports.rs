//! The library gives a program C's names, and none of the kernel's: a program may have a `kmalloc` of its own.

use std::process::Command;

#[test]
fn no_name_of_the_kernel_is_exported() {
    let exe = std::env::current_exe().expect("the test program has a path");
    let mut places = exe.ancestors().skip(1).take(2).map(|dir| dir.join("libashlar_malloc.so"));
    let library = places.find(|path| path.is_file()).expect("cargo builds the library with its tests");
    let out = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let text = String::from_utf8(out.expect("nm comes with the compiler").stdout).expect("names in UTF-8");
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert!(names.contains(&"malloc") && names.contains(&"posix_memalign"), "{names:?}");
    let kernels = ["kmalloc", "kfree", "kmem_cache", "krealloc", "kvmalloc", "ksize", "ashlar_"];
    let taken: Vec<&&str> = names.iter().filter(|name| kernels.iter().any(|k| name.starts_with(k))).collect();
    assert!(taken.is_empty(), "{taken:?}");
}
