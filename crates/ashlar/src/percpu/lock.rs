//! The portable CPU-local section: a try-lock for each CPU's area.
//!
//! For systems without rseq (old kernels, other C libraries, valgrind, `percpu=lock`). The lock only keeps two
//! threads off one CPU's slots; it never waits: whoever finds it taken uses the slow path of the engine, as
//! the kernel does when its local try-lock fails. So it is correct in signal handlers too.
#![allow(unsafe_code, reason = "raw per-CPU memory")]

use super::area::{LOCK_OFFSET, PERCPU};
use super::{Mode, mode};
use crate::base::sync::{AtomicU32, Held, LockWord, Ordering};
use crate::base::units::CpuId;

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
    let cpu = crate::base::os::current_cpu();
    #[cfg(not(feature = "os"))]
    let cpu = 0;
    // A CPU beyond the reserved areas shares one: the lock makes that safe.
    CpuId(cpu % PERCPU.cpus.load(Ordering::Relaxed).max(1))
}

/// The lock of a CPU.
pub(crate) fn lock_word(cpu: CpuId) -> &'static LockWord {
    // SAFETY: slot 1 of every area is reserved for the lock word, committed, and only ever used as
    // one. Zeros are a free lock.
    unsafe { &*PERCPU.slot(cpu, LOCK_OFFSET as u16).cast::<LockWord>() }
}

/// Runs `f` on the slot of `cpu` at `offset` under that CPU's lock; `None` when the lock is taken.
#[inline]
pub(crate) fn with_slot<R>(cpu: CpuId, offset: u16, f: impl FnOnce(&mut [usize; 2]) -> R) -> Option<R> {
    let word = lock_word(cpu);
    let held = word.try_lock()?;
    // SAFETY: the lock gives this thread alone the slots of this CPU; in this mode nobody uses rseq.
    let result = f(unsafe { &mut *PERCPU.slot(cpu, offset).cast::<[usize; 2]>() });
    word.unlock(held);
    Some(result)
}

/// The lock of a CPU, held; released on drop.
pub(crate) struct CpuGuard {
    cpu: CpuId,
    held: Held,
}

impl CpuGuard {
    /// Takes the lock of `cpu`, waiting for it: for drains, and engines that lock their CPU.
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
