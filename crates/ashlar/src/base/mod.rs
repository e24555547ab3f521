//! Layer 0, base: numbers, atomics and locks, errors, reports, and the system.
//!
//! Knows nothing of pages, slabs or caches.
//!
//! * [`units`]: pages, orders, nodes, CPUs, and the sizes that all layers share.
//! * [`sync`]: the only door to atomics and locks; loom stands behind it in models.
//! * [`error`]: what the interface returns when something cannot be done.
//! * [`report`]: lines on standard error, written without allocating.
//! * [`source`]: `PageSource`, the seam to whatever gives address space and memory.
//! * `os`: the calls to Linux, and its page source.
//! * [`background`]: work that is done now and then, by a thread or by calls of the program.

#[cfg(all(feature = "os", not(ashlar_loom)))]
pub(crate) mod background;
/// Without an operating system there is neither thread nor clock: programs call [`crate::reap`]
/// themselves.
#[cfg(not(any(feature = "os", ashlar_loom)))]
pub(crate) mod background {
    pub(crate) fn wake() {}
    pub(crate) fn settle() {}
    pub(crate) fn after_fork_in_child() {}
}
#[cfg(not(ashlar_loom))]
pub(crate) mod error;
#[cfg(all(feature = "os", not(ashlar_loom)))]
pub(crate) mod os;
#[cfg(not(ashlar_loom))]
pub(crate) mod report;
#[cfg(not(ashlar_loom))]
pub(crate) mod source;
pub(crate) mod sync;
pub(crate) mod units;
