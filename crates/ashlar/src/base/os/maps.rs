//! Finds the file that an address lies in, for reports: a walk over `/proc/self/maps`.
//!
//! The loader's own table would need a lock of the loader.

use syscalls::{Sysno, syscall};

/// Most bytes of a name that are kept.
const NAME: usize = 64;
/// Bytes that are read at a time; longer lines are cut.
const CHUNK: usize = 1024;

/// A place in a file that is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilePlace {
    name: [u8; NAME],
    len: usize,
    /// Bytes from the start of the file.
    pub(crate) offset: usize,
}

impl FilePlace {
    /// Returns the last part of the file's path, or `?` if it is no text.
    pub(crate) fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.len]).unwrap_or("?")
    }
}

/// Returns the file and the place in it of `address`; `None` if no file is mapped there.
#[place(cold)]
#[inline(never)]
pub(crate) fn file_of(address: usize) -> Option<FilePlace> {
    let (path, flags) = (c"/proc/self/maps", libc::O_RDONLY | libc::O_CLOEXEC);
    // SAFETY: the path is NUL-terminated.
    let file = unsafe { syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) }.ok()?;
    let found = search(file, address);
    // SAFETY: the descriptor was opened above.
    let _ = unsafe { syscall!(Sysno::close, file) };
    found
}

#[place(cold)]
fn search(file: usize, address: usize) -> Option<FilePlace> {
    let mut bytes = [0u8; CHUNK];
    let mut len = 0;
    loop {
        // SAFETY: the range lies in the buffer.
        let got = unsafe { syscall!(Sysno::read, file, bytes.as_mut_ptr().add(len), CHUNK - len) }.ok()?;
        len += got;
        let mut start = 0;
        while let Some(end) = bytes[start..len].iter().position(|&byte| byte == b'\n') {
            if let Some(found) = place_in(&bytes[start..start + end], address) {
                return found;
            }
            start += end + 1;
        }
        if got == 0 {
            return None;
        }
        // A line as long as the buffer is of no use.
        if start == 0 && len == CHUNK {
            start = len;
        }
        bytes.copy_within(start..len, 0);
        len -= start;
    }
}

/// Reads a number. The standard library's function would lie where every program has it resident.
#[place(cold)]
fn hex(text: &[u8]) -> Option<usize> {
    let digit = |&byte: &u8| char::from(byte).to_digit(16);
    let add = |sum: usize, digit: u32| sum.checked_mul(16)?.checked_add(digit as usize);
    let number = text.iter().try_fold(0, |sum, byte| add(sum, digit(byte)?))?;
    (!text.is_empty()).then_some(number)
}

/// Looks at a line: `Some` if it is that of the address, with its file if it has one.
#[place(cold)]
fn place_in(line: &[u8], address: usize) -> Option<Option<FilePlace>> {
    let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    let addresses = fields.next()?;
    let dash = addresses.iter().position(|&byte| byte == b'-')?;
    let (start, end) = (hex(&addresses[..dash])?, hex(&addresses[dash + 1..])?);
    if !(start..end).contains(&address) {
        return None;
    }
    let mapped_from = hex(fields.nth(1)?)?;
    let Some(slash) = line.iter().rposition(|&byte| byte == b'/') else { return Some(None) };
    let path = &line[slash + 1..];
    let mut place = FilePlace { name: [0; NAME], len: path.len().min(NAME), offset: address - start + mapped_from };
    place.name[..place.len].copy_from_slice(&path[..place.len]);
    Some(Some(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files_and_of_others_are_told_apart() {
        let line = b"7f00a000-7f00c000 r-xp 00003000 08:01 1234    /usr/lib/lib m.so (deleted)";
        let found = place_in(line, 0x7f00_a010).expect("its line").expect("a file");
        assert_eq!((found.name(), found.offset), ("lib m.so (deleted)", 0x3010));
        assert!(place_in(line, 0x7f00_c000).is_none());
        assert!(place_in(b"7f00a000-7f00c000 rw-p 00000000 00:00 0", 0x7f00_b000).expect("its line").is_none());
        for bad in [b"".as_slice(), b"x", b"1-", b"1-2", b"0-ffff r-xp \xff 0 0 /a"] {
            assert!(place_in(bad, 1).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn this_function_lies_in_the_program_of_the_test() {
        let here = file_of(this_function_lies_in_the_program_of_the_test as *const () as usize).expect("a file");
        let program = std::env::current_exe().expect("a program");
        let name = program.file_name().expect("a name").to_str().expect("text");
        assert!(name.starts_with(here.name()), "{} of {name}", here.name());
        let local = 0;
        assert!(file_of(&raw const local as usize).is_none(), "the stack is no file");
    }
}
