//! Copies of kmalloc's caches, one of which serves each call site: the option `random_kmalloc`.
//!
//! Two objects that are allocated at different places of a program seldom share a slab then, so
//! what overruns one of them, or uses it after its free, seldom meets the other. Which places share
//! a copy depends on a secret of the process.
//!
//! With the option no call of kmalloc takes its fast path, and the slow path passes on where the
//! call returns to. `kfree` finds the cache by the page, as always, and sized frees do the same.
//! Without the option nothing differs.
//!
//! A class has 16 copies. The first is its own cache, and the others are made when the first call
//! needs them. If one cannot be made, the class's own cache serves for it.
//!
//! Source: the kernel's `RANDOM_KMALLOC_CACHES` and `kmalloc_type`.
#![allow(unsafe_code, reason = "caches are found by their address")]

use super::kmalloc::{self, SEED};
use crate::base::sync::{AtomicPtr, Ordering};
use crate::cache::registry;
use crate::engine::RawCache;
use crate::percpu::area::CLASS_CACHES;
use crate::slab::cache::MAX_NAME;

/// Copies of a class beside its own cache (the kernel's `RANDOM_KMALLOC_CACHES_NR`).
const COPIES: usize = 15;
/// What every name of a class starts with.
const FAMILY: &str = "kmalloc";

/// The copies that exist. An entry is written once, while it is null.
#[place(large_data)]
static COPY: [[AtomicPtr<RawCache>; COPIES]; CLASS_CACHES] =
    [const { [const { AtomicPtr::new(core::ptr::null_mut()) }; COPIES] }; CLASS_CACHES];

/// Fixes the choice of the copies, for tests of a process that has the option.
#[place(cold)]
pub(crate) fn set_seed(seed: u64) {
    if kmalloc::is_by_call_site() {
        SEED.store(seed | 1, Ordering::Relaxed);
    }
}

/// Returns the copy for the call that returns to `caller`: 0 for the class's own cache. The hash is
/// the kernel's `hash_64`.
#[place(cold)]
fn copy_of(caller: usize, seed: u64) -> usize {
    const GOLDEN_RATIO_64: u64 = 0x61C8_8646_80B5_83EB;
    ((caller as u64 ^ seed).wrapping_mul(GOLDEN_RATIO_64) >> (u64::BITS - (COPIES + 1).ilog2())) as usize
}

/// Returns the cache that serves a call for `size` bytes which returns to `caller`. `own` is the
/// cache of the class, and so the answer without the option.
#[place(cold)]
#[inline(never)]
pub(crate) fn cache_of_caller(own: &'static RawCache, size: usize, caller: usize) -> &'static RawCache {
    let seed = SEED.load(Ordering::Relaxed);
    let copy = if seed == 0 { 0 } else { copy_of(caller, seed) };
    if copy == 0 {
        return own;
    }
    let class = kmalloc::existing_class(size, own);
    let place = &COPY[class][copy - 1];
    // SAFETY: what is stored here is a cache of the registry, which is never destroyed.
    match unsafe { place.load(Ordering::Acquire).as_ref() } {
        Some(cache) => cache,
        None => make(own, class, copy, place),
    }
}

/// Makes a copy, and stores it unless another thread was faster.
#[place(cold)]
#[inline(never)]
fn make(own: &'static RawCache, class: usize, copy: usize, place: &'static AtomicPtr<RawCache>) -> &'static RawCache {
    let mut buffer = [0; MAX_NAME];
    let new = kmalloc::create_copy(class, name(&mut buffer, own.name(), copy));
    let cache = new.unwrap_or(own);
    let stored = core::ptr::from_ref(cache).cast_mut();
    match place.compare_exchange(core::ptr::null_mut(), stored, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => cache,
        Err(first) => {
            if let Some(mine) = new {
                // No thread has seen it, so it has no objects.
                registry::unregister_if(mine, None, || true);
            }
            // SAFETY: another thread stored a cache of the registry, which is never destroyed.
            unsafe { &*first }
        }
    }
}

/// Returns the kernel's name of a copy: `kmalloc-rnd-01-64` is one of `kmalloc-64`.
#[place(cold)]
fn name<'a>(buffer: &'a mut [u8; MAX_NAME], own: &str, copy: usize) -> &'a str {
    let size = own.strip_prefix(FAMILY).unwrap_or(own);
    let digits = [b'0' + (copy / 10) as u8, b'0' + (copy % 10) as u8];
    let mut length = 0;
    for part in [FAMILY.as_bytes(), b"-rnd-", &digits, size.as_bytes()] {
        let end = (length + part.len()).min(MAX_NAME);
        buffer[length..end].copy_from_slice(&part[..end - length]);
        length = end;
    }
    core::str::from_utf8(&buffer[..length]).unwrap_or(FAMILY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn call_sites_spread_over_all_copies_and_another_seed_spreads_them_otherwise() {
        // Calls of a program lie some bytes apart.
        let sites: Vec<usize> = (0..1600).map(|site| 0x5555_5555_0000 + site * 13).collect();
        let spread = |seed: u64| sites.iter().map(|&site| copy_of(site, seed)).collect::<Vec<_>>();
        let [one, other] = [1 | 1 << 40, 0x1234_5678_9abc_def1].map(spread);
        for copies in [&one, &other] {
            let mut counts = [0; COPIES + 1];
            copies.iter().for_each(|&copy| counts[copy] += 1);
            assert!(counts.iter().all(|&count| (30..300).contains(&count)), "{counts:?}");
        }
        let same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
        assert!(same < 800, "{same} of 1600 share their copy with both seeds");
    }

    #[test]
    fn names_are_the_kernels() {
        let mut buffer = [0; MAX_NAME];
        assert_eq!(name(&mut buffer, "kmalloc-64", 1), "kmalloc-rnd-01-64");
        assert_eq!(name(&mut buffer, "kmalloc-8k", 15), "kmalloc-rnd-15-8k");
    }
}
