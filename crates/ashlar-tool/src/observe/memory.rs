//! Bounded reads of the memory of another process.

use core::cell::Cell;
use core::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

/// Why a process could not be read to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    /// It ended, or became another program.
    Ended,
    /// An address that its structures name is not mapped.
    Unmapped(u64),
    /// A number that cannot be right.
    Nonsense(&'static str),
    /// Its structures ask for more reads than the process can need.
    TooMuch,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("it ended while it was read"),
            Self::Unmapped(at) => write!(f, "its counters are corrupt: nothing is mapped at {at:#x}"),
            Self::Nonsense(what) => write!(f, "its counters are corrupt: {what}"),
            Self::TooMuch => f.write_str("its counters are corrupt: there is no end to them"),
        }
    }
}

/// The memory of a process.
pub(super) trait Memory {
    /// Fills `into` from the address `at` on.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), ReadError>;
}

/// `/proc/PID/mem`. The file stays that of the program for which it was opened.
impl Memory for File {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), ReadError> {
        // Larger offsets are negative for the kernel, and no address of a program is.
        if at.checked_add(into.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
            return Err(ReadError::Unmapped(at));
        }
        self.read_exact_at(into, at).map_err(|error| match error.kind() {
            // The address space is gone.
            ErrorKind::UnexpectedEof => ReadError::Ended,
            _ if error.raw_os_error() == Some(libc::ESRCH) => ReadError::Ended,
            _ => ReadError::Unmapped(at),
        })
    }
}

/// The fewest bytes that a read counts as, so that their number is bounded too.
const LEAST: u64 = 256;
/// The most bytes of one read.
const MOST: usize = 1 << 20;

/// Reads memory until a budget is used up.
pub(super) struct Reader<'a> {
    memory: &'a dyn Memory,
    left: Cell<u64>,
}

impl<'a> Reader<'a> {
    /// Reads at most `budget` bytes.
    pub(super) fn new(memory: &'a dyn Memory, budget: u64) -> Self {
        Reader { memory, left: Cell::new(budget) }
    }

    /// Fills `into` from the address `at` on.
    pub(super) fn fill(&self, at: u64, into: &mut [u8]) -> Result<(), ReadError> {
        let left = self.left.get().checked_sub(LEAST.max(into.len() as u64));
        self.left.set(left.ok_or(ReadError::TooMuch)?);
        self.memory.read(at, into)
    }

    /// Returns `len` bytes from the address `at` on.
    pub(super) fn bytes(&self, at: u64, len: usize) -> Result<Vec<u8>, ReadError> {
        if len > MOST {
            return Err(ReadError::Nonsense("a structure is too large"));
        }
        let mut bytes = vec![0; len];
        self.fill(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the word at an address.
    pub(super) fn word(&self, at: u64) -> Result<u64, ReadError> {
        let mut word = [0; 8];
        self.fill(at, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// Returns the 4 bytes at an address.
    pub(super) fn half(&self, at: u64) -> Result<u32, ReadError> {
        let mut half = [0; 4];
        self.fill(at, &mut half)?;
        Ok(u32::from_ne_bytes(half))
    }

    /// Returns the elements of a slice, each of `bytes` bytes. There may be `most` of them.
    pub(super) fn slice(&self, slice: Slice, bytes: u32, most: u64) -> Result<Vec<Vec<u8>>, ReadError> {
        if slice.len == 0 {
            return Ok(Vec::new());
        }
        if slice.len > most || !(1..=MAX_STRUCTURE).contains(&bytes) {
            return Err(ReadError::Nonsense("an array is too long"));
        }
        let all = self.bytes(slice.start, slice.len as usize * bytes as usize)?;
        Ok(all.chunks(bytes as usize).map(<[u8]>::to_vec).collect())
    }
}

/// The largest structure that the tool reads whole.
pub(super) const MAX_STRUCTURE: u32 = 4096;

/// A slice in the process: the address of its first element and their number.
#[derive(Clone, Copy)]
pub(super) struct Slice {
    start: u64,
    len: u64,
}

const OUTSIDE: ReadError = ReadError::Nonsense("a field lies outside of its structure");

/// The fields of a structure that was read.
pub(super) trait Fields {
    /// Returns `N` bytes at an offset.
    fn array<const N: usize>(&self, offset: u32) -> Result<[u8; N], ReadError>;

    fn byte(&self, offset: u32) -> Result<u8, ReadError> {
        self.array::<1>(offset).map(|[byte]| byte)
    }

    fn u16_at(&self, offset: u32) -> Result<u16, ReadError> {
        self.array(offset).map(u16::from_ne_bytes)
    }

    fn u32_at(&self, offset: u32) -> Result<u32, ReadError> {
        self.array(offset).map(u32::from_ne_bytes)
    }

    fn u64_at(&self, offset: u32) -> Result<u64, ReadError> {
        self.array(offset).map(u64::from_ne_bytes)
    }

    fn slice_at(&self, offset: u32) -> Result<Slice, ReadError> {
        Ok(Slice { start: self.u64_at(offset)?, len: self.u64_at(offset.checked_add(8).ok_or(OUTSIDE)?)? })
    }
}

impl Fields for [u8] {
    fn array<const N: usize>(&self, offset: u32) -> Result<[u8; N], ReadError> {
        let start = offset as usize;
        let bytes = start.checked_add(N).and_then(|end| self.get(start..end));
        bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(OUTSIDE)
    }
}

/// Returns text of the process without what could act on a terminal.
pub(super) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
