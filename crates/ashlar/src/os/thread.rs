//! Threads of our own.
//!
//! [`spawn_detached`] is for calls of the program to start one, never for an allocation: the C library takes locks to
//! make a thread, and it may hold the same locks while it frees memory. The rest are bare system calls.

use core::ffi::{CStr, c_int, c_void};

use rustix::thread::{Timespec, futex};

use crate::sync::AtomicU32;

/// A number of the calling thread: see [`crate::sync::thread_id`].
#[inline(always)]
pub(crate) fn id() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let pointer: usize;
        // SAFETY: the x86-64 TLS ABI puts the thread pointer's own value, an aligned address, at fs:0.
        unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
        pointer
    }
    // Each thread has its own, aligned to 4.
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the function has no preconditions.
    unsafe {
        libc::__errno_location() as usize
    }
}

/// What a thread runs.
pub type Entry = extern "C" fn(*mut c_void) -> *mut c_void;

/// The C library's `pthread_create`, which may have another name in a library that has one itself.
pub type Create = unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Entry, *mut c_void) -> c_int;

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
///
/// # Safety
/// `create` is the C library's `pthread_create`, and the caller may call it.
pub(crate) unsafe fn spawn_detached(create: Create, entry: Entry) -> bool {
    // SAFETY: the attribute object is initialised before use and destroyed after; the entry takes no argument that
    // must outlive us; the rest is the caller's promise.
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

/// Names the calling thread and gives it the ordinary scheduling policy: it may have inherited a real-time one. What the
/// system refuses is left as it is.
pub(crate) fn begin(name: &CStr) {
    let _ = rustix::thread::set_name(name);
    let ordinary: c_int = 0;
    super::keeping_errno(|| {
        // SAFETY: the parameter block of a policy without real-time priority is one integer, 0. The raw call sets the
        // policy of the calling thread alone.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &raw const ordinary) }
    });
}

/// Number of the calling thread in the kernel.
pub(crate) fn current() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Whether this process has a thread of that number.
pub(crate) fn exists(tid: u32) -> bool {
    super::keeping_errno(|| {
        // SAFETY: signal 0 is none: the call only looks.
        let found = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, 0) } == 0;
        // Anything but "no such thread", as a filter's refusal, tells nothing.
        // SAFETY: the C library gives the address of this thread's errno, which is always valid.
        found || unsafe { *libc::__errno_location() } != libc::ESRCH
    })
}

/// Sleeps until [`wake`], at most `ms` milliseconds, if `word` still has the value `seen`. May return early.
pub(crate) fn wait(word: &AtomicU32, seen: u32, ms: Option<u32>) {
    let time = ms.map(|ms| Timespec { tv_sec: i64::from(ms / 1000), tv_nsec: i64::from(ms % 1000) * 1_000_000 });
    let _ = futex::wait(word, futex::Flags::PRIVATE, seen, time.as_ref());
}

/// Wakes the thread that sleeps on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}
