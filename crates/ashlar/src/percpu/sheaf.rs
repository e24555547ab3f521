//! A sheaf: a stack of object pointers, the unit that CPUs and barns exchange.
//!
//! ```text
//!  word 0  1                                               capacity + 1
//!  | info | free places .. | top object .. oldest object | 0 (sentinel) | ..
//!                            ^ top
//! ```
//!
//! A sheaf is aligned to its size and grows downwards. It is handled by the address of its top
//! entry alone:
//!
//! * A top entry of 0 means empty: it is the sentinel.
//! * An odd word before the top means full: it is the info word, and no object has an odd address.
//!
//! So the fast paths need no counter, limit or size, and a smaller capacity only moves the
//! sentinel.
//!
//! A sheaf takes a *sheaf page* of 2 KiB, or a half, a quarter or an eighth of one. All sheaves of
//! a page have the same size for ever. The first word of the page, which is the info word of its
//! first sheaf, records that size. So the size is found from any address in the page.
//!
//! | bits of the info word | |
//! |---|---|
//! | 0 | 1, which no object address has |
//! | 1..3 | in the first info word of a sheaf page: its [`SheafSize`]; constant |
//! | 8..16 | capacity, plus one |
//! | 16.. | the next sheaf of a list: its address, divided by the bytes of the smallest sheaf |
//!
//! Owns: the pools of sheaves that no cache uses, one for each size.
//!
//! Lock: the *sheaf pool lock*, one for each pool; no other lock is taken under it.
#![allow(unsafe_code, reason = "raw stacks of pointers")]

use core::ptr::NonNull;
// Not loom's atomics, because the word orders nothing. It is atomic only because a CPU may read the
// size from the page's first info word while the owner of that sheaf changes the other bits.
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::sync::prefetch;
use crate::base::units::CACHE_LINE;

use crate::base::sync::{AtomicU32, Ordering, SpinLock};
#[cfg(not(ashlar_loom))]
use crate::pages::meta::META;

/// Bytes of a sheaf page, and its alignment.
pub(crate) const SHEAF_PAGE_BYTES: usize = 2 << 10;
const WORD: usize = size_of::<u64>();
/// Most objects in a sheaf: all words but the info word and the sentinel.
pub const MAX_SHEAF_CAPACITY: usize = SHEAF_PAGE_BYTES / WORD - 2;
/// Most objects in a sheaf of half a sheaf page.
pub(crate) const HALF_SHEAF_CAPACITY: usize = SheafSize(1).most();
/// Set in the word before the top of a full sheaf, and of no other sheaf.
pub(crate) const FULL_BIT: usize = 1;
const SIZE_SHIFT: u32 = 1;
const SIZE_BITS: u64 = 3 << SIZE_SHIFT;
const CAPACITY_SHIFT: u32 = 8;
const LINK_SHIFT: u32 = 16;
const SMALLEST_BYTES: usize = SheafSize::SMALLEST.bytes();
// `section_room` depends on this size.
const _: () = assert!(SMALLEST_BYTES == 256);
/// The info word of a sheaf of capacity 0 that is in no list.
pub(crate) const NO_ROOM: u64 = info_of(0);

const fn info_of(capacity: usize) -> u64 {
    FULL_BIT as u64 | (capacity as u64 + 1) << CAPACITY_SHIFT
}

/// The size of a sheaf: log2 of the number of sheaves that its sheaf page is divided into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SheafSize(u32);

impl SheafSize {
    /// One sheaf takes the whole sheaf page.
    pub(crate) const WHOLE: SheafSize = SheafSize(0);
    const SMALLEST: SheafSize = SheafSize(3);

    /// Returns the smallest size whose sheaves hold `capacity` objects.
    pub(crate) fn for_capacity(capacity: usize) -> SheafSize {
        let mut size = SheafSize::SMALLEST;
        while size != SheafSize::WHOLE && size.most() < capacity {
            size.0 -= 1;
        }
        size
    }

    const fn bytes(self) -> usize {
        SHEAF_PAGE_BYTES >> self.0
    }

    /// Returns the most objects that a sheaf of this size can hold, which is its largest capacity.
    pub(crate) const fn most(self) -> usize {
        self.bytes() / WORD - 2
    }
}

/// A sheaf with one owner: no slot and no barn refers to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sheaf(NonNull<u64>);

// SAFETY: a `Sheaf` is the only handle to its memory, so moving it moves the ownership.
unsafe impl Send for Sheaf {}

