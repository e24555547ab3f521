//! Reports invalid use: prints one line on standard error with the cache and the address, then ends
//! the program. Lines are built on the stack. Nothing here allocates, locks, or unwinds.

use core::fmt::{self, Write};

use crate::base::sync::{AtomicU8, Ordering};

/// Capacity of a line, for the longest one, which lists the keys of the options.
const ROOM: usize = 512;

/// A line under construction. Text that does not fit is cut off at a character boundary.
pub(crate) struct Line {
    bytes: [u8; ROOM],
    len: usize,
}

impl Line {
    pub(crate) const fn new() -> Line {
        Line { bytes: [0; ROOM], len: 0 }
    }

    /// Prints the line.
    #[place(cold)]
    #[inline(never)]
    pub(crate) fn print(&mut self) {
        self.end();
        #[cfg(feature = "os")]
        crate::base::os::write_stderr(&self.bytes[..self.len]);
        #[cfg(not(feature = "os"))]
        if let Some(platform) = crate::base::sync::section::platform() {
            platform.print(core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("ashlar: a report is damaged\n"));
        }
    }

    /// Ends a line that was cut off with a line feed, which replaces the last character if the line
    /// is full.
    #[place(cold)]
    fn end(&mut self) {
        let cut = self.len > ROOM - 4 && self.bytes[self.len - 1] != b'\n';
        if !cut {
            return;
        }
        if self.len == ROOM {
            self.len -= 1;
            while self.bytes[self.len] & 0xC0 == 0x80 {
                self.len -= 1;
            }
        }
        self.bytes[self.len] = b'\n';
        self.len += 1;
    }
}

#[place(cold)]
impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.len;
        let mut take = text.len().min(room);
        while !text.is_char_boundary(take) {
            take -= 1;
        }
        self.bytes[self.len..self.len + take].copy_from_slice(&text.as_bytes()[..take]);
        self.len += take;
        Ok(())
    }
}

/// Prints `ashlar: ` and the arguments as one line. Not inlined, to keep the line off the stack
/// frames of its callers.
#[cold]
#[inline(never)]
#[place(cold)]
pub(crate) fn warn(args: fmt::Arguments<'_>) {
    let mut line = Line::new();
    let _ = writeln!(line, "ashlar: {args}");
    line.print();
}

/// Prints the arguments as one line of a longer report.
#[cold]
#[inline(never)]
#[place(cold)]
pub(crate) fn plain(args: fmt::Arguments<'_>) {
    let mut line = Line::new();
    let _ = writeln!(line, "{args}");
    line.print();
}

/// Defines the panic handler of a library for programs in other languages, in place of the standard
/// library. Also defines the unwinding function that an unoptimised `core` references, though no
/// panic unwinds. That symbol is weak and hidden, because a program in Rust defines its own.
#[cfg(feature = "os")]
#[doc(hidden)]
#[macro_export]
macro_rules! panic_handler {
    () => {
        #[panic_handler]
        fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
            $crate::panicked(info)
        }

        core::arch::global_asm!(".weak rust_eh_personality", ".hidden rust_eh_personality", "rust_eh_personality:");
    };
}

/// Handles a panic: prints `what` as a line on standard error, then ends the program by SIGABRT.
#[cfg(feature = "os")]
#[doc(hidden)]
#[cold]
#[place(cold)]
pub fn panicked(what: &dyn fmt::Display) -> ! {
    warn(format_args!("{what}"));
    crate::base::os::abort()
}

/// The action of a report after its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnError {
    /// Ends the program by SIGABRT. The default.
    Abort,
    /// Continues. The operation is dropped, and a corrupt slab is quarantined.
    Quarantine,
}

static ON_ERROR: AtomicU8 = AtomicU8::new(0);

pub(crate) fn set_on_error(action: OnError) {
    ON_ERROR.store(u8::from(action == OnError::Quarantine), Ordering::Relaxed);
}

#[cold]
#[place(cold)]
fn fail(args: fmt::Arguments<'_>) {
    warn(args);
    backtrace();
    end_unless_quarantine();
}

/// Most frames that a report shows.
#[cfg(feature = "os")]
const FRAMES: usize = 16;

/// Prints where the calling thread is, if the unwinder is loaded.
#[cold]
#[place(cold)]
fn backtrace() {
    #[cfg(feature = "os")]
    {
        use crate::base::os;
        if os::has_unwinder() {
            let mut frames = [0; FRAMES];
            let count = os::capture_of_program(&mut frames);
            frames[..count].iter().for_each(|&address| frame(address));
        }
    }
}

/// Prints a return address, with the file that it lies in if that is known.
#[place(cold)]
#[inline(never)]
pub(crate) fn frame(address: usize) {
    let mut line = Line::new();
    #[cfg(feature = "os")]
    if let Some(place) = crate::base::os::maps::file_of(address) {
        let _ = writeln!(line, "\t{address:#x} in {}+{:#x}", place.name(), place.offset);
        return line.print();
    }
    let _ = writeln!(line, "\t{address:#x}");
    line.print();
}

/// Ends the program after a report of several lines, unless it is to go on.
#[cold]
#[place(cold)]
pub(crate) fn end_unless_quarantine() {
    if ON_ERROR.load(Ordering::Relaxed) == 0 {
        end();
    }
}

