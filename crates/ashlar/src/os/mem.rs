//! `LinuxSource`: the page source that maps memory from Linux.

use core::ffi::c_void;
use core::ptr::NonNull;

use syscalls::{Sysno, syscall};

use crate::options::HugePages;
use crate::page::PageSource;
use crate::sync::{AtomicU8, AtomicUsize, Ordering};
use crate::units::{BLOCK_SIZE, NodeId};

/// Memory from `mmap`. Reservations are `PROT_NONE`, which no overcommit mode charges for; committing
/// is `mprotect`, so a strict system (overcommit mode 2) refuses there and the zone sees it as out of memory.
pub(crate) struct LinuxSource {
    page_size: AtomicUsize,
    /// A [`HugePages`].
    huge_pages: AtomicU8,
    /// Most bytes of zeros that are made resident before the program looks at them.
    prefault: AtomicUsize,
    real_nodes: AtomicU8,
}

impl LinuxSource {
    pub(crate) const fn new() -> Self {
        LinuxSource {
            page_size: AtomicUsize::new(0),
            huge_pages: AtomicU8::new(HugePages::Off as u8),
            prefault: AtomicUsize::new(0),
            real_nodes: AtomicU8::new(0),
        }
    }

    /// Reads the system's page size and takes the options that concern memory.
    pub(crate) fn configure(&self, huge_pages: HugePages, prefault: usize, bind_nodes: bool) {
        // SAFETY: sysconf has no preconditions.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        self.page_size.store(usize::try_from(size).unwrap_or(4096), Ordering::Relaxed);
        self.huge_pages.store(huge_pages as u8, Ordering::Relaxed);
        self.prefault.store(prefault, Ordering::Relaxed);
        self.real_nodes.store(u8::from(bind_nodes), Ordering::Relaxed);
    }

    /// Asks for huge pages in this range where the option is `wish`.
    ///
    /// # Safety
    /// The range is committed and the caller's.
    unsafe fn ask_huge(&self, at: *mut c_void, bytes: usize, wish: HugePages) {
        if self.huge_pages.load(Ordering::Relaxed) == wish as u8 {
            // SAFETY: the caller's range, of which no contents are changed. A refusal does no harm.
            unsafe { advise(at, bytes, libc::MADV_HUGEPAGE) };
        }
    }
}

/// Addresses without memory, at `hint` if `flags` or the kernel wants that.
fn map_nothing(hint: *mut c_void, bytes: usize, flags: i32) -> Option<NonNull<u8>> {
    map(hint, bytes, libc::PROT_NONE, libc::MAP_NORESERVE | flags)
}

/// A new private anonymous mapping. No flag may let it take the place of another one: so it changes no existing memory.
fn map(hint: *mut c_void, bytes: usize, access: i32, flags: i32) -> Option<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: no memory is touched: see above. Callers pass flags that are listed here, in this file.
    let at = unsafe { syscall!(Sysno::mmap, hint, bytes, access, flags, -1isize, 0) };
    NonNull::new(at.ok()? as *mut u8)
}

/// Gives addresses back; a refusal, of which the only cause is a lack of kernel memory, leaves them as they are.
///
/// # Safety
/// The range is a mapping of the caller's, or a part of one, and nothing uses it any more.
unsafe fn unmap(at: usize, bytes: usize) {
    // SAFETY: passed on.
    let _ = unsafe { syscall!(Sysno::munmap, at, bytes) };
}

/// Changes the access to a range; true on success.
///
/// # Safety
/// The range lies inside a reservation of the caller's.
unsafe fn protect(at: NonNull<u8>, bytes: usize, access: i32) -> bool {
    // SAFETY: passed on.
    unsafe { syscall!(Sysno::mprotect, at.as_ptr(), bytes, access) }.is_ok()
}

/// Advises the kernel about a range; true when it took the advice.
///
/// # Safety
/// The range is the caller's, and so are contents that the advice gives up.
unsafe fn advise(at: *mut c_void, bytes: usize, advice: i32) -> bool {
    // SAFETY: passed on.
    unsafe { syscall!(Sysno::madvise, at, bytes, advice) }.is_ok()
}

// SAFETY: reservations come from anonymous mmap, which replaces nothing, so they overlap nothing; anonymous memory is zero
// at first touch; mprotect and madvise act on the given range only; no system call here re-enters the allocator.
unsafe impl PageSource for LinuxSource {
    fn page_size(&self) -> usize {
        self.page_size.load(Ordering::Relaxed)
    }

