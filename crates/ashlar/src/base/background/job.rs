//! The work of the background, and the note that there is some.

use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};

/// Milliseconds between two ticks.
pub(crate) const TICK_MS: u32 = 250;

/// The work of the background thread. Start-up sets it once.
pub(crate) struct Job {
    /// Does the work of one tick. Returns true if more is left.
    pub(crate) tick: fn() -> bool,
    /// Trims large surpluses at once, in a process without the thread. Takes the time in
    /// milliseconds.
    pub(crate) trim: fn(u32),
}

static JOB: AtomicUsize = AtomicUsize::new(0);
/// What a slow path does where there is no job: a function, or 0.
static WITHOUT_JOB: AtomicUsize = AtomicUsize::new(0);

/// Nonzero while there is work; see [`wake`]. A tool that wrote to the mailbox sets it to
/// [`ASKED`].
pub(super) static WANTED: AtomicU32 = AtomicU32::new(0);

/// What a tool writes to `WANTED`.
pub(super) const ASKED: u32 = crate::base::window::ASKED;

/// Returns the address of `WANTED`, for a reader outside of the process.
#[ashlar_macros::place(cold)]
pub(crate) fn wanted_word() -> usize {
    (&raw const WANTED).addr()
}

/// Registers the job.
pub(crate) fn enable(job: &'static Job) {
    JOB.store(core::ptr::from_ref(job) as usize, Ordering::Release);
}

/// Registers the function that slow paths call if no job does, once a tool asked for something.
#[ashlar_macros::place(cold)]
pub(crate) fn enable_without_job(work: fn()) {
    WITHOUT_JOB.store(work as usize, Ordering::Release);
}

/// Does the work that a tool noted where there is no job.
#[inline(never)]
#[ashlar_macros::place(background)]
#[expect(unsafe_code, reason = "calls back by a stored address")]
pub(super) fn work_without_job() {
    WANTED.store(0, Ordering::SeqCst);
    let work = WITHOUT_JOB.load(Ordering::Acquire);
    if work != 0 {
        // SAFETY: only `enable_without_job` stores here, and only values of this function type.
        let work = unsafe { core::mem::transmute::<*const (), fn()>(core::ptr::with_exposed_provenance(work)) };
        work();
    }
}

#[expect(unsafe_code, reason = "turns the stored address back into a reference")]
pub(super) fn job() -> Option<&'static Job> {
    // SAFETY: the pointer is null, or `enable` stored it. Then it points to a `'static` job that is
    // never written.
    unsafe { (JOB.load(Ordering::Acquire) as *const Job).as_ref() }
}

/// Notes that there is work. Callers may hold locks; [`settle`](super::settle) gets the work done.
#[inline]
pub(crate) fn wake() {
    if WANTED.load(Ordering::Relaxed) == 0 && JOB.load(Ordering::Relaxed) != 0 {
        WANTED.store(1, Ordering::SeqCst);
    }
}
