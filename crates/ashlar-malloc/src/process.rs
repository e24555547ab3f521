//! The library's work at load.
//!
//! At load, it registers the fork handlers, searches for replaced forms of new and delete, and then
//! drops the pages that only start-up used. The core reads `ASHLAR_STATS` and `ASHLAR_PROFILE`, and
//! writes what they want at exit.

use crate::fork_handlers;

extern "C" fn at_load() {
    fork_handlers::register();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    crate::threads::prepare();
    #[cfg(target_arch = "x86_64")]
    crate::cxx::look_for_replacements();
    ashlar::print_stats_in_any_case();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    ashlar::set_deepbind_counter(crate::deepbind::dropped);
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    ashlar::malloc::when_up(crate::apart::drop_untouched);
}

// SAFETY: the section is an array of functions. The loader calls each once, at load; this one
// ignores its arguments.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