impl Sheaf {
    /// Turns the address of a top entry into its sheaf.
    ///
    /// # Safety
    /// `top` is the top address of a sheaf that the caller owns from now on.
    #[inline]
    pub(crate) unsafe fn from_top(top: usize) -> Sheaf {
        // SAFETY: a top is an address inside a sheaf, never null.
        Sheaf(unsafe { NonNull::new_unchecked(top as *mut u64) })
    }

    /// Returns the address of the top entry and passes the ownership to the caller with it.
    #[inline]
    pub(crate) fn into_top(self) -> usize {
        self.0.as_ptr() as usize
    }

    #[inline]
    fn base(&self) -> *mut u64 {
        let bytes = self.size().bytes();
        self.0.as_ptr().map_addr(|a| a & !(bytes - 1))
    }

    /// Returns the size of the sheaves of its page.
    pub(crate) fn size(&self) -> SheafSize {
        let page = self.0.as_ptr().map_addr(|a| a & !(SHEAF_PAGE_BYTES - 1));
        // SAFETY: the first word of a sheaf page is an info word. It is never unmapped and only
        // accessed atomically.
        let info = unsafe { &*page.cast::<AtomicU64>() }.load(Relaxed);
        SheafSize(((info & SIZE_BITS) >> SIZE_SHIFT) as u32)
    }

    fn info(&self) -> &AtomicU64 {
        // SAFETY: the first word of a sheaf is its info word. It is never unmapped and only
        // accessed atomically.
        unsafe { &*self.base().cast::<AtomicU64>() }
    }

    /// Returns the number of free places above the top.
    #[inline]
    fn index(&self) -> usize {
        (self.0.as_ptr() as usize - self.base() as usize) / WORD - 1
    }

    /// Returns the most objects that the sheaf holds.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        usize::from((self.info().load(Relaxed) >> CAPACITY_SHIFT) as u8).saturating_sub(1)
    }

    /// Returns the number of objects in the sheaf.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // If the caller does not own the sheaf, its owner may change the capacity meanwhile.
        self.capacity().saturating_sub(self.index())
    }

    /// Returns how many more objects fit; 0 for the null sheaf.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.index()
    }

    /// Returns the objects, top first.
    #[inline]
    pub(crate) fn objects(&self) -> &[usize] {
        // SAFETY: the words from the top to the sentinel hold `len` initialised pointers, and
        // `&self` keeps the owner from changing them.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), self.len()) }
    }

    /// Returns the places for all `capacity` objects, used or not, to fill an empty sheaf.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [usize] {
        let capacity = self.capacity();
        // SAFETY: words 1..=capacity belong to the sheaf and are initialised; `&mut self` owns
        // them.
        unsafe { core::slice::from_raw_parts_mut(self.base().add(1).cast(), capacity) }
    }

    /// Sets the length: the last `len` words of the room are the objects.
    ///
    /// # Safety
    /// `len` is at most the capacity. Each of these words is an object that the sheaf owns from now
    /// on, and is on no other sheaf.
    #[inline]
    pub(crate) unsafe fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.capacity(), "more objects than the sheaf has room for");
        let top = self.base().wrapping_add(1 + self.capacity() - len);
        // SAFETY: the address lies inside the sheaf, by the caller's promise.
        self.0 = unsafe { NonNull::new_unchecked(top) };
    }

    /// Forgets the objects, which the caller has taken over.
    #[inline]
    pub(crate) fn clear(&mut self) {
        // SAFETY: no word becomes an object.
        unsafe { self.set_len(0) };
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<usize> {
        // SAFETY: the top is a word of the sheaf, either an object or the sentinel.
        let object = unsafe { self.0.read() };
        if object == 0 {
            return None;
        }
        // SAFETY: the word below an object is another object or the sentinel.
        self.0 = unsafe { self.0.add(1) };
        Some(object as usize)
    }

    /// Puts an object on top. Returns false if the sheaf is full.
    #[inline]
    pub(crate) fn push(&mut self, object: usize) -> bool {
        // SAFETY: the word above a top belongs to the sheaf: it is free, or the info word.
        let above = unsafe { self.0.sub(1) };
        if above.as_ptr() == self.base() {
            return false;
        }
        // SAFETY: the word is a free one of the sheaf, which `&mut self` owns.
        unsafe { above.write(object as u64) };
        self.0 = above;
        true
    }

    fn link(&self) -> usize {
        (self.info().load(Relaxed) >> LINK_SHIFT) as usize * SMALLEST_BYTES
    }

    fn set_link(&self, link: usize) {
        let kept = self.info().load(Relaxed) & ((1 << LINK_SHIFT) - 1);
        self.info().store(kept | ((link / SMALLEST_BYTES) as u64) << LINK_SHIFT, Relaxed);
    }

    /// Dirties each cache line that holds objects, which moves the lines into this CPU's cache.
    pub(crate) fn move_here(&mut self) {
        let objects = self.len();
        for at in (0..objects).step_by(CACHE_LINE / 8) {
            // SAFETY: the words from the top to the sentinel belong to the sheaf, which `&mut self`
            // owns.
            let word = unsafe { self.0.add(at) };
            // SAFETY: as above. Volatile, because the compiler would drop a store of the same
            // value.
            unsafe { word.write_volatile(word.read_volatile()) };
        }
    }

    /// Lowers the capacity to the number of objects, which must not be 0. Then the sheaf is full.
    pub(crate) fn tighten(&mut self) {
        let (len, capacity) = (self.len(), self.capacity());
        self.room().copy_within(capacity - len.., 0);
        self.set_capacity(len);
        // SAFETY: the same objects, moved to where the smaller room begins.
        unsafe { self.set_len(len) };
    }

    /// Changes the capacity of an empty sheaf that is in no list, to 1 up to [`SheafSize::most`].
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        debug_assert!(capacity <= self.size().most(), "a sheaf has no room for its capacity");
        let size = self.info().load(Relaxed) & SIZE_BITS;
        self.info().store(info_of(capacity) | size, Relaxed);
        // SAFETY: the word behind the room belongs to the sheaf, which `&mut self` owns.
        unsafe { self.base().add(1 + capacity).write(0) };
        self.clear();
    }
}

