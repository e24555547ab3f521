//! What the workloads are made of: blocks from the C library's malloc, by its dynamic symbol, and
//! random numbers that are the same in every run.
//!
//! A block is written as soon as it exists and read again before it goes, because programs allocate
//! memory to use it. What was read goes into the checksum of the workload: a block that two owners
//! shared would change it.

use core::ptr::NonNull;

use crate::opaque::hide;

/// Blocks up to this many bytes are written in full; larger ones a word in each cache line.
const WRITTEN_IN_FULL: usize = 512;
/// Blocks from this many bytes on are written a word in each page: the cost of filling them is the
/// memory's, not the allocator's.
const PAGED: usize = 64 << 10;
/// Fewest bytes of a block: it holds its tag.
pub(crate) const LEAST: usize = 8;

/// Memory from malloc. It must be given back by [`Block::free`]; dropping it leaks, as in C.
#[derive(Debug)]
#[must_use]
pub(crate) struct Block {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: a block is the only owner of its memory, and malloc's memory belongs to no thread.
unsafe impl Send for Block {}

/// The workload cannot go on without memory, and must not allocate to say so.
#[cold]
fn no_memory() -> ! {
    let text = b"ashlar-workload: the allocator returned no memory\n";
    // SAFETY: `text` is live for its length; the call copies it.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    // SAFETY: ends the process at once; nothing is expected of its state.
    unsafe { libc::_exit(1) }
}

fn owned(pointer: *mut libc::c_void, size: usize) -> Block {
    match NonNull::new(hide(pointer.cast())) {
        Some(start) => Block { start, size },
        None => no_memory(),
    }
}

/// `malloc` and `free`; the memory is not looked at.
#[inline]
pub(crate) fn pair(size: usize) {
    // SAFETY: malloc takes any size.
    let block = owned(unsafe { libc::malloc(size) }, size);
    // SAFETY: just allocated, and known to no other code.
    unsafe { libc::free(block.start.as_ptr().cast()) };
}

/// Distance between two words that are written in a block of `size` bytes.
fn step(size: usize) -> usize {
    if size < PAGED { 64 } else { 4096 }
}

impl Block {
    /// `malloc`, then the block is filled with what `tag` says. `size` is at least [`LEAST`].
    #[inline]
    pub(crate) fn new(size: usize, tag: u64) -> Self {
        // SAFETY: malloc takes any size.
        let mut block = owned(unsafe { libc::malloc(size) }, size);
        block.write(0, tag);
        block
    }

    /// `calloc`. Panics if a word that is looked at (one in each cache line) is not zero; then
    /// fills.
    pub(crate) fn zeroed(size: usize, tag: u64) -> Self {
        // SAFETY: calloc takes any sizes.
        let mut block = owned(unsafe { libc::calloc(1, size) }, size);
        for at in (0..size - LEAST).step_by(64) {
            assert_eq!(block.word(at), 0, "calloc of {size} bytes: not zero at {at}");
        }
        block.write(0, tag);
        block
    }

    /// `posix_memalign`. `align` is a power of two of at least 8.
    pub(crate) fn aligned(align: usize, size: usize, tag: u64) -> Self {
        let mut pointer = core::ptr::null_mut();
        // SAFETY: `pointer` is a place for the answer.
        let code = unsafe { libc::posix_memalign(&raw mut pointer, align, size) };
        if code != 0 {
            no_memory();
        }
        assert_eq!(pointer.addr() % align, 0, "posix_memalign of {size} bytes: not aligned to {align}");
        let mut block = owned(pointer, size);
        block.write(0, tag);
        block
    }

    /// `realloc`; what is new of the block is filled with what `tag` says.
    pub(crate) fn resize(&mut self, size: usize, tag: u64) {
        let before = self.size;
        // SAFETY: the block came from malloc and is given up for what realloc returns.
        *self = owned(unsafe { libc::realloc(self.start.as_ptr().cast(), size) }, size);
        self.write(before.next_multiple_of(step(size)).min(size), tag);
    }

    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// What the block was made with.
    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        self.word(0)
    }

    /// Adds `by` to the tag, `times` times, each by a load and a store to memory.
    pub(crate) fn count_up(&mut self, by: u64, times: usize) {
        let word = self.start.as_ptr().cast::<u64>();
        for _ in 0..times {
            // SAFETY: a block has at least 8 bytes at an address that is a multiple of 8, and
            // `self` owns it.
            unsafe { word.write_volatile(word.read_volatile().wrapping_add(by)) };
        }
    }

    /// `free`; returns what the block held, for the checksum.
    #[inline]
    pub(crate) fn free(self) -> u64 {
        let last = (self.size - LEAST) / step(self.size) * step(self.size);
        let held = self.word(0).wrapping_add(self.word(last).rotate_left(1));
        // SAFETY: the block came from malloc, and `self` is gone after this.
        unsafe { libc::free(self.start.as_ptr().cast()) };
        held
    }

    fn word(&self, at: usize) -> u64 {
        debug_assert!(at + LEAST <= self.size);
        // SAFETY: inside the block, which was written there; the address need not be aligned.
        unsafe { self.start.as_ptr().add(at).cast::<u64>().read_unaligned() }
    }

    /// Fills from `from` on. A word is written at every step that a word fits at; small blocks hold
    /// bytes between.
    #[inline]
    fn write(&mut self, from: usize, tag: u64) {
        debug_assert!(self.size >= LEAST);
        if self.size <= WRITTEN_IN_FULL {
            // SAFETY: from `from` to the end of the block, which `self` owns.
            unsafe { self.start.as_ptr().add(from).write_bytes(tag as u8, self.size - from) };
        }
        for at in (from..=self.size - LEAST).step_by(step(self.size)) {
            // SAFETY: at + 8 is at most the size.
            unsafe { self.start.as_ptr().add(at).cast::<u64>().write_unaligned(tag) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_what_was_written_and_grows_in_all_its_sizes() {
        for size in [8, 9, 63, 64, 72, 511, 513, 4097, 70_000, 200_001] {
            let plain = Block::new(size, 7);
            assert_eq!((plain.size(), plain.tag()), (size, 7));
            let sum = plain.free();
            assert_eq!(sum, 7 + 14, "{size}");
            assert_eq!(Block::zeroed(size.max(16), 7).free(), sum, "{size}");
            assert_eq!(Block::aligned(4096, size, 7).free(), sum, "{size}");
        }
        let mut grown = Block::new(40, 1);
        for size in [80, 100, 1000, 5000, 70_000, 300_000] {
            grown.resize(size, 3);
            assert_eq!(grown.tag(), 1, "{size}");
        }
        assert_eq!(grown.free(), 1 + 6);
        let mut counted = Block::new(8, 5);
        counted.count_up(2, 10);
        assert_eq!(counted.tag(), 25);
        let _ = counted.free();
    }
}
