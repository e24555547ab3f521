//! The same suite in every mode: sheaves protected by rseq (registered by the C library or by
//! ashlar) or by locks, on one node or several, with and without sheaves.

mod common;

use common::{child, conformance, tell};

const OWN_RSEQ: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");

/// Runs the suite in a child with the environment `env`, and checks that it ran in `mode`.
fn conforms(test: &str, mode: &str, env: &[(&str, &str)]) {
    let child = child(test, test, env, || {
        tell("mode", ashlar::mode());
        conformance::run();
        tell("mode at the end", ashlar::mode());
    });
    let child = child.expect("the parent").succeeded();
    assert_eq!(child.told("mode"), mode);
    assert_eq!(child.told("mode at the end"), mode);
    // The suite contains no invalid use. It only causes reports of caches destroyed while objects
    // are live.
    let unexpected = child.stderr.lines().find(|l| l.starts_with("ashlar:") && !l.contains("destroyed while"));
    assert_eq!(unexpected, None);
}

macro_rules! modes {
    ($($(#[$doc:meta])* $name:ident: $mode:literal, $env:expr;)*) => {
        $($(#[$doc])* #[test] fn $name() { conforms(stringify!($name), $mode, &$env); })*
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
modes! {
    default_is_rseq: "rseq", [];
    /// If the C library is told not to register rseq, the program may want to register it itself.
    a_declined_registration_is_left_to_the_program: "lock", [OWN_RSEQ];
    /// The self-test must find that the kernel aborts sections. That includes sections under
    /// ashlar's own registration, which each thread makes on its first slow path.
    tested_rseq: "rseq", [("ASHLAR_OPTIONS", "percpu=rseq")];
    tested_own_registration: "rseq", [OWN_RSEQ, ("ASHLAR_OPTIONS", "percpu=rseq")];
    four_nodes: "rseq", [("ASHLAR_OPTIONS", "nodes=4")];
    four_nodes_with_own_registration: "rseq", [OWN_RSEQ, ("ASHLAR_OPTIONS", "percpu=rseq,nodes=4")];
    no_sheaves: "rseq", [("ASHLAR_OPTIONS", "sheaf=0")];
    no_sheaves_on_four_nodes: "rseq", [("ASHLAR_OPTIONS", "sheaf=0,nodes=4")];
    /// Every operation after the first reaches the end of a sheaf.
    sheaves_of_one: "rseq", [("ASHLAR_OPTIONS", "sheaf=1")];
    huge_pages: "rseq", [("ASHLAR_OPTIONS", "hugepages=on")];
    /// Barns overflow at once, empty slabs are returned at once, and slabs are single pages.
    nothing_is_kept: "rseq", [("ASHLAR_OPTIONS", "barn=0,min_partial=0,max_order=0,sheaf=4,decay=0")];
    large_slabs: "rseq", [("ASHLAR_OPTIONS", "min_order=9,max_order=9")];
}

modes! {
    locks: "lock", [("ASHLAR_OPTIONS", "percpu=lock")];
    locks_with_four_nodes: "lock", [("ASHLAR_OPTIONS", "percpu=lock,nodes=4")];
    locks_with_sheaves_of_one: "lock", [("ASHLAR_OPTIONS", "percpu=lock,sheaf=1")];
}

/// Every fast path stores to the thread's rseq area before it checks whether it may continue. It
/// does so also without a registration, and before the allocator starts. The store must not hit the
/// C library's own data. The word behind the thread pointer is glibc's table of thread-local
/// storage; a program that loses it crashes much later.
#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn no_mode_writes_into_the_thread_control_block() {
    fn block() -> [u64; 8] {
        let mut words = [0; 8];
        for (i, word) in words.iter_mut().enumerate() {
            // SAFETY: reads eight words from the thread pointer on; glibc's control block is
            // larger.
            unsafe { core::arch::asm!("mov {}, fs:[{}]", out(reg) *word, in(reg) 8 * i, options(nostack, readonly)) };
        }
        words
    }
    let test = "no_mode_writes_into_the_thread_control_block";
    for (role, env) in [("tcb default", ""), ("tcb lock", "percpu=lock"), ("tcb emulate", "percpu=emulate")] {
        let child = child(test, role, &[("ASHLAR_OPTIONS", env)], || {
            let before = block();
            // SAFETY: null is ignored.
            unsafe { ashlar::kfree_sized(core::ptr::null_mut(), 8) };
            assert_eq!(block(), before, "changed before the start");
            let at = ashlar::kmalloc(8);
            assert_eq!(block(), before, "changed at the start");
            // SAFETY: live, freed once.
            unsafe { ashlar::kfree(at) };
            let cache = ashlar::KmemCache::create("tcb", 64, &ashlar::CacheArgs::default()).expect("a cache");
            let object = cache.alloc().expect("memory");
            // SAFETY: live, freed once.
            unsafe { cache.free(object) };
            assert_eq!(block(), before, "changed by a cache");
            assert_eq!(
                std::thread::spawn(|| (block(), ashlar::kmalloc(8) as usize, block()))
                    .join()
                    .map(|(a, _, b)| a == b)
                    .ok(),
                Some(true)
            );
        });
        if let Some(child) = child {
            child.succeeded();
        }
    }
}
