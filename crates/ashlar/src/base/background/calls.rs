//! Reclaim in a process without the background thread: any call of the program does the work that
//! is due.

use super::job::{TICK_MS, WANTED, job, work_without_job};
use crate::base::sync::{AtomicU32, Ordering};

/// Time of the last tick in milliseconds; wraps around. 0 until [`wake`](super::wake) first notes
/// work.
static LAST: AtomicU32 = AtomicU32::new(0);

/// Calls of [`put_off`] that have not returned.
static PUT_OFF: AtomicU32 = AtomicU32::new(0);

/// Runs `f`. Meanwhile no call of the program does the work, which stays noted: `f` may hold a lock
/// that the work takes.
#[place(background)]
pub(crate) fn put_off<R>(f: impl FnOnce() -> R) -> R {
    PUT_OFF.fetch_add(1, Ordering::Relaxed);
    let result = f();
    PUT_OFF.fetch_sub(1, Ordering::Relaxed);
    result
}

/// Forgets the threads of the parent.
pub(super) fn after_fork_in_child() {
    PUT_OFF.store(0, Ordering::Relaxed);
}

pub(super) fn work() {
    if PUT_OFF.load(Ordering::Relaxed) != 0 {
        return;
    }
    let Some(job) = job() else { return work_without_job() };
    let (now, last) = (crate::base::os::now_ms() as u32, LAST.load(Ordering::Relaxed));
    let mut due = now.wrapping_sub(last) >= TICK_MS;
    if last == 0 {
        // The first tick is due one tick period after the first work was noted.
        LAST.store(now | 1, Ordering::Relaxed);
        due = false;
    }
    // The thread that wins the exchange runs the tick.
    if due && LAST.compare_exchange(last, now, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        WANTED.store(0, Ordering::Relaxed);
        if (job.tick)() {
            WANTED.store(1, Ordering::Relaxed);
        }
    }
    (job.trim)(now);
}
