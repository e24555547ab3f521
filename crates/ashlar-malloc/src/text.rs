//! Output text, built on the stack.

use core::fmt;

use syscalls::{Sysno, syscall};

/// Passes text to `put` in pieces of up to 512 bytes.
pub(crate) struct Text<F: FnMut(&[u8])> {
    bytes: [u8; 512],
    len: usize,
    put: F,
}

impl<F: FnMut(&[u8])> Text<F> {
    pub(crate) fn new(put: F) -> Self {
        Text { bytes: [0; 512], len: 0, put }
    }

    /// Passes the rest to `put`.
    pub(crate) fn flush(&mut self) {
        (self.put)(&self.bytes[..self.len]);
        self.len = 0;
    }
}

#[place(cold)]
impl<F: FnMut(&[u8])> fmt::Write for Text<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(self.bytes.len()) {
            if self.len + piece.len() > self.bytes.len() {
                self.flush();
            }
            self.bytes[self.len..self.len + piece.len()].copy_from_slice(piece);
            self.len += piece.len();
        }
        Ok(())
    }
}

/// Writes to standard error. Ignores failures, because there is no place to report them. Uses the
/// bare system call, because the C library's `write` is a cancellation point.
pub(crate) fn to_stderr(bytes: &[u8]) {
    // SAFETY: the buffer is readable for its length.
    let _ = unsafe { syscall!(Sysno::write, 2, bytes.as_ptr(), bytes.len()) };
}
