//! `LinuxSource`: the page source that maps memory from Linux.
//!
//! Owns no memory: the callers own each range. Its state is a few settings, written at start-up.

use core::ffi::c_void;
use core::ptr::NonNull;

use syscalls::{Errno, Sysno, syscall};

use crate::base::source::{HugePages, PageSource, Refusal};
use crate::base::sync::{AtomicU8, AtomicU16, AtomicUsize, Ordering};
use crate::base::units::{BLOCK_SIZE, MAX_NODES, NodeId};

/// The addresses of which open ranges are proposed. They lie between the low mappings of programs
/// and kernels (the heaps of Go and of Java, a non-PIE program) and the region below the stack. The
/// object map is placed at a sixteenth of these addresses, 2 to 4 TiB.
const PROPOSED_START: usize = 32 << 40;
const PROPOSED_END: usize = 64 << 40;
/// The sizes that are proposed: only those for which addresses have 48 bits or more, so nothing
/// that fits a pointer of 32 bits.
const PROPOSED: core::ops::Range<usize> = 1..16 << 40;
/// The bytes covered by one page of the second highest level of page tables.
const SLOT: usize = 512 << 30;

/// Memory from `mmap`. Reservations are `PROT_NONE`, which no overcommit mode charges. `mprotect`
/// commits, so a system in overcommit mode 2 refuses there, and the zone reports out of memory.
pub(crate) struct LinuxSource {
    page_size: AtomicUsize,
    /// A [`HugePages`].
    huge_pages: AtomicU8,
    /// The largest zeroed allocation, in bytes, that is populated before the program reads it.
    prefault: AtomicUsize,
    /// The system's number of each node of the zone, plus one; 0 if nodes are not real, or if there
    /// is only one.
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

    /// Returns the system's number of a node of the zone; `None` if memory is not bound to nodes.
    fn number_of(&self, node: NodeId) -> Option<u16> {
        self.nodes.get(usize::from(node.0))?.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Reads the system's page size, and stores the options and the system's numbers of the nodes.
    /// `node_ids` is empty if memory is not to be bound to nodes.
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

    /// Asks for huge pages in this range if the option has the value `wish`.
    ///
    /// # Safety
    /// The range is committed and belongs to the caller.
    unsafe fn ask_huge(&self, at: *mut c_void, bytes: usize, wish: HugePages) {
        if self.huge_pages.load(Ordering::Relaxed) == wish as u8 {
            // SAFETY: the range is the caller's, and the advice keeps its contents. A refusal does
            // no harm.
            unsafe { advise(at, bytes, libc::MADV_HUGEPAGE) };
        }
    }
}

/// Returns the set of one node as the kernel represents it; `None` for a number beyond the kernel's
/// largest.
fn node_mask(id: u16) -> Option<[u64; 16]> {
    let mut mask = [0; 16];
    *mask.get_mut(usize::from(id) / 64)? = 1 << (id % 64);
    Some(mask)
}

/// Reserves addresses without memory. `flags` decides whether `hint` is binding.
fn map_nothing(hint: *mut c_void, bytes: usize, flags: i32) -> Option<NonNull<u8>> {
    map(hint, bytes, libc::PROT_NONE, libc::MAP_NORESERVE | flags).ok()
}

/// Creates a private anonymous mapping. Callers pass no flag that lets it replace an existing one,
/// so it changes no existing memory.
fn map(hint: *mut c_void, bytes: usize, access: i32, flags: i32) -> Result<NonNull<u8>, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: the mapping replaces no other, so no existing memory changes. All callers are in this
    // file, and none passes `MAP_FIXED`.
    let at = unsafe { syscall!(Sysno::mmap, hint, bytes, access, flags, -1isize, 0) };
    NonNull::new(at? as *mut u8).ok_or(Errno::ENOMEM)
}

