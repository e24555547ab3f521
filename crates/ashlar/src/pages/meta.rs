//! Metadata memory: caches, sheaves and table nodes, apart from the objects of the program.
//!
//! A bump allocator over one range of addresses, committed in steps of 64 KiB. Where another
//! mapping lies in the range, it goes on behind. Its memory is never freed. Each kind of structure
//! keeps a list of its own spares, so a stale pointer to a sheaf can only point to another sheaf.
//! The gap before an aligned structure is kept for smaller ones, so caches lie between sheaves. If
//! the system refuses more memory, a program may still have freed much: then pages of the zone
//! become metadata, for ever. Lock: the *meta lock*, a leaf.
#![allow(unsafe_code, reason = "hands out raw memory")]

use core::ptr::NonNull;

use super::layout::Supply;
use crate::base::source::Refusal;
use crate::base::sync::{SpinLock, Visit};
use crate::base::units::{align_up, checked_align_up};
use ashlar_macros::place;

const COMMIT_STEP: usize = 64 << 10;

struct Range {
    /// As far before `next` as bytes were handed out: the first address, moved by what was left
    /// out.
    start: usize,
    next: usize,
    committed: usize,
    end: usize,
    /// The longest stretch that an alignment left unused.
    gap: core::ops::Range<usize>,
    /// The unused part of the last pages of the zone that became metadata.
    lent: core::ops::Range<usize>,
    /// Bytes that were handed out of such pages.
    used_of_lent: usize,
    lend: Option<Lend>,
    supply: Option<Supply>,
}

impl Range {
    const NONE: Range = Range {
        start: 0,
        next: 0,
        committed: 0,
        end: 0,
        gap: 0..0,
        lent: 0..0,
        used_of_lent: 0,
        lend: None,
        supply: None,
    };

    /// Takes `bytes` at a multiple of `align`. `None` if no committed memory is left for it, and
    /// the system refuses more.
    fn take(&mut self, bytes: usize, align: usize) -> Option<usize> {
        self.take_from_gap(bytes, align)
            .or_else(|| self.take_from_range(bytes, align))
            .or_else(|| self.take_from_lent(bytes, align))
    }

    fn take_from_range(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let mut detour = COMMIT_STEP;
        let (start, end) = loop {
            let start = checked_align_up(self.next, align)?;
            let end = start.checked_add(bytes).filter(|&end| end <= self.end)?;
            match self.commit_up_to(end) {
                Ok(()) => break (start, end),
                // Another mapping is there: metadata goes on behind it.
                Err(Refusal::Taken) => self.pass(detour),
                Err(Refusal::NoMemory) => return None,
            }
            detour = detour.checked_mul(2)?;
        };
        if start - self.next > self.gap.len() {
            self.gap = self.next..start;
        }
        self.next = end;
        Some(start)
    }

    /// Commits the addresses below `end`, and some more if the system has the memory.
    fn commit_up_to(&mut self, end: usize) -> Result<(), Refusal> {
        let from = self.committed;
        if end <= from {
            return Ok(());
        }
        let supply = self.supply.ok_or(Refusal::NoMemory)?;
        let page = supply.source().page_size();
        let mut refusal = Ok(());
        for step in [COMMIT_STEP, page] {
            let to = (from + align_up(end - from, step.max(page))).min(self.end);
            // SAFETY: the addresses are the metadata's own, behind the committed part.
            refusal = unsafe { supply.commit(from, to) };
            if refusal.is_ok() {
                self.committed = to;
                break;
            }
        }
        refusal
    }

    /// Leaves out the next `bytes` of addresses behind the committed part, and the rest of it.
    #[inline(never)]
    #[place(cold)]
    fn pass(&mut self, bytes: usize) {
        if self.committed - self.next > self.gap.len() {
            self.gap = self.next..self.committed;
        }
        let behind = self.committed.saturating_add(bytes).min(self.end);
        self.start += behind - self.committed;
        (self.next, self.committed) = (behind, behind);
    }

    #[inline(never)]
    #[place(cold)]
    fn take_from_lent(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let start = checked_align_up(self.lent.start, align)?;
        let end = start.checked_add(bytes).filter(|&end| end <= self.lent.end)?;
        self.used_of_lent += end - self.lent.start;
        self.lent.start = end;
        Some(start)
    }

    /// Takes `bytes` at a multiple of `align` from the gap.
    fn take_from_gap(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let start = checked_align_up(self.gap.start, align)?;
        let end = start.checked_add(bytes).filter(|&end| end <= self.gap.end)?;
        self.gap.start = end;
        Some(start)
    }
}

/// Takes free pages of the zone of so many bytes, zeroed and for ever.
pub(crate) type Lend = fn(usize) -> Option<core::ops::Range<usize>>;

