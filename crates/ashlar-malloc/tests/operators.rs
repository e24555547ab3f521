//! C++ programs that replace some of the operators new and delete: every other form calls the form
//! that the standard requires. The C++ library's own operators are the reference.
#![cfg(target_arch = "x86_64")]

mod common;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{archive, build, on_library, preloaded, text, well};

/// Operators that `c/operators_replaced.cc` can replace: new, new[], the same for alignments, and
/// those of delete.
const REPLACED: usize = 8;

/// The program that calls all forms, and the replaced operators, as objects.
struct Objects {
    program: PathBuf,
    replaced: Vec<PathBuf>,
}

impl Objects {
    fn compile() -> Objects {
        let flags = ["-std=c++17", "-c"];
        let replaced = (0..REPLACED)
            .map(|one| build("c++", "c/operators_replaced.cc", &[flags[0], flags[1], &format!("-DREPLACED={one}")]));
        Objects { program: build("c++", "c/operators.cc", &flags), replaced: replaced.collect() }
    }

    /// Links the program with the replaced operators of a subset, a bit for each.
    fn link(&self, subset: usize, flags: &[&str]) -> PathBuf {
        let program = self.program.with_extension(format!("{subset}{}", flags.concat().len()));
        let some = self.replaced.iter().enumerate().filter(|(one, _)| subset >> one & 1 == 1);
        let mut link = Command::new("c++");
        link.args(["-pthread", "-o"]).arg(&program).arg(&self.program).args(some.map(|(_, object)| object));
        let out = link.args(flags).output().expect("c++ runs");
        assert!(out.status.success() && out.stderr.is_empty(), "{subset:08b}: {}", text(&out.stderr));
        program
    }
}

/// Returns the output of a program that must succeed.
#[track_caller]
fn trace(command: &mut Command, what: &str) -> String {
    let out = command.output().expect("it runs");
    let said = text(&out.stdout);
    assert!(
        out.status.success() && out.stderr.is_empty() && said.ends_with("\nwell\n"),
        "{what}: {:?}, {}\n{said}",
        out.status,
        text(&out.stderr)
    );
    said
}

#[track_caller]
fn same(expected: &str, found: &str, what: &str) {
    for (expected, found) in expected.lines().zip(found.lines()) {
        assert_eq!(found, expected, "{what}: on this library, then on the C++ library's own operators");
    }
    assert_eq!(found.len(), expected.len(), "{what}");
}

#[test]
fn every_form_calls_what_the_standard_says_whatever_is_replaced() {
    let objects = Objects::compile();
    let next = AtomicUsize::new(0);
    let called: Vec<usize> = std::thread::scope(|scope| {
        let half = || {
            let mut called = 0;
            loop {
                let subset = next.fetch_add(1, Ordering::Relaxed);
                if subset >= 1 << REPLACED {
                    return called;
                }
                let program = objects.link(subset, &[]);
                let what = format!("replaced {subset:08b}");
                let expected = trace(&mut Command::new(&program), &what);
                same(&expected, &trace(&mut on_library(&program, ""), &what), &what);
                called +=
                    expected.split_whitespace().filter(|word| ["new", "delete", "delete[]"].contains(word)).count();
                let _ = std::fs::remove_file(program);
            }
        };
        [scope.spawn(half), scope.spawn(half)].map(|thread| thread.join().expect("a half of the table")).into()
    });
    assert!(called.iter().sum::<usize>() > 10_000, "{called:?}: do the traces show the replaced operators?");
}

#[test]
fn it_is_the_same_where_sections_are_protected_by_locks() {
    let objects = Objects::compile();
    for subset in [0, 0b0001_0001, 0b1010_1010, 0b1111_1111] {
        let program = objects.link(subset, &[]);
        let expected = trace(&mut Command::new(&program), "glibc");
        for options in ["percpu=lock", "engine=slab", "nodes=2", "sheaf=0"] {
            let what = format!("replaced {subset:08b} under `{options}`");
            same(&expected, &trace(&mut on_library(&program, options), &what), &what);
        }
    }
}

#[test]
fn it_is_the_same_in_static_programs() {
    let objects = Objects::compile();
    let archive = archive();
    // The archive has all forms in one object, so the linker needs an option to prefer the
    // program's.
    let with_library = ["-static", &archive, "-Wl,-z,muldefs"];
    let singly = (0..REPLACED).map(|one| 1 << one);
    for subset in [0, 0b0001_0001, 0b1111_1111].into_iter().chain(singly) {
        let what = format!("static, replaced {subset:08b}");
        let expected = trace(&mut Command::new(objects.link(subset, &["-static"])), &what);
        same(&expected, &trace(&mut Command::new(objects.link(subset, &with_library)), &what), &what);
    }
}

#[test]
fn a_program_replaces_one_new_and_one_delete_with_memory_of_its_own() {
    let program = build("c++", "c/operators_own_memory.cc", &["-std=c++17"]);
    well(&Command::new(&program).output().expect("it runs"), "glibc");
    for options in ["", "percpu=lock"] {
        well(&preloaded(&program, options), options);
    }
    let flags = ["-std=c++17", "-static", "-Wl,-z,muldefs", &archive()];
    let program = build("c++", "c/operators_own_memory.cc", &flags);
    well(&Command::new(&program).output().expect("it runs"), "static");
}

#[test]
fn a_library_that_replaces_operators_comes_and_goes() {
    let program = build("cc", "c/loads.c", &["-ldl"]);
    let plugin = build("c++", "c/operators_own_memory.cc", &["-std=c++17", "-shared", "-fPIC"]);
    let out = on_library(&program, "").arg(&plugin).output().expect("it runs");
    well(&out, "dlopen");
}

/// Returns the instructions of a call, by the name of the called form.
fn counts(program: &Path) -> Vec<(String, u32)> {
    let out = preloaded(program, "percpu=emulate,reaper=off");
    assert!(out.status.success(), "{}", text(&out.stderr));
    let lines = text(&out.stdout);
    let lines = lines.lines().map(|line| line.split_once(": ").expect("a name and a number"));
    lines.map(|(name, count)| (name.to_owned(), count.parse().expect("a number"))).collect()
}

#[test]
fn programs_that_replace_nothing_pay_nothing() {
    let counts = counts(&build("c++", "c/operators_counted.cc", &["-std=c++17"]));
    println!("{counts:?}");
    let (allocs, frees) = counts.split_at(3);
    assert!(allocs[0].0 == "malloc" && frees[0].0 == "free" && frees.len() == 13, "{counts:?}");
    for group in [allocs, frees] {
        let (_, own) = &group[0];
        assert!((20..60).contains(own), "{group:?}: is it the fast path?");
        assert!(group.iter().all(|(_, count)| count == own), "{group:?}");
    }
}
