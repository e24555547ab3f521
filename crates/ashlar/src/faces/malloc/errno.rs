//! The C library's error number of this thread.
#![allow(unsafe_code, reason = "calls the C library")]

#[cfg(feature = "os")]
mod number {
    pub(crate) use libc::{EINVAL, ENOMEM};

    pub(crate) fn get() -> i32 {
        // SAFETY: the C library returns the address of this thread's errno, which is always valid.
        unsafe { *libc::__errno_location() }
    }

    pub(crate) fn set(value: i32) {
        // SAFETY: as in `get`.
        unsafe { *libc::__errno_location() = value };
    }
}
/// Without a C library there is no error number.
#[cfg(not(feature = "os"))]
mod number {
    pub(crate) const EINVAL: i32 = 22;
    pub(crate) const ENOMEM: i32 = 12;

    pub(crate) fn get() -> i32 {
        0
    }

    pub(crate) fn set(_value: i32) {}
}
pub(super) use number::{EINVAL, ENOMEM, get, set};