/// The metadata allocator; see the module.
pub(crate) struct Meta(SpinLock<Range>);

/// The one metadata arena of the process.
pub(crate) static META: Meta = Meta(SpinLock::new(Range::NONE));

#[cfg(all(feature = "os", not(ashlar_loom)))]
impl Meta {
    /// Where a reader outside of the process finds the figures, from the address of [`META`] on.
    pub(crate) const LAYOUT: crate::base::window::MetaAt = crate::base::window::MetaAt {
        start: (SpinLock::<Range>::VALUE + core::mem::offset_of!(Range, start)) as u32,
        next: (SpinLock::<Range>::VALUE + core::mem::offset_of!(Range, next)) as u32,
        used_of_lent: (SpinLock::<Range>::VALUE + core::mem::offset_of!(Range, used_of_lent)) as u32,
    };
}

impl Meta {
    /// Takes over its addresses, and the function that lends pages if the system refuses more
    /// memory. Start-up calls it once. Commits nothing.
    pub(crate) fn init(&self, supply: Supply, addresses: core::ops::Range<usize>, lend: Lend) {
        let core::ops::Range { start, end } = addresses;
        let (gap, supply, lend) = (start..start, Some(supply), Some(lend));
        *self.0.lock() = Range { start, next: start, committed: start, end, gap, supply, lend, ..Range::NONE };
    }

    /// Allocates `bytes` of zeroed memory at a multiple of `align`, for ever. The caller holds
    /// neither growth lock nor zone lock nor direct lock.
    #[inline(never)]
    pub(crate) fn alloc(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        self.alloc_unlent(bytes, align).or_else(|| self.alloc_from_lender(bytes, align))
    }

    /// As [`Self::alloc`], without pages of the zone: for callers that hold one of its locks, and
    /// for what the allocator can do without.
    #[inline(never)]
    pub(crate) fn alloc_unlent(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        NonNull::new(self.0.lock().take(bytes, align)? as *mut u8)
    }

    #[inline(never)]
    #[place(cold)]
    fn alloc_from_lender(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        // The lender takes zone locks, which come before the meta lock.
        let lend = self.0.lock().lend?;
        let lent = lend(bytes.checked_add(align)?)?;
        let mut range = self.0.lock();
        // Another thread may have been lent some meanwhile. The shorter rest is lost.
        if lent.len() > range.lent.len() {
            range.lent = lent;
        }
        NonNull::new(range.take(bytes, align)? as *mut u8)
    }

    /// Returns the bytes handed out.
    pub(crate) fn used(&self) -> usize {
        let range = self.0.lock();
        range.next - range.start + range.used_of_lent
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

    /// Lends zeroed memory of the test's own.
    fn lend(bytes: usize) -> Option<core::ops::Range<usize>> {
        let bytes = bytes.checked_next_multiple_of(4096).filter(|&bytes| bytes < 1 << 30)?;
        let memory = std::vec![0u8; bytes].leak().as_ptr() as usize;
        Some(memory..memory + bytes)
    }

    /// Returns a metadata arena of its own, which is leaked.
    fn meta(bytes: usize) -> Meta {
        let memory = std::vec![0u8; bytes + 4096].leak();
        // SAFETY: the memory is leaked, zeroed, and used by no other code.
        let source = unsafe { ArenaSource::new(NonNull::from(&mut *memory).cast(), memory.len()) };
        let meta = Meta(SpinLock::new(Range::NONE));
        let start = source.reserve(bytes, 4096).expect("room").as_ptr() as usize;
        meta.init(Supply::reserved(Box::leak(Box::new(source))), start..start + bytes, lend);
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
    fn pages_of_the_zone_serve_where_the_system_refuses() {
        let meta = meta(64 << 10);
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for (bytes, align) in [(2048, 2048), (100, 8), (100_000, 128), (768, 64)].into_iter().cycle().take(400) {
            let at = meta.alloc(bytes, align).expect("lent").as_ptr();
            // SAFETY: fresh memory of this length.
            let fresh = unsafe { core::slice::from_raw_parts_mut(at, bytes) };
            assert!(fresh.iter().all(|&byte| byte == 0) && (at as usize).is_multiple_of(align));
            fresh.fill(1);
            taken.push((at as usize, at as usize + bytes));
        }
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0), "no two share a byte");
        assert!(meta.used() >= taken.iter().map(|(start, end)| end - start).sum::<usize>() - (64 << 10));
        assert_eq!(meta.alloc_unlent(1 << 20, 8), None, "locked, it borrows nothing");
        assert_eq!(meta.alloc(usize::MAX, 8), None);
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
