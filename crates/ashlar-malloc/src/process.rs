//! Load and exit.
//!
//! At load the fork handlers are registered. Then replaced forms of new and delete are looked for.
//! What start-up used of the library and no call needs any more is dropped when that is over. At
//! exit the table that `ASHLAR_STATS` asks for is printed.

use core::ffi::c_char;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use syscalls::{Sysno, syscall};

use crate::figures;
use crate::fork_handlers;
use crate::text::to_stderr;

unsafe extern "C" {
    /// glibc and musl: `getenv` that knows set-user-ID.
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

extern "C" fn at_load() {
    fork_handlers::register();
    #[cfg(target_arch = "x86_64")]
    crate::threads::prepare();
    #[cfg(target_arch = "x86_64")]
    crate::cxx::look_for_replacements();
    read_wish();
    #[cfg(target_arch = "x86_64")]
    ashlar::malloc::when_up(crate::apart::drop_untouched);
}

/// Where the table goes: standard error as it was at load, since many programs close theirs before
/// the end. -1: nowhere.
static STATS_TO: AtomicI32 = AtomicI32::new(-1);
static STATS_AS_JSON: AtomicBool = AtomicBool::new(false);

fn read_wish() {
    // SAFETY: the name is NUL-terminated; in a set-user-ID program the result is null.
    let wanted = unsafe { secure_getenv(c"ASHLAR_STATS".as_ptr()) };
    if wanted.is_null() {
        return;
    }
    // SAFETY: a result that is not null is a NUL-terminated string.
    match unsafe { core::ffi::CStr::from_ptr(wanted) }.to_bytes() {
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

extern "C" fn at_exit() {
    let fd = STATS_TO.swap(-1, Ordering::Relaxed);
    if fd >= 0 {
        figures::print(fd, STATS_AS_JSON.load(Ordering::Relaxed));
    }
}

// SAFETY: the section is an array of functions without arguments that the loader calls once, at
// load.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

// SAFETY: as above, at exit.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
