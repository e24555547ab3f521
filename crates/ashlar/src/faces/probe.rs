//! Estimates how long locks are held, by sampling.
//!
//! Locks do not read the clock, because that would slow every program. Instead, an observer on
//! another CPU samples them. The share of samples that find a lock held, times the elapsed time, is
//! the time for which the lock was held. Divided by the number of times that it was taken
//! ([`crate::Counts`]), this is the mean hold time. Each sample takes the lock's cache line from
//! its holder, so samples must be rare compared with holds.

use crate::boot;
use crate::engine::{self, RawCache};
use crate::pages::zone::ZONE;
use crate::sizes::kmalloc::class_cache;

/// Samples the locks that all CPUs share when they allocate objects of one size by
/// [`kmalloc`](fn@crate::kmalloc).
#[derive(Clone, Copy)]
pub struct LockProbe {
    cache: &'static RawCache,
}

/// The result of one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocksHeld {
    /// Whether a list_lock of the kmalloc cache was held, on any node; for the engine `slob`, its
    /// only lock.
    pub list: bool,
    /// Whether a zone lock was held, on any node.
    pub zone: bool,
}

impl LockProbe {
    /// Creates a probe for objects of `size` bytes; `None` if kmalloc serves that size without a
    /// cache.
    pub fn new(size: usize) -> Option<Self> {
        boot::ensure();
        if size == 0 { None } else { class_cache(size).map(|cache| LockProbe { cache }) }
    }

    /// Takes one sample. Takes no lock.
    pub fn look(&self) -> LocksHeld {
        LocksHeld { list: engine::list_lock_held(self.cache), zone: ZONE.lock_held() }
    }
}

impl core::fmt::Debug for LockProbe {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "LockProbe of {}", self.cache.name())
    }
}
