//! [`CpuWord`]: who may use the slots of one CPU, where sections are plain code under a kernel.
//!
//! A section of the CPU runs with interrupts off and no locked instruction, so nothing of it keeps
//! another CPU away. Instead it looks at this word first, and leaves unless the word is 0. A CPU
//! that wants the slots of another raises the *stops* in the word, and has to know then that no
//! section runs there which began before: by a fence of the platform, or because the CPU is dead.
//!
//! | bits | |
//! |---|---|
//! | 0..30 | the stops: the number of drains that keep sections away |
//! | 30 | a drain could not reach the CPU, which is asked to empty its slots itself |
//! | 31 | the CPU is dead: it does not run |
//!
//! One word holds all three. So a drain that finds the CPU dead has kept its sections away before
//! the CPU can come back.

use crate::base::sync::{AtomicU32, Ordering};

const ASKED: u32 = 1 << 30;
const DEAD: u32 = 1 << 31;

/// The word of one CPU; see the module. Zeros are a CPU whose sections may run.
pub(crate) struct CpuWord(AtomicU32);

impl CpuWord {
    /// Whether a section may use the slots. The section has begun on this CPU.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        // Acquire: what the last drain wrote to the slots comes before what the section reads.
        self.0.load(Ordering::Acquire) == 0
    }

    /// Keeps sections that begin later away. Returns true if the CPU is dead, so that no section
    /// that began before runs either.
    pub(crate) fn stop(&self) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst) & DEAD != 0
    }

    /// Undoes one [`Self::stop`].
    pub(crate) fn resume(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Asks the CPU to empty its slots. Which ones was written before.
    pub(crate) fn ask(&self) {
        self.0.fetch_or(ASKED, Ordering::SeqCst);
    }

    /// Returns whether the CPU was asked, and takes the request away.
    #[inline]
    pub(crate) fn take_request(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ASKED != 0 && self.0.fetch_and(!ASKED, Ordering::SeqCst) & ASKED != 0
    }

    /// Notes that the CPU does not run any more.
    pub(crate) fn set_dead(&self) {
        self.0.fetch_or(DEAD, Ordering::SeqCst);
    }

    /// Notes that the CPU is about to run.
    pub(crate) fn set_online(&self) {
        self.0.fetch_and(!DEAD, Ordering::SeqCst);
    }

    #[cfg(ashlar_loom)]
    pub(crate) fn new() -> CpuWord {
        CpuWord(AtomicU32::new(0))
    }
}
