//! Which allocations are guarded: one of so many, or the first one after a gate was opened.
//!
//! The gate is opened when the time of the option has passed. A tick of the background looks at the
//! clock, and so does each slow path. While it is shut, no path counts anything.

use crate::base::os;
use crate::base::sync::{AtomicU32, Ordering};
use crate::engine::random::random;
use crate::engine::route::{self, Guarding};
use crate::percpu::{self, area::PERCPU};
use ashlar_macros::place;

/// The largest count of the option.
pub(crate) const MOST_INTERVAL: usize = 1 << 24;
/// The longest time of the option: an hour.
pub(crate) const MOST_MS: usize = 3_600_000;
/// Calls for objects that are not to be guarded which may pass the open gate, before it is shut
/// without a sample: while it is open, each call takes its slow path.
const PASSING: u32 = 1000;

/// Allocations from one sample to the next on average; 0 if they are not counted.
static INTERVAL: AtomicU32 = AtomicU32::new(0);
/// The least milliseconds from one sample to the next; 0 if allocations are counted.
static EVERY_MS: AtomicU32 = AtomicU32::new(0);
/// When the gate was opened last. It wraps around.
static OPENED_MS: AtomicU32 = AtomicU32::new(0);
/// Calls that may still pass the open gate; 0 while it is shut.
static OPEN: AtomicU32 = AtomicU32::new(0);

/// Whether the option is on.
#[inline]
pub(crate) fn is_on() -> bool {
    INTERVAL.load(Ordering::Relaxed) != 0 || is_timed()
}

/// Whether a gate decides, and no count.
#[inline]
pub(crate) fn is_timed() -> bool {
    EVERY_MS.load(Ordering::Relaxed) != 0
}

/// Starts sampling.
#[place(cold)]
pub(super) fn start(guarding: Guarding) {
    match guarding {
        Guarding::Off => {}
        Guarding::Count(interval) => {
            INTERVAL.store(interval, Ordering::Release);
            restart_counts();
        }
        Guarding::Every(ms) => {
            OPENED_MS.store(os::now_ms() as u32, Ordering::Relaxed);
            EVERY_MS.store(ms, Ordering::Release);
        }
    }
}

/// Starts the counts of all CPUs, if there are some. A profile has used them for its own.
#[place(cold)]
pub(crate) fn restart_counts() {
    if INTERVAL.load(Ordering::Relaxed) != 0 {
        for cpu in percpu::all_cpus() {
            PERCPU.sample_budget(cpu).store(gap(), Ordering::Relaxed);
        }
    }
}

/// Returns the number of allocations up to the next sample: one of 0 to `2 * INTERVAL - 2`, each
/// as likely.
#[place(cold)]
fn gap() -> u32 {
    let interval = INTERVAL.load(Ordering::Relaxed);
    random(2 * interval as usize - 1) as u32
}

/// Counts an allocation that no fast path counted, or has it go through the gate. Returns whether
/// it is to be guarded.
#[place(cold)]
#[inline(never)]
pub(crate) fn is_due() -> bool {
    if is_timed() {
        return OPEN.load(Ordering::Relaxed) != 0 && OPEN.swap(0, Ordering::Relaxed) != 0;
    }
    if route::is_watched_by(route::Watcher::Profile) {
        return random(INTERVAL.load(Ordering::Relaxed) as usize) == 0;
    }
    let budget = PERCPU.sample_budget(percpu::this_cpu());
    if budget.fetch_sub(1, Ordering::Relaxed) as i32 >= 1 {
        return false;
    }
    budget.store(gap(), Ordering::Relaxed);
    true
}

/// As [`is_due`], for a call that takes its slow path each time. One that opens the gate does not
/// go through it.
#[place(cold)]
pub(crate) fn is_due_now() -> bool {
    let is_due = is_due();
    open_in_time();
    is_due
}

/// Whether the gate is open.
#[place(cold)]
pub(crate) fn is_open() -> bool {
    OPEN.load(Ordering::Relaxed) != 0
}

/// Opens the gate if the time has come.
#[place(cold)]
#[inline(never)]
pub(crate) fn open_in_time() {
    let (every, opened) = (EVERY_MS.load(Ordering::Relaxed), OPENED_MS.load(Ordering::Relaxed));
    if every == 0 {
        return;
    }
    let now = os::now_ms() as u32;
    // The thread that wins the exchange opens the gate.
    if now.wrapping_sub(opened) >= every
        && OPENED_MS.compare_exchange(opened, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        OPEN.store(PASSING, Ordering::Relaxed);
    }
}

/// An allocation that is not to be guarded passes the gate.
#[place(cold)]
pub(crate) fn pass_by() {
    // A count that another thread changed meanwhile stays as that one left it.
    let open = OPEN.load(Ordering::Relaxed);
    if open != 0 {
        let _ = OPEN.compare_exchange(open, open - 1, Ordering::Relaxed, Ordering::Relaxed);
    }
}
