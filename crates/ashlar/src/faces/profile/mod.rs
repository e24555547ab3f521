//! The heap profile, for programs that want one about themselves.
//!
//! What is sampled are the objects of [`crate::malloc`], which `ashlar-malloc` exports as C's
//! functions, of `kmalloc`, which [`Ashlar`](crate::Ashlar) stands on, and of the caches of the
//! program.
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
//! `ashlar profile FILE` reads what [`dump`] writes. With `ASHLAR_PROFILE=FILE` in its environment,
//! a program starts a profile when it is loaded and writes it at exit.

mod environment;

use crate::boot;
use crate::sizes::profile;
pub use crate::sizes::profile::ProfileError;
pub(super) use environment::{start_as_asked, write_at_exit};

/// Starts a profile: a sample about each `rate` bytes, 1 to 16 MiB. With a rate of 1 each object is
/// a sample. A profile that runs starts anew.
///
/// # Errors
/// A bad rate, an engine other than `ashlar`, no unwinder, no memory.
#[place(cold)]
pub fn start(rate: usize) -> Result<(), ProfileError> {
    if !boot::ensure_base() {
        return Err(ProfileError::Memory);
    }
    profile::start(rate)
}

/// Stops the profile. What was sampled stays. Frees of samples are still noticed, but for those by
/// the handle of a cache.
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

/// Writes the profile to a file, which it creates or replaces. The name has the number of the
/// process in place of `%p`.
///
/// # Errors
/// The number of the system's error; `EIO` if no profile was started.
#[doc(hidden)]
#[place(cold)]
pub fn dump_to(name: &[u8]) -> Result<(), i32> {
    environment::write(name)
}
