//! Sections that nothing else on the CPU interrupts, by the kernel below; see
//! [`Platform`]. On Linux, and on one CPU without a kernel, they are nothing.
#![allow(unsafe_code, reason = "calls the platform")]

use super::boot_cell::BootCell;
use crate::base::platform::Platform;

static PLATFORM: BootCell<&'static dyn Platform> = BootCell::new();

/// Registers the platform.
///
/// # Safety
/// Nothing in this crate has run yet, and no other thread calls it before this call returns.
pub(crate) unsafe fn set(platform: &'static dyn Platform) {
    // SAFETY: by the caller's promise.
    unsafe { PLATFORM.set(platform) };
}

/// Returns the platform, if there is one.
#[inline]
pub(crate) fn platform() -> Option<&'static dyn Platform> {
    PLATFORM.get()
}

/// Begins a section.
#[inline]
pub(crate) fn enter() {
    if let Some(platform) = platform() {
        let _ = platform.enter();
    }
}

/// Ends a section that [`enter`] began.
#[inline]
pub(crate) fn leave() {
    if let Some(platform) = platform() {
        // SAFETY: the callers, the locks of this folder, call this once for each `enter`, and stay
        // on their CPU in between.
        unsafe { platform.leave() };
    }
}

/// Returns a random number of the platform; without one, a number made from an address, which
/// address space layout randomisation may make different in each run.
pub(crate) fn random_or(address: usize) -> u64 {
    let random = platform().and_then(Platform::random);
    random.unwrap_or_else(|| (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Returns the time of the platform's clock, as a number of milliseconds that wraps around.
pub(crate) fn now_ms() -> Option<u32> {
    platform().and_then(Platform::clock_ms).map(|now| now as u32)
}
