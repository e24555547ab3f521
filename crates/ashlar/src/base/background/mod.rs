//! Giving memory back on time: by a thread where there is one, else by the calls of the program.
//!
//! The cache layer registers a [`Job`]. [`wake`] notes that there is work for it, under any lock;
//! [`settle`], called at the end of slow operations without a lock, sees to the work:
//!
//! | the process has | the work is done |
//! |---|---|
//! | the background thread | by the thread, each [`TICK_MS`] until it has nothing left to do; then it sleeps |
//! | no such thread | by the calls themselves: a tick when one is due, and at once what is much |
//!
//! ## When there is a thread
//! [`start`] makes it and [`stop`] ends it. Both are for calls of the program that may make
//! threads: an allocation may come from inside the C library, under locks that making a thread
//! takes too. So no allocation starts the thread. The malloc library calls [`start`] from the
//! program's own `pthread_create`, and [`stop`] when the last thread that the program made has
//! ended: a program that is single-threaded on its own stays so.
//!
//! The thread is detached and named `ashlar-reaper`. All signals are blocked in it. It has the
//! ordinary scheduling policy, and it follows `setuid` and the like, because the C library knows
//! it.
//!
//! Without an operating system there is neither thread nor clock: such programs call
//! [`crate::reap`] themselves.

mod calls;
mod thread;

pub(crate) use thread::{start, stop};

use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};

/// Milliseconds between two ticks.
pub(crate) const TICK_MS: u32 = 250;

/// What there is to do. Set once, by the boot.
pub(crate) struct Job {
    /// Does a tick's work; returns true while there is more to come.
    pub(crate) tick: fn() -> bool,
    /// Gives back at once what is much, for a process without the thread; called with the time in
    /// milliseconds.
    pub(crate) trim: fn(u32),
}

static JOB: AtomicUsize = AtomicUsize::new(0);

/// Whether there is work; see [`wake`].
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Registers the job.
pub(crate) fn enable(job: &'static Job) {
    JOB.store(core::ptr::from_ref(job) as usize, Ordering::Release);
}

#[expect(unsafe_code, reason = "turns the stored address back into a reference")]
fn job() -> Option<&'static Job> {
    // SAFETY: null, or what `enable` stored: the address of a job that lives for ever and is never
    // written.
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
    if thread::is_running() {
        thread::rouse();
    } else {
        calls::work();
    }
}

/// In the child of a fork there is no such thread.
pub(crate) fn after_fork_in_child() {
    thread::after_fork_in_child();
}
