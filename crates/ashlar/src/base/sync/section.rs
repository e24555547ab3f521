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
        platform.enter();
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
