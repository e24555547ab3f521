//! `LinuxSource`: the page source that maps memory from Linux.

use core::ffi::c_void;
use core::ptr::NonNull;

use syscalls::{Errno, Sysno, syscall};

use crate::base::source::{HugePages, PageSource, Refusal};
use crate::base::sync::{AtomicU8, AtomicU16, AtomicUsize, Ordering};
use crate::base::units::{BLOCK_SIZE, MAX_NODES, NodeId};

/// Where open ranges are proposed: between what programs and kernels map low (the heaps of Go and
/// of Java, a non-PIE program) and what lies below the stack. A sixteenth of these addresses is
/// where the object map goes: 2 to 4 TiB.
const PROPOSED_START: usize = 32 << 40;
const PROPOSED_END: usize = 64 << 40;
/// Ranges of sizes that are proposed: where addresses have 48 bits or more, so nothing smaller than
/// a pointer of 64.
const PROPOSED: core::ops::Range<usize> = 1..16 << 40;
/// What one page of the second highest page table covers.
const SLOT: usize = 512 << 30;

/// Memory from `mmap`. Reservations are `PROT_NONE`, which no overcommit mode charges for; committing
/// is `mprotect`, so a strict system (overcommit mode 2) refuses there and the zone sees it as out of memory.
pub(crate) struct LinuxSource {
    page_size: AtomicUsize,
    /// A [`HugePages`].
    huge_pages: AtomicU8,
    /// Most bytes of zeros that are made resident before the program looks at them.
    prefault: AtomicUsize,
    /// The system's number of each node of the zone, plus one; 0 where nodes are not real, or there
    /// is one.
    nodes: [AtomicU16; MAX_NODES],
}

impl LinuxSource {
    pub(crate) const fn new() -> Self {
        LinuxSource {
            page_size: AtomicUsize::new(0),
            huge_pages: AtomicU8::new(HugePages::Off as u8),
            prefault: AtomicUsize::new(0),
            nodes: [const { AtomicU16::new(0) }; MAX_NODES],
        }
    }

    /// Reads the system's page size and takes what concerns memory: options, and the system's
    /// numbers of the nodes, if memory is to be bound to them.
    pub(crate) fn configure(&self, huge_pages: HugePages, prefault: usize, node_ids: &[u16]) {
        // SAFETY: sysconf has no preconditions.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        self.page_size.store(usize::try_from(size).unwrap_or(4096), Ordering::Relaxed);
        self.huge_pages.store(huge_pages as u8, Ordering::Relaxed);
        self.prefault.store(prefault, Ordering::Relaxed);
        for (node, &id) in self.nodes.iter().zip(node_ids) {
            node.store(id + 1, Ordering::Relaxed);
        }
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

/// The set of one node, as the kernel has sets of nodes; `None` for a number beyond all that it can
/// have.
fn node_mask(id: u16) -> Option<[u64; 16]> {
    let mut mask = [0; 16];
    *mask.get_mut(usize::from(id) / 64)? = 1 << (id % 64);
    Some(mask)
}

/// Addresses without memory, at `hint` if `flags` or the kernel wants that.
fn map_nothing(hint: *mut c_void, bytes: usize, flags: i32) -> Option<NonNull<u8>> {
    map(hint, bytes, libc::PROT_NONE, libc::MAP_NORESERVE | flags).ok()
}

/// A new private anonymous mapping. No flag may let it take the place of another one: so it changes
/// no existing memory.
fn map(hint: *mut c_void, bytes: usize, access: i32, flags: i32) -> Result<NonNull<u8>, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: no memory is touched: see above. Callers pass flags that are listed here, in this
    // file.
    let at = unsafe { syscall!(Sysno::mmap, hint, bytes, access, flags, -1isize, 0) };
    NonNull::new(at? as *mut u8).ok_or(Errno::ENOMEM)
}

/// Gives addresses back; a refusal, of which the only cause is a lack of kernel memory, leaves them
/// as they are.
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

