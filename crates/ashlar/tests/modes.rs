//! The same suite in every mode: the sheaves protected by rseq (of the C library, or our own registration) or by
//! locks, one node or several, with and without sheaves.

mod common;

use common::{child, conformance, tell};

const OWN_RSEQ: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");

/// Runs the suite in a child with this environment; the child must have found the expected mode.
fn conforms(test: &str, mode: &str, env: &[(&str, &str)]) {
    let child = child(test, test, env, || {
        tell("mode", ashlar::mode());
        conformance::run();
        tell("mode at the end", ashlar::mode());
    });
    let child = child.expect("the parent").succeeded();
    assert_eq!(child.told("mode"), mode);
    assert_eq!(child.told("mode at the end"), mode);
    // Nothing of the suite is invalid use; destroying a cache with a live object is the only thing it is told of.
    let unexpected = child.stderr.lines().find(|l| l.starts_with("ashlar:") && !l.contains("destroyed while"));
    assert_eq!(unexpected, None);
}

macro_rules! modes {
    ($($(#[$doc:meta])* $name:ident: $mode:literal, $env:expr;)*) => {
        $($(#[$doc])* #[test] fn $name() { conforms(stringify!($name), $mode, &$env); })*
    };
}

#[cfg(target_arch = "x86_64")]
modes! {
    default_is_rseq: "rseq", [];
    /// Without the C library's registration each thread makes its own at its first slow path.
    own_registration_is_rseq: "rseq", [OWN_RSEQ];
    four_nodes: "rseq", [("ASHLAR_OPTIONS", "nodes=4")];
    four_nodes_with_own_registration: "rseq", [OWN_RSEQ, ("ASHLAR_OPTIONS", "nodes=4")];
    no_sheaves: "rseq", [("ASHLAR_OPTIONS", "sheaf=0")];
    no_sheaves_on_four_nodes: "rseq", [("ASHLAR_OPTIONS", "sheaf=0,nodes=4")];
    /// Every operation but the first is at a boundary of a sheaf.
    sheaves_of_one: "rseq", [("ASHLAR_OPTIONS", "sheaf=1")];
    huge_pages: "rseq", [("ASHLAR_OPTIONS", "hugepages=on")];
    /// Barns overflow at once, empty slabs go back at once, and slabs are single pages.
    nothing_is_kept: "rseq", [("ASHLAR_OPTIONS", "barn=0,min_partial=0,max_order=0,sheaf=4,decay=0")];
    large_slabs: "rseq", [("ASHLAR_OPTIONS", "min_order=9,max_order=9")];
}

modes! {
    locks: "lock", [("ASHLAR_OPTIONS", "percpu=lock")];
    locks_with_four_nodes: "lock", [("ASHLAR_OPTIONS", "percpu=lock,nodes=4")];
    locks_with_sheaves_of_one: "lock", [("ASHLAR_OPTIONS", "percpu=lock,sheaf=1")];
}
