//! Copies in memory of kmalloc, as the kernel declares them in `linux/string.h`.

use core::ffi::{c_char, c_void};

use crate::flags::gfp_t;
use crate::kmalloc::kmalloc;

/// Copies `len` bytes and, if `end` is true, a zero byte behind them.
unsafe fn copy(src: *const c_void, len: usize, end: bool, flags: gfp_t) -> *mut c_void {
    // No object, and so no string, is longer than PTRDIFF_MAX bytes, so adding 1 does not overflow.
    let new = kmalloc(len + usize::from(end), flags);
    if !new.is_null() && len + usize::from(end) > 0 {
        // SAFETY: the callers promise `len` readable bytes. The new memory holds them and the zero
        // byte.
        unsafe {
            new.cast::<u8>().copy_from_nonoverlapping(src.cast(), len);
            if end {
                new.cast::<u8>().add(len).write(0);
            }
        }
    }
    new
}

/// Returns a copy of `len` bytes. Returns NULL with errno ENOMEM without memory, EINVAL for bad
/// flags.
///
/// # Safety
/// `src` is readable for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmemdup(src: *const c_void, len: usize, gfp: gfp_t) -> *mut c_void {
    // SAFETY: by the caller's promise.
    unsafe { copy(src, len, false, gfp) }
}

/// Returns a copy of `len` bytes with a zero byte behind them; NULL for NULL. Fails as kmemdup
/// does.
///
/// # Safety
/// `s` is null, or readable for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmemdup_nul(s: *const c_char, len: usize, gfp: gfp_t) -> *mut c_char {
    if s.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: by the caller's promise.
    unsafe { copy(s.cast(), len, true, gfp).cast() }
}

/// Returns a copy of a string; NULL for NULL. Fails as kmemdup does.
///
/// # Safety
/// `s` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kstrdup(s: *const c_char, gfp: gfp_t) -> *mut c_char {
    if s.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: a string, by the caller's promise.
    unsafe { copy(s.cast(), libc::strlen(s), true, gfp).cast() }
}

/// Returns a copy of the first `max` bytes of a string, or of the whole string if it is shorter,
/// with a zero byte behind them; NULL for NULL. Fails as kmemdup does.
///
/// # Safety
/// `s` is null, a string, or readable for `max` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kstrndup(s: *const c_char, max: usize, gfp: gfp_t) -> *mut c_char {
    if s.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: a string or `max` readable bytes, by the caller's promise.
    unsafe { copy(s.cast(), libc::strnlen(s, max), true, gfp).cast() }
}