    #[place(cold)]
    fn zone_bytes(&self) -> usize {
        // SAFETY: a zeroed rlimit is valid and getrlimit writes into it.
        let limit = unsafe {
            let mut limit: libc::rlimit = core::mem::zeroed();
            if libc::getrlimit(libc::RLIMIT_AS, &mut limit) == 0 { limit.rlim_cur } else { libc::RLIM_INFINITY }
        };
        if limit != libc::RLIM_INFINITY {
            // Half of what the program may map: its stacks, files and direct mappings need the rest.
            let half = usize::try_from(limit / 2).unwrap_or(usize::MAX);
            return (half & !(BLOCK_SIZE - 1)).max(2 * BLOCK_SIZE);
        }
        super::memory_bytes().saturating_mul(2).next_power_of_two().clamp(64 << 30, 4 << 40)
    }

    #[ashlar_macros::place(cold)]
    fn propose(&self, bytes: usize, align: usize) -> Option<usize> {
        PROPOSED.contains(&bytes).then(|| {
            // A part of the addresses that shares one page of the second highest page table, and a
            // place in its first half.
            let slots = (PROPOSED_END - PROPOSED_START - bytes) / SLOT;
            let random = super::random_u64() as usize;
            let slot = PROPOSED_START + random % slots * SLOT;
            slot + crate::base::units::align_up((random >> 16) % (SLOT / 2), align)
        })
    }

    fn commit_open(&self, at: NonNull<u8>, bytes: usize) -> Result<(), Refusal> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        match map(at.as_ptr().cast(), bytes, access, flags) {
            Ok(got) if got == at => {}
            // Kernels before 4.17 do not know the flag: to them the address is a hint.
            Ok(elsewhere) => {
                // SAFETY: the mapping just made, which nothing knows of.
                unsafe { unmap(elsewhere.as_ptr() as usize, bytes) };
                return Err(Refusal::Taken);
            }
            Err(Errno::EEXIST) => return Err(Refusal::Taken),
            Err(_) => return Err(Refusal::NoMemory),
        }
        if bytes >= BLOCK_SIZE {
            // SAFETY: the range just mapped.
            unsafe { self.ask_huge(at.as_ptr().cast(), bytes, HugePages::On) };
        }
        Ok(())
    }

    #[ashlar_macros::place(cold)]
    fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let padded = bytes.checked_add(align)?;
        let at = map_nothing(core::ptr::null_mut(), padded, 0)?.as_ptr() as usize;
        let aligned = crate::base::units::align_up(at, align);
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

    #[ashlar_macros::place(cold)]
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

    #[place(background)]
    unsafe fn bind(&self, at: NonNull<u8>, bytes: usize, node: NodeId) {
        let id = self.nodes.get(usize::from(node.0)).map_or(0, |id| id.load(Ordering::Relaxed));
        let Some(mask) = id.checked_sub(1).and_then(node_mask) else { return };
        const MPOL_PREFERRED: usize = 1;
        // One more than there are bits: the kernel takes the last one for itself.
        let bits = 64 * mask.len() + 1;
        // SAFETY: mbind reads the mask and sets the policy of a range that the caller owns.
        let _ = unsafe { syscall!(Sysno::mbind, at.as_ptr(), bytes, MPOL_PREFERRED, mask.as_ptr(), bits, 0) };
    }

    unsafe fn will_look(&self, at: NonNull<u8>, bytes: usize) {
        if bytes <= self.prefault.load(Ordering::Relaxed) {
            // SAFETY: the caller's range; pages that have no memory get zeros, which is what they read as. Kernels before 5.14
            // do not know the advice.
            unsafe { advise(at.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
        }
    }

    fn map_direct(&self, bytes: usize) -> Option<NonNull<u8>> {
        let at = map(core::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, 0).ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_bit_of_its_number() {
        assert_eq!(node_mask(0).map(|mask| mask[0]), Some(1));
        let mask = node_mask(252).expect("below 1024");
        assert_eq!((mask[3], mask.iter().map(|word| word.count_ones()).sum::<u32>()), (1 << 60, 1));
        assert_eq!(node_mask(1024), None);
    }

    #[test]
    fn proposals_are_free_aligned_and_leave_room_for_the_object_map() {
        let source = LinuxSource::new();
        let bytes = 8 << 40;
        for _ in 0..100 {
            let at = source.propose(bytes, BLOCK_SIZE).expect("48 bits of addresses");
            assert!(at.is_multiple_of(BLOCK_SIZE) && at >= PROPOSED_START && at + bytes <= PROPOSED_END);
            // A sixteenth of it is far from what proposals are made of.
            assert!((at + bytes) / 16 < PROPOSED_START);
        }
        assert_eq!(source.propose(1 << 46, BLOCK_SIZE), None);
    }
}
