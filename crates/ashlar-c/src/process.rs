//! Load.
//!
//! The fork handlers are registered: every lock of the allocator is taken before a fork and released after, so that
//! the child finds all structures whole. Allocation before this constructor needs no handlers.

extern "C" fn at_load() {
    if !core_ashlar::fork::register() {
        crate::report::warn(format_args!("no memory for fork handlers: do not fork while threads allocate"));
    }
}

// SAFETY: the section is an array of functions without arguments that the loader calls once, at load.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
