//! Random numbers for choices that must not be foretold.

use super::process_secret;
use crate::base::sync::{AtomicUsize, Ordering};
use ashlar_macros::place;

/// Returns a number below `below`, which cannot be foretold without the secret of the process.
#[place(cold)]
pub(crate) fn random(below: usize) -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) as u64;
    // SplitMix64, from a secret start.
    let mut x = process_secret().wrapping_add(count.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (((x ^ x >> 31) as u32 as u64 * below as u64) >> 32) as usize
}
