//! The background thread: its life cycle, and its sleep between ticks.
//!
//! `STATE` serialises [`start`] and [`stop`]. No lock is held.

use core::ffi::CStr;

use super::job::{TICK_MS, WANTED, job};
use crate::base::os::thread::{self as os_thread, Create};
use crate::base::sync::{AtomicU32, Ordering, relax, wait_while};

/// State of the thread.
///
/// | state | meaning | left by |
/// |---|---|---|
/// | none | there is no thread | `start` |
/// | starting | the C library is creating it | `start` |
/// | running | it works or sleeps | `stop` |
/// | ending | it was told to end | the thread itself, as its last step |
/// | ended | it is about to exit; the kernel still has it | `stop` |
static STATE: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
const STARTING: u32 = 1;
const RUNNING: u32 = 2;
const ENDING: u32 = 3;
const ENDED: u32 = 4;

/// The futex word that the thread sleeps on. Incremented for each event that the thread must
/// handle.
static EVENTS: AtomicU32 = AtomicU32::new(0);
/// Nonzero while the thread sleeps without a timeout and needs a futex wake.
static ASLEEP: AtomicU32 = AtomicU32::new(0);
/// Kernel thread id of the thread; 0 until it has made the system calls of its beginning.
static TID: AtomicU32 = AtomicU32::new(0);

/// Returns the addresses of `STATE` and of `TID`, for a reader outside of the process.
#[ashlar_macros::place(cold)]
pub(crate) fn words() -> [usize; 2] {
    [(&raw const STATE).addr(), (&raw const TID).addr()]
}
const _: () = assert!(RUNNING == crate::base::window::RUNNING);

/// Returns whether the calling thread is the background thread.
#[ashlar_macros::place(cold)]
pub(crate) fn is_this_thread() -> bool {
    is_running() && TID.load(Ordering::Relaxed) == os_thread::current()
}

#[inline]
pub(super) fn is_running() -> bool {
    STATE.load(Ordering::Relaxed) == RUNNING
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
    let mut waited = 0;
    loop {
        match STATE.compare_exchange(NONE, STARTING, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => break,
            Err(RUNNING | STARTING) => return true,
            // The states ending and ended last for moments only.
            Err(_) => {
                waited += 1;
                relax(waited);
            }
        }
    }
    ASLEEP.store(0, Ordering::Relaxed);
    TID.store(0, Ordering::Relaxed);
    // SAFETY: the caller keeps the contract of `spawn_detached`.
    let made = unsafe { os_thread::spawn_detached(create, run) };
    if made {
        wait_while(|| TID.load(Ordering::Relaxed) == 0);
    }
    STATE.store(if made { RUNNING } else { NONE }, Ordering::Release);
    made
}

/// Ends the thread, if there is one, and waits until the kernel no longer has it.
pub(crate) fn stop() {
    if STATE.compare_exchange(RUNNING, ENDING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return;
    }
    EVENTS.fetch_add(1, Ordering::SeqCst);
    os_thread::wake(&EVENTS);
    let mut waited = 0;
    while STATE.load(Ordering::Acquire) != ENDED {
        waited += 1;
        relax(waited);
    }
    // The wait is bounded, because a seccomp filter may refuse the check.
    wait_while(|| os_thread::exists(TID.load(Ordering::Relaxed)));
    STATE.store(NONE, Ordering::Release);
}

pub(super) fn after_fork_in_child() {
    STATE.store(NONE, Ordering::Relaxed);
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
    STATE.store(ENDED, Ordering::Release);
    core::ptr::null_mut()
}

fn is_to_end() -> bool {
    STATE.load(Ordering::SeqCst) == ENDING
}

/// Sleeps until there is work. Returns false when the thread must end.
///
/// No wake-up is lost. [`wake`](super::wake) stores `WANTED`, and the waker then loads `ASLEEP`.
/// This function stores `ASLEEP`, then loads `WANTED`. All four are sequentially consistent, so at
/// least one side sees the other's store.
fn wait_for_work() -> bool {
    loop {
        let seen = EVENTS.load(Ordering::SeqCst);
        if is_to_end() {
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
        if is_to_end() {
            return false;
        }
        let now = crate::base::os::now_ms();
        if now >= end {
            return true;
        }
        os_thread::wait(&EVENTS, seen, Some((end - now) as u32));
    }
}
