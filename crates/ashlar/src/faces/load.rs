//! Load: what is done once, when the program or library that this crate is linked into has been
//! loaded.
//!
//! The fork handlers are registered, and a library is kept loaded: `dlclose` would take away code
//! that threads are in, the descriptors of critical sections that the kernel reads, and objects
//! that other libraries still have. An allocation cannot do either, since it may come from inside
//! the C library, under locks that both take.
#![allow(unsafe_code, reason = "a table that the loader reads")]

#[place(cold)]
extern "C" fn at_load() {
    // musl unloads nothing.
    #[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
    crate::base::os::stay_loaded();
    if !super::fork::register() {
        crate::base::report::warn(format_args!("no memory for fork handlers: do not fork while threads allocate"));
    }
}

// SAFETY: the section is an array of functions without arguments that the loader calls once, at
// load.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
