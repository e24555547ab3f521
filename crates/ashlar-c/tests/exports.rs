//! The libraries export the names of `ashlar.h`, and none of the C library's.

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::{libraries, root, text};

/// Returns the names that the shared library exports.
fn exported() -> BTreeSet<String> {
    let out = Command::new("nm").args(["-D", "--defined-only"]).arg(libraries().join("libashlar.so")).output();
    let out = out.expect("nm comes with the compiler");
    assert!(out.status.success(), "{}", text(&out.stderr));
    text(&out.stdout).lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

/// Returns the functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(root().join("include/ashlar.h")).expect("the header can be read");
    let code: Vec<&str> = header.lines().filter(|line| !line.starts_with('#')).collect();
    let code = code.join(" ");
    // Without comments.
    let mut functions = String::new();
    for (at, part) in code.split("/*").enumerate() {
        functions.push_str(if at == 0 { part } else { part.split_once("*/").expect("a comment ends").1 });
    }
    let functions = functions.split("extern \"C\" {").nth(1).expect("the header declares functions");
    let names = functions.split(';').filter_map(|declaration| declaration.split_once('(')).map(|(before, _)| before);
    names.filter_map(|before| before.rsplit([' ', '*']).next()).map(str::to_owned).collect()
}

#[test]
fn the_library_exports_what_the_header_declares() {
    let (exported, declared) = (exported(), declared());
    assert!(declared.len() > 40 && declared.contains("kmem_cache_prefill_sheaf"), "{declared:?}");
    assert_eq!(exported, declared);
}

#[test]
fn a_program_keeps_its_malloc() {
    let exported = exported();
    for name in ["malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc", "_Znwm", "_ZdlPv"] {
        assert!(!exported.contains(name), "{name} is exported");
    }
}

#[test]
fn the_library_has_a_versioned_name_and_stays_loaded() {
    let out = Command::new("readelf").arg("-d").arg(libraries().join("libashlar.so")).output().expect("readelf");
    let dynamic = text(&out.stdout);
    assert!(dynamic.contains("[libashlar.so.0]") && dynamic.contains("NODELETE"), "{dynamic}");
}
