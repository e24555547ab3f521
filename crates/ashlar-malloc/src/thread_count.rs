//! The number of threads that the program created; see `threads`.

use core::sync::atomic::{AtomicU32, Ordering};

/// Threads that the program created and that have not ended.
pub(crate) static LIVE: AtomicU32 = AtomicU32::new(0);

/// Resets the count in the child of a fork, where only the forking thread exists.
pub(crate) fn after_fork_in_child() {
    LIVE.store(0, Ordering::Relaxed);
}
