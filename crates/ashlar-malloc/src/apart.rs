//! Releases the pages of the library that only start-up used, as the kernel frees its init memory.
//! `layout.ld` places code and tables that few programs use apart. A page of them that is needed
//! later is read from the file again.
//!
//! A page that was written to is a private copy, because a debugger or a uprobe has set a
//! breakpoint there. Such pages stay, because dropping one would silently drop the breakpoint.
//! /proc/self/pagemap shows which they are. If it cannot be read, all pages stay.

use core::arch::global_asm;
use core::ops::Range;

use syscalls::{Sysno, syscall};

use ashlar::address_of;

global_asm!(
    ".weak ashlar_apart_code_start, ashlar_apart_code_end, ashlar_apart_tables_start, ashlar_apart_tables_end",
    ".hidden ashlar_apart_code_start, ashlar_apart_code_end, ashlar_apart_tables_start, ashlar_apart_tables_end",
);

/// The most stretches of pages that are dropped.
const STRETCHES: usize = 16;
/// The number of entries that are read at a time.
const AT_ONCE: usize = 64;
/// Bits of an entry: the page is in memory; the page belongs to a file.
const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;

/// The stretches of pages that were not written to.
struct Untouched {
    stretches: [Range<usize>; STRETCHES],
    count: usize,
}

impl Untouched {
    /// Adds pages behind all others. Stretches beyond the capacity stay resident.
    fn add(&mut self, pages: Range<usize>) {
        if let Some(last) = self.stretches[..self.count].last_mut()
            && last.end == pages.start
        {
            last.end = pages.end;
        } else if let Some(place) = self.stretches.get_mut(self.count) {
            *place = pages;
            self.count += 1;
        }
    }
}

/// Drops the pages of code and tables that lie apart. A static library has no such layout, so
/// nothing is dropped.
pub(crate) fn drop_untouched() {
    let mut untouched = Untouched { stretches: [const { 0..0 }; STRETCHES], count: 0 };
    // `find_untouched` lies apart itself, so it must return before its page is dropped.
    find_untouched(&mut untouched);
    for pages in &untouched.stretches[..untouched.count] {
        // SAFETY: the linker placed only code and constants in these pages, and none was written to
        // since it was read from the file, so it can be read again. This function does not lie
        // there. A refusal does no harm.
        let _ = unsafe { syscall!(Sysno::madvise, pages.start, pages.len(), libc::MADV_DONTNEED) };
    }
}

/// Finds the pages that lie apart and were not written to.
#[cold]
#[inline(never)]
#[place(cold)]
fn find_untouched(untouched: &mut Untouched) {
    let code = address_of!("ashlar_apart_code_start") as usize..address_of!("ashlar_apart_code_end") as usize;
    let tables = address_of!("ashlar_apart_tables_start") as usize..address_of!("ashlar_apart_tables_end") as usize;
    if code.is_empty() {
        return;
    }
    // SAFETY: getauxval has no preconditions.
    let page = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    if !page.is_power_of_two() {
        return;
    }
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated.
    let map = unsafe { syscall!(Sysno::openat, libc::AT_FDCWD, c"/proc/self/pagemap".as_ptr(), flags, 0) };
    let Ok(map) = map else { return };
    for range in [code, tables] {
        // Whole pages of the system, which may be larger than those that the linker aligned to.
        let range = range.start.next_multiple_of(page)..range.end & !(page - 1);
        for start in range.clone().step_by(AT_ONCE * page) {
            look_at(map, page, start..range.end.min(start + AT_ONCE * page), untouched);
        }
    }
    // SAFETY: the descriptor was opened above.
    let _ = unsafe { syscall!(Sysno::close, map) };
}

/// Does the work of [`find_untouched`] for at most [`AT_ONCE`] pages.
fn look_at(map: usize, page: usize, range: Range<usize>, untouched: &mut Untouched) {
    let mut entries = [0u64; AT_ONCE];
    let pages = range.len() / page;
    let (bytes, offset) = (pages * size_of::<u64>(), range.start / page * size_of::<u64>());
    // SAFETY: the array has room for `bytes` bytes.
    let read = unsafe { syscall!(Sysno::pread64, map, entries.as_mut_ptr(), bytes, offset) };
    if read != Ok(bytes) {
        return;
    }
    for (number, entry) in entries[..pages].iter().enumerate() {
        if entry & PRESENT == 0 || entry & OF_FILE != 0 {
            let start = range.start + number * page;
            untouched.add(start..start + page);
        }
    }
}
