//! The portable CPU-local section: a try-lock for each CPU's area.
//!
//! For systems without rseq: old kernels, other C libraries, valgrind, and `percpu=lock`. The lock
//! keeps two threads off one CPU's slots. A thread that finds it taken uses the engine's slow path
//! and does not block, as the kernel does when its local try-lock fails. So the section is safe in
//! signal handlers too.
//!
//! Lock: the *CPU lock*, one for each CPU, in slot 1 of its area. Only drains, fork and engines
//! that lock their CPU block on it.
#![allow(unsafe_code, reason = "raw per-CPU memory")]

use super::area::{LOCK_OFFSET, PERCPU};
use super::mode::{Mode, mode};
use crate::base::sync::{AtomicU32, Held, LockWord, Ordering};
use crate::base::units::CpuId;

/// Set when a cache exists whose engine takes CPU locks in every mode; never cleared.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Records that CPU locks will be taken whatever the mode is. The caller holds the registry lock,
/// so this runs before or after a fork, never during one.
pub(crate) fn want() {
    WANTED.store(1, Ordering::Relaxed);
}

/// Returns whether any code takes CPU locks: always in the mode `lock`, else after [`want`].
pub(crate) fn in_use() -> bool {
    mode() == Mode::Lock || WANTED.load(Ordering::Relaxed) != 0
}

/// Returns the CPU whose area this thread uses at this moment.
#[inline]
pub(crate) fn this_cpu() -> CpuId {
    #[cfg(feature = "os")]
    let cpu = crate::base::os::current_cpu();
    #[cfg(not(feature = "os"))]
    let cpu = 0;
    // A CPU beyond the reserved areas shares one with another CPU, which is safe because of the
    // lock.
    CpuId(cpu % PERCPU.cpus.load(Ordering::Relaxed).max(1))
}

/// Returns the lock of a CPU.
pub(crate) fn lock_word(cpu: CpuId) -> &'static LockWord {
    // SAFETY: slot 1 of every area is committed memory that is reserved for the lock word and used
    // as nothing else. Zeros are a free lock.
    unsafe { &*PERCPU.slot(cpu, LOCK_OFFSET as u16).cast::<LockWord>() }
}

/// Runs `f` on the slot of `cpu` at `offset` under that CPU's lock; `None` if the lock is taken.
#[inline]
pub(crate) fn with_slot<R>(cpu: CpuId, offset: u16, f: impl FnOnce(&mut [usize; 2]) -> R) -> Option<R> {
    let word = lock_word(cpu);
    let held = word.try_lock()?;
    // SAFETY: the holder of the lock has exclusive access to this CPU's slots, because in this mode
    // no thread runs rseq sections.
    let result = f(unsafe { &mut *PERCPU.slot(cpu, offset).cast::<[usize; 2]>() });
    word.unlock(held);
    Some(result)
}

/// The held lock of a CPU, released on drop.
pub(crate) struct CpuGuard {
    cpu: CpuId,
    held: Held,
}

impl CpuGuard {
    /// Takes the lock of `cpu` and blocks until it is free. For drains, and for engines that lock
    /// their CPU.
    #[inline]
    pub(crate) fn take(cpu: CpuId) -> CpuGuard {
        CpuGuard { cpu, held: lock_word(cpu).lock() }
    }

    #[inline]
    pub(crate) fn cpu(&self) -> CpuId {
        self.cpu
    }
}

impl Drop for CpuGuard {
    #[inline]
    fn drop(&mut self) {
        lock_word(self.cpu).unlock_by(&self.held);
    }
}
