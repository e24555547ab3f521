//! The library's work at load and at exit.
//!
//! At load, it registers the fork handlers, searches for replaced forms of new and delete, and then
//! drops the pages that only start-up used. It starts the profile if `ASHLAR_PROFILE` is set, and
//! writes it at exit. The core reads `ASHLAR_STATS`, and prints the figures at exit.

use core::ffi::{CStr, c_char};

use crate::fork_handlers;
use crate::profile;

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
    start_profile();
    ashlar::print_stats_in_any_case();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    ashlar::set_deepbind_counter(crate::deepbind::dropped);
    #[cfg(target_arch = "x86_64")]
    ashlar::malloc::when_up(crate::apart::drop_untouched);
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
