//! The portable CPU-local section: a try-lock for each CPU's area.
//!
//! For systems without rseq: old kernels, other C libraries, valgrind, and `percpu=lock`. The lock
//! keeps two threads off one CPU's slots. A thread that finds it taken uses the engine's slow path
//! and does not block, as the kernel does when its local try-lock fails. So the section is safe in
//! signal handlers too. Under a kernel (`base::platform`) the lock is held in a section, so
//! interrupt handlers never find it taken by what they interrupt.
//!
//! Lock: the *CPU lock*, one for each CPU, in slot 1 of its area. Only drains, fork and engines
//! that lock their CPU block on it.
#![allow(unsafe_code, reason = "raw per-CPU memory")]

use super::area::PERCPU;
use super::bias;
pub(crate) use super::bias::lock_word;
pub(crate) use super::cpu::this_cpu;
use super::cpu::this_cpu_quick;
use super::mode::{Mode, mode};
use crate::base::sync::{AtomicU32, Held, Ordering};
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

/// The held lock of a CPU, released on drop. Every thread takes it by these functions, because the
/// biased form has rules of its own; see [`bias`].
pub(crate) struct CpuGuard {
    cpu: CpuId,
    held: Held,
}

impl CpuGuard {
    /// Takes the lock of `cpu`, which may be any, and blocks until it is free.
    #[inline]
    pub(crate) fn take(cpu: CpuId) -> CpuGuard {
        let held = if bias::is_on() { bias::take_from_outside(cpu) } else { lock_word(cpu).lock() };
        CpuGuard { cpu, held }
    }

    /// Takes the lock of this thread's CPU and blocks until it is free. For engines that lock their
    /// CPU. The thread may be on another CPU by the return.
    #[inline]
    pub(crate) fn take_here() -> CpuGuard {
        if !bias::is_on() {
            let cpu = this_cpu_quick();
            return CpuGuard { cpu, held: lock_word(cpu).lock() };
        }
        let (cpu, held) = bias::take_here();
        CpuGuard { cpu, held }
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
