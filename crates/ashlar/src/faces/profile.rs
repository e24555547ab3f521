//! The heap profile of malloc, for programs that want one about themselves.
//!
//! What is sampled are the objects of [`crate::malloc`], which `ashlar-malloc` exports as C's
//! functions. Caches and `kmalloc` are not sampled.
//!
//! ```no_run
//! ashlar::profile::start(512 << 10)?;
//! // ...
//! let file = std::fs::File::create("heap.ashlar").expect("a file");
//! assert!(ashlar::profile::dump(std::os::fd::AsRawFd::as_raw_fd(&file)));
//! ashlar::profile::stop();
//! # Ok::<(), ashlar::profile::ProfileError>(())
//! ```
//!
//! `ashlar profile FILE` reads what [`dump`] writes.

use crate::boot;
use crate::cache::settings;
use crate::sizes::profile;
pub use crate::sizes::profile::ProfileError;

/// Starts a profile: a sample about each `rate` bytes, 1 to 16 MiB. With a rate of 1 each object is
/// a sample. A profile that runs starts anew.
///
/// # Errors
/// A bad rate, an engine other than `ashlar`, no unwinder, no memory.
#[place(cold)]
pub fn start(rate: usize) -> Result<(), ProfileError> {
    if !boot::ensure_malloc() {
        return Err(ProfileError::Memory);
    }
    profile::start(rate)
}

/// Stops the profile. What was sampled stays, and frees of samples are still noticed.
#[place(cold)]
pub fn stop() {
    profile::stop();
}

/// Writes the profile to a file descriptor, as text for `ashlar profile`. Returns false if no
/// profile was started, or something cannot be written.
#[must_use]
#[place(cold)]
pub fn dump(file: i32) -> bool {
    profile::dump(file)
}

/// Returns the option `profile`: the bytes between samples, 0 for no profile. Starts what malloc
/// needs if it is not up: options are read then.
#[doc(hidden)]
#[must_use]
#[place(cold)]
pub fn rate_option() -> usize {
    boot::ensure_malloc();
    if settings::options().profile_ready {
        profile::load_unwinder();
    }
    settings::options().profile
}
