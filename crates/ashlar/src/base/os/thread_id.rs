//! Which thread runs: one load, and no import, because locks are built on it.

/// A number of the calling thread: see [`crate::base::sync::thread_id`].
#[inline(always)]
pub(crate) fn id() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let pointer: usize;
        // SAFETY: the x86-64 TLS ABI puts the thread pointer's own value, an aligned address, at
        // fs:0.
        unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
        pointer
    }
    // Each thread has its own, aligned to 4.
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the function has no preconditions.
    unsafe {
        libc::__errno_location() as usize
    }
}
