//! The trait [`PageSource`]: the supplier of address space and memory, and the only view that the
//! zone has of the system.
#![allow(unsafe_code, reason = "declares an unsafe trait")]

use core::ptr::NonNull;

use crate::base::units::NodeId;

/// Why [`PageSource::commit_open`] did not commit a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Part of the range is in use.
    Taken,
    /// The system refused the memory or the addresses.
    NoMemory,
}

/// A supplier of address space and memory.
///
/// A range is first *reserved* (addresses only, any access faults), then *committed* (readable and
/// writable). After [`release`](PageSource::release) it is still committed, but its contents are
/// gone. All sizes and addresses passed in are multiples of [`page_size`](PageSource::page_size).
///
/// A source may leave a range *open* instead of reserving it; see [`propose`](PageSource::propose).
/// The zone spans terabytes of addresses. A reservation of that size counts against the limits of a
/// program that never uses it.
///
/// # Safety
/// Implementors guarantee:
/// * a range returned by `reserve`, `reserve_at`, `commit_open` or `map_direct` overlaps no range
///   in use, and stays reserved until the process ends (or until `unmap_direct`);
/// * after `commit` returned true, or `commit_open` returned `Ok`, the range is readable and
///   writable as long as it is reserved, and a page committed for the first time reads as zeros;
/// * `release` changes no page outside its range;
/// * no method calls back into the allocator, allocates from it, or unwinds.
///
/// Callers guarantee:
/// * `commit` and `bind` get only sub-ranges of ranges that this source reserved, or committed by
///   `commit_open`;
/// * `release` gets only committed ranges that no thread reads or writes during the call.
pub unsafe trait PageSource: Sync {
    /// Returns the system's page size in bytes, a power of two of at least 4096.
    fn page_size(&self) -> usize;

    /// Returns the most bytes that the allocator should reserve if `propose` returns `None`: for
    /// the zone of all nodes, its tables, metadata and per-CPU areas.
    fn zone_bytes(&self) -> usize;

    /// Reserves `bytes` of address space at a multiple of `align`.
    fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>>;

    /// Reserves `bytes` of address space from `at` on. Returns false and reserves nothing if part
    /// of the range is in use, if `at` is not a multiple of the page size, or if the source cannot
    /// choose addresses.
    fn reserve_at(&self, at: NonNull<u8>, bytes: usize) -> bool {
        let _ = (at, bytes);
        false
    }

    /// Proposes `bytes` of address space at a multiple of `align` that are likely to be free.
    /// Reserves nothing: [`commit_open`](PageSource::commit_open) takes parts of the range as they
    /// are needed. Each call proposes another range. Returns `None` if the source prefers to
    /// reserve.
    fn propose(&self, bytes: usize, align: usize) -> Option<usize> {
        let _ = (bytes, align);
        None
    }

    /// Maps and commits a range that is neither reserved nor in use. Changes nothing on failure.
    ///
    /// # Errors
    /// [`Refusal::Taken`] if part of the range is in use, [`Refusal::NoMemory`] if the system
    /// refuses.
    fn commit_open(&self, at: NonNull<u8>, bytes: usize) -> Result<(), Refusal> {
        let _ = (at, bytes);
        Err(Refusal::NoMemory)
    }

    /// Makes a reserved range readable and writable. Returns false if the system refuses the
    /// memory.
    ///
    /// # Safety
    /// The range lies inside a range that this source reserved.
    unsafe fn commit(&self, at: NonNull<u8>, bytes: usize) -> bool;

    /// Returns the memory of a committed range to the system. The range stays committed. Returns
    /// true if it reads as zeros from now on, false if its contents are unspecified.
    ///
    /// # Safety
    /// The range is committed, and no thread will read its contents again.
    unsafe fn release(&self, at: NonNull<u8>, bytes: usize) -> bool;

    /// Places future pages of a range on a NUMA node. A hint. Nodes are counted from 0 without
    /// gaps, as in the zone.
    ///
    /// # Safety
    /// The range lies inside a range that this source reserved, or committed by `commit_open`.
    unsafe fn bind(&self, at: NonNull<u8>, bytes: usize, node: NodeId);

    /// Announces that the program will read a committed range of zeros, possibly before writing it.
    /// A hint. A first read followed by a write costs two page faults per page, unless the memory
    /// is populated before.
    ///
    /// # Safety
    /// The range lies inside a committed range of this source.
    unsafe fn will_look(&self, at: NonNull<u8>, bytes: usize) {
        let _ = (at, bytes);
    }

    /// Maps a separate range, committed and zeroed, for an object too large for the zone.
    fn map_direct(&self, bytes: usize) -> Option<NonNull<u8>>;

    /// Announces that a range of `map_direct` will be written from one end to the other rather than
    /// sparsely. A hint.
    ///
    /// # Safety
    /// The range lies inside one of `map_direct`.
    unsafe fn will_fill(&self, at: NonNull<u8>, bytes: usize) {
        let _ = (at, bytes);
    }

    /// Unmaps a range of `map_direct`.
    ///
    /// # Safety
    /// `at` and `bytes` are those of one `map_direct`, and no thread uses the range any more.
    unsafe fn unmap_direct(&self, at: NonNull<u8>, bytes: usize);

    /// Grows or shrinks a range of `map_direct`, and moves it if necessary. On success the old
    /// range is unmapped. `None` leaves it as it was.
    ///
    /// # Safety
    /// On success, as for [`unmap_direct`](PageSource::unmap_direct).
    unsafe fn remap_direct(&self, at: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
        let _ = (at, old, new);
        None
    }
}

/// Which memory the system is asked to give by huge pages (`MADV_HUGEPAGE`), where it has to be
/// asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum HugePages {
    Off,
    /// Mappings of single objects whose contents were not asked to be zero: see
    /// [`Fill`](crate::pages::direct::Fill).
    Auto,
    On,
}
