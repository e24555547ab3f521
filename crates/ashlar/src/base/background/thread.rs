//! The background thread.

use core::ffi::CStr;

use super::{TICK_MS, WANTED, job};
use crate::base::os::thread::{self as os_thread, Create};
use crate::base::sync::{AtomicU32, Ordering, relax, wait_while};

/// What becomes of the thread.
///
/// | state | meaning | leaves it |
/// |---|---|---|
/// | none | there is no thread | `start` |
/// | starting | the C library is making one | `start` |
/// | running | it works or sleeps | `stop` |
/// | ending | it was told to end | the thread, as the last thing it does |
/// | ended | the kernel has it for some moments more | `stop` |
static STATE: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
const STARTING: u32 = 1;
const RUNNING: u32 = 2;
const ENDING: u32 = 3;
const ENDED: u32 = 4;

/// The word that the thread sleeps on: each change of it is a reason to look.
static EVENTS: AtomicU32 = AtomicU32::new(0);
/// Nonzero while the thread sleeps until there is work, and has to be roused.
static ASLEEP: AtomicU32 = AtomicU32::new(0);
/// Number of the thread in the kernel.
static TID: AtomicU32 = AtomicU32::new(0);

#[inline]
pub(super) fn is_running() -> bool {
    STATE.load(Ordering::Relaxed) == RUNNING
}

/// Makes the thread look. A system call only if it sleeps.
pub(super) fn rouse() {
    if ASLEEP.load(Ordering::SeqCst) != 0 && ASLEEP.swap(0, Ordering::SeqCst) != 0 {
        EVENTS.fetch_add(1, Ordering::SeqCst);
        os_thread::wake(&EVENTS);
    }
}

/// Makes the thread, by `create`, which is the C library's `pthread_create`. True if there is one
/// now; false when the system refused: then it may be tried again.
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
            // It ends within moments.
            Err(_) => {
                waited += 1;
                relax(waited);
            }
        }
    }
    ASLEEP.store(0, Ordering::Relaxed);
    // SAFETY: passed on.
    let made = unsafe { os_thread::spawn_detached(create, run) };
    STATE.store(if made { RUNNING } else { NONE }, Ordering::Release);
    made
}

/// Ends the thread, if there is one, and waits until the kernel knows it no more.
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
    // Not for ever: a filter may refuse the look.
    wait_while(|| os_thread::exists(TID.load(Ordering::Relaxed)));
    STATE.store(NONE, Ordering::Release);
}

pub(super) fn after_fork_in_child() {
    STATE.store(NONE, Ordering::Relaxed);
}

/// A variable, because string constants lie apart in the malloc library (`layout.ld`).
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

/// Sleeps until there is work; false when the thread is to end.
///
/// A thread that notes work stores `WANTED`, then looks at `ASLEEP`; this one stores `ASLEEP`, then
/// looks at `WANTED`. So one of them sees the other.
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

/// Sleeps for a tick; false when the thread is to end.
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
