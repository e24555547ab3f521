//! The life of a thread that some threads start and others end, such as the background thread.
//!
//! One word serialises [`Life::start`] and [`Life::stop`]; no lock is held. `stop` leaves a thread
//! alone that another call is creating. So where threads start and stop it by a common condition,
//! they must use [`follow`], which looks at the condition again afterwards.

use super::{AtomicU32, Ordering, fence};

/// State of the thread.
///
/// | state | meaning | left by |
/// |---|---|---|
/// | none | there is no thread | `start` |
/// | starting | it is being created | `start` |
/// | running | it works or sleeps | `stop` |
/// | ending | it was told to end | the thread itself, as its last step |
/// | ended | it is about to exit; the kernel still has it | `stop` |
pub(crate) struct Life(AtomicU32);

const NONE: u32 = 0;
const STARTING: u32 = 1;
pub(crate) const RUNNING: u32 = 2;
const ENDING: u32 = 3;
const ENDED: u32 = 4;

impl Life {
    #[cfg(not(ashlar_loom))]
    pub(crate) const fn new() -> Life {
        Life(AtomicU32::new(NONE))
    }
    #[cfg(ashlar_loom)]
    pub(crate) fn new() -> Life {
        Life(AtomicU32::new(NONE))
    }

    /// Returns the word, for a reader outside of the process.
    #[cfg(not(ashlar_loom))]
    #[place(cold)]
    pub(crate) fn word(&self) -> *const u32 {
        self.0.as_ptr()
    }

    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.0.load(Ordering::Relaxed) == RUNNING
    }

    /// Creates the thread by `make`, which returns false if it could not. Returns whether the
    /// thread exists on return, or is being created by another call.
    pub(crate) fn start(&self, make: impl FnOnce() -> bool) -> bool {
        let mut waited = 0;
        loop {
            match self.0.compare_exchange(NONE, STARTING, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => break,
                Err(RUNNING | STARTING) => return true,
                // The states ending and ended last for moments only.
                Err(_) => relax(&mut waited),
            }
        }
        let made = make();
        self.0.store(if made { RUNNING } else { NONE }, Ordering::Release);
        made
    }

    /// Ends the thread, if it is running. `tell` wakes it, and `gone` waits until the kernel no
    /// longer has it.
    pub(crate) fn stop(&self, tell: impl FnOnce(), gone: impl FnOnce()) {
        if self.0.compare_exchange(RUNNING, ENDING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        tell();
        let mut waited = 0;
        while self.0.load(Ordering::Acquire) != ENDED {
            relax(&mut waited);
        }
        gone();
        self.0.store(NONE, Ordering::Release);
    }

    /// Returns whether the thread was told to end.
    pub(crate) fn is_to_end(&self) -> bool {
        self.0.load(Ordering::SeqCst) == ENDING
    }

    /// Notes that the thread ends. Its last step.
    pub(crate) fn ended(&self) {
        self.0.store(ENDED, Ordering::Release);
    }

    /// Notes that the child of a fork does not have the thread.
    pub(crate) fn after_fork_in_child(&self) {
        self.0.store(NONE, Ordering::Relaxed);
    }
}

/// Starts or ends a thread by `obey`, so that in the end it is there if, and only if, `wanted`.
/// Must be called after each change of `wanted`. Threads that change it at the same time call this
/// at the same time, and the last of them sees the final value.
///
/// No change is lost. One side writes `wanted`, then looks at the state of the [`Life`]; the other
/// writes the state, then looks at `wanted`. On both sides a fence lies between the two, so one of
/// them at least sees the other.
pub(crate) fn follow(wanted: impl Fn() -> bool, obey: impl Fn(bool)) {
    fence(Ordering::SeqCst);
    loop {
        let seen = wanted();
        obey(seen);
        fence(Ordering::SeqCst);
        if wanted() == seen {
            return;
        }
    }
}

fn relax(waited: &mut u32) {
    *waited += 1;
    #[cfg(not(ashlar_loom))]
    super::relax(*waited);
    #[cfg(ashlar_loom)]
    loom::thread::yield_now();
}
