//! Metadata memory: caches, sheaves and table nodes, kept apart from the objects of the program.
//!
//! A bump allocator over one reserved range that is committed 64 KiB at a time. Nothing is ever given
//! back to it: each kind of structure keeps a list of its own spares, so that a stale pointer to a sheaf
//! can only ever meet another sheaf. Lock: the *meta lock*, a leaf.
#![allow(unsafe_code, reason = "hands out raw memory")]

use core::ptr::NonNull;

use super::source::PageSource;
use crate::sync::SpinLock;
use crate::units::{align_up, checked_align_up};

const COMMIT_STEP: usize = 64 << 10;

struct Range {
    start: usize,
    next: usize,
    committed: usize,
    end: usize,
    source: Option<&'static dyn PageSource>,
}

/// See the module.
pub(crate) struct Meta(SpinLock<Range>);

/// The one metadata arena of the process.
pub(crate) static META: Meta = Meta(SpinLock::new(Range { start: 0, next: 0, committed: 0, end: 0, source: None }));

impl Meta {
    /// Reserves the range. Called once, by the boot.
    pub(crate) fn init(&self, source: &'static dyn PageSource, bytes: usize) -> bool {
        let size = source.page_size();
        let Some(at) = source.reserve(align_up(bytes, size), size.max(4096)) else { return false };
        let mut range = self.0.lock();
        let start = at.as_ptr() as usize;
        *range =
            Range { start, next: start, committed: start, end: start + align_up(bytes, size), source: Some(source) };
        true
    }

    /// `bytes` of zeroed memory at a multiple of `align`, for ever.
    pub(crate) fn alloc(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let mut range = self.0.lock();
        let start = checked_align_up(range.next, align)?;
        let end = start.checked_add(bytes)?;
        if end > range.end {
            return None;
        }
        if end > range.committed {
            let source = range.source?;
            let step = align_up(end - range.committed, COMMIT_STEP.max(source.page_size()));
            let step = step.min(range.end - range.committed);
            let at = NonNull::new(range.committed as *mut u8)?;
            // SAFETY: the range up to `end` of the reservation is ours.
            if !unsafe { source.commit(at, step) } {
                return None;
            }
            range.committed += step;
        }
        range.next = end;
        NonNull::new(start as *mut u8)
    }

    /// Bytes handed out.
    pub(crate) fn used(&self) -> usize {
        let range = self.0.lock();
        range.next - range.start
    }

    /// Takes the meta lock, for fork.
    pub(crate) fn lock_all(&self) {
        self.0.lock_raw();
    }

    /// Releases what [`Self::lock_all`] took.
    ///
    /// # Safety
    /// This thread, or its parent's across fork, called `lock_all`.
    pub(crate) unsafe fn unlock_all(&self) {
        // SAFETY: by the caller's promise.
        unsafe { self.0.unlock_raw() };
    }
}
