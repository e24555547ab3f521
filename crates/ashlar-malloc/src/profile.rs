//! The heap profile, for the environment and for C: `ASHLAR_OPTIONS=profile=RATE` starts it at
//! load, `ASHLAR_PROFILE=FILE` writes it at exit, and a program may do both by itself.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicPtr, Ordering};

use syscalls::{Errno, Sysno, syscall};

use crate::family::set_errno;
use crate::text::to_stderr;
use ashlar::profile::{self, ProfileError};

/// The rate of a file without a rate.
const USUAL_RATE: usize = 512 << 10;
/// The longest name of a file, with its end.
const MOST_NAME: usize = 4096;

/// The file to which the profile is written at exit; null for none. It belongs to the environment.
static TO: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// Returns whether the value of a variable, which is not null, has the word `profile` in it.
#[place(cold)]
fn mentions_profile(options: *const c_char) -> bool {
    // SAFETY: a value that is not null is a string that ends in NUL.
    unsafe { CStr::from_ptr(options) }.to_bytes().windows(7).any(|part| part == b"profile")
}

/// Starts the profile that the environment asks for. Called at load, because backtraces need a
/// library to be loaded. `file` and `options` are the values of `ASHLAR_PROFILE` and
/// `ASHLAR_OPTIONS`, or null.
#[place(cold)]
#[inline(never)]
pub(crate) fn start_as_asked(file: *const c_char, options: *const c_char) {
    if file.is_null() && (options.is_null() || !mentions_profile(options)) {
        return;
    }
    let rate = match (profile::rate_option(), file.is_null()) {
        (0, true) => return,
        (0, false) => USUAL_RATE,
        (rate, _) => rate,
    };
    match profile::start(rate) {
        Ok(()) => TO.store(file.cast_mut(), Ordering::Relaxed),
        Err(error) => say(error),
    }
}

#[place(cold)]
fn say(error: ProfileError) {
    to_stderr(match error {
        ProfileError::Rate => b"ashlar: profile: expected a rate of 1 to 16M bytes\n",
        ProfileError::Engine => b"ashlar: profile: expected engine=ashlar: other engines have no profile\n",
        ProfileError::Unwinder => b"ashlar: profile: no backtraces: libgcc_s.so.1 cannot be loaded\n",
        _ => b"ashlar: profile: no memory for the table of samples\n",
    });
}

/// Writes the profile to the file that the environment names.
#[place(cold)]
#[inline(never)]
pub(crate) fn write_at_exit() {
    let to = TO.swap(core::ptr::null_mut(), Ordering::Relaxed);
    if to.is_null() {
        return;
    }
    // SAFETY: the name is a string of the environment, which ends in NUL.
    if write_to(unsafe { CStr::from_ptr(to) }.to_bytes()).is_err() {
        to_stderr(b"ashlar: ASHLAR_PROFILE: the file cannot be written\n");
    }
}

/// Writes the profile to a file, whose name has the process number in place of `%p`.
#[place(cold)]
fn write_to(name: &[u8]) -> Result<(), Errno> {
    let mut path = [0u8; MOST_NAME];
    let mut len = 0;
    let mut put = |byte: u8| {
        let place = path[..MOST_NAME - 1].get_mut(len).ok_or(Errno::ENAMETOOLONG)?;
        *place = byte;
        len += 1;
        Ok(())
    };
    let mut rest = name;
    while let [byte, others @ ..] = rest {
        rest = others;
        match (byte, others) {
            (b'%', [b'p', others @ ..]) => {
                rest = others;
                // SAFETY: the call takes no arguments.
                let pid = unsafe { syscall!(Sysno::getpid) }.unwrap_or(0);
                let mut unit = 10usize.pow(pid.checked_ilog10().unwrap_or(0));
                while unit > 0 {
                    put(b'0' + (pid / unit % 10) as u8)?;
                    unit /= 10;
                }
            }
            (&byte, _) => put(byte)?,
        }
    }
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
    // SAFETY: the path ends in NUL, because the last byte is never written. The descriptor comes
    // from the first call.
    unsafe {
        let file = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600)?;
        let written = profile::dump(file as i32);
        syscall!(Sysno::close, file)?;
        if written { Ok(()) } else { Err(Errno::EIO) }
    }
}

/// Starts a heap profile: a sample about each `rate` bytes, 1 to 16 MiB. Returns 0, or -1 with
/// `errno`: `EINVAL` for a bad rate, `ENOTSUP` for another engine or without an unwinder, `ENOMEM`.
#[unsafe(no_mangle)]
#[place(cold)]
pub extern "C" fn ashlar_profile_start(rate: usize) -> c_int {
    match profile::start(rate) {
        Ok(()) => 0,
        Err(error) => {
            set_errno(match error {
                ProfileError::Rate => libc::EINVAL,
                ProfileError::Engine | ProfileError::Unwinder => libc::ENOTSUP,
                _ => libc::ENOMEM,
            });
            -1
        }
    }
}

/// Stops the heap profile. What was sampled stays.
#[unsafe(no_mangle)]
#[place(cold)]
pub extern "C" fn ashlar_profile_stop() {
    profile::stop();
}

/// Writes the heap profile to a file, with the process number in place of `%p`. Returns 0, or -1
/// with `errno`: `EIO` also if no profile was started.
///
/// # Safety
/// `path` is a string that ends in NUL.
#[unsafe(no_mangle)]
#[place(cold)]
pub unsafe extern "C" fn ashlar_profile_dump(path: *const c_char) -> c_int {
    if path.is_null() {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the caller keeps the same contract.
    match write_to(unsafe { CStr::from_ptr(path) }.to_bytes()) {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno.into_raw());
            -1
        }
    }
}
