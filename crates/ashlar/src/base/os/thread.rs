//! Threads of our own.
//!
//! [`spawn_detached`] is for calls of the program to start one, never for an allocation: the C
//! library takes locks to make a thread, and it may hold the same locks while it frees memory. The
//! rest are bare system calls.

use core::ffi::{CStr, c_int, c_void};

use syscalls::{Errno, Sysno, syscall};

use crate::base::sync::AtomicU32;

/// What a thread runs.
pub type Entry = extern "C" fn(*mut c_void) -> *mut c_void;

/// The C library's `pthread_create`, which may have another name in a library that has one itself.
pub type Create = unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Entry, *mut c_void) -> c_int;

/// Runs `f` with all signals blocked in the calling thread, and so in threads that it starts. Not
/// those that the C library keeps for itself: by one of them `setuid` reaches all threads.
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
///
/// # Safety
/// `create` is the C library's `pthread_create`, and the caller may call it.
pub(crate) unsafe fn spawn_detached(create: Create, entry: Entry) -> bool {
    // SAFETY: the attribute object is initialised before use and destroyed after; the entry takes
    // no argument that must outlive us; the rest is the caller's promise.
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
            create(&mut thread, &attr, entry, core::ptr::null_mut()) == 0
        });
        libc::pthread_attr_destroy(&mut attr);
        started
    })
}

const SMALL_STACK: usize = 128 << 10;
const LARGE_STACK: usize = 8 << 20;

/// Names the calling thread and gives it the ordinary scheduling policy: it may have inherited a
/// real-time one. What the system refuses is left as it is.
pub(crate) fn begin(name: &CStr) {
    let ordinary: c_int = 0;
    // SAFETY: the name is NUL-terminated. The parameter block of a policy without real-time
    // priority is one integer, 0; the call sets the policy of the calling thread alone.
    unsafe {
        let _ = syscall!(Sysno::prctl, libc::PR_SET_NAME, name.as_ptr());
        let _ = syscall!(Sysno::sched_setscheduler, 0, libc::SCHED_OTHER, &raw const ordinary);
    }
}

/// Number of the calling thread in the kernel.
pub(crate) fn current() -> u32 {
    // SAFETY: the call takes no arguments.
    unsafe { syscall!(Sysno::gettid) }.unwrap_or(0) as u32
}

/// Whether this process has a thread of that number.
pub(crate) fn exists(tid: u32) -> bool {
    // SAFETY: the first call takes no arguments. Signal 0 is none: the second only looks.
    let looked = unsafe {
        let process = syscall!(Sysno::getpid).unwrap_or(0);
        syscall!(Sysno::tgkill, process, tid, 0)
    };
    // Anything but "no such thread", as a filter's refusal, tells nothing.
    looked != Err(Errno::ESRCH)
}

/// Sleeps until [`wake`], at most `ms` milliseconds, if `word` still has the value `seen`. May
/// return early.
#[inline(never)]
pub(crate) fn wait(word: &AtomicU32, seen: u32, ms: Option<u32>) {
    let time = ms.map(|ms| libc::timespec { tv_sec: i64::from(ms / 1000), tv_nsec: i64::from(ms % 1000) * 1_000_000 });
    let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is readable, and so is the time, or it is null.
    let slept = unsafe { syscall!(Sysno::futex, word.as_ptr(), wait, seen, time) };
    // Refused by a filter: looks now and then.
    if !matches!(slept, Ok(_) | Err(Errno::EAGAIN | Errno::EINTR | Errno::ETIMEDOUT)) {
        super::sleep_ns(50_000_000);
    }
}

/// Wakes the thread that sleeps on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel takes the address alone.
    let _ = unsafe { syscall!(Sysno::futex, word.as_ptr(), wake, 1) };
}
