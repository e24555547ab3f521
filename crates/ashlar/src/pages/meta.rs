//! Metadata memory: caches, sheaves and table nodes, apart from the objects of the program.
//!
//! A bump allocator over one range of addresses, committed in steps of 64 KiB. Its memory is never
//! freed. Each kind of structure keeps a list of its own spares, so a stale pointer to a sheaf can
//! only point to another sheaf. The gap before an aligned structure is kept for smaller ones, so
//! caches lie between sheaves. Lock: the *meta lock*, a leaf.
#![allow(unsafe_code, reason = "hands out raw memory")]

use core::ptr::NonNull;

use super::layout::Supply;
use crate::base::sync::{SpinLock, Visit};
use crate::base::units::{align_up, checked_align_up};

const COMMIT_STEP: usize = 64 << 10;

struct Range {
    start: usize,
    next: usize,
    committed: usize,
    end: usize,
    /// The longest stretch that an alignment left unused.
    gap: core::ops::Range<usize>,
    supply: Option<Supply>,
}

impl Range {
    /// Takes `bytes` at a multiple of `align` from the gap.
    fn take_from_gap(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let start = checked_align_up(self.gap.start, align)?;
        let end = start.checked_add(bytes).filter(|&end| end <= self.gap.end)?;
        self.gap.start = end;
        Some(start)
    }
}

/// The metadata allocator; see the module.
pub(crate) struct Meta(SpinLock<Range>);

/// The one metadata arena of the process.
pub(crate) static META: Meta =
    Meta(SpinLock::new(Range { start: 0, next: 0, committed: 0, end: 0, gap: 0..0, supply: None }));

impl Meta {
    /// Takes over its addresses. Start-up calls it once. Commits nothing.
    pub(crate) fn init(&self, supply: Supply, addresses: core::ops::Range<usize>) {
        let core::ops::Range { start, end } = addresses;
        *self.0.lock() = Range { start, next: start, committed: start, end, gap: start..start, supply: Some(supply) };
    }

    /// Allocates `bytes` of zeroed memory at a multiple of `align`, for ever.
    pub(crate) fn alloc(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let mut range = self.0.lock();
        if let Some(start) = range.take_from_gap(bytes, align) {
            return NonNull::new(start as *mut u8);
        }
        let start = checked_align_up(range.next, align)?;
        let end = start.checked_add(bytes)?;
        if end > range.end {
            return None;
        }
        if end > range.committed {
            let supply = range.supply?;
            let page = supply.source().page_size();
            let [good, need] = [COMMIT_STEP, page].map(|step| align_up(end - range.committed, step.max(page)));
            let from = range.committed;
            let step = [good, need].map(|step| step.min(range.end - from)).into_iter().find(|step| {
                // SAFETY: the addresses are the metadata's own, behind the committed part.
                unsafe { supply.commit(from, from + step) }.is_ok()
            })?;
            range.committed += step;
        }
        if start - range.next > range.gap.len() {
            range.gap = range.next..start;
        }
        range.next = end;
        NonNull::new(start as *mut u8)
    }

    /// Returns the bytes handed out.
    pub(crate) fn used(&self) -> usize {
        let range = self.0.lock();
        range.next - range.start
    }

    /// Visits the meta lock, for a fork.
    pub(crate) fn for_each_lock(&self, visit: Visit<'_>) {
        visit(self.0.word());
    }
}

/// Allocates metadata memory for `count` values, filled by `make`. It is never freed.
pub(crate) fn meta_slice<T>(count: usize, mut make: impl FnMut() -> Option<T>) -> Option<&'static [T]> {
    let memory = META.alloc(count * size_of::<T>(), align_of::<T>().max(128))?.as_ptr().cast::<T>();
    for i in 0..count {
        // SAFETY: the memory is fresh, has room for `count` values, and is aligned for them.
        unsafe { memory.add(i).write(make()?) };
    }
    // SAFETY: all values were just initialised, and the memory is never freed.
    Some(unsafe { core::slice::from_raw_parts(memory, count) })
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::*;
    use crate::base::source::PageSource;
    use crate::pages::arena::ArenaSource;
    use proptest::prelude::*;
    use std::prelude::rust_2024::*;

    /// Returns a metadata arena of its own, which is leaked.
    fn meta(bytes: usize) -> Meta {
        let memory = std::vec![0u8; bytes + 4096].leak();
        // SAFETY: the memory is leaked, zeroed, and used by no other code.
        let source = unsafe { ArenaSource::new(NonNull::from(&mut *memory).cast(), memory.len()) };
        let meta = Meta(SpinLock::new(Range { start: 0, next: 0, committed: 0, end: 0, gap: 0..0, supply: None }));
        let start = source.reserve(bytes, 4096).expect("room").as_ptr() as usize;
        meta.init(Supply::reserved(Box::leak(Box::new(source))), start..start + bytes);
        meta
    }

    proptest! {
        #[test]
        fn no_two_share_a_byte_and_gaps_are_used(sizes in proptest::collection::vec((1usize..3000, 0u32..12), 1..200)) {
            let meta = meta(2 << 20);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for (bytes, align) in sizes {
                let at = meta.alloc(bytes, 1 << align).expect("enough for all").as_ptr() as usize;
                prop_assert!(at.is_multiple_of(1 << align));
                prop_assert!(taken.iter().all(|&(start, end)| at + bytes <= start || at >= end));
                taken.push((at, at + bytes));
            }
        }
    }

    #[test]
    fn small_things_stand_between_large_ones() {
        let meta = meta(1 << 20);
        for _ in 0..32 {
            assert!(meta.alloc(768, 64).is_some() && meta.alloc(2048, 2048).is_some());
        }
        assert!(meta.used() <= 32 * (2048 + 1024) + 2048, "{} bytes", meta.used());
    }
}
