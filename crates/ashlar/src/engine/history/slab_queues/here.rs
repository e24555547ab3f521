//! A CPU and its array, under the CPU lock.
#![allow(unsafe_code, reason = "words of the per-CPU areas")]

use super::array::ArrayCache;
use crate::base::sync::{AtomicUsize, Ordering, bump};
use crate::base::units::CpuId;
use crate::engine::RawCache;
use crate::percpu::area::PERCPU;
use crate::percpu::lock;

/// A CPU whose lock is held. The lock stands for disabled interrupts.
pub(super) struct Here(lock::CpuGuard);

impl Here {
    /// Locks this thread's CPU.
    #[inline]
    pub(super) fn take() -> Here {
        Here(lock::CpuGuard::take_here())
    }

    /// Locks any CPU.
    #[inline]
    pub(super) fn of(cpu: CpuId) -> Here {
        Here(lock::CpuGuard::take(cpu))
    }

    /// The CPU.
    #[inline]
    pub(super) fn cpu(&self) -> CpuId {
        self.0.cpu()
    }

    /// Returns the CPU's array, if it has one yet.
    #[inline]
    pub(super) fn array(&self, cache: &RawCache) -> Option<&'static ArrayCache> {
        let at = word(cache, self.cpu()).load(Ordering::Relaxed);
        // SAFETY: the word is 0 or the address of an array, which is replaced and retired only
        // under this lock.
        (at != 0).then(|| unsafe { &*(at as *const ArrayCache) })
    }

    /// Makes `array` the CPU's array.
    pub(super) fn set_array(&self, cache: &RawCache, array: Option<&'static ArrayCache>) {
        word(cache, self.cpu()).store(array.map_or(0, |array| core::ptr::from_ref(array) as usize), Ordering::Relaxed);
    }
}

/// Returns the word of the CPU's area that holds the address of its array.
#[inline]
fn word(cache: &RawCache, cpu: CpuId) -> &'static AtomicUsize {
    // SAFETY: the place was claimed in the committed areas, which stay for ever, and holds only
    // this word.
    unsafe { &*PERCPU.slot(cpu, cache.state.slab.place).cast::<AtomicUsize>() }
}

/// Counts one use of the CPU's lock.
#[inline]
pub(super) fn count_lock(array: &ArrayCache) {
    bump(&array.locks);
}
