//! The background thread: its life cycle, and its sleep between ticks.
//!
//! [`Life`] serialises [`start`] and [`stop`].

use core::ffi::CStr;

use super::job::{TICK_MS, WANTED, job};
use crate::base::os::thread::{self as os_thread, Create};
use crate::base::sync::life::{Life, RUNNING};
use crate::base::sync::{AtomicU32, Ordering, wait_while};

static LIFE: Life = Life::new();

/// The futex word that the thread sleeps on. Incremented for each event that the thread must
/// handle.
static EVENTS: AtomicU32 = AtomicU32::new(0);
/// Nonzero while the thread sleeps without a timeout and needs a futex wake.
static ASLEEP: AtomicU32 = AtomicU32::new(0);
/// Kernel thread id of the thread; 0 until it has made the system calls of its beginning.
static TID: AtomicU32 = AtomicU32::new(0);

/// Returns the addresses of the state and of `TID`, for a reader outside of the process.
#[ashlar_macros::place(cold)]
pub(crate) fn words() -> [usize; 2] {
    [LIFE.word().addr(), (&raw const TID).addr()]
}
const _: () = assert!(RUNNING == crate::base::window::RUNNING);

/// Returns whether the calling thread is the background thread.
#[ashlar_macros::place(cold)]
pub(crate) fn is_this_thread() -> bool {
    is_running() && TID.load(Ordering::Relaxed) == os_thread::current()
}

#[inline]
pub(super) fn is_running() -> bool {
    LIFE.is_running()
}

/// Wakes the thread if it sleeps without a timeout. Makes a system call only then.
pub(super) fn rouse() {
    if ASLEEP.load(Ordering::SeqCst) != 0 && ASLEEP.swap(0, Ordering::SeqCst) != 0 {
        EVENTS.fetch_add(1, Ordering::SeqCst);
        os_thread::wake(&EVENTS);
    }
}

/// Creates the thread by `create`, the C library's `pthread_create`. Returns true if the thread
/// exists on return. Returns false if the system refused; the caller may try again.
///
/// Waits until the thread has made the system calls of its beginning, because the program may set a
/// filter for all its threads next.
///
/// # Safety
/// As for [`os_thread::spawn_detached`].
#[expect(unsafe_code, reason = "calls the C library by pointer")]
pub(crate) unsafe fn start(create: Create) -> bool {
    LIFE.start(|| {
        ASLEEP.store(0, Ordering::Relaxed);
        TID.store(0, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `spawn_detached`.
        let made = unsafe { os_thread::spawn_detached(create, run) };
        if made {
            wait_while(|| TID.load(Ordering::Relaxed) == 0);
        }
        made
    })
}

/// Ends the thread, if there is one, and waits until the kernel no longer has it.
pub(crate) fn stop() {
    let tell = || {
        EVENTS.fetch_add(1, Ordering::SeqCst);
        os_thread::wake(&EVENTS);
    };
    LIFE.stop(tell, || {
        // The wait is bounded, because a seccomp filter may refuse the check.
        wait_while(|| os_thread::exists(TID.load(Ordering::Relaxed)));
    });
}

pub(super) fn after_fork_in_child() {
    LIFE.after_fork_in_child();
}

/// A variable, because the linker script of the preloaded library places string constants apart.
static NAME: [u8; 14] = *b"ashlar-reaper\0";

extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
    os_thread::begin(CStr::from_bytes_with_nul(&NAME).unwrap_or_default());
    TID.store(os_thread::current(), Ordering::Relaxed);
    while wait_for_work() {
        while sleep_a_tick() {
            WANTED.store(0, Ordering::SeqCst);
            if !job().is_some_and(|job| (job.tick)()) {
                break;
            }
        }
    }
    LIFE.ended();
    core::ptr::null_mut()
}

/// Sleeps until there is work. Returns false when the thread must end.
///
/// No wake-up is lost. [`wake`](super::wake) stores `WANTED`, and the waker then loads `ASLEEP`.
/// This function stores `ASLEEP`, then loads `WANTED`. All four are sequentially consistent, so at
/// least one side sees the other's store.
fn wait_for_work() -> bool {
    loop {
        let seen = EVENTS.load(Ordering::SeqCst);
        if LIFE.is_to_end() {
            return false;
        }
        ASLEEP.store(1, Ordering::SeqCst);
        if WANTED.load(Ordering::SeqCst) != 0 {
            ASLEEP.store(0, Ordering::SeqCst);
            return true;
        }
        os_thread::wait(&EVENTS, seen, None);
    }
}

/// Sleeps for one tick. Returns false when the thread must end.
fn sleep_a_tick() -> bool {
    let end = crate::base::os::now_ms() + u64::from(TICK_MS);
    loop {
        let seen = EVENTS.load(Ordering::SeqCst);
        if LIFE.is_to_end() {
            return false;
        }
        let now = crate::base::os::now_ms();
        if now >= end {
            return true;
        }
        os_thread::wait(&EVENTS, seen, Some((end - now) as u32));
    }
}
