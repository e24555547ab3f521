//! The heap profile, for C. `include/ashlar.h` describes these functions, which libashlar has too.

use core::ffi::{CStr, c_char, c_int};

use ashlar::profile::{self, ProfileError};

/// Starts a heap profile: a sample about each `rate` bytes, 1 to 16 MiB. Returns 0, or a negative
/// errno: `EINVAL` for a bad rate, `ENOTSUP` for another engine or without an unwinder, `ENOMEM`.
#[unsafe(no_mangle)]
#[place(cold)]
pub extern "C" fn ashlar_profile_start(rate: usize) -> c_int {
    match profile::start(rate) {
        Ok(()) => 0,
        Err(ProfileError::Rate) => -libc::EINVAL,
        Err(ProfileError::Engine | ProfileError::Unwinder) => -libc::ENOTSUP,
        Err(_) => -libc::ENOMEM,
    }
}

/// Stops the heap profile. What was sampled stays.
#[unsafe(no_mangle)]
#[place(cold)]
pub extern "C" fn ashlar_profile_stop() {
    profile::stop();
}

/// Writes the heap profile to a file, with the process number in place of `%p`. Returns 0, or a
/// negative errno: `EIO` also if no profile was started.
///
/// # Safety
/// `path` is null, or a string that ends in NUL.
#[unsafe(no_mangle)]
#[place(cold)]
pub unsafe extern "C" fn ashlar_profile_dump(path: *const c_char) -> c_int {
    if path.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: the caller keeps the same contract.
    profile::dump_to(unsafe { CStr::from_ptr(path) }.to_bytes()).map_or_else(|error| -error, |()| 0)
}
