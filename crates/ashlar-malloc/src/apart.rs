//! What few programs use of the library lies apart (`layout.ld`). Start-up uses some of it: when that is over its pages are
//! made non-resident, as the kernel frees its init memory. A program that needs one later has it read from the file again.
//!
//! A page that was written to is no page of the file any more: a debugger or a uprobe has put a breakpoint there. Such pages
//! stay, because dropping one would silently drop the breakpoint. The kernel tells by /proc/self/pagemap; where that
//! cannot be read, all pages stay.

use core::arch::global_asm;
use core::ops::Range;

use syscalls::{Sysno, syscall};

use crate::weak::address_of;

global_asm!(
    ".weak ashlar_apart_code_start, ashlar_apart_code_end, ashlar_apart_tables_start, ashlar_apart_tables_end",
    ".hidden ashlar_apart_code_start, ashlar_apart_code_end, ashlar_apart_tables_start, ashlar_apart_tables_end",
);

const PAGE: usize = 4096;
/// Pages whose entries are read at a time.
const AT_ONCE: usize = 64;
/// Bits of an entry: the page is in memory; it is one of a file.
const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;

/// Makes pages of code and tables that lie apart non-resident. Without a layout, as in a static library, there are none.
pub(crate) fn drop_untouched() {
    let code = address_of!("ashlar_apart_code_start") as usize..address_of!("ashlar_apart_code_end") as usize;
    let tables = address_of!("ashlar_apart_tables_start") as usize..address_of!("ashlar_apart_tables_end") as usize;
    if code.is_empty() {
        return;
    }
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated.
    let map = unsafe { syscall!(Sysno::openat, libc::AT_FDCWD, c"/proc/self/pagemap".as_ptr(), flags, 0) };
    let Ok(map) = map else { return };
    for range in [code, tables] {
        for start in range.clone().step_by(AT_ONCE * PAGE) {
            drop_part(map, start..range.end.min(start + AT_ONCE * PAGE));
        }
    }
    // SAFETY: opened above.
    let _ = unsafe { syscall!(Sysno::close, map) };
}

/// [`drop_untouched`] for at most [`AT_ONCE`] pages.
fn drop_part(map: usize, range: Range<usize>) {
    let mut entries = [0u64; AT_ONCE];
    let pages = range.len().div_ceil(PAGE);
    let (bytes, offset) = (pages * size_of::<u64>(), range.start / PAGE * size_of::<u64>());
    // SAFETY: the array has room for so many bytes.
    let read = unsafe { syscall!(Sysno::pread64, map, entries.as_mut_ptr(), bytes, offset) };
    if read != Ok(bytes) {
        return;
    }
    let mut start = range.start;
    for written in entries[..pages].split(|entry| entry & PRESENT != 0 && entry & OF_FILE == 0) {
        let bytes = written.len() * PAGE;
        if bytes > 0 {
            // SAFETY: the linker laid nothing into these pages but code and constants, and none of them was written to since it
            // was read from the file, from which it is read again. This function does not lie there. A refusal does no harm.
            let _ = unsafe { syscall!(Sysno::madvise, start, bytes, libc::MADV_DONTNEED) };
        }
        start += bytes + PAGE;
    }
}
