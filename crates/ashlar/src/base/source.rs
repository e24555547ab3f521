//! `PageSource`: where address space and memory come from. The zone above knows nothing else of the system.
#![allow(unsafe_code, reason = "declares an unsafe trait")]

use core::ptr::NonNull;

use crate::base::units::NodeId;

/// Why a [`PageSource`] did not commit an open range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Some of the addresses are in use.
    Taken,
    /// The system gives no memory, or no addresses there.
    NoMemory,
}

/// A supplier of address space and memory.
///
/// Ranges go through three states: *reserved* (addresses only, any access faults), *committed*
/// (readable and writable) and, after [`release_held`](PageSource::release), committed with contents
/// given back. All sizes and addresses passed in are multiples of [`page_size`](PageSource::page_size).
///
/// A source may leave a range *open* instead of reserving it: see [`propose`](PageSource::propose).
/// The zone of a process spans terabytes of addresses, and a reservation of so many counts against
/// the limits of a program that never uses them.
///
/// # Safety
/// Implementors guarantee:
/// * a range given by `reserve`, `reserve_at`, `commit_open` or `map_direct` overlaps no other
///   range that is in use by anyone, and stays reserved until the process ends (or `unmap_direct`);
/// * after `commit` returned true, or `commit_open` returned `Ok`, the range is readable and
///   writable for as long as it is reserved, and a page committed for the first time reads as
///   zeros;
/// * `release` changes no page outside its range;
/// * no method calls back into the allocator, allocates from it, or unwinds.
///
/// Callers guarantee: `commit` and `bind` only get sub-ranges of ranges that this source reserved,
/// or committed by `commit_open`; `release` only gets committed ranges that nobody reads or writes
/// during the call.
pub unsafe trait PageSource: Sync {
    /// The system's page size in bytes: a power of two of at least 4096.
    fn page_size(&self) -> usize;

    /// How many bytes the zone should reserve at most, for all nodes, where nothing is proposed.
    fn zone_bytes(&self) -> usize;

    /// Reserves `bytes` of address space at a multiple of `align`.
    fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>>;

    /// Reserves `bytes` of address space from `at` on; false, and nothing is reserved, where any of it is in use, or
    /// where `at` is no multiple of the page size, or where the source cannot choose.
    fn reserve_at(&self, at: NonNull<u8>, bytes: usize) -> bool {
        let _ = (at, bytes);
        false
    }

    /// Proposes `bytes` of address space at a multiple of `align` that are likely free, and
    /// reserves nothing: parts of them are taken by [`commit_open`](PageSource::commit_open) as
    /// they are needed. Another proposal each time. `None` where the source would rather reserve.
    fn propose(&self, bytes: usize, align: usize) -> Option<usize> {
        let _ = (bytes, align);
        None
    }

    /// Takes a range that is neither reserved nor in use, committed; otherwise nothing is changed.
    ///
    /// # Errors
    /// [`Refusal::Taken`] where some of it is in use, [`Refusal::NoMemory`] where the system gives
    /// none.
    fn commit_open(&self, at: NonNull<u8>, bytes: usize) -> Result<(), Refusal> {
        let _ = (at, bytes);
        Err(Refusal::NoMemory)
    }

    /// Makes a reserved range readable and writable; false when memory is refused.
    ///
    /// # Safety
    /// The range lies inside a range that this source reserved.
    unsafe fn commit(&self, at: NonNull<u8>, bytes: usize) -> bool;

    /// Gives the contents of a committed range back to the system. It stays committed. True when the
    /// range reads as zeros from now on, false when its contents are unspecified.
    ///
    /// # Safety
    /// The range is committed and holds nothing that anyone will read again.
    unsafe fn release(&self, at: NonNull<u8>, bytes: usize) -> bool;

    /// Places future pages of a range on a NUMA node, counted from 0 without gaps as the zone
    /// counts them; a hint.
    ///
    /// # Safety
    /// The range lies inside a range that this source reserved, or committed by `commit_open`.
    unsafe fn bind(&self, at: NonNull<u8>, bytes: usize, node: NodeId);

    /// Says that a committed range of zeros goes to a program that asked for zeros; a hint. What a
    /// program reads before it writes costs a system two page faults a page, unless memory is there
    /// before.
    ///
    /// # Safety
    /// The range lies inside a committed range of this source.
    unsafe fn will_look(&self, at: NonNull<u8>, bytes: usize) {
        let _ = (at, bytes);
    }

    /// Maps a committed, zeroed range of its own, for objects too large for the zone.
    fn map_direct(&self, bytes: usize) -> Option<NonNull<u8>>;

    /// Says that a range of `map_direct` will rather be written from an end on than here and there; a hint.
    ///
    /// # Safety
    /// The range lies inside one of `map_direct`.
    unsafe fn will_fill(&self, at: NonNull<u8>, bytes: usize) {
        let _ = (at, bytes);
    }

    /// Unmaps a range of `map_direct`.
    ///
    /// # Safety
    /// `at` and `bytes` are those of one `map_direct`, and nobody uses the range any more.
    unsafe fn unmap_direct(&self, at: NonNull<u8>, bytes: usize);

    /// Grows or shrinks a range of `map_direct`, moving it if need be; the old range is gone on success.
    /// `None` leaves it as it was.
    ///
    /// # Safety
    /// As for [`unmap_direct`](PageSource::unmap_direct) on success.
    unsafe fn remap_direct(&self, at: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
        let _ = (at, old, new);
        None
    }
}

/// Which memory the system is asked to give by huge pages (`MADV_HUGEPAGE`), where it has to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum HugePages {
    Off,
    /// Mappings of single objects whose contents were not asked to be zero: see [`Fill`](crate::pages::direct::Fill).
    Auto,
    On,
}
