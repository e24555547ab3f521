//! How C learns of failures: `errno`, and one line on standard error for what is a bug of the
//! caller's.

use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};

use syscalls::{Sysno, syscall};

/// Sets this thread's `errno`.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the C library gives the address of this thread's errno, which is always valid.
    unsafe { *libc::__errno_location() = value };
}

/// A null pointer, and why.
pub(crate) fn null(errno: c_int) -> *mut c_void {
    set_errno(errno);
    core::ptr::null_mut()
}

/// A line on the stack; what does not fit is cut off.
pub(crate) struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    pub(crate) const fn new() -> Line {
        Line { bytes: [0; 256], len: 0 }
    }

    /// What was written so far.
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
    // The bare system call, because the C library's is a cancellation point. There is no place to
    // report a failure.
    // SAFETY: the buffer is readable for its length.
    let _ = unsafe { syscall!(Sysno::write, 2, line.bytes().as_ptr(), line.bytes().len()) };
}

/// Prints a line and ends the program by SIGABRT: what the kernel calls a panic.
#[cold]
pub(crate) fn panic(args: fmt::Arguments<'_>) -> ! {
    warn(args);
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}
