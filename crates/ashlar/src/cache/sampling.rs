//! The capacity of a cache's sheaves, which is 0 while a heap profile samples the cache.
//!
//! A handle holds the place of its slot, and its fast paths are inlined into the program. They jump
//! to the slow path if the slot has no sheaf. So while a profile runs, the caches of the program
//! have no sheaves, every call takes the slow path, and that counts. Afterwards they have their
//! capacity again, or the one that was set meanwhile.
//!
//! All functions but [`is_sampled`] are called under the registry lock, which guards
//! [`RawCache::set_aside`].

#[cfg(feature = "os")]
use crate::base::sync::{AtomicUsize, Ordering};
#[cfg(feature = "os")]
use crate::engine::{Engine, tunable};
use crate::engine::{Policy, RawCache, sheaves};

/// 1 while caches that are created are without sheaves.
#[cfg(feature = "os")]
static ON: AtomicUsize = AtomicUsize::new(0);

/// Has caches created from now on without sheaves, or with them again. For those that exist, there
/// are [`set_aside`] and [`give_back`].
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn begin_or_end(begin: bool) {
    ON.store(usize::from(begin), Ordering::Relaxed);
}

/// Takes the sheaves of a new cache away if a profile runs.
#[cfg(feature = "os")]
#[inline]
pub(super) fn adopt(cache: &'static RawCache) {
    if ON.load(Ordering::Relaxed) != 0 {
        set_aside(cache);
    }
}

/// Takes the sheaves of a cache of the program away, until [`give_back`].
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
pub(crate) fn set_aside(cache: &'static RawCache) {
    if cache.policy.of_program && cache.engine == Engine::Sheaves && !is_sampled(cache) {
        let capacity = tunable(&cache.sheaf_capacity);
        set_now(cache, 0);
        cache.set_aside.store(capacity as u16 + 1, Ordering::Relaxed);
    }
}

/// Gives a cache its sheaves again.
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
pub(crate) fn give_back(cache: &'static RawCache) {
    let capacity = cache.set_aside.swap(0, Ordering::Relaxed);
    if capacity != 0 {
        set_now(cache, usize::from(capacity) - 1);
    }
}

/// Returns whether each call of a cache takes the slow path, for a profile.
#[cfg(feature = "os")]
#[inline]
pub(crate) fn is_sampled(cache: &RawCache) -> bool {
    cache.set_aside.load(Ordering::Relaxed) != 0
}

/// Sets the capacity of a cache's sheaves, now or for the time after the profile.
#[place(cold)]
pub(super) fn set_capacity(cache: &'static RawCache, capacity: usize) {
    #[cfg(feature = "os")]
    if is_sampled(cache) {
        return cache.set_aside.store(capacity as u16 + 1, Ordering::Relaxed);
    }
    set_now(cache, capacity);
}

/// Sets the capacity, and the limit of barns that goes with it.
#[place(cold)]
fn set_now(cache: &'static RawCache, capacity: usize) {
    let limit = Policy::barn_limit(super::settings::options().barn, capacity, cache.slabs.geometry.stride);
    sheaves::set_sheaf_capacity(cache, capacity, limit);
}
