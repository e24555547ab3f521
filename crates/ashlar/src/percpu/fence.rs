//! The end of all running critical sections, by one system call.

use crate::base::sync::Ordering;

/// Test switch: makes [`fence`] fail, so that its callers do without.
pub(crate) static FAIL_FENCE: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

/// Aborts all running sections. Returns false if the kernel refuses.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn fence() -> bool {
    !FAIL_FENCE.load(Ordering::Relaxed) && super::rseq::fence()
}
#[cfg(not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(super) fn fence() -> bool {
    let _ = (&FAIL_FENCE, Ordering::Relaxed);
    false
}
