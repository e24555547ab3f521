//! Stress with an owner oracle, in every mode; see `common/stress.rs`. `ASHLAR_STRESS_SECONDS` sets
//! the length of the run in the default mode.

mod common;

use common::{child, stress, tell};

/// Seconds for each of the other modes.
const SHORT: u64 = 2;

fn stressed(test: &str, mode: &str, seconds: u64, env: &[(&str, &str)]) {
    let child = child(test, test, env, || {
        tell("mode", ashlar::mode());
        tell("freed", stress::run(seconds));
    });
    let child = child.expect("the parent").succeeded();
    assert_eq!(child.told("mode"), mode);
    let freed: u64 = child.told("freed").parse().expect("a number");
    assert!(freed > 10_000, "only {freed} objects in {seconds} s");
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn default() {
    let seconds = std::env::var("ASHLAR_STRESS_SECONDS").map_or(5, |s| s.parse().expect("a number of seconds"));
    stressed("default", "rseq", seconds, &[]);
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn own_registration() {
    stressed(
        "own_registration",
        "rseq",
        SHORT,
        &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0"), ("ASHLAR_OPTIONS", "percpu=rseq")],
    );
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn four_nodes() {
    stressed("four_nodes", "rseq", SHORT, &[("ASHLAR_OPTIONS", "nodes=4")]);
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn sheaves_of_two_and_nothing_kept() {
    let options = "sheaf=2,barn=0,min_partial=0,decay=0,max_order=0";
    stressed("sheaves_of_two_and_nothing_kept", "rseq", SHORT, &[("ASHLAR_OPTIONS", options)]);
}

#[test]
fn locks() {
    stressed("locks", "lock", SHORT, &[("ASHLAR_OPTIONS", "percpu=lock")]);
}

#[test]
fn locks_with_four_nodes() {
    stressed("locks_with_four_nodes", "lock", SHORT, &[("ASHLAR_OPTIONS", "percpu=lock,nodes=4")]);
}
