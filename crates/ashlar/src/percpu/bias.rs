//! The biased form of the CPU lock: a thread takes the lock of its own CPU by a plain store.
//!
//! A critical section looks at the lock word of the CPU that it runs on and stores the number of
//! the thread. No locked instruction is needed, because only threads of this CPU do so, and the
//! kernel aborts the section if another of them runs in between. The lock is given back by a plain
//! store, from any CPU, as in the other form.
//!
//! A thread that wants the lock of a CPU from outside (a drain, a fork, a thread without rseq) must
//! keep such sections out before it may change the word:
//!
//! | step | what it excludes |
//! |---|---|
//! | 1. adds one to the *stops* of the CPU | sections that begin later: they see it and leave |
//! | 2. membarrier | sections that had passed the comparison: they are aborted |
//! | 3. takes the lock by compare-and-swap, and waits while it is held | holders, who give it back |
//! | 4. takes one from the stops | |
//!
//! From step 3 on, the word itself keeps sections out. Threads of the CPU wait between steps 1 and
//! 4. If membarrier is refused, step 2 moves this thread to the CPU, which preempts the section
//! there. If that is refused too, it sleeps for a tenth of a second; a section has a dozen
//! instructions.
//!
//! Owns: the stops, one word for each CPU, in slot 1 of its area beside the lock.
//!
//! In the mode `lock` there are no sections, and all threads take the lock by compare-and-swap.
#![allow(unsafe_code, reason = "inline assembly, and raw per-CPU memory")]

use super::area::{LOCK_OFFSET, PERCPU, STOPS_OFFSET};
use super::cpu::this_cpu_quick;
use super::mode::{Mode, mode};
use crate::base::sync::{AtomicBool, AtomicU32, Held, LockWord, Ordering, relax};
use crate::base::units::CpuId;

/// What the CPU lock is taken by: the option `irq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Irq {
    /// A compare-and-swap.
    Lock,
    /// A critical section, on the CPU itself.
    Biased,
}

static BIASED: AtomicBool = AtomicBool::new(false);

/// Chooses the form of the lock. Called once at start-up, when the mode is known.
pub(super) fn choose(irq: Irq) {
    let sections = cfg!(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))
        && matches!(mode(), Mode::Rseq | Mode::Emulate);
    BIASED.store(irq == Irq::Biased && sections, Ordering::Relaxed);
}

/// Returns whether threads take the lock of their CPU by a critical section.
#[inline(always)]
pub(super) fn is_on() -> bool {
    cfg!(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))) && BIASED.load(Ordering::Relaxed)
}

/// Takes the lock of this thread's CPU. A function of its own, because each copy of a section has
/// an abort handler that every program has resident.
#[inline(never)]
#[place(cold)]
pub(super) fn take_here() -> (CpuId, Held) {
    take_by_section().unwrap_or_else(wait_here)
}

/// Takes the lock of this thread's CPU. `None` if it is held or stopped, the section is aborted, or
/// the thread or the CPU has no area.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn take_by_section() -> Option<(CpuId, Held)> {
    let cpu = super::sections::take_lock(PERCPU.base.load(Ordering::Relaxed), crate::base::sync::thread_id())?;
    // SAFETY: the section took the lock, which was free.
    Some((CpuId(cpu), unsafe { Held::of_free_lock() }))
}
#[cfg(not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn take_by_section() -> Option<(CpuId, Held)> {
    None
}

/// Sections in vain on a free lock before the thread takes it as one from outside does. It needs
/// that if it has no registration, and under single steps, which abort every section.
const ATTEMPTS: u32 = 8;

/// Takes the lock of this thread's CPU where the first section did not.
#[cold]
#[inline(never)]
#[place(cold)]
fn wait_here() -> (CpuId, Held) {
    let (mut waited, mut in_vain) = (0u32, 0);
    while in_vain < ATTEMPTS {
        if let Some(taken) = take_by_section() {
            return taken;
        }
        let cpu = this_cpu_quick();
        let word = lock_word(cpu);
        if word.is_held() || stops(cpu).load(Ordering::Relaxed) != 0 {
            if let Some(held) = word.pass_own() {
                return (cpu, held);
            }
            waited = waited.saturating_add(1);
            relax(waited);
        } else {
            in_vain += 1;
        }
    }
    let cpu = this_cpu_quick();
    (cpu, take_from_outside(cpu))
}

/// Takes the lock of any CPU; see the head of the module.
#[inline(never)]
#[place(cold)]
pub(super) fn take_from_outside(cpu: CpuId) -> Held {
    stops(cpu).fetch_add(1, Ordering::SeqCst);
    if !fence() {
        abort_on(cpu);
    }
    let held = lock_word(cpu).lock();
    stops(cpu).fetch_sub(1, Ordering::Release);
    held
}

/// Stops all CPUs while it lives: their locks are taken by compare-and-swap alone.
pub(super) struct AllStopped(());

/// Stops all CPUs if locks are biased.
#[place(background)]
pub(super) fn stop_all() -> Option<AllStopped> {
    if !is_on() {
        return None;
    }
    all_cpus().for_each(|cpu| _ = stops(cpu).fetch_add(1, Ordering::SeqCst));
    if !fence() {
        all_cpus().for_each(abort_on);
    }
    Some(AllStopped(()))
}

#[place(background)]
impl Drop for AllStopped {
    fn drop(&mut self) {
        all_cpus().for_each(|cpu| _ = stops(cpu).fetch_sub(1, Ordering::Release));
    }
}

/// Forgets the stops of threads that do not exist in the child of a fork.
#[place(background)]
pub(super) fn after_fork_in_child() {
    if is_on() {
        all_cpus().for_each(|cpu| stops(cpu).store(0, Ordering::Relaxed));
    }
}

fn all_cpus() -> impl Iterator<Item = CpuId> {
    (0..PERCPU.cpus.load(Ordering::Relaxed)).map(CpuId)
}

/// Returns the lock of a CPU.
pub(crate) fn lock_word(cpu: CpuId) -> &'static LockWord {
    // SAFETY: slot 1 of every area is committed memory that is reserved for the lock word and used
    // as nothing else. Zeros are a free lock.
    unsafe { &*PERCPU.slot(cpu, LOCK_OFFSET as u16).cast::<LockWord>() }
}

/// Returns the number of threads that keep sections off the lock of a CPU.
fn stops(cpu: CpuId) -> &'static AtomicU32 {
    // SAFETY: the second half of slot 1 of every area is committed memory. These four bytes are
    // used as nothing else, and zeros are no stops.
    unsafe { &*PERCPU.slot(cpu, STOPS_OFFSET as u16).cast::<AtomicU32>() }
}

/// Aborts all running sections; false if the kernel refuses.
fn fence() -> bool {
    mode() == Mode::Emulate || super::fence::fence()
}

/// Aborts the section that runs on a CPU, without membarrier.
#[cfg(feature = "os")]
#[cold]
#[place(cold)]
fn abort_on(cpu: CpuId) {
    match crate::base::os::pin_to(cpu.0) {
        Some(old) => crate::base::os::unpin(&old),
        None => crate::base::os::sleep_ns(100_000_000),
    }
}
#[cfg(not(feature = "os"))]
fn abort_on(_cpu: CpuId) {}
