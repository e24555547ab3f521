//! Mappings that blocks are cut from, one after the other. A block is never used twice: so it is
//! zero. An island is unmapped when it is full and all its blocks are free.

use core::ptr::NonNull;

use super::table::Table;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::base::units::{align_up, checked_align_up};
use crate::pages::zone::ZONE;

/// Bytes of an island. Larger blocks have one of their own.
const BYTES: usize = 256 << 10;
/// Bytes before a block: its size, and padding to what C aligns to.
const HEAD: usize = 16;

/// An island, as the table knows it. Nothing but a thread that holds a block of it touches the
/// mapping.
struct Island {
    /// First address; 0 where the place in the table is free, 1 while a thread fills the place.
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// Bytes cut off so far; more than there are when it is full.
    used: AtomicUsize,
    /// Live blocks, and one more while blocks may be cut from it.
    live: AtomicUsize,
}

// SAFETY: an island that starts at 0 is none.
static TABLE: Table<Island, 256, { 1 << 15 }> = unsafe {
    Table::new(
        [const {
            Island {
                start: AtomicUsize::new(0),
                bytes: AtomicUsize::new(0),
                used: AtomicUsize::new(0),
                live: AtomicUsize::new(0),
            }
        }; 256],
    )
};

/// One more than the place of the island that small blocks are cut from; 0 for none.
static CURRENT: AtomicUsize = AtomicUsize::new(0);

impl Island {
    /// Makes an island of `bytes` bytes; its place. `None` without memory, or when the table is
    /// full.
    fn make(bytes: usize) -> Option<usize> {
        let source = ZONE.source()?;
        let bytes = checked_align_up(bytes, source.page_size())?;
        let free = |island: &Island| island.start.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let place = TABLE.claim(free)?;
        let island = TABLE.at(place)?;
        let Some(at) = source.map_direct(bytes) else {
            island.start.store(0, Ordering::Release);
            return None;
        };
        island.bytes.store(bytes, Ordering::Relaxed);
        island.used.store(0, Ordering::Relaxed);
        island.start.store(at.as_ptr() as usize, Ordering::Release);
        // Last: a thread may still take the place for the island that was here before.
        island.live.store(1, Ordering::Release);
        Some(place)
    }

    /// Cuts a block of `size` bytes at a multiple of `align` off; `None` when there is not
    /// enough left.
    fn cut(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        // One more block, unless the last one is gone: then the island may be unmapped already.
        let one_more = |live| (live != 0).then_some(live + 1);
        self.live.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).ok()?;
        // The island starts at a page. Whatever the others take, there is an aligned place in
        // so much.
        let room = HEAD + size + if align > HEAD { align } else { 0 };
        let start = self.used.fetch_add(room, Ordering::Relaxed);
        if start.saturating_add(room) > self.bytes.load(Ordering::Relaxed) {
            self.release();
            return None;
        }
        let block = align_up(self.start.load(Ordering::Acquire) + start + HEAD, align.max(HEAD));
        // SAFETY: the bytes before the block lie in the part that was just cut off, which is
        // this thread's.
        unsafe { ((block - HEAD) as *mut usize).write(size) };
        NonNull::new(block as *mut u8)
    }

    /// Gives up a block, or the wish to cut more.
    fn release(&self) {
        if self.live.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let (start, bytes) = (self.start.load(Ordering::Acquire), self.bytes.load(Ordering::Relaxed));
        if let (Some(source), Some(at)) = (ZONE.source(), NonNull::new(start as *mut u8)) {
            // Not before the mapping is gone: its addresses may come again, in another place of
            // the table.
            self.start.store(1, Ordering::Relaxed);
            // SAFETY: the mapping of this island. Its last block is gone, and no more can be
            // cut: `live` stays 0.
            unsafe { source.unmap_direct(at, bytes) };
            self.start.store(0, Ordering::Release);
        }
    }
}

/// Zeroed memory of `size` bytes at a multiple of `align`, a power of two.
#[place(background)]
pub(crate) fn alloc(size: usize, align: usize) -> Option<NonNull<u8>> {
    let size = checked_align_up(size.max(1), HEAD)?;
    let room = size.checked_add(HEAD)?.checked_add(align).filter(|&room| room <= isize::MAX as usize)?;
    if room > BYTES / 4 {
        let place = Island::make(room)?;
        let island = TABLE.at(place)?;
        let block = island.cut(size, align);
        island.release();
        return block;
    }
    loop {
        let current = CURRENT.load(Ordering::Acquire);
        if let Some(island) = current.checked_sub(1).and_then(|place| TABLE.at(place))
            && let Some(block) = island.cut(size, align)
        {
            return Some(block);
        }
        let next = Island::make(BYTES)? + 1;
        // The thread that takes the old one's place ends the wish to cut from it; one that was
        // too late gives its own up.
        let exchanged = CURRENT.compare_exchange(current, next, Ordering::AcqRel, Ordering::Relaxed);
        let gone = if exchanged.is_ok() { current } else { next };
        if let Some(island) = gone.checked_sub(1).and_then(|place| TABLE.at(place)) {
            island.release();
        }
    }
}

/// The island on which an address lies.
fn around(address: usize) -> Option<&'static Island> {
    // Most processes never have one.
    if TABLE.was_used() { among_all(address) } else { None }
}

#[cold]
#[inline(never)]
#[place(background)]
fn among_all(address: usize) -> Option<&'static Island> {
    TABLE.taken().find(|island| {
        let start = island.start.load(Ordering::Acquire);
        start > 1 && address.wrapping_sub(start) < island.bytes.load(Ordering::Relaxed)
    })
}

/// The size of the live block at `address`; `None` if none lies there.
pub(crate) fn size_of(address: usize) -> Option<usize> {
    around(address)?;
    if !address.is_multiple_of(HEAD) {
        return None;
    }
    // SAFETY: the caller holds a block of the island, or misuses it: then some word of it is
    // read.
    let size = unsafe { ((address - HEAD) as *const AtomicUsize).as_ref() }?.load(Ordering::Relaxed);
    (size != 0).then_some(size)
}

/// Frees the block at `address`; false if none lies there.
pub(crate) fn free(address: usize) -> bool {
    let Some(island) = around(address) else { return false };
    if size_of(address).is_none() {
        return false;
    }
    // SAFETY: as in `size_of`.
    let taken = unsafe { &*((address - HEAD) as *const AtomicUsize) }.swap(0, Ordering::Relaxed);
    if taken != 0 {
        island.release();
    }
    taken != 0
}
