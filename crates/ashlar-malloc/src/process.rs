//! The library's work at load and at exit.
//!
//! At load, it registers the fork handlers, searches for replaced forms of new and delete, and then
//! drops the pages that only start-up used. At exit, it writes the profile and prints the
//! table, if `ASHLAR_PROFILE` and `ASHLAR_STATS` are set.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use syscalls::{Sysno, syscall};

use crate::figures;
use crate::fork_handlers;
use crate::profile;
use crate::text::to_stderr;

unsafe extern "C" {
    /// `getenv` of glibc and musl that returns null in set-user-ID programs.
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// Returns the value of an environment variable; null if there is none, and in a set-user-ID
/// program.
fn env(name: &CStr) -> *const c_char {
    // SAFETY: the name is NUL-terminated.
    unsafe { secure_getenv(name.as_ptr()) }
}

extern "C" fn at_load() {
    fork_handlers::register();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    crate::threads::prepare();
    #[cfg(target_arch = "x86_64")]
    crate::cxx::look_for_replacements();
    read_wish();
    start_profile();
    #[cfg(target_arch = "x86_64")]
    ashlar::malloc::when_up(crate::apart::drop_untouched);
}

/// The descriptor for the table: a copy of standard error made at load, because many programs close
/// theirs before they end. -1: no table.
static STATS_TO: AtomicI32 = AtomicI32::new(-1);
static STATS_AS_JSON: AtomicBool = AtomicBool::new(false);

fn read_wish() {
    let wanted = env(c"ASHLAR_STATS");
    if wanted.is_null() {
        return;
    }
    // SAFETY: a non-null result is a NUL-terminated string.
    match unsafe { CStr::from_ptr(wanted) }.to_bytes() {
        b"json" => STATS_AS_JSON.store(true, Ordering::Relaxed),
        b"text" => {}
        _ => return to_stderr(b"ashlar: ASHLAR_STATS: expected text or json\n"),
    }
    // Low numbers are left to the program.
    // SAFETY: the command takes integers only.
    if let Ok(copy) = unsafe { syscall!(Sysno::fcntl, 2, libc::F_DUPFD_CLOEXEC, 100) } {
        STATS_TO.store(copy as i32, Ordering::Relaxed);
    }
}

#[place(cold)]
#[inline(never)]
fn start_profile() {
    let (file, options) = (env(c"ASHLAR_PROFILE"), env(c"ASHLAR_OPTIONS"));
    // Malloc starts with its first call, and not here, in a program that wants no profile.
    if !file.is_null() || !options.is_null() {
        profile::start_as_asked(file, options);
    }
}

extern "C" fn at_exit() {
    profile::write_at_exit();
    let fd = STATS_TO.swap(-1, Ordering::Relaxed);
    if fd >= 0 {
        figures::print(fd, STATS_AS_JSON.load(Ordering::Relaxed));
    }
}

// SAFETY: the section is an array of functions. The loader calls each once, at load; this one
// ignores its arguments.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

// SAFETY: as above, at exit.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
