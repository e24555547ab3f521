//! The number of threads that the program made: see `threads`.

use core::sync::atomic::{AtomicU32, Ordering};

/// Threads that the program made and that have not ended.
pub(crate) static LIVE: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork no thread but the one that forked is left.
pub(crate) fn after_fork_in_child() {
    LIVE.store(0, Ordering::Relaxed);
}
