//! What the timed loops stand on: the clock, pinning, and a barrier that does not sleep.

use core::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use ashlar_workload::hide;

/// Unit of [`ticks`].
pub(crate) const UNIT_OF_TICKS: &str =
    if cfg!(target_arch = "x86_64") { "cycles of the time-stamp counter" } else { "ns" };

/// Unit of [`ticks`] divided by operations, as it appears in the records.
#[cfg(target_arch = "x86_64")]
pub(crate) const UNIT: &str = "tsc_cycles_per_op";
/// Unit of [`ticks`] divided by operations, as it appears in the records.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const UNIT: &str = "ns_per_op";

/// The time-stamp counter, with everything before it done and nothing after it begun.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: LFENCE and RDTSC exist on every x86-64 CPU (SSE2 is in the base), touch no memory,
    // and the kernel leaves RDTSC open to user space unless prctl(PR_SET_TSC) forbade it, which
    // this program never does.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Nanoseconds of the monotonic clock.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The CPUs this process may run on, in ascending order; never empty.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    // SAFETY: `cpu_set_t` is a plain array of integers, for which all bits zero is a value.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel writes at most `size_of_val(&set)` bytes to `set`, which is live and
    // exclusively ours.
    let rc = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
        // SAFETY: `CPU_ISSET` reads a bit inside `set`, because every index is below CPU_SETSIZE.
        .filter(|&cpu| rc == 0 && unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Pins the calling thread. A refusal is left alone: the figures are then of an unpinned thread,
/// not wrong ones.
pub(crate) fn pin(cpu: usize) {
    // SAFETY: `cpu_set_t` is a plain array of integers, for which all bits zero is a value.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: `cpu` comes from `allowed_cpus`, hence is below CPU_SETSIZE and the bit lies inside
    // `set`.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the kernel only reads `size_of_val(&set)` bytes of the live `set`.
    let _ = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

/// A barrier that spins, so that no thread starts late because a futex had to wake it.
///
/// With more threads than CPUs spinning would keep the others from arriving: after `patience` turns
/// it yields.
#[derive(Debug)]
pub(crate) struct SpinBarrier {
    parties: usize,
    patience: u32,
    arrived: AtomicUsize,
    generation: AtomicUsize,
}

impl SpinBarrier {
    /// For `parties` threads; `oversubscribed` makes it yield at once.
    pub(crate) fn new(parties: usize, oversubscribed: bool) -> Self {
        Self {
            parties,
            // About 100 microseconds: longer than any wake-up, shorter than a time slice.
            patience: if oversubscribed { 0 } else { 10_000 },
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
        }
    }

    /// Returns when all have arrived. What each did before is visible to all after it.
    pub(crate) fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        // AcqRel: the last to arrive sees what the others did, and hands it on with the Release
        // below.
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.parties {
            self.arrived.store(0, Ordering::Relaxed);
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut turns = 0u32;
        while self.generation.load(Ordering::Acquire) == generation {
            if turns < self.patience {
                turns += 1;
                core::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_barrier_separates_phases_even_with_more_threads_than_cpus() {
        let threads = allowed_cpus().len() * 3;
        let barrier = SpinBarrier::new(threads, true);
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for phase in 1..=50 {
                        done.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert_eq!(done.load(Ordering::Relaxed), threads * phase);
                        barrier.wait();
                    }
                });
            }
        });
    }
}
