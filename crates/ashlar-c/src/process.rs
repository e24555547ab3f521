//! Load and fork.
//!
//! At load the fork handlers are registered: every lock of the allocator is taken before a fork and released
//! after, so that the child finds all structures whole. Allocation before this constructor needs none of it.

use core::ffi::c_int;

extern "C" fn prepare() {
    core_ashlar::fork::prepare();
}

extern "C" fn parent() {
    // SAFETY: the C library calls this in the thread that it called `prepare` in.
    unsafe { core_ashlar::fork::after_in_parent() };
}

extern "C" fn child() {
    // SAFETY: as above; this is the child's copy of that thread.
    unsafe { core_ashlar::fork::after_in_child() };
}

unsafe extern "C" {
    /// POSIX; in the C library's static part where it is not in the shared one.
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

extern "C" fn at_load() {
    // SAFETY: the handlers are functions of this library, which is never unloaded (see build.rs).
    if unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) } != 0 {
        crate::report::warn(format_args!("no memory for fork handlers: do not fork while threads allocate"));
    }
}

// SAFETY: the section is an array of functions without arguments that the loader calls once, at load.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;
