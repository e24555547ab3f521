//! Names that programs replace: no call inside the library uses one, and the other names of a
//! program that replaces some work as usual.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{archive, build, library, on_library, shared_flags, well};

/// The forms of new and delete that other forms must call by the C++ standard, replaced or not:
/// `new`, `delete` and `delete[]`, and all aligned ones but `new[]`.
const CALLED_BY_NAME: &[&str] = if cfg!(target_arch = "x86_64") {
    &["_ZdaPv", "_ZdaPvSt11align_val_t", "_ZdlPv", "_ZdlPvSt11align_val_t", "_Znwm", "_ZnwmSt11align_val_t"]
} else {
    &[]
};

/// Returns the output of a tool about the library.
fn said(tool: &str, options: &[&str]) -> String {
    let out = Command::new(tool).args(options).arg(library()).output().expect("the tool comes with the compiler");
    String::from_utf8(out.stdout).expect("names in UTF-8")
}

#[test]
fn no_relocation_names_what_the_library_exports_but_forms_that_the_standard_has_called() {
    let names = said("nm", &["-D", "--defined-only"]);
    let exported: BTreeSet<&str> = names.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert!(exported.contains("malloc") && exported.contains("__libc_malloc"), "{exported:?}");
    let relocations = said("readelf", &["-rW"]);
    // Offset, info, type, value and name of the symbol; those without a symbol have an addend only.
    let named: BTreeSet<&str> =
        relocations.lines().filter_map(|line| line.split_whitespace().nth(4)?.split('@').next()).collect();
    assert!(named.contains("memcpy"), "{relocations}");
    let through: Vec<&str> = named.intersection(&exported).copied().collect();
    assert_eq!(through, CALLED_BY_NAME, "calls inside the library go through names that programs replace");
}

/// All subsets of what a program may define by glibc's own names.
fn each_subset_of_wrappers(mut each: impl FnMut(&[&str])) {
    let all = ["-DOWN_MALLOC", "-DOWN_CALLOC", "-DOWN_REALLOC", "-DOWN_FREE"];
    for subset in 0..1_u32 << all.len() {
        let some: Vec<&str> = (0..all.len()).filter(|at| subset >> at & 1 == 1).map(|at| all[at]).collect();
        each(&some);
    }
}

#[track_caller]
fn runs(program: &Path, what: &[&str]) {
    well(&Command::new(program).output().expect("it runs"), &what.join(" "));
}

#[test]
#[cfg(target_env = "gnu")]
fn programs_define_malloc_and_its_relatives_by_the_c_librarys_own_names() {
    each_subset_of_wrappers(|some| {
        let program = build("cc", "c/wraps.c", some);
        // Without this library, too, to show that the program is right.
        runs(&program, some);
        for options in ["", "percpu=lock"] {
            well(&on_library(&program, options).output().expect("it runs"), &format!("{some:?} under `{options}`"));
        }
    });
}

#[test]
#[cfg(target_env = "gnu")]
fn programs_that_are_linked_with_the_library_do_so_too() {
    let shared = shared_flags();
    let all = ["-DOWN_MALLOC", "-DOWN_CALLOC", "-DOWN_REALLOC", "-DOWN_FREE"];
    let dynamic: Vec<&str> = all.into_iter().chain(shared.iter().map(String::as_str)).collect();
    runs(&build("cc", "c/wraps.c", &dynamic), &["linked"]);
    // The archive defines all of them in one object, as glibc's does, so the linker has to be told
    // that the program's definitions count.
    let archive = archive();
    for own in all.iter().map(core::slice::from_ref).chain([&all[..]]) {
        let flags: Vec<&str> = own.iter().copied().chain(["-static", "-Wl,-z,muldefs", &archive]).collect();
        runs(&build("cc", "c/wraps.c", &flags), &flags);
    }
}
