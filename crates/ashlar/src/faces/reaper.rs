//! Starts and stops the background thread. Its work is in [`crate::cache::reaper`].

use crate::base::error::ReaperError;
use crate::boot;
use crate::cache::settings::{self, Reaper};
use crate::percpu;

/// Starts the background thread, which returns free memory to the system while the program sleeps.
/// Does nothing if it runs already. Without it, the program's own calls do that work.
/// `docs/process.md` describes the thread. It runs until [`stop_reaper`], and does not exist in the
/// child of a fork.
///
/// Must not be called under a lock that an allocation may take, because the C library allocates to
/// create a thread.
///
/// # Errors
/// See [`ReaperError`].
pub fn start_reaper() -> Result<(), ReaperError> {
    #[expect(unsafe_code, reason = "calls the C library")]
    // SAFETY: this is the C library's function, and the documentation above allows this call to
    // create a thread.
    unsafe {
        start_reaper_by(libc::pthread_create)
    }
}

/// As [`start_reaper`], by a given `pthread_create`.
///
/// # Errors
/// See [`ReaperError`].
///
/// # Safety
/// `create` is the C library's `pthread_create`.
#[expect(unsafe_code, reason = "calls the C library by pointer")]
unsafe fn start_reaper_by(create: crate::base::os::thread::Create) -> Result<(), ReaperError> {
    if !boot::ensure_base() {
        return Err(ReaperError::Refused);
    }
    if settings::options().reaper != Reaper::Thread || percpu::mode() == percpu::Mode::Emulate {
        return Err(ReaperError::Off);
    }
    // SAFETY: passed on.
    if unsafe { crate::base::background::start(create) } { Ok(()) } else { Err(ReaperError::Refused) }
}

/// Starts the background thread if `wanted` returns true, and ends it otherwise. Must be called
/// after each change of what `wanted` returns. If the thread cannot be created, the program's calls
/// do its work.
///
/// # Safety
/// `create` is the C library's `pthread_create`.
#[doc(hidden)]
#[expect(unsafe_code, reason = "calls the C library by pointer")]
pub unsafe fn reaper_follows(wanted: impl Fn() -> bool, create: crate::base::os::thread::Create) {
    crate::base::sync::life::follow(wanted, |wanted| {
        if wanted {
            // SAFETY: passed on.
            let _ = unsafe { start_reaper_by(create) };
        } else {
            stop_reaper();
        }
    });
}

/// Ends the background thread, if there is one. Returns when the kernel no longer has it.
pub fn stop_reaper() {
    crate::base::background::stop();
}
