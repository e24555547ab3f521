//! The fork handlers. They are registered once, at load, or earlier if the first thread is created
//! before. A program with one thread does not need them until then.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::text::to_stderr;

/// Registers the fork handlers, once.
#[inline(never)]
#[place(cold)]
pub(crate) fn register() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::AcqRel) {
        return;
    }
    let registered = ashlar::fork::register();
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    let registered = registered && {
        unsafe extern "C" fn child() {
            crate::thread_count::after_fork_in_child();
        }
        // SAFETY: the handler is a function of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(child)) == 0 }
    };
    if !registered {
        to_stderr(b"ashlar: no memory for fork handlers: do not fork while threads allocate\n");
    }
}
