//! Layer 0: numbers, atomics and locks, errors, reports, and the operating system.
//!
//! Does not depend on pages, slabs or caches.
//!
//! * [`units`]: pages, orders, nodes, CPUs, and the sizes that all layers share.
//! * [`sync`]: the only importer of atomics and locks; models replace them with loom's.
//! * [`error`]: the errors that the interface returns.
//! * [`report`]: lines on standard error, written without allocating.
//! * [`source`]: `PageSource`, the supplier of address space and memory.
//! * `os`: the calls to Linux, and its page source.
//! * `platform`: what the allocator asks of a kernel in the place of Linux.
//! * [`window`]: what a process shows of its allocator to a reader outside of it.
//! * [`mailbox`]: how a tool asks this process for something.
//! * [`background`]: periodic work, done by a thread or by calls of the program.

#[cfg(all(feature = "os", not(ashlar_loom)))]
pub(crate) mod background;
/// Without an operating system there is no thread, so programs call [`crate::reap`], or
/// `crate::poll`.
#[cfg(not(any(feature = "os", ashlar_loom)))]
pub(crate) mod background {
    /// Milliseconds between two ticks.
    pub(crate) const TICK_MS: u32 = 250;

    pub(crate) fn wake() {}
    pub(crate) fn settle() {}
    pub(crate) fn settle_letter() {}
    pub(crate) fn put_off<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
    pub(crate) fn after_fork_in_child() {}
}
pub(crate) mod error;
#[cfg(any(feature = "os", ashlar_loom))]
pub mod mailbox;
#[cfg(all(feature = "os", not(ashlar_loom)))]
pub(crate) mod os;
/// The kernel below; on Linux `os` is in its place.
#[cfg(not(any(feature = "os", ashlar_loom)))]
pub(crate) mod platform;
#[cfg(not(ashlar_loom))]
pub(crate) mod report;
pub(crate) mod source;
pub(crate) mod sync;
pub(crate) mod units;
#[cfg(all(feature = "os", not(ashlar_loom)))]
pub mod window;
