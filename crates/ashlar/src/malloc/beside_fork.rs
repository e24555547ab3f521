//! What malloc does while another thread forks.
//!
//! The slow paths pass the [`GATE`], which a fork closes: see [`crate::fork`]. A thread that finds
//! it closed waits for a moment, because nearly every fork is over soon. After that it does without
//! the allocator, because the fork may be waiting for a lock that this thread holds:
//!
//! * it allocates from *islands*, small mappings made for this alone, which nothing but atomic
//!   counters manages;
//! * it leaves what it frees in a table, for the thread that forks;
//! * it asks for sizes only where that takes no lock.
//!
//! The child is a copy of some moment of this. Each step is one atomic operation, so every moment
//! will do: at worst the child loses a block that the parent's thread was about to get or had just
//! given up.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

use core::ptr::NonNull;

use crate::page::zone::ZONE;
use crate::sync::gate::{Gate, Inside};
use crate::sync::{AtomicUsize, Ordering, relax, thread_id};
use crate::units::{align_up, checked_align_up};

/// What the slow paths of malloc pass.
pub(crate) static GATE: Gate = Gate::new();

/// Looks at a closed gate before a thread does without: about a millisecond.
const PATIENCE: u32 = 110;

/// Runs `usual` inside the gate. Where another thread's fork keeps the gate closed for longer than
/// a moment, runs `instead`.
pub(super) fn pass<R>(usual: impl FnOnce() -> R, instead: impl FnOnce() -> R) -> R {
    match enter() {
        Some(_inside) => usual(),
        None => instead(),
    }
}

/// Goes in; `None` if the gate stays closed for longer than a moment. One copy for all who pass.
#[inline(never)]
fn enter() -> Option<Inside<'static>> {
    let me = thread_id();
    for waited in 0..PATIENCE {
        if let Some(inside) = GATE.enter(me) {
            return Some(inside);
        }
        relax(waited);
    }
    None
}

/// Addresses that were freed beside a fork; 0 for none. Where all places are taken a block is lost.
static LEFT: [AtomicUsize; 512] = [const { AtomicUsize::new(0) }; 512];

/// Leaves a block to be freed after the fork, or frees it if it lies on an island.
pub(super) fn leave(address: usize) {
    if islands::free(address) {
        return;
    }
    for place in &LEFT {
        if place.load(Ordering::Relaxed) == 0
            && place.compare_exchange(0, address, Ordering::Release, Ordering::Relaxed).is_ok()
        {
            return;
        }
    }
}

/// Frees what was left, in the thread that forked.
pub(crate) fn after_fork() {
    for place in &LEFT {
        if place.load(Ordering::Relaxed) != 0 {
            let address = place.swap(0, Ordering::Acquire);
            // SAFETY: a thread gave this block up by `free`, and it has been nowhere but here
            // since.
            unsafe { super::free(address as *mut u8) };
        }
    }
}

pub(super) use islands::{alloc, free, size_of};

/// Mappings that blocks are cut from, one after the other. A block is never used twice: so it is
/// zero. An island is unmapped when it is full and all its blocks are free.
mod islands {
    use super::{AtomicUsize, NonNull, Ordering, ZONE, align_up, checked_align_up};
    use crate::sync::AtomicPtr;

    /// Bytes of an island. Larger blocks have one of their own.
    const BYTES: usize = 256 << 10;
    /// Islands in the table that is always there. A fork that waits for long needs more.
    const MOST: usize = 256;
    /// Islands in the second table, which is mapped when the first is full.
    const MORE: usize = 1 << 15;
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

    static TABLE: [Island; MOST] = [const {
        Island {
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
        }
    }; MOST];
    /// The second table; null until it is needed. It is never unmapped.
    static BEYOND: AtomicPtr<Island> = AtomicPtr::new(core::ptr::null_mut());
    /// Places from this on were never taken: a search ends there.
    static TAKEN: AtomicUsize = AtomicUsize::new(0);

    fn beyond() -> &'static [Island] {
        let start = BEYOND.load(Ordering::Acquire);
        if start.is_null() {
            return &[];
        }
        // SAFETY: a mapping of `MORE` islands that stays. It began as zeros, which are free places.
        unsafe { core::slice::from_raw_parts(start, MORE) }
    }

    /// All places, in order.
    fn places() -> impl Iterator<Item = &'static Island> {
        TABLE.iter().chain(beyond())
    }

    fn at(place: usize) -> Option<&'static Island> {
        TABLE.get(place).or_else(|| beyond().get(place - MOST))
    }

    /// Makes sure that the second table is there; false without memory.
    fn map_beyond() -> bool {
        let bytes = MORE * core::mem::size_of::<Island>();
        let Some(source) = ZONE.source() else { return false };
        let Some(start) = source.map_direct(bytes) else { return false };
        let table = start.as_ptr().cast();
        let null = core::ptr::null_mut();
        if BEYOND.compare_exchange(null, table, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: the mapping just made, which no other thread has seen.
            unsafe { source.unmap_direct(start, bytes) };
        }
        true
    }

    /// One more than the place of the island that small blocks are cut from; 0 for none.
    static CURRENT: AtomicUsize = AtomicUsize::new(0);

    impl Island {
        /// Makes an island of `bytes` bytes; its place. `None` without memory, or when the table is
        /// full.
        fn make(bytes: usize) -> Option<usize> {
            let source = ZONE.source()?;
            let bytes = checked_align_up(bytes, source.page_size())?;
            let free =
                |island: &Island| island.start.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
            let all = !beyond().is_empty();
            let mut place = places().position(free);
            if place.is_none() && !all && map_beyond() {
                place = places().position(free);
            }
            let place = place?;
            let island = at(place)?;
            TAKEN.fetch_max(place + 1, Ordering::AcqRel);
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
    pub(in crate::malloc) fn alloc(size: usize, align: usize) -> Option<NonNull<u8>> {
        let size = checked_align_up(size.max(1), HEAD)?;
        let room = size.checked_add(HEAD)?.checked_add(align).filter(|&room| room <= isize::MAX as usize)?;
        if room > BYTES / 4 {
            let place = Island::make(room)?;
            let island = at(place)?;
            let block = island.cut(size, align);
            island.release();
            return block;
        }
        loop {
            let current = CURRENT.load(Ordering::Acquire);
            if let Some(island) = current.checked_sub(1).and_then(at)
                && let Some(block) = island.cut(size, align)
            {
                return Some(block);
            }
            let next = Island::make(BYTES)? + 1;
            // The thread that takes the old one's place ends the wish to cut from it; one that was
            // too late gives its own up.
            let exchanged = CURRENT.compare_exchange(current, next, Ordering::AcqRel, Ordering::Relaxed);
            let gone = if exchanged.is_ok() { current } else { next };
            if let Some(island) = gone.checked_sub(1).and_then(at) {
                island.release();
            }
        }
    }

    /// The island on which an address lies.
    fn around(address: usize) -> Option<&'static Island> {
        // Most processes never have one.
        match TAKEN.load(Ordering::Acquire) {
            0 => None,
            taken => among(taken, address),
        }
    }

    #[cold]
    #[inline(never)]
    fn among(taken: usize, address: usize) -> Option<&'static Island> {
        places().take(taken).find(|island| {
            let start = island.start.load(Ordering::Acquire);
            start > 1 && address.wrapping_sub(start) < island.bytes.load(Ordering::Relaxed)
        })
    }

    /// The size of the live block at `address`; `None` if none lies there.
    pub(in crate::malloc) fn size_of(address: usize) -> Option<usize> {
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
    pub(in crate::malloc) fn free(address: usize) -> bool {
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
}
