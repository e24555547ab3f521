//! `ArenaSource`: a page source over one fixed range, for `no_std` programs, tests and fault
//! injection.
#![allow(unsafe_code, reason = "implements the page source contract over raw memory")]

use core::ptr::NonNull;

use crate::base::source::PageSource;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::base::units::{NodeId, checked_align_up};

/// A page source over a fixed range of memory.
///
/// The range is carved from its start: first the zone, then the allocator's own tables. No memory
/// is returned to the range. The `n`-th request can be made to fail, for tests of out of memory.
#[derive(Debug)]
pub struct ArenaSource {
    start: NonNull<u8>,
    bytes: usize,
    used: AtomicUsize,
    page_size: usize,
    requests: AtomicUsize,
    fail_at: AtomicUsize,
}

// SAFETY: the source owns its range by the constructor's contract, and carves it by an atomic
// counter.
unsafe impl Send for ArenaSource {}
// SAFETY: as above.
unsafe impl Sync for ArenaSource {}

impl ArenaSource {
    /// Creates a source over `bytes` bytes from `start`, in system pages of 4 KiB.
    ///
    /// # Safety
    /// The range is valid, writable and zeroed. Nothing else uses it as long as the source, or
    /// memory from it, is in use.
    pub const unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        // SAFETY: the caller keeps the same contract.
        unsafe { Self::with_page_size(start, bytes, 4096) }
    }

    /// As [`new`](Self::new), with a pretended system page size.
    ///
    /// # Safety
    /// As for [`new`](Self::new), and `page_size` is a power of two of at least 4096.
    pub const unsafe fn with_page_size(start: NonNull<u8>, bytes: usize, page_size: usize) -> Self {
        ArenaSource {
            start,
            bytes,
            used: AtomicUsize::new(0),
            page_size,
            requests: AtomicUsize::new(0),
            fail_at: AtomicUsize::new(usize::MAX),
        }
    }

    /// Makes the `n`-th request for memory from now on (0 is the next one) and all later ones fail.
    pub fn fail_from(&self, n: usize) {
        self.requests.store(0, Ordering::Relaxed);
        self.fail_at.store(n, Ordering::Relaxed);
    }

    /// Returns the number of requests for memory so far (reserve, commit, direct mapping).
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    fn base(&self) -> usize {
        self.start.as_ptr() as usize
    }

    fn refuse(&self) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed) >= self.fail_at.load(Ordering::Relaxed)
    }

    fn carve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let at = checked_align_up(self.base().checked_add(used)?, align)?;
            let end = at.checked_add(bytes)?;
            if end > self.base() + self.bytes {
                return None;
            }
            match self.used.compare_exchange(used, end - self.base(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return NonNull::new(at as *mut u8),
                Err(now) => used = now,
            }
        }
    }
}

// SAFETY: `carve` advances one counter by compare-and-swap, so ranges never overlap. By the
// constructor's contract all memory is valid, writable and zeroed. Nothing is ever released or
// unmapped.
unsafe impl PageSource for ArenaSource {
    fn page_size(&self) -> usize {
        self.page_size
    }

    fn zone_bytes(&self) -> usize {
        let start = checked_align_up(self.base() + self.used.load(Ordering::Relaxed), self.page_size);
        start.map_or(0, |start| (self.base() + self.bytes).saturating_sub(start) & !(self.page_size - 1))
    }

    fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if self.refuse() { None } else { self.carve(bytes, align) }
    }

    unsafe fn commit(&self, _at: NonNull<u8>, _bytes: usize) -> bool {
        !self.refuse()
    }

    unsafe fn release(&self, _at: NonNull<u8>, _bytes: usize) -> bool {
        false
    }

    unsafe fn bind(&self, _at: NonNull<u8>, _bytes: usize, _node: NodeId) {}

    fn map_direct(&self, _bytes: usize) -> Option<NonNull<u8>> {
        None
    }

    unsafe fn unmap_direct(&self, _at: NonNull<u8>, _bytes: usize) {}
}
