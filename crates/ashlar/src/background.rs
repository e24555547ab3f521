//! Giving memory back on time: by a thread where there is one, else by the calls of the program.
//!
//! The cache layer registers a [`Job`]. [`wake`] notes that there is work for it, under any lock; [`settle`], called
//! at the end of slow operations without a lock, sees to the work:
//!
//! | the process has | the work is done |
//! |---|---|
//! | the background thread | by the thread, each [`TICK_MS`] until it has nothing left to do; then it sleeps |
//! | no such thread | by the calls themselves: a tick when one is due, and at once what is much |
//!
//! ## When there is a thread
//! [`start`] makes it and [`stop`] ends it. Both are for calls of the program that may make threads: an allocation may
//! come from inside the C library, under locks that making a thread takes too. So no allocation starts the thread. The
//! malloc library calls [`start`] from the program's own `pthread_create`, and [`stop`] when the last thread that the
//! program made has ended: a program that is single-threaded on its own stays so.
//!
//! The thread is detached and named `ashlar-reaper`. All signals are blocked in it. It has the ordinary scheduling
//! policy, and it follows `setuid` and the like, because the C library knows it.
//!
//! Without an operating system there is neither thread nor clock: such programs call [`crate::reap`] themselves.

use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Milliseconds between two ticks.
pub(crate) const TICK_MS: u32 = 250;

/// What there is to do. Set once, by the boot.
pub(crate) struct Job {
    /// Does a tick's work; returns true while there is more to come.
    pub(crate) tick: fn() -> bool,
    /// Gives back at once what is much, for a process without the thread; called with the time in milliseconds.
    pub(crate) trim: fn(u32),
}

static JOB: AtomicUsize = AtomicUsize::new(0);

/// Whether there is work; see [`wake`].
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Registers the job.
pub(crate) fn enable(job: &'static Job) {
    JOB.store(core::ptr::from_ref(job) as usize, Ordering::Release);
}

#[cfg_attr(not(feature = "os"), expect(dead_code, reason = "only an operating system has a clock"))]
#[expect(unsafe_code, reason = "turns the stored address back into a reference")]
fn job() -> Option<&'static Job> {
    // SAFETY: null, or what `enable` stored: the address of a job that lives for ever and is never written.
    unsafe { (JOB.load(Ordering::Acquire) as *const Job).as_ref() }
}

/// Notes that there is work. Callers may hold locks: [`settle`] does the rest.
#[inline]
pub(crate) fn wake() {
    if WANTED.load(Ordering::Relaxed) == 0 && JOB.load(Ordering::Relaxed) != 0 {
        WANTED.store(1, Ordering::SeqCst);
    }
}

/// Sees to the work that [`wake`] noted. Called without a lock, at the end of an operation.
#[inline]
pub(crate) fn settle() {
    if WANTED.load(Ordering::Relaxed) != 0 {
        see_to();
    }
}

#[cold]
fn see_to() {
    #[cfg(feature = "os")]
    if thread::is_running() {
        thread::rouse();
    } else {
        calls::work();
    }
}

/// In the child of a fork there is no such thread.
pub(crate) fn after_fork_in_child() {
    #[cfg(feature = "os")]
    thread::after_fork_in_child();
}

#[cfg(feature = "os")]
pub(crate) use thread::{start, stop};

/// The work of a process without the thread, done by whichever call is there when it is due.
#[cfg(feature = "os")]
mod calls {
    use super::{AtomicU32, Ordering, TICK_MS, WANTED, job};

    /// Time of the last tick, in milliseconds; wraps around. 0 before there was work.
    static LAST: AtomicU32 = AtomicU32::new(0);

    pub(super) fn work() {
        let Some(job) = job() else { return };
        let (now, last) = (crate::os::now_ms() as u32, LAST.load(Ordering::Relaxed));
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
}

#[cfg(feature = "os")]
mod thread {
    use super::{AtomicU32, Ordering, TICK_MS, WANTED, job};
    use crate::os::thread::{self as os_thread, Create};
    use crate::sync::{relax, wait_while};

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

    /// Makes the thread, by `create`, which is the C library's `pthread_create`. True if there is one now; false when the
    /// system refused: then it may be tried again.
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

    extern "C" fn run(_: *mut libc::c_void) -> *mut libc::c_void {
        os_thread::begin(c"ashlar-reaper");
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
    /// A thread that notes work stores `WANTED`, then looks at `ASLEEP`; this one stores `ASLEEP`, then looks at `WANTED`. So one
    /// of them sees the other.
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
        let end = crate::os::now_ms() + u64::from(TICK_MS);
        loop {
            let seen = EVENTS.load(Ordering::SeqCst);
            if is_to_end() {
                return false;
            }
            let now = crate::os::now_ms();
            if now >= end {
                return true;
            }
            os_thread::wait(&EVENTS, seen, Some((end - now) as u32));
        }
    }
}