/// Newest sheaves of a list whose addresses and capacities the list itself caches.
const NEAR: usize = 7;

/// A stack of sheaves that are all full, or all empty.
///
/// A sheaf from another CPU lies in that CPU's cache, and each read of it costs a transfer. In a
/// chain through the sheaves these transfers would be serial, under the list's lock. So the list
/// caches the address and the capacity of its newest sheaves; the older ones are linked through
/// their info words.
#[derive(Debug)]
pub(crate) struct SheafList {
    near: [usize; NEAR],
    nr_near: usize,
    /// The first of the linked sheaves; 0 if there are none.
    far: usize,
    count: usize,
}

/// The bits of a cached entry that hold the capacity; the others hold the sheaf's address.
const CAPACITY_OF_ENTRY: usize = SMALLEST_BYTES - 1;
const _: () = assert!(MAX_SHEAF_CAPACITY <= CAPACITY_OF_ENTRY);

impl SheafList {
    /// The offset of the number of sheaves, for a reader outside of the process.
    #[cfg(all(feature = "os", not(ashlar_loom)))]
    pub(crate) const COUNT: usize = core::mem::offset_of!(SheafList, count);

    pub(crate) const fn new() -> Self {
        SheafList { near: [0; NEAR], nr_near: 0, far: 0, count: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds a sheaf, which must be full or empty, because the list does not keep its length.
    #[inline]
    pub(crate) fn push(&mut self, sheaf: Sheaf) {
        debug_assert!(sheaf.len() == 0 || sheaf.index() == 0, "a list holds full or empty sheaves");
        if self.nr_near == NEAR {
            let oldest = self.near[0] & !CAPACITY_OF_ENTRY;
            // SAFETY: the list owns the sheaf, and any address in it leads to its info word.
            unsafe { Sheaf::from_top(oldest) }.set_link(self.far);
            self.far = oldest;
            self.near.copy_within(1.., 0);
            self.nr_near -= 1;
        }
        self.near[self.nr_near] = sheaf.base() as usize | sheaf.capacity();
        self.nr_near += 1;
        self.count += 1;
    }

    /// Removes the newest sheaf and returns its address and capacity.
    #[inline]
    fn pop(&mut self) -> Option<(usize, usize)> {
        if let Some(last) = self.nr_near.checked_sub(1) {
            self.nr_near = last;
            self.count -= 1;
            return Some((self.near[last] & !CAPACITY_OF_ENTRY, self.near[last] & CAPACITY_OF_ENTRY));
        }
        if self.far == 0 {
            return None;
        }
        let base = self.far;
        // SAFETY: the list owned the sheaf, and any address in it leads to its info word.
        let sheaf = unsafe { Sheaf::from_top(base) };
        self.far = sheaf.link();
        self.count -= 1;
        Some((base, sheaf.capacity()))
    }

    /// Takes a sheaf from a list of full ones, and returns it with its number of objects.
    #[inline]
    pub(crate) fn pop_full(&mut self) -> Option<(Sheaf, usize)> {
        let (base, capacity) = self.pop()?;
        // SAFETY: the list owned the sheaf. The top of a full sheaf is the word after its info
        // word.
        Some((unsafe { Sheaf::from_top(base + WORD) }, capacity))
    }

    /// Takes a sheaf from a list of empty ones.
    #[inline]
    pub(crate) fn pop_empty(&mut self) -> Option<Sheaf> {
        let (base, capacity) = self.pop()?;
        // SAFETY: the list owned the sheaf. The top of an empty sheaf is the sentinel after its
        // room.
        Some(unsafe { Sheaf::from_top(base + (1 + capacity) * WORD) })
    }

    /// Prefetches the info words of the newest sheaves all at once, because they may be in another
    /// CPU's cache.
    pub(crate) fn prefetch(&self) {
        for &entry in &self.near[..self.nr_near] {
            prefetch(entry & !CAPACITY_OF_ENTRY);
        }
    }
}

/// Sheaves that no cache uses, by [`SheafSize`].
#[cfg(not(ashlar_loom))]
static POOLS: [SpinLock<SheafList>; SheafSize::SMALLEST.0 as usize + 1] =
    [const { SpinLock::new(SheafList::new()) }; SheafSize::SMALLEST.0 as usize + 1];

#[cfg(not(ashlar_loom))]
fn pool(size: SheafSize) -> &'static SpinLock<SheafList> {
    &POOLS[size.0 as usize]
}

/// Requests for a sheaf page to refuse without a system call (see [`REFUSALS_AT_A_TIME`]).
#[cfg(not(ashlar_loom))]
static REFUSALS: AtomicU32 = AtomicU32::new(0);
/// Requests that are refused without a system call after the system has refused one. At a memory
/// limit, each free would otherwise make a failing system call.
const REFUSALS_AT_A_TIME: u32 = 1000;

/// Returns an empty sheaf of the given size and capacity, from the pool or from metadata memory.
#[cfg(not(ashlar_loom))]
pub(crate) fn new_sheaf(capacity: usize, size: SheafSize) -> Option<Sheaf> {
    let pooled = pool(size).lock().pop_empty();
    let mut sheaf = match pooled {
        Some(sheaf) => sheaf,
        None => new_sheaf_page(size)?,
    };
    sheaf.set_capacity(capacity.clamp(1, size.most()));
    Some(sheaf)
}

/// Returns a sheaf from metadata memory, and adds the others of its page to the pool.
#[cfg(not(ashlar_loom))]
fn new_sheaf_page(size: SheafSize) -> Option<Sheaf> {
    // The count need not be exact, so there is no read-modify-write.
    let refusals = REFUSALS.load(Ordering::Relaxed);
    if refusals > 0 {
        REFUSALS.store(refusals - 1, Ordering::Relaxed);
        return None;
    }
    let Some(memory) = META.alloc_unlent(SHEAF_PAGE_BYTES, SHEAF_PAGE_BYTES) else {
        REFUSALS.store(REFUSALS_AT_A_TIME, Ordering::Relaxed);
        return None;
    };
    let page = memory.as_ptr() as usize;
    // SAFETY: fresh, zeroed and aligned memory of a sheaf page that only this thread has the
    // address of.
    let first = unsafe { Sheaf::from_top(page) };
    first.info().store(NO_ROOM | u64::from(size.0) << SIZE_SHIFT, Relaxed);
    for other in (page..page + SHEAF_PAGE_BYTES).step_by(size.bytes()).skip(1) {
        // SAFETY: a part of the same fresh page, whose size is recorded in its first word.
        let mut other = unsafe { Sheaf::from_top(other) };
        other.set_capacity(size.most());
        pool(size).lock().push(other);
    }
    Some(first)
}

/// Adds an empty sheaf to the pool of its size.
#[cfg(not(ashlar_loom))]
pub(crate) fn retire_sheaf(sheaf: Sheaf) {
    debug_assert_eq!(sheaf.len(), 0, "a retired sheaf holds objects");
    pool(sheaf.size()).lock().push(sheaf);
}

/// Visits the pool locks, for a fork.
#[cfg(not(ashlar_loom))]
pub(crate) fn for_each_lock(visit: crate::base::sync::Visit<'_>) {
    POOLS.iter().for_each(|pool| visit(pool.word()));
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    const SIZES: [SheafSize; 4] = [SheafSize(0), SheafSize(1), SheafSize(2), SheafSize(3)];

    #[test]
    fn a_capacity_gets_the_smallest_sheaf_that_holds_it() {
        assert_eq!(SIZES.map(SheafSize::most), [254, 126, 62, 30]);
        for capacity in 0..=MAX_SHEAF_CAPACITY {
            let size = SheafSize::for_capacity(capacity);
            assert!(capacity <= size.most(), "{capacity}");
            assert!(size == SheafSize::SMALLEST || capacity > SheafSize(size.0 + 1).most(), "{capacity}");
        }
    }

    /// Fills the sheaves of a page with objects of their own. A write into a neighbour would show.
    #[test]
    fn the_sheaves_of_a_unit_are_full_and_empty_on_their_own() {
        for size in SIZES {
            let mut sheaves: Vec<Sheaf> = (0..(1 << size.0)).map(|_| new_sheaf(size.most(), size).unwrap()).collect();
            for (number, sheaf) in sheaves.iter_mut().enumerate() {
                assert_eq!((sheaf.size(), sheaf.capacity(), sheaf.len()), (size, size.most(), 0));
                for object in 1..=size.most() {
                    assert!(!super::super::is_full(sheaf.0.as_ptr() as usize), "{object} of {}", size.most());
                    assert!(sheaf.push((number + 1) << 20 | object << 4));
                }
                assert!(super::super::is_full(sheaf.0.as_ptr() as usize) && !sheaf.push(16));
            }
            for (number, mut sheaf) in sheaves.into_iter().enumerate() {
                let objects: Vec<usize> =
                    (1..=size.most()).rev().map(|object| (number + 1) << 20 | object << 4).collect();
                assert_eq!(sheaf.objects(), objects);
                for object in objects {
                    assert_eq!(sheaf.pop(), Some(object));
                }
                assert_eq!((sheaf.pop(), sheaf.len(), sheaf.free()), (None, 0, size.most()));
                retire_sheaf(sheaf);
            }
        }
    }

    #[test]
    fn a_smaller_capacity_moves_the_sentinel_and_nothing_else() {
        for size in SIZES {
            let mut sheaf = new_sheaf(size.most(), size).unwrap();
            for capacity in [1, 2, size.most() / 2, size.most(), 3] {
                sheaf.set_capacity(capacity);
                sheaf.room().fill(32);
                // SAFETY: the room was filled just above.
                unsafe { sheaf.set_len(capacity) };
                assert_eq!((sheaf.len(), sheaf.free(), sheaf.size()), (capacity, 0, size));
                assert!(super::super::is_full(sheaf.0.as_ptr() as usize));
                while sheaf.pop().is_some() {}
            }
            retire_sheaf(sheaf);
        }
    }

    /// Pushes more sheaves than the list caches, so that some are linked.
    #[test]
    fn a_list_gives_back_what_came_last_with_its_capacity() {
        let mut list = SheafList::new();
        let mut model = Vec::new();
        for round in 0..200usize {
            if round % 5 < 3 {
                let size = SIZES[round % 4];
                let mut sheaf = new_sheaf(1 + round % size.most(), size).unwrap();
                while sheaf.push(64 * (round + 1)) {}
                model.push((sheaf.base() as usize, sheaf.capacity(), round));
                list.push(sheaf);
            } else {
                let (base, capacity, round) = model.pop().unwrap();
                let (mut sheaf, objects) = list.pop_full().unwrap();
                assert_eq!((sheaf.base() as usize, objects, sheaf.capacity()), (base, capacity, capacity));
                assert!(sheaf.objects().iter().all(|&object| object == 64 * (round + 1)));
                sheaf.clear();
                retire_sheaf(sheaf);
            }
            assert_eq!(list.len(), model.len());
        }
        let mut empty = SheafList::new();
        while let Some((mut sheaf, _)) = list.pop_full() {
            sheaf.clear();
            empty.push(sheaf);
        }
        for (base, capacity, _) in model {
            let sheaf = empty.pop_empty().unwrap();
            assert_eq!((sheaf.base() as usize, sheaf.capacity(), sheaf.len()), (base, capacity, 0));
            retire_sheaf(sheaf);
        }
        assert!(empty.pop_empty().is_none() && list.pop_full().is_none());
    }
}
