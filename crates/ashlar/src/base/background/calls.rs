//! The work of a process without the thread, done by whichever call is there when it is due.

use super::{TICK_MS, WANTED, job};
use crate::base::sync::{AtomicU32, Ordering};

/// Time of the last tick, in milliseconds; wraps around. 0 before there was work.
static LAST: AtomicU32 = AtomicU32::new(0);

pub(super) fn work() {
    let Some(job) = job() else { return };
    let (now, last) = (crate::base::os::now_ms() as u32, LAST.load(Ordering::Relaxed));
    let mut due = now.wrapping_sub(last) >= TICK_MS;
    if last == 0 {
        // The first one is due a tick after there was work for the first time.
        LAST.store(now | 1, Ordering::Relaxed);
        due = false;
    }
    // One thread does it.
    if due && LAST.compare_exchange(last, now, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        WANTED.store(0, Ordering::Relaxed);
        if (job.tick)() {
            WANTED.store(1, Ordering::Relaxed);
        }
    }
    (job.trim)(now);
}
