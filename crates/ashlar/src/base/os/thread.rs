//! Creates the background thread, and puts threads to sleep and wakes them.
//!
//! Only a call of the program may reach [`spawn_detached`], never an allocation. The C library
//! takes locks to create a thread, and may hold the same locks while it frees memory. All other
//! functions are bare system calls.

use core::ffi::{CStr, c_int, c_void};

use syscalls::{Errno, Sysno, syscall};

use crate::base::sync::AtomicU32;

/// The start function of a thread.
pub type Entry = extern "C" fn(*mut c_void) -> *mut c_void;

/// The C library's `pthread_create`. A library that defines a `pthread_create` of its own passes
/// the C library's under another name.
pub type Create = unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Entry, *mut c_void) -> c_int;

/// Runs `f` with all signals blocked in the calling thread, and so in the threads that it starts.
/// The signals that the C library reserves stay unblocked, because it uses one of them to apply
/// `setuid` to all threads.
fn with_signals_blocked<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: each set is initialised by the call that receives it.
    let old = unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut old: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    let result = f();
    // SAFETY: `old` is the mask that was in force before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, core::ptr::null_mut()) };
    result
}

/// Starts a detached thread with a small stack and all signals blocked. Returns false if refused.
///
/// # Safety
/// `create` is the C library's `pthread_create`, and the caller may call it.
pub(crate) unsafe fn spawn_detached(create: Create, entry: Entry) -> bool {
    // SAFETY: the attribute object is initialised before use and destroyed after. The entry gets a
    // null argument. The caller promises the rest.
    with_signals_blocked(|| unsafe {
        let mut attr: libc::pthread_attr_t = core::mem::zeroed();
        if libc::pthread_attr_init(&mut attr) != 0 {
            return false;
        }
        libc::pthread_attr_setdetachstate(&mut attr, libc::PTHREAD_CREATE_DETACHED);
        let mut thread: libc::pthread_t = core::mem::zeroed();
        // glibc takes static TLS from the stack, so a program with much of it needs the larger
        // size.
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

/// Names the calling thread and gives it the ordinary scheduling policy, because it may have
/// inherited a real-time one. Ignores refusals.
pub(crate) fn begin(name: &CStr) {
    let ordinary: c_int = 0;
    // SAFETY: the name is NUL-terminated. The parameter block of a policy without real-time
    // priority is one integer, 0. The second call sets the policy of the calling thread alone.
    unsafe {
        let _ = syscall!(Sysno::prctl, libc::PR_SET_NAME, name.as_ptr());
        let _ = syscall!(Sysno::sched_setscheduler, 0, libc::SCHED_OTHER, &raw const ordinary);
    }
}

/// Returns the name of the calling thread, padded with zeros.
#[place(cold)]
pub(crate) fn name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    let _ = unsafe { syscall!(Sysno::prctl, libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Returns the kernel's id of the calling thread.
pub(crate) fn current() -> u32 {
    // SAFETY: the call takes no arguments.
    unsafe { syscall!(Sysno::gettid) }.unwrap_or(0) as u32
}

/// Returns whether this process has a thread with this id.
pub(crate) fn exists(tid: u32) -> bool {
    // SAFETY: the first call takes no arguments. The second sends signal 0, which only checks the
    // id.
    let looked = unsafe {
        let process = syscall!(Sysno::getpid).unwrap_or(0);
        syscall!(Sysno::tgkill, process, tid, 0)
    };
    // Any other error, such as the refusal of a seccomp filter, proves nothing.
    looked != Err(Errno::ESRCH)
}

/// Sleeps until [`wake`], at most `ms` milliseconds, if `word` still has the value `seen`. May
/// return early.
#[inline(never)]
pub(crate) fn wait(word: &AtomicU32, seen: u32, ms: Option<u32>) {
    let time = ms.map(|ms| libc::timespec { tv_sec: i64::from(ms / 1000), tv_nsec: i64::from(ms % 1000) * 1_000_000 });
    let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is readable, and `time` is readable or null.
    let slept = unsafe { syscall!(Sysno::futex, word.as_ptr(), wait, seen, time) };
    // A seccomp filter refused the call: sleep a fixed time, so that the caller polls.
    if !matches!(slept, Ok(_) | Err(Errno::EAGAIN | Errno::EINTR | Errno::ETIMEDOUT)) {
        super::sleep_ns(50_000_000);
    }
}

/// Wakes the thread that sleeps on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel only uses the address as a key.
    let _ = unsafe { syscall!(Sysno::futex, word.as_ptr(), wake, 1) };
}
