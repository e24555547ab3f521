//! The background thread: it exists only while there is something to give back to the system.
//!
//! [`wake`] asks for it when free resident memory has piled up, [`settle`] starts it; the job, which the cache layer registers,
//! runs once a tick until it says that it is done, and the thread ends. So an idle program has no thread of
//! ours, and a program that frees everything and then sleeps still sees its memory fall.
//! Without an operating system nothing is started: such programs call [`crate::reap`] themselves.

use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Milliseconds between two ticks.
#[cfg(feature = "os")]
pub(crate) const TICK_MS: u32 = 250;

/// What to run each tick: does its work and returns true while there is more to come.
type Job = fn() -> bool;

const STOPPED: u32 = 0;
const RUNNING: u32 = 1;
/// Never to be started: switched off, or thread creation failed.
const OFF: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(OFF);
static WANTED: AtomicU32 = AtomicU32::new(0);
static JOB: AtomicUsize = AtomicUsize::new(0);

/// Registers the job and allows the thread.
#[cfg_attr(not(feature = "os"), expect(dead_code, reason = "only an operating system has threads"))]
pub(crate) fn enable(job: Job) {
    JOB.store(job as usize, Ordering::Relaxed);
    STATE.store(STOPPED, Ordering::Release);
}

/// Says that there is work for the thread. Callers may hold locks: the thread is started later, by [`settle`].
#[inline]
pub(crate) fn wake() {
    if STATE.load(Ordering::Relaxed) == STOPPED {
        WANTED.store(1, Ordering::Relaxed);
    }
}

/// Starts the thread if [`wake`] asked for it. Called without locks, at the end of an operation: starting a thread
/// allocates, and where this library is the program's malloc, from itself.
#[inline]
pub(crate) fn settle() {
    if WANTED.load(Ordering::Relaxed) != 0 {
        start();
    }
}

#[cold]
fn start() {
    WANTED.store(0, Ordering::Relaxed);
    #[cfg(feature = "os")]
    if STATE.compare_exchange(STOPPED, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_ok()
        && !crate::os::thread::spawn_detached(run)
    {
        // No thread to be had (a limit, a seccomp filter): memory then goes back on explicit calls only.
        STATE.store(OFF, Ordering::Relaxed);
    }
}

/// In the child of a fork the thread is gone; the next wake starts a new one.
pub(crate) fn after_fork_in_child() {
    if STATE.load(Ordering::Relaxed) == RUNNING {
        STATE.store(STOPPED, Ordering::Relaxed);
    }
}

#[cfg(feature = "os")]
#[expect(unsafe_code, reason = "turns the stored job back into a function")]
extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `enable` stored a `Job` before it allowed the thread, and nothing else is ever stored.
    let job: Job = unsafe { core::mem::transmute::<usize, Job>(JOB.load(Ordering::Relaxed)) };
    loop {
        crate::os::sleep_ns(i64::from(TICK_MS) * 1_000_000);
        if !job() {
            STATE.store(STOPPED, Ordering::Release);
            // Work that came between the last look and the store would find the thread running: look again.
            if !job() || STATE.compare_exchange(STOPPED, RUNNING, Ordering::Acquire, Ordering::Relaxed).is_err() {
                return core::ptr::null_mut();
            }
        }
    }
}
