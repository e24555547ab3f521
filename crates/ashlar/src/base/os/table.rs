//! Mappings for the tables of a profile. Apart from the page source, whose calls every program has
//! resident.

use core::ptr::NonNull;

use syscalls::{Sysno, syscall};

/// Maps zeros; memory comes with their use. `None` if refused.
#[place(cold)]
#[inline(never)]
pub(crate) fn map_table(bytes: usize) -> Option<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the mapping replaces no other.
    let at = unsafe { syscall!(Sysno::mmap, 0, bytes, access, flags, -1isize, 0) };
    NonNull::new(at.ok()? as *mut u8)
}

/// Unmaps a table.
///
/// # Safety
/// [`map_table`] returned it, with this length, and nothing refers to it any more.
#[place(cold)]
#[inline(never)]
pub(crate) unsafe fn unmap_table(at: *const u8, bytes: usize) {
    // SAFETY: the caller keeps the same contract.
    let _ = unsafe { syscall!(Sysno::munmap, at, bytes) };
}
