//! Property test: caches and kmalloc against a shadow model; see `common/model.rs`.

mod common;

use common::model::{Op, op, run};
use proptest::prelude::*;

/// Enough cases to run every pair of operations; a case has up to 400 operations.
const CASES: u32 = 150;

/// Returns `PROPTEST_CASES`, which proptest ignores where a test sets `cases`, or the default.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn caches_and_kmalloc_agree_with_the_model(ops in proptest::collection::vec(op(), 1..400)) {
        run(&ops);
    }
}

#[test]
fn large_objects_are_aligned_as_asked() {
    // An object above 32 MiB has its own mapping, which the system aligns only to its pages.
    run(&[Op::KmallocAligned(33 << 20, 21), Op::KmallocAligned(40 << 20, 16), Op::KmallocAligned(33 << 20, 21)]);
}

#[test]
fn a_bulk_larger_than_all_caches_is_taken_back_whole() {
    run(&[Op::AllocBulk(0, 20_000), Op::Shrink(0), Op::FreeBulk(0, 20_000), Op::Shrink(0), Op::Destroy(0)]);
}
