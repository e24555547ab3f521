//! Threads of our own. Only calls of the program to start or stop one come here, never an allocation: the C library
//! takes locks to make a thread, and it may hold the same locks while it frees memory.

/// Runs `f` with all signals blocked in the calling thread, and so in threads that it starts. Not those that the C library
/// keeps for itself: by one of them `setuid` reaches all threads.
fn with_signals_blocked<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: both sets are initialised by the calls that get them, and the old mask is put back.
    let old = unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut old: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    let result = f();
    // SAFETY: `old` is the mask that was in force.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, core::ptr::null_mut()) };
    result
}

/// Starts a detached thread with a small stack and all signals blocked; false when refused.
pub(crate) fn spawn_detached(entry: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void) -> bool {
    // SAFETY: the attribute object is initialised before use and destroyed after; the entry takes no argument that
    // must outlive us.
    with_signals_blocked(|| unsafe {
        let mut attr: libc::pthread_attr_t = core::mem::zeroed();
        if libc::pthread_attr_init(&mut attr) != 0 {
            return false;
        }
        libc::pthread_attr_setdetachstate(&mut attr, libc::PTHREAD_CREATE_DETACHED);
        let mut thread: libc::pthread_t = core::mem::zeroed();
        // A program with much static TLS, which glibc takes from the stack, needs the larger size.
        let started = [SMALL_STACK, LARGE_STACK].into_iter().any(|size| {
            libc::pthread_attr_setstacksize(&mut attr, size);
            libc::pthread_create(&mut thread, &attr, entry, core::ptr::null_mut()) == 0
        });
        libc::pthread_attr_destroy(&mut attr);
        started
    })
}

const SMALL_STACK: usize = 128 << 10;
const LARGE_STACK: usize = 8 << 20;
