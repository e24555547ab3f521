//! How critical sections are protected in this process: chosen once, at start-up.

use core::fmt;

use crate::base::sync::{AtomicU8, Ordering};

/// How CPU-local sections are protected in this process; see the table of the module `percpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The allocator has not started.
    Down,
    /// Restartable sequences of the kernel.
    Rseq,
    /// A try-lock for each CPU.
    Lock,
    /// No protection, for one thread only: for tools that count instructions.
    Emulate,
    /// Plain code in sections that nothing else on the CPU interrupts: see
    /// [`Platform`](crate::Platform).
    #[cfg(not(feature = "os"))]
    Section,
}

#[place(cold)]
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Down => "down",
            Mode::Rseq => "rseq",
            Mode::Lock => "lock",
            Mode::Emulate => "emulate",
            #[cfg(not(feature = "os"))]
            Mode::Section => "section",
        })
    }
}

static MODE: AtomicU8 = AtomicU8::new(0);

/// Sets the mode. Start-up calls this once, before the gate opens.
pub(super) fn set(mode: Mode) {
    let number = match mode {
        Mode::Down => 0,
        Mode::Rseq => 1,
        Mode::Lock => 2,
        Mode::Emulate => 3,
        #[cfg(not(feature = "os"))]
        Mode::Section => 4,
    };
    MODE.store(number, Ordering::Relaxed);
}

/// Returns the mode in force.
#[inline]
pub(crate) fn mode() -> Mode {
    match MODE.load(Ordering::Relaxed) {
        1 => Mode::Rseq,
        2 => Mode::Lock,
        3 => Mode::Emulate,
        #[cfg(not(feature = "os"))]
        4 => Mode::Section,
        _ => Mode::Down,
    }
}
