//! The background thread, started and stopped. What it does is in [`crate::cache::reaper`].

use crate::base::error::ReaperError;
use crate::boot;
use crate::cache::settings::{self, Reaper};
use crate::percpu;

/// Starts the background thread, which gives free memory back to the system while the program
/// sleeps; does nothing if it runs already. Without it the program's own calls do that work.
/// `docs/process.md` describes the thread. It does not exist in the child of a fork, and runs until
/// [`stop_reaper`] otherwise.
///
/// Not to be called by a thread that holds a lock which an allocation may need, because the C
/// library allocates to make a thread.
///
/// # Errors
/// See [`ReaperError`].
pub fn start_reaper() -> Result<(), ReaperError> {
    #[expect(unsafe_code, reason = "calls the C library")]
    // SAFETY: this is the C library's function; the contract of this one lets threads be made here.
    unsafe {
        start_reaper_by(libc::pthread_create)
    }
}

/// As [`start_reaper`], for a library whose own `pthread_create` stands in the way of the C
/// library's.
///
/// # Errors
/// See [`ReaperError`].
///
/// # Safety
/// `create` is the C library's `pthread_create`.
#[doc(hidden)]
#[expect(unsafe_code, reason = "calls the C library by pointer")]
pub unsafe fn start_reaper_by(create: crate::base::os::thread::Create) -> Result<(), ReaperError> {
    if !boot::ensure_base() {
        return Err(ReaperError::Refused);
    }
    if settings::options().reaper != Reaper::Thread || percpu::mode() == percpu::Mode::Emulate {
        return Err(ReaperError::Off);
    }
    // SAFETY: passed on.
    if unsafe { crate::base::background::start(create) } { Ok(()) } else { Err(ReaperError::Refused) }
}

/// Ends the background thread, if there is one, and returns when the kernel knows it no more.
pub fn stop_reaper() {
    crate::base::background::stop();
}
