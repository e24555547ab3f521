//! Tests of what is found, without a process.

use super::checks::ptrace_scope;
use super::{Diagnosis, Finding, State, elf, text, wrapped};

#[test]
fn text_fits_80_columns_and_says_how_many_problems_there_are() {
    let long = "word ".repeat(60);
    let path = "x".repeat(300);
    let findings = vec![
        Finding::ok("one", long.clone()),
        Finding::note("two", path, long.clone()),
        Finding::problem("three", "x", long),
    ];
    let shown = text(&Diagnosis { subject: "it".to_owned(), problems: 1, findings });
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.starts_with("it\n\none          ok       word ") && shown.ends_with("\n1 problem.\n"), "{shown}");
    assert_eq!(shown.matches("-> word").count(), 2, "{shown}");
    assert_eq!(wrapped("", 10), Vec::<String>::new());
}

#[test]
fn the_ptrace_scope_is_no_problem_for_root_or_where_it_is_0() {
    assert_eq!(ptrace_scope("0").state, State::Ok);
    assert_eq!(ptrace_scope("").state, State::Ok);
    assert_eq!(ptrace_scope("3").state, State::Note);
}

#[test]
fn this_program_is_dynamic_and_has_no_malloc_of_its_own() {
    let bytes = std::fs::read(std::env::current_exe().expect("a path")).expect("a file");
    let program = elf::read(&bytes).expect("an ELF file");
    assert!(program.interpreter.contains("/ld"), "{program:?}");
    assert!(!program.own_malloc && program.allocators.is_empty() && !program.go, "{program:?}");
    assert_eq!(elf::read(b"#!/bin/sh\n"), None);
}

#[test]
fn a_damaged_file_is_read_without_harm() {
    let whole = std::fs::read(std::env::current_exe().expect("a path")).expect("a file");
    let head: Vec<u8> = whole[..4096.min(whole.len())].to_vec();
    for at in 0..head.len().min(512) {
        for value in [0, 1, 0x7f, 0xff] {
            let mut damaged = head.clone();
            damaged[at] = value;
            let _ = elf::read(&damaged);
        }
    }
    for len in 0..200 {
        let _ = elf::read(&head[..len]);
    }
    assert!(elf::read(&head).is_some(), "the head alone says whether it is static");
}