    fn zone_bytes(&self, nodes: usize) -> usize {
        // SAFETY: a zeroed rlimit is valid and getrlimit writes into it.
        let limit = unsafe {
            let mut limit: libc::rlimit = core::mem::zeroed();
            if libc::getrlimit(libc::RLIMIT_AS, &mut limit) == 0 { limit.rlim_cur } else { libc::RLIM_INFINITY }
        };
        if limit != libc::RLIM_INFINITY {
            // Half of what the program may map: its stacks, files and direct mappings need the rest.
            let half = usize::try_from(limit / 2).unwrap_or(usize::MAX) / nodes;
            return (half & !(BLOCK_SIZE - 1)).max(2 * BLOCK_SIZE);
        }
        (super::memory_bytes().saturating_mul(2) / nodes).next_power_of_two().clamp(64 << 30, 4 << 40)
    }

    fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let padded = bytes.checked_add(align)?;
        let at = map_nothing(core::ptr::null_mut(), padded, 0)?.as_ptr() as usize;
        let aligned = crate::units::align_up(at, align);
        // SAFETY: both cut-off pieces belong to the mapping just made, and nobody knows of it yet.
        unsafe {
            if aligned > at {
                unmap(at, aligned - at);
            }
            let end = aligned + bytes;
            if at + padded > end {
                unmap(end, at + padded - end);
            }
        }
        NonNull::new(aligned as *mut u8)
    }

    fn reserve_at(&self, at: NonNull<u8>, bytes: usize) -> bool {
        // Kernels before 4.17 do not know the flag: to them the address is a hint.
        match map_nothing(at.as_ptr().cast(), bytes, libc::MAP_FIXED_NOREPLACE) {
            Some(got) if got == at => true,
            Some(elsewhere) => {
                // SAFETY: the mapping just made, and nobody knows of it yet.
                unsafe { unmap(elsewhere.as_ptr() as usize, bytes) };
                false
            }
            None => false,
        }
    }

    unsafe fn make_readable(&self, at: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller owns the reservation around the range; nothing is mapped over.
        unsafe { protect(at, bytes, libc::PROT_READ) }
    }

    unsafe fn commit(&self, at: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller owns the reservation around the range; nothing is mapped over.
        let done = unsafe { protect(at, bytes, libc::PROT_READ | libc::PROT_WRITE) };
        if done && bytes >= BLOCK_SIZE {
            // SAFETY: the caller's range, just committed.
            unsafe { self.ask_huge(at.as_ptr().cast(), bytes, HugePages::On) };
        }
        done
    }

    unsafe fn release(&self, at: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller gives up the contents of this committed range.
        unsafe { advise(at.as_ptr().cast(), bytes, libc::MADV_DONTNEED) }
    }

    unsafe fn bind(&self, at: NonNull<u8>, bytes: usize, node: NodeId) {
        if self.real_nodes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mask: u64 = 1 << u64::from(node.0);
        const MPOL_PREFERRED: usize = 1;
        // SAFETY: mbind reads one mask word and sets the policy of a range that the caller owns.
        let _ = unsafe { syscall!(Sysno::mbind, at.as_ptr(), bytes, MPOL_PREFERRED, &raw const mask, 65, 0) };
    }

    unsafe fn will_look(&self, at: NonNull<u8>, bytes: usize) {
        if bytes <= self.prefault.load(Ordering::Relaxed) {
            // SAFETY: the caller's range; pages that have no memory get zeros, which is what they read as. Kernels before 5.14
            // do not know the advice.
            unsafe { advise(at.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
        }
    }

    fn map_direct(&self, bytes: usize) -> Option<NonNull<u8>> {
        let at = map(core::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        // SAFETY: the mapping just made.
        unsafe { self.ask_huge(at.as_ptr().cast(), bytes, HugePages::On) };
        Some(at)
    }

    unsafe fn will_fill(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's range.
        unsafe { self.ask_huge(at.as_ptr().cast(), bytes, HugePages::Auto) };
    }

    unsafe fn unmap_direct(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller gives the whole range of one map_direct back.
        unsafe { unmap(at.as_ptr() as usize, bytes) };
    }

    unsafe fn remap_direct(&self, at: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
        // SAFETY: the range is one of map_direct and the caller expects it to move.
        let to = unsafe { syscall!(Sysno::mremap, at.as_ptr(), old, new, libc::MREMAP_MAYMOVE) };
        NonNull::new(to.ok()? as *mut u8)
    }
}
