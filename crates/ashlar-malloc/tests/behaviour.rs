//! The programs of `tests/behaviour` at the top of the repository, on glibc and in each mode.
//! `tests/behaviour/run.sh` runs the same by hand, with a table and the peers.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn runner() -> Command {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(top.join("tests/behaviour/run.sh"));
    if cfg!(debug_assertions) {
        command.env("BEHAVIOUR_DEBUG", "1");
    }
    // CI machines may be busy.
    command.env("BEHAVIOUR_SECONDS", "90");
    command.arg("--library").arg(common::library()).arg("--built").arg(built());
    command
}

fn built() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("behaviour")
}

/// Runs all programs in one mode. The message of a failure names the programs.
#[track_caller]
fn all_in(mode: &str) {
    static COMPILED: OnceLock<bool> = OnceLock::new();
    assert!(COMPILED.get_or_init(|| runner().arg("--compile").status().expect("bash runs").success()), "compiling");
    let out = runner().args(["--jobs", "2", "--modes", mode]).output().expect("bash runs");
    let told = common::text(&out.stdout);
    print!("{told}");
    // What the programs wrote, up to the table.
    let failed: Vec<&str> =
        told.lines().skip_while(|line| !line.starts_with("FAILED")).take_while(|line| !line.is_empty()).collect();
    assert!(out.status.success(), "{mode}: {failed:#?} {}", common::text(&out.stderr));
}

#[test]
fn glibc_keeps_the_promises_so_they_are_promises() {
    all_in("glibc");
}

#[test]
fn promises_hold_by_restartable_sequences() {
    all_in("rseq");
}

#[test]
fn promises_hold_by_restartable_sequences_of_our_own_registration() {
    all_in("own");
}

#[test]
fn promises_hold_where_the_c_library_registers_no_sequences() {
    all_in("norseq");
}

#[test]
fn promises_hold_by_locks() {
    all_in("lock");
}

#[test]
fn promises_hold_with_four_nodes() {
    all_in("nodes");
}

#[test]
fn promises_hold_where_memory_returns_by_calls() {
    all_in("calls");
}

#[test]
fn promises_hold_where_memory_does_not_return() {
    all_in("off");
}

#[test]
fn promises_hold_on_slab() {
    all_in("slab");
}

#[test]
fn promises_hold_on_slob() {
    all_in("slob");
}
