//! Who allocated or freed an object: the kernel's `struct track`.

use ashlar_macros::place;

/// Most return addresses that are kept (the kernel's `TRACK_ADDRS_COUNT`).
pub(crate) const FRAMES: usize = 16;

/// Who did something to an object, and when. It lies in the slab behind the object, so a program
/// may have overwritten it: every value of every field is allowed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Track {
    /// Return addresses, innermost first, from the program's on; 0 behind the last one.
    pub(crate) frames: [usize; FRAMES],
    /// The thread's number in the system.
    pub(crate) thread: u32,
    pub(crate) cpu: u32,
    /// Milliseconds of the monotonic clock; 0 if it never happened.
    pub(crate) at_ms: u64,
}

impl Track {
    pub(crate) const NONE: Track = Track { frames: [0; FRAMES], thread: 0, cpu: 0, at_ms: 0 };

    /// Returns the track of the calling thread at this moment. The backtrace is empty until the
    /// unwinder is loaded.
    #[cfg(feature = "os")]
    #[place(cold)]
    #[inline(never)]
    pub(crate) fn here(backtrace: bool) -> Track {
        use crate::base::os;
        let (thread, cpu) = (os::kernel_thread_id(), os::current_cpu());
        let mut track = Track { thread, cpu, at_ms: os::now_ms(), ..Self::NONE };
        if backtrace {
            os::capture_of_program(&mut track.frames);
        }
        track
    }

    /// Without a system there is no more to say than that it happened.
    #[cfg(not(feature = "os"))]
    #[place(cold)]
    pub(crate) fn here(_backtrace: bool) -> Track {
        Track { at_ms: 1, ..Self::NONE }
    }

    /// Whether it ever happened.
    pub(crate) fn is_some(&self) -> bool {
        self.at_ms != 0
    }

    /// Returns the return addresses.
    pub(crate) fn frames(&self) -> impl Iterator<Item = usize> {
        self.frames.into_iter().take_while(|&frame| frame != 0)
    }
}