/// Unmaps a range. A refusal leaves it as it was; its only cause is a lack of kernel memory.
///
/// # Safety
/// The range is a mapping of the caller's, or a part of one, and nothing uses it any more.
unsafe fn unmap(at: usize, bytes: usize) {
    // SAFETY: the caller keeps the contract of this function.
    let _ = unsafe { syscall!(Sysno::munmap, at, bytes) };
}

/// Changes the access to a range. Returns true on success.
///
/// # Safety
/// The range lies inside a reservation of the caller's.
unsafe fn protect(at: NonNull<u8>, bytes: usize, access: i32) -> bool {
    // SAFETY: the caller keeps the contract of this function.
    unsafe { syscall!(Sysno::mprotect, at.as_ptr(), bytes, access) }.is_ok()
}

/// Maps a range that the program may not touch.
#[place(cold)]
pub(crate) fn map_without_access(bytes: usize) -> Option<NonNull<u8>> {
    map_nothing(core::ptr::null_mut(), bytes, 0)
}

/// Allows any access to whole pages from `address` on, or none. Returns true on success.
///
/// # Safety
/// The range lies inside a mapping of [`map_without_access`], and no code relies on its access.
#[place(cold)]
pub(crate) unsafe fn set_access(address: usize, bytes: usize, open: bool) -> bool {
    let access = if open { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    // SAFETY: the caller keeps the contract.
    NonNull::new(address as *mut u8).is_some_and(|at| unsafe { protect(at, bytes, access) })
}

/// Advises the kernel about a range. Returns true if the kernel took the advice.
///
/// # Safety
/// The range is the caller's, and so are the contents that the advice discards.
unsafe fn advise(at: *mut c_void, bytes: usize, advice: i32) -> bool {
    // SAFETY: the caller keeps the contract of this function.
    unsafe { syscall!(Sysno::madvise, at, bytes, advice) }.is_ok()
}

// SAFETY: anonymous mmap without `MAP_FIXED` replaces no mapping, so ranges do not overlap.
// Anonymous memory reads as zeros at first touch. mprotect and madvise act on the given range only.
// No system call here re-enters the allocator.
unsafe impl PageSource for LinuxSource {
    fn page_size(&self) -> usize {
        self.page_size.load(Ordering::Relaxed)
    }

    #[place(cold)]
    fn zone_bytes(&self) -> usize {
        // SAFETY: a zeroed rlimit is valid, and getrlimit writes into it.
        let limit = unsafe {
            let mut limit: libc::rlimit = core::mem::zeroed();
            if libc::getrlimit(libc::RLIMIT_AS, &mut limit) == 0 { limit.rlim_cur } else { libc::RLIM_INFINITY }
        };
        if limit != libc::RLIM_INFINITY {
            // Half of the limit, because stacks, files and direct mappings need the rest.
            let half = usize::try_from(limit / 2).unwrap_or(usize::MAX);
            return (half & !(BLOCK_SIZE - 1)).max(2 * BLOCK_SIZE);
        }
        super::memory_bytes().saturating_mul(2).next_power_of_two().clamp(64 << 30, 4 << 40)
    }

    #[ashlar_macros::place(cold)]
    fn propose(&self, bytes: usize, align: usize) -> Option<usize> {
        PROPOSED.contains(&bytes).then(|| {
            // A slot that one page of the second highest page tables covers, and a place in its
            // first half.
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
            // Kernels before 4.17 ignore the flag and take the address as a hint.
            Ok(elsewhere) => {
                // SAFETY: this call created the mapping and has published it nowhere.
                unsafe { unmap(elsewhere.as_ptr() as usize, bytes) };
                return Err(Refusal::Taken);
            }
            Err(Errno::EEXIST) => return Err(Refusal::Taken),
            Err(_) => return Err(Refusal::NoMemory),
        }
        if bytes >= BLOCK_SIZE {
            // SAFETY: this call mapped the range.
            unsafe { self.ask_huge(at.as_ptr().cast(), bytes, HugePages::On) };
        }
        Ok(())
    }

    #[ashlar_macros::place(cold)]
    fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let padded = bytes.checked_add(align)?;
        let at = map_nothing(core::ptr::null_mut(), padded, 0)?.as_ptr() as usize;
        let aligned = crate::base::units::align_up(at, align);
        // SAFETY: both cut-off pieces belong to the mapping that this call created and has not
        // published.
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
        // Kernels before 4.17 ignore the flag and take the address as a hint.
        match map_nothing(at.as_ptr().cast(), bytes, libc::MAP_FIXED_NOREPLACE) {
            Some(got) if got == at => true,
            Some(elsewhere) => {
                // SAFETY: this call created the mapping and has published it nowhere.
                unsafe { unmap(elsewhere.as_ptr() as usize, bytes) };
                false
            }
            None => false,
        }
    }

    unsafe fn commit(&self, at: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller owns the reservation around the range, and mprotect maps nothing.
        let done = unsafe { protect(at, bytes, libc::PROT_READ | libc::PROT_WRITE) };
        if done && bytes >= BLOCK_SIZE {
            // SAFETY: the range is the caller's, and was just committed.
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
        let Some(mask) = self.number_of(node).and_then(node_mask) else { return };
        const MPOL_PREFERRED: usize = 1;
        // One more than the mask has bits, because the kernel ignores the last one.
        let bits = 64 * mask.len() + 1;
        // SAFETY: mbind reads the mask, and sets the policy of a range that the caller owns.
        let _ = unsafe { syscall!(Sysno::mbind, at.as_ptr(), bytes, MPOL_PREFERRED, mask.as_ptr(), bits, 0) };
    }

    unsafe fn will_look(&self, at: NonNull<u8>, bytes: usize) {
        if bytes <= self.prefault.load(Ordering::Relaxed) {
            // SAFETY: the range is the caller's. Pages without memory get zeros, which is what they
            // read as. Kernels before 5.14 refuse the advice.
            unsafe { advise(at.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
        }
    }

    fn map_direct(&self, bytes: usize) -> Option<NonNull<u8>> {
        let at = map(core::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, 0).ok()?;
        // SAFETY: this call created the mapping.
        unsafe { self.ask_huge(at.as_ptr().cast(), bytes, HugePages::On) };
        Some(at)
    }

    unsafe fn will_fill(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: the range is the caller's.
        unsafe { self.ask_huge(at.as_ptr().cast(), bytes, HugePages::Auto) };
    }

    unsafe fn unmap_direct(&self, at: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller gives up the whole range of one map_direct.
        unsafe { unmap(at.as_ptr() as usize, bytes) };
    }

    unsafe fn remap_direct(&self, at: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
        // SAFETY: the range is one of map_direct, and the caller expects it to move.
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
    fn memory_is_bound_to_the_node_with_the_number_of_the_system() {
        let source = LinuxSource::new();
        assert_eq!(source.number_of(NodeId(0)), None, "bound to no node before there are several");
        source.configure(HugePages::Auto, 0, &[0, 8]);
        assert_eq!([0, 1, 2, 63].map(|node| source.number_of(NodeId(node))), [Some(0), Some(8), None, None]);
    }

    #[test]
    fn proposals_are_free_aligned_and_leave_room_for_the_object_map() {
        let source = LinuxSource::new();
        let bytes = 8 << 40;
        for _ in 0..100 {
            let at = source.propose(bytes, BLOCK_SIZE).expect("48 bits of addresses");
            assert!(at.is_multiple_of(BLOCK_SIZE) && at >= PROPOSED_START && at + bytes <= PROPOSED_END);
            // The object map, at a sixteenth of the address, lies below all proposals.
            assert!((at + bytes) / 16 < PROPOSED_START);
        }
        assert_eq!(source.propose(1 << 46, BLOCK_SIZE), None);
    }
}
