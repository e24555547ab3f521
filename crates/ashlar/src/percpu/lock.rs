//! The portable CPU-local section: a try-lock for each CPU's area.
//!
//! For systems without rseq (old kernels, other C libraries, valgrind, `percpu=lock`). The lock only keeps two
//! threads off one CPU's slots; it never waits: whoever finds it taken uses the slow path of the engine, as
//! the kernel does when its local try-lock fails. So it is correct in signal handlers too.
#![allow(unsafe_code, reason = "raw per-CPU memory")]

use super::area::{LOCK_OFFSET, PERCPU};
use super::{Mode, mode};
use crate::sync::{AtomicU32, Ordering};
use crate::units::CpuId;

/// Set when a cache exists whose engine takes CPU locks in every mode; never cleared.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Says that CPU locks will be taken whatever the mode is. Under the registry lock, so before or after a fork.
pub(crate) fn want() {
    WANTED.store(1, Ordering::Relaxed);
}

/// Whether anybody takes CPU locks. In the mode `lock` everybody does.
pub(crate) fn in_use() -> bool {
    mode() == Mode::Lock || WANTED.load(Ordering::Relaxed) != 0
}

/// The CPU whose area this thread uses at this moment.
#[inline]
pub(crate) fn this_cpu() -> CpuId {
    #[cfg(feature = "os")]
    let cpu = crate::os::current_cpu();
    #[cfg(not(feature = "os"))]
    let cpu = 0;
    // A CPU beyond the reserved areas shares one: the lock makes that safe.
    CpuId(cpu % PERCPU.cpus.load(Ordering::Relaxed).max(1))
}

fn lock_word(cpu: CpuId) -> &'static AtomicU32 {
    // SAFETY: slot 1 of every area is reserved for the lock word, committed, and accessed only atomically.
    unsafe { &*PERCPU.slot(cpu, LOCK_OFFSET as u16).cast::<AtomicU32>() }
}

/// Runs `f` on the slot of `cpu` at `offset` under that CPU's lock; `None` when the lock is taken.
#[inline]
pub(crate) fn with_slot<R>(cpu: CpuId, offset: u16, f: impl FnOnce(&mut [usize; 2]) -> R) -> Option<R> {
    let word = lock_word(cpu);
    if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return None;
    }
    // SAFETY: the lock gives this thread alone the slots of this CPU; in this mode nobody uses rseq.
    let result = f(unsafe { &mut *PERCPU.slot(cpu, offset).cast::<[usize; 2]>() });
    word.store(0, Ordering::Release);
    Some(result)
}

/// Takes the lock of `cpu` if it is free.
#[inline]
pub(crate) fn try_lock_cpu(cpu: CpuId) -> bool {
    lock_word(cpu).compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Takes the lock of `cpu`, waiting for it: for drains, fork, and engines that lock their CPU.
pub(crate) fn lock_cpu(cpu: CpuId) {
    let mut waited = 0u32;
    while lock_word(cpu).compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        waited = waited.saturating_add(1);
        crate::sync::relax(waited);
    }
}

/// Releases what [`lock_cpu`] took.
pub(crate) fn unlock_cpu(cpu: CpuId) {
    lock_word(cpu).store(0, Ordering::Release);
}
