//! The CPU that a thread runs on.

use super::area::PERCPU;
use crate::base::sync::Ordering;
use crate::base::units::CpuId;

/// Returns the CPU whose area this thread uses at this moment.
#[inline]
pub(crate) fn this_cpu() -> CpuId {
    #[cfg(feature = "os")]
    let cpu = crate::base::os::current_cpu();
    #[cfg(not(feature = "os"))]
    let cpu = crate::base::sync::section::platform().map_or(0, |platform| platform.this_cpu());
    // A CPU beyond the reserved areas shares one with another CPU, which is safe because of the
    // lock.
    CpuId(cpu % PERCPU.cpus.load(Ordering::Relaxed).max(1))
}

/// Returns the CPU that this thread runs on, always one that has an area. It is one load if the
/// kernel keeps the number in the thread's rseq area.
#[inline]
pub(crate) fn this_cpu_quick() -> CpuId {
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if let Some(cpu) = super::sections::cpu() {
        return CpuId(cpu);
    }
    this_cpu()
}
