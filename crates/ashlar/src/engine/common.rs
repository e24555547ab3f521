//! What several engines do alike and no layer below can do.

use super::RawCache;
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::pages::zone::ZONE;

/// The object that `take` finds after it found none: see
/// [`Zone::take_after_all`](crate::pages::zone::Zone::take_after_all). Null when memory has ended.
#[cold]
pub(crate) fn after_all(mut take: impl FnMut() -> *mut u8) -> *mut u8 {
    let found = ZONE.take_after_all(|| Some(take()).filter(|object| !object.is_null()));
    found.unwrap_or(core::ptr::null_mut())
}

/// Whether partial slabs of other nodes are to be looked at before a slab is new: in so many of
/// 1000 cases as the cache's ratio says. The kernel asks the cycle counter; here a counter of such
/// questions is scattered, which is the same everywhere.
pub(crate) fn defrags_now(cache: &RawCache) -> bool {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let ratio = u32::from(cache.defrag_ratio.load(Ordering::Relaxed));
    if ratio == 0 {
        return false;
    }
    let asked = ASKED.load(Ordering::Relaxed);
    ASKED.store(asked.wrapping_add(1), Ordering::Relaxed);
    // The golden ratio spreads consecutive numbers evenly. As in the kernel, of 1024 parts.
    asked.wrapping_mul(0x9E37_79B9) >> 22 <= ratio
}

/// A key that other processes do not know, for what an engine writes beside objects.
pub(crate) fn process_secret() -> u64 {
    static SECRET: AtomicU64 = AtomicU64::new(0);
    let secret = SECRET.load(Ordering::Relaxed);
    if secret != 0 {
        return secret;
    }
    #[cfg(feature = "os")]
    let random = crate::base::os::random_u64();
    #[cfg(not(feature = "os"))]
    let random = crate::base::sync::section::random_or((&raw const SECRET).addr());
    // The first to store wins: all use the same.
    match SECRET.compare_exchange(0, random | 1, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => random | 1,
        Err(stored) => stored,
    }
}

/// Reads a relaxed tunable.
#[inline]
pub(crate) fn tunable(value: &AtomicUsize) -> usize {
    value.load(Ordering::Relaxed)
}
