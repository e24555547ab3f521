//! How long locks are held, seen from outside.
//!
//! A lock that reads the clock would cost every program something. So no lock tells: an observer on
//! another CPU looks now and then, and the share of its looks that find a lock held, times the time
//! that passed, is the time that the lock was held. Divided by the number of times that it was
//! taken ([`crate::Counts`]) this is the mean hold time. Each look takes the lock's cache line from
//! its holder, so looks must be rare compared with holds.

use crate::boot;
use crate::engine::{self, RawCache};
use crate::pages::zone::ZONE;
use crate::sizes::kmalloc::class_cache;

/// Looks at the locks that all CPUs share when they allocate objects of one size with
/// [`kmalloc`](fn@crate::kmalloc).
#[derive(Clone, Copy)]
pub struct LockProbe {
    cache: &'static RawCache,
}

/// What one look saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocksHeld {
    /// A list_lock of the kmalloc cache, of any node; for the engine `slob` its one lock.
    pub list: bool,
    /// A zone lock, of any node.
    pub zone: bool,
}

impl LockProbe {
    /// A probe for objects of `size` bytes; `None` where kmalloc serves that size without a cache.
    pub fn new(size: usize) -> Option<Self> {
        boot::ensure();
        if size == 0 { None } else { class_cache(size).map(|cache| LockProbe { cache }) }
    }

    /// Looks once. Takes no lock.
    pub fn look(&self) -> LocksHeld {
        LocksHeld { list: engine::list_lock_held(self.cache), zone: ZONE.lock_held() }
    }
}

impl core::fmt::Debug for LockProbe {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "LockProbe of {}", self.cache.name())
    }
}