#[cfg(feature = "os")]
#[place(cold)]
fn end() -> ! {
    crate::base::os::abort()
}
#[cfg(not(feature = "os"))]
#[place(cold)]
fn end() -> ! {
    panic!("ashlar: invalid use of the allocator")
}

/// Reports that `construct` of the type `what` allocates from its own cache on every call, and ends
/// the program.
#[cold]
pub(crate) fn endless_construct(what: &str) -> ! {
    warn(format_args!("construct() of {what} calls itself without end, through its own cache"));
    end()
}

/// Reports a double free.
#[cold]
#[place(cold)]
pub(crate) fn double_free(cache: &str, object: usize) {
    fail(format_args!("cache {cache}: object {object:#x} was freed twice"));
}

/// Reports a free of a pointer that is not at the start of an object.
#[cold]
#[place(cold)]
pub(crate) fn misaligned(cache: &str, object: usize) {
    fail(format_args!("cache {cache}: no object starts at {object:#x}"));
}

/// Reports a free to a cache of an object that is not from this cache.
#[cold]
#[place(cold)]
pub(crate) fn not_of_cache(cache: &str, object: usize) {
    fail(format_args!("cache {cache}: {object:#x} is no object of this cache"));
}

/// Reports a free to a cache of an object of another one.
#[cold]
#[place(cold)]
pub(crate) fn of_other_cache(cache: &str, object: usize, owner: &str) {
    fail(format_args!("cache {cache}: {object:#x} is an object of cache {owner}"));
}

/// Reports a free to a cache of an address in memory that went back to the zone.
#[cold]
#[place(cold)]
pub(crate) fn not_allocated_of(cache: &str, object: usize) {
    fail(format_args!("cache {cache}: no object at {object:#x}: freed already, or never allocated"));
}

/// Reports a use of a cache after it was destroyed.
#[cold]
#[place(cold)]
pub(crate) fn gone(cache: &str) {
    fail(format_args!("cache {cache}: used after it was destroyed"));
}

/// Reports a corrupt link: a free object was written to, so its link does not decode.
#[cold]
#[place(cold)]
pub(crate) fn corrupt_link(cache: &str, at: usize) {
    fail(format_args!("cache {cache}: free link at {at:#x} is corrupt: written to after it was freed?"));
}

/// Reports that the byte `at` of a freed object that was held back is not what it was.
#[cold]
#[place(cold)]
pub(crate) fn written_after_free(cache: &str, object: usize, at: usize) {
    fail(format_args!("cache {cache}: byte {at} of object {object:#x} was written to after the object was freed"));
}

/// Reports a freelist whose length differs from the slab's state.
#[cold]
#[place(cold)]
pub(crate) fn corrupt_freelist(cache: &str, slab: usize) {
    fail(format_args!("cache {cache}: freelist of the slab at {slab:#x} is corrupt"));
}

/// Reports that `function` was called with an address inside an object of a cache.
#[cold]
#[place(cold)]
pub(crate) fn invalid_pointer(function: &str, address: usize, cache: &str) {
    fail(format_args!("{function}({address:#x}): no object of cache {cache} starts there"));
}

/// Reports that `function` was called with an object that is free already.
#[cold]
#[place(cold)]
pub(crate) fn freed_twice(function: &str, address: usize, cache: &str) {
    fail(format_args!("{function}({address:#x}): object of cache {cache} is free already"));
}

/// Reports that `function` was called with a huge object that is free already.
#[cold]
#[place(cold)]
pub(crate) fn huge_freed_twice(function: &str, address: usize) {
    fail(format_args!("{function}({address:#x}): huge object is free already"));
}

/// Reports that `function` was called with an address inside a large object that starts elsewhere.
#[cold]
#[place(cold)]
pub(crate) fn inside_large(function: &str, address: usize, start: usize) {
    fail(format_args!("{function}({address:#x}): inside the large object at {start:#x}"));
}

/// Reports that `function` was called with an address of the zone at which nothing is allocated.
#[cold]
#[place(cold)]
pub(crate) fn not_allocated(function: &str, address: usize) {
    fail(format_args!("{function}({address:#x}): no object there: freed already, or never allocated"));
}

/// Reports that `function` was called with an address of neither the zone nor a mapping.
#[cold]
#[place(cold)]
pub(crate) fn foreign(function: &str, address: usize) {
    fail(format_args!("{function}({address:#x}): not allocated here, or a huge object freed long ago"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    fn ended(text: &str) -> String {
        let mut line = Line::new();
        let _ = writeln!(line, "{text}");
        line.end();
        core::str::from_utf8(&line.bytes[..line.len]).expect("whole characters").to_owned()
    }

    #[test]
    fn what_fits_is_left_alone() {
        for length in [0, 1, ROOM - 5, ROOM - 4, ROOM - 2, ROOM - 1] {
            let text = "x".repeat(length);
            assert_eq!(ended(&text), text + "\n");
        }
    }

    #[test]
    fn a_line_that_is_cut_off_is_one_line_of_whole_characters() {
        for character in ["x", "\u{e4}", "\u{20ac}", "\u{1f600}"] {
            for ahead in 0..4 {
                let text = "x".repeat(ahead) + &character.repeat(ROOM);
                let line = ended(&text);
                let kept = line.strip_suffix('\n').expect("a line feed");
                assert!(text.starts_with(kept) && line.len() > ROOM - 5, "{character}: {} bytes", line.len());
            }
        }
    }
}
