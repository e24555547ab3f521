//! Reports failures to C: by `errno`, and by a line on standard error for a bug of the caller.

use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};

use syscalls::{Sysno, syscall};

/// Sets this thread's `errno`.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library returns the address of this thread's errno, which is always valid.
    unsafe { *libc::__errno_location() = value };
}

/// Sets `errno` and returns a null pointer.
pub(crate) fn null(errno: c_int) -> *mut c_void {
    set_errno(errno);
    core::ptr::null_mut()
}

/// A line of text on the stack, truncated at its capacity.
pub(crate) struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    pub(crate) const fn new() -> Line {
        Line { bytes: [0; 256], len: 0 }
    }

    /// Returns the bytes written so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let take = text.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + take].copy_from_slice(&text.as_bytes()[..take]);
        self.len += take;
        Ok(())
    }
}

/// Prints `ashlar: ` and the arguments as one line.
#[cold]
pub(crate) fn warn(args: fmt::Arguments<'_>) {
    let mut line = Line::new();
    // A line never fails: what is too long is cut off.
    let _ = writeln!(line, "ashlar: {args}");
    // The bare system call is used, because the C library's `write` is a cancellation point. There
    // is no place to report a failure.
    // SAFETY: the buffer is readable for its length.
    let _ = unsafe { syscall!(Sysno::write, 2, line.bytes().as_ptr(), line.bytes().len()) };
}

/// Prints a line and ends the program by SIGABRT, as a panic of the kernel does.
#[cold]
pub(crate) fn panic(args: fmt::Arguments<'_>) -> ! {
    warn(args);
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}
