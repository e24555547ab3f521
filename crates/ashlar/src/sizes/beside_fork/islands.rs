//! Islands: mappings from which blocks are cut one after the other. No block is used twice, so each
//! is zeroed. An island is unmapped when it is full and all its blocks are free.

use core::ptr::NonNull;

use super::table::Table;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::base::units::{align_up, checked_align_up};
use crate::pages::zone::ZONE;

/// The bytes of an island. A larger block gets an island of its own.
const BYTES: usize = 256 << 10;
/// The bytes before a block: its size, and padding to C's largest alignment.
const HEAD: usize = 16;

/// An island's entry in the table. Only threads that hold a block of the island touch its mapping.
struct Island {
    /// The first address; 0 if the entry is free, 1 while a thread fills it.
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// The bytes cut so far. Exceeds the size when the island is full.
    used: AtomicUsize,
    /// The number of live blocks, plus one while blocks may be cut from the island.
    live: AtomicUsize,
}

// SAFETY: an entry with the start 0 is free.
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

/// The index plus one of the island from which small blocks are cut; 0 for none.
static CURRENT: AtomicUsize = AtomicUsize::new(0);

impl Island {
    /// Creates an island of `bytes` bytes. Returns its index; `None` without memory, or if the
    /// table is full.
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
        // Stored last, because a thread may still take the entry for its previous island.
        island.live.store(1, Ordering::Release);
        Some(place)
    }

    /// Cuts off a block of `size` bytes at a multiple of `align`. `None` if too little is left.
    fn cut(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        // Counts the block, unless the count is 0, because then the island may be unmapped already.
        let one_more = |live| (live != 0).then_some(live + 1);
        self.live.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).ok()?;
        // The island starts at a page, and other threads cut blocks concurrently. So many bytes
        // contain an aligned place at any offset.
        let room = HEAD + size + if align > HEAD { align } else { 0 };
        let start = self.used.fetch_add(room, Ordering::Relaxed);
        if start.saturating_add(room) > self.bytes.load(Ordering::Relaxed) {
            self.release();
            return None;
        }
        let block = align_up(self.start.load(Ordering::Acquire) + start + HEAD, align.max(HEAD));
        // SAFETY: the bytes before the block lie in the part that this thread just cut off.
        unsafe { ((block - HEAD) as *mut usize).write(size) };
        NonNull::new(block as *mut u8)
    }

    /// Releases a block, or the right to cut more blocks.
    fn release(&self) {
        if self.live.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let (start, bytes) = (self.start.load(Ordering::Acquire), self.bytes.load(Ordering::Relaxed));
        if let (Some(source), Some(at)) = (ZONE.source(), NonNull::new(start as *mut u8)) {
            // The entry stays taken until the mapping is gone, because its addresses may return in
            // another entry.
            self.start.store(1, Ordering::Relaxed);
            // SAFETY: this is the mapping of the island. Its last block was freed, and no more can
            // be cut, because `live` stays 0.
            unsafe { source.unmap_direct(at, bytes) };
            self.start.store(0, Ordering::Release);
        }
    }
}

/// Allocates `size` zeroed bytes at a multiple of `align`, a power of two.
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
        // The thread that replaces the old island releases the right to cut from it. A thread that
        // comes too late releases its own island.
        let exchanged = CURRENT.compare_exchange(current, next, Ordering::AcqRel, Ordering::Relaxed);
        let gone = if exchanged.is_ok() { current } else { next };
        if let Some(island) = gone.checked_sub(1).and_then(|place| TABLE.at(place)) {
            island.release();
        }
    }
}

/// Returns the island that contains an address.
#[place(background)]
fn around(address: usize) -> Option<&'static Island> {
    TABLE.taken().find(|island| {
        let start = island.start.load(Ordering::Acquire);
        start > 1 && address.wrapping_sub(start) < island.bytes.load(Ordering::Relaxed)
    })
}

/// Returns the size of the live block at `address`, if there is one.
#[inline]
pub(crate) fn size_of(address: usize) -> Option<usize> {
    // Most processes never have an island.
    if TABLE.was_used() { size_on_island(address) } else { None }
}

#[cold]
#[inline(never)]
#[place(background)]
fn size_on_island(address: usize) -> Option<usize> {
    around(address)?;
    if !address.is_multiple_of(HEAD) {
        return None;
    }
    // SAFETY: the caller holds a block of the island. If it passed a wrong address, some word of
    // the island is read.
    let size = unsafe { ((address - HEAD) as *const AtomicUsize).as_ref() }?.load(Ordering::Relaxed);
    (size != 0).then_some(size)
}

/// Frees the block at `address`. Returns false if there is none.
#[inline(never)]
#[place(background)]
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
