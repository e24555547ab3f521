//! Pools of metadata blocks of powers of two bytes: one of array caches, one of records of slabs.
//! Their memory is never given back to the system.
//!
//! Lock: the *pool lock*, one per pool. Only the meta lock may be taken after it.
#![allow(unsafe_code, reason = "links free blocks through their first word")]

use super::record::SMALLEST_BLOCK;
use crate::base::sync::{SpinLock, Visit};
use crate::pages::meta::META;

/// Largest block: log2 of its bytes.
const LARGEST: u32 = 20;

/// Free blocks, by log2 of their bytes; each holds the address of the next.
pub(super) struct Pool(SpinLock<[usize; LARGEST as usize + 1]>);

pub(super) static ARRAYS: Pool = Pool(SpinLock::new([0; LARGEST as usize + 1]));
static RECORDS: Pool = Pool(SpinLock::new([0; LARGEST as usize + 1]));

pub(super) fn block_of(bytes: usize) -> usize {
    bytes.next_power_of_two().max(SMALLEST_BLOCK)
}

#[place(cold)]
impl Pool {
    /// Takes a block of at least `bytes` bytes, aligned to its size up to 128.
    pub(super) fn take(&self, bytes: usize) -> Option<usize> {
        let size = block_of(bytes);
        let class = size.trailing_zeros();
        if class > LARGEST {
            return None;
        }
        let mut free = self.0.lock();
        let first = free[class as usize];
        if first == 0 {
            drop(free);
            return META.alloc(size, size.min(128)).map(|at| at.as_ptr() as usize);
        }
        // SAFETY: the pool owns its blocks, and each holds the address of the next in its first
        // word.
        free[class as usize] = unsafe { (first as *const usize).read() };
        Some(first)
    }

    /// Returns a block to the pool.
    ///
    /// # Safety
    /// The block came from `take` of this pool with the same number of bytes, and no thread uses it
    /// any more.
    pub(super) unsafe fn give(&self, block: usize, bytes: usize) {
        let mut free = self.0.lock();
        let first = &mut free[block_of(bytes).trailing_zeros() as usize];
        // SAFETY: the caller passes ownership of the block, which has room for a word.
        unsafe { (block as *mut usize).write(*first) };
        *first = block;
    }
}

/// Takes memory for a record of `bytes` bytes.
pub(super) fn take_record(bytes: usize) -> Option<usize> {
    RECORDS.take(bytes)
}

/// Returns the memory of a record.
///
/// # Safety
/// The block came from [`take_record`] with the same number of bytes, and no thread uses it any
/// more.
pub(super) unsafe fn give_record(block: usize, bytes: usize) {
    // SAFETY: passed on from the caller.
    unsafe { RECORDS.give(block, bytes) };
}

/// Visits the pool locks, for fork.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    visit(ARRAYS.0.word());
    visit(RECORDS.0.word());
}
