//! Load: the work done once, when the program or library that contains this crate is loaded.
//!
//! Registers the fork handlers, reads `ASHLAR_STATS` and `ASHLAR_PROFILE`, loads the unwinder
//! where reports have backtraces, and keeps a library loaded. `dlclose` would unmap code that
//! threads run, descriptors of critical sections that the kernel reads, and objects that other
//! libraries still use. An allocation can do neither, because it may come from inside the C
//! library, under locks that both take. At exit, writes the profile and prints the figures if
//! they are wanted.
#![allow(unsafe_code, reason = "a table that the loader reads")]

#[place(cold)]
extern "C" fn at_load() {
    // musl never unloads libraries.
    #[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
    crate::base::os::stay_loaded();
    if crate::cache::settings::wants_backtraces() {
        // For the backtraces of tracks and reports. Later, an allocation could not load it.
        crate::base::os::load_unwinder();
    }
    super::stats::at_load();
    super::profile::start_as_asked();
    if !super::fork::register() {
        crate::base::report::warn(format_args!("no memory for fork handlers: do not fork while threads allocate"));
    }
}

// SAFETY: the section is an array of functions. The loader calls each once, at load; this one
// ignores its arguments.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

#[place(cold)]
extern "C" fn at_exit() {
    super::profile::write_at_exit();
    super::stats::at_exit();
}

// SAFETY: as above, at exit.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
