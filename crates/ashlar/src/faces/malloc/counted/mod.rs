//! The fast path of `malloc` while a profile runs: that of [`entry`](super::entry), which also
//! counts the bytes that this CPU hands out (see [`crate::sizes::profile`]). For guard sampling it
//! counts calls (see [`crate::sizes::guarded`]).
//!
//! The count is stored before the commit. An abort between the two leaves it, and the bytes are
//! counted once more. An object with which the count would fall below zero is left to the slow
//! path, which counts it.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::malloc_slow;
#[cfg(target_arch = "x86_64")]
pub use x86_64::malloc_slow;
