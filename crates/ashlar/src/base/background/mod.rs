//! Returns unused memory on time, by a background thread or by calls of the program.
//!
//! Start-up registers a [`Job`]. [`wake`] notes that there is work for it; its callers may
//! hold locks. [`settle`], called without a lock at the end of slow operations, gets the work done:
//!
//! | the process has | the work is done |
//! |---|---|
//! | the background thread | by the thread, every [`TICK_MS`] until none is left; then it sleeps |
//! | no such thread | by the calls: a tick when one is due, and a trim of large surpluses at once |
//!
//! ## Life of the thread
//! [`start`] creates the thread and [`stop`] ends it. The caller must be in a call of the program
//! that may create threads. An allocation is not such a call, because it may come from inside the C
//! library, under locks that the creation of a thread takes too. The preloaded library calls
//! [`start`] from the program's own `pthread_create`. It calls [`stop`] when the last thread that
//! the program created has ended, so that a single-threaded program stays single-threaded.
//!
//! The thread is detached, is named `ashlar-reaper`, has all signals blocked, and runs under the
//! ordinary scheduling policy. The C library knows the thread, so `setuid` and similar calls reach
//! it.
//!
//! Without an operating system there is neither thread nor clock, so programs call [`crate::reap`].

mod calls;
mod job;
mod thread;

pub(crate) use calls::put_off;
pub(crate) use job::{Job, TICK_MS, enable, enable_without_job, wake, wanted_word};
pub(crate) use thread::{is_this_thread, start, stop, words};

use crate::base::sync::Ordering;
use job::{ASKED, WANTED};

/// Gets the work done that [`wake`] noted. Called without a lock, at the end of an operation.
#[inline]
pub(crate) fn settle() {
    if WANTED.load(Ordering::Relaxed) != 0 {
        see_to();
    }
}

/// As [`settle`], for work that a tool asked for. Allocations call this: a program that frees
/// nothing must answer a tool, too, but free pages are not trimmed while they are taken.
#[inline]
pub(crate) fn settle_letter() {
    if WANTED.load(Ordering::Relaxed) >= ASKED {
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

/// Notes that the child of a fork has no background thread.
pub(crate) fn after_fork_in_child() {
    calls::after_fork_in_child();
    thread::after_fork_in_child();
}
