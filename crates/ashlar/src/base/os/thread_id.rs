//! Returns the number of the calling thread, by one load. Imports nothing, because locks use it.

/// Returns a number of the calling thread; see [`crate::base::sync::thread_id`].
#[inline(always)]
pub(crate) fn id() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let pointer: usize;
        // SAFETY: by the x86-64 TLS ABI, fs:0 holds the thread pointer itself, an aligned address.
        unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
        pointer
    }
    #[cfg(target_arch = "aarch64")]
    {
        let pointer: usize;
        // SAFETY: reads the thread pointer, which is aligned to 16.
        unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
        pointer
    }
    // The address of `errno` differs for each thread and is aligned to 4.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    // SAFETY: the function has no preconditions.
    unsafe {
        libc::__errno_location() as usize
    }
}
