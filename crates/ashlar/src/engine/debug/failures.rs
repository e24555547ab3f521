//! Allocations that fail on purpose: the kernel's failslab.
//!
//! Source: `should_fail` of lib/fault-inject.c, and the boot parameter
//! `failslab=INTERVAL,PROBABILITY,SPACE,TIMES`.

use crate::base::sync::{AtomicU32, AtomicU64, Ordering};
use ashlar_macros::place;

/// Which allocations of the caches with the flag `A` fail. By default none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failures {
    /// Only one in so many may fail.
    pub(crate) interval: u32,
    /// In so many of 100 cases it does.
    pub(crate) probability: u32,
    /// Bytes that are allocated first.
    pub(crate) space: u64,
    /// The most failures; -1 for any number.
    pub(crate) times: i64,
}

static INTERVAL: AtomicU32 = AtomicU32::new(1);
static PROBABILITY: AtomicU32 = AtomicU32::new(0);
static SPACE: AtomicU64 = AtomicU64::new(0);
/// Failures that are left; [`ANY`] for any number.
static TIMES: AtomicU64 = AtomicU64::new(ANY);
const ANY: u64 = u64::MAX;
/// Allocations so far.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Sets which allocations fail from now on. Only the environment does so.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn set(failures: Failures) {
    INTERVAL.store(failures.interval.max(1), Ordering::Relaxed);
    SPACE.store(failures.space, Ordering::Relaxed);
    TIMES.store(u64::try_from(failures.times).unwrap_or(ANY), Ordering::Relaxed);
    COUNT.store(0, Ordering::Relaxed);
    PROBABILITY.store(failures.probability, Ordering::Relaxed);
}

/// Returns whether allocations of caches with the flag `A` fail, now and then.
#[cfg(feature = "os")]
#[place(cold)]
pub(super) fn are_set() -> bool {
    PROBABILITY.load(Ordering::Relaxed) != 0
}

/// Returns whether an allocation of `size` bytes is to fail. Counts it.
#[place(cold)]
pub(crate) fn is_due(size: usize) -> bool {
    let probability = PROBABILITY.load(Ordering::Relaxed);
    if probability == 0 || TIMES.load(Ordering::Relaxed) == 0 {
        return false;
    }
    if SPACE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |space| space.checked_sub(size as u64)).is_ok()
        && size > 0
    {
        return false;
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    if !count.is_multiple_of(u64::from(INTERVAL.load(Ordering::Relaxed))) {
        return false;
    }
    if scattered(count) % 100 >= u64::from(probability) {
        return false;
    }
    // Several threads may see the last time: only as many as are left may fail.
    TIMES
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
            0 => None,
            ANY => Some(ANY),
            left => Some(left - 1),
        })
        .is_ok()
}

/// A number that depends on `count` alone, so that a run can be repeated: the finaliser of Steele's
/// SplitMix64.
fn scattered(count: u64) -> u64 {
    let mut z = count.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
