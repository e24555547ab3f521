//! Reclaim in a process without the background thread: any call of the program does the work that
//! is due.

use super::job::{TICK_MS, WANTED, job, work_without_job};
use crate::base::sync::{AtomicU32, Ordering};

/// Time of the last tick in milliseconds; wraps around. 0 until [`wake`](super::wake) first notes
/// work.
static LAST: AtomicU32 = AtomicU32::new(0);

pub(super) fn work() {
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
