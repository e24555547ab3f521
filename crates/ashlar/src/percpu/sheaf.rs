//! A sheaf: a stack of object pointers, the unit that CPUs and barns exchange.
//!
//! ```text
//!  word 0  1                                               capacity + 1
//!  | info | free place .. | top object .. oldest object | 0 (sentinel) | ..
//!                           ^ top
//! ```
//!
//! Aligned to its size, growing downwards. A sheaf is handled by the address of its top entry alone: reading 0 there means empty
//! (the sentinel), and an odd word before it means full: that is the info word, and no object has an odd address. So the fast paths need
//! no counter, no limit and no size, and a smaller capacity only moves the sentinel.
//!
//! A sheaf takes a *sheaf page* of 2 KiB, or a half, a quarter, an eighth of one. The first info word of a sheaf page says which: it is the first word of the
//! 2 KiB that an address lies in, whatever the sheaf. A page keeps its size of sheaves, and each size has a pool of its own.
//!
//! | bits of the info word | |
//! |---|---|
//! | 0 | 1: no object |
//! | 1..3 | of the first in a sheaf page: its [`SheafSize`]; constant |
//! | 8..16 | capacity, plus one |
//! | 16.. | the next sheaf of a list: its address, divided by that of the smallest sheaf |
#![allow(unsafe_code, reason = "raw stacks of pointers")]

use core::ptr::NonNull;
// Not loom's: it protects nothing, but that another sheaf of the page is looked at while its owner changes the word.
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::base::sync::prefetch;
use crate::base::units::CACHE_LINE;

#[cfg(not(ashlar_loom))]
use crate::base::sync::{AtomicU32, Ordering, SpinLock};
#[cfg(not(ashlar_loom))]
use crate::pages::meta::META;

/// Bytes of a sheaf page, and its alignment.
pub(crate) const SHEAF_PAGE_BYTES: usize = 2 << 10;
const WORD: usize = size_of::<u64>();
/// Most objects in a sheaf: all words but the info word and the sentinel.
pub const MAX_SHEAF_CAPACITY: usize = SHEAF_PAGE_BYTES / WORD - 2;
/// Most objects in a sheaf that is half a sheaf page.
pub(crate) const HALF_SHEAF_CAPACITY: usize = SheafSize(1).most();
/// Set in the word before the top of a full sheaf, and in that of no other.
pub(crate) const FULL_BIT: usize = 1;
const SIZE_SHIFT: u32 = 1;
const SIZE_BITS: u64 = 3 << SIZE_SHIFT;
const CAPACITY_SHIFT: u32 = 8;
const LINK_SHIFT: u32 = 16;
const SMALLEST_BYTES: usize = SheafSize::SMALLEST.bytes();
// The sections know it: see `section_room`.
const _: () = assert!(SMALLEST_BYTES == 256);
/// The info word of a sheaf without room, which is no part of a list.
pub(crate) const NO_ROOM: u64 = info_of(0);

const fn info_of(capacity: usize) -> u64 {
    FULL_BIT as u64 | (capacity as u64 + 1) << CAPACITY_SHIFT
}

/// Into how many sheaves a sheaf page is divided, as a power of two: so the size of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SheafSize(u32);

impl SheafSize {
    /// A sheaf page that is one sheaf.
    pub(crate) const WHOLE: SheafSize = SheafSize(0);
    const SMALLEST: SheafSize = SheafSize(3);

    /// The smallest sheaves that hold `capacity` objects.
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

    /// Most objects that a sheaf has room for: the largest capacity that it can be given.
    pub(crate) const fn most(self) -> usize {
        self.bytes() / WORD - 2
    }
}

/// A sheaf that one owner holds: no slot and no barn refers to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sheaf(NonNull<u64>);

// SAFETY: a `Sheaf` is the only handle to its memory; moving it to another thread moves the ownership.
unsafe impl Send for Sheaf {}

impl Sheaf {
    /// The sheaf whose top entry is at `top`.
    ///
    /// # Safety
    /// `top` is the top address of a sheaf that the caller owns from now on.
    #[inline]
    pub(crate) unsafe fn from_top(top: usize) -> Sheaf {
        // SAFETY: tops are addresses inside a sheaf, never null.
        Sheaf(unsafe { NonNull::new_unchecked(top as *mut u64) })
    }

    /// The address of the top entry; gives up ownership to whoever stores it.
    #[inline]
    pub(crate) fn into_top(self) -> usize {
        self.0.as_ptr() as usize
    }

    #[inline]
    fn base(&self) -> *mut u64 {
        let bytes = self.size().bytes();
        self.0.as_ptr().map_addr(|a| a & !(bytes - 1))
    }

    /// The size of the sheaves of its page.
    pub(crate) fn size(&self) -> SheafSize {
        let page = self.0.as_ptr().map_addr(|a| a & !(SHEAF_PAGE_BYTES - 1));
        // SAFETY: the first word of each sheaf page is an info word, which is readable for ever and only accessed atomically.
        let info = unsafe { &*page.cast::<AtomicU64>() }.load(Relaxed);
        SheafSize(((info & SIZE_BITS) >> SIZE_SHIFT) as u32)
    }

    fn info(&self) -> &AtomicU64 {
        // SAFETY: the first word of a sheaf is its info word, which is readable for ever and only accessed atomically.
        unsafe { &*self.base().cast::<AtomicU64>() }
    }

    /// Free places above the top.
    #[inline]
    fn index(&self) -> usize {
        (self.0.as_ptr() as usize - self.base() as usize) / WORD - 1
    }

    /// Most objects that it holds.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        usize::from((self.info().load(Relaxed) >> CAPACITY_SHIFT) as u8).saturating_sub(1)
    }

    /// Objects in it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // The capacity of a sheaf that another looks at, owning nothing, may change under its eyes.
        self.capacity().saturating_sub(self.index())
    }

    /// Objects that it still has room for; none in the null sheaf.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.index()
    }

    /// The objects, top first.
    #[inline]
    pub(crate) fn objects(&self) -> &[usize] {
        // SAFETY: the words from the top to the sentinel hold `len` initialised pointers, and `&self` keeps
        // the owner from changing them.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), self.len()) }
    }

    /// The whole room for objects, whatever it holds now: for filling an empty sheaf.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [usize] {
        let capacity = self.capacity();
        // SAFETY: words 1..=capacity belong to the sheaf, are initialised memory, and are ours.
        unsafe { core::slice::from_raw_parts_mut(self.base().add(1).cast(), capacity) }
    }

    /// Declares that the last `len` words of the room hold its objects.
    #[inline]
    pub(crate) fn set_len(&mut self, len: usize) {
        let top = self.base().wrapping_add(1 + self.capacity() - len);
        // SAFETY: the address lies inside the sheaf.
        self.0 = unsafe { NonNull::new_unchecked(top) };
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<usize> {
        // SAFETY: the top is a word of the sheaf: an object or the sentinel.
        let object = unsafe { self.0.read() };
        if object == 0 {
            return None;
        }
        // SAFETY: below an object there is another or the sentinel.
        self.0 = unsafe { self.0.add(1) };
        Some(object as usize)
    }

    /// Puts an object on top; false when full.
    #[inline]
    pub(crate) fn push(&mut self, object: usize) -> bool {
        // SAFETY: above every top there is a word of the sheaf: a free one, or the info word.
        let above = unsafe { self.0.sub(1) };
        if above.as_ptr() == self.base() {
            return false;
        }
        // SAFETY: a free word of the sheaf, which is ours.
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

    /// Writes a word of each cache line with objects, the word that is there: the lines are in this CPU's cache alone then.
    pub(crate) fn move_here(&mut self) {
        let objects = self.len();
        for at in (0..objects).step_by(CACHE_LINE / 8) {
            // SAFETY: the words from the top to the sentinel are the sheaf's, which is ours.
            let word = unsafe { self.0.add(at) };
            // SAFETY: as above. Volatile, or the compiler would see that nothing changes.
            unsafe { word.write_volatile(word.read_volatile()) };
        }
    }

    /// Lowers the capacity to the objects that it holds, of which there must be some: then it is full.
    #[cfg(not(ashlar_loom))]
    pub(crate) fn tighten(&mut self) {
        let (len, capacity) = (self.len(), self.capacity());
        self.room().copy_within(capacity - len.., 0);
        self.set_capacity(len);
        self.set_len(len);
    }

    /// Gives an empty sheaf, which is in no list, another capacity: 1 to what its memory has room for.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        debug_assert!(capacity <= self.size().most(), "a sheaf has no room for its capacity");
        let size = self.info().load(Relaxed) & SIZE_BITS;
        self.info().store(info_of(capacity) | size, Relaxed);
        // SAFETY: the word behind the room belongs to the sheaf, which is ours.
        unsafe { self.base().add(1 + capacity).write(0) };
        self.set_len(0);
    }
}

/// Sheaves that a list knows without a look at them.
const NEAR: usize = 7;

/// A stack of sheaves that are all full, or all empty.
///
/// What comes from another CPU's list lies in that CPU's cache, and each look at it costs a transfer. A chain through the
/// sheaves would have these wait for each other, under the lock of the list. So the last that came stand here side by side,
/// each as its address and its capacity; the older ones are linked through their info words.
#[derive(Debug)]
pub(crate) struct SheafList {
    near: [usize; NEAR],
    nr_near: usize,
    /// The first of the others; 0 if there is none.
    far: usize,
    count: usize,
}

/// The bits of an entry of a list that hold a capacity; the others are those of the sheaf's address.
const CAPACITY_OF_ENTRY: usize = SMALLEST_BYTES - 1;
const _: () = assert!(MAX_SHEAF_CAPACITY <= CAPACITY_OF_ENTRY);

impl SheafList {
    pub(crate) const fn new() -> Self {
        SheafList { near: [0; NEAR], nr_near: 0, far: 0, count: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds a sheaf; its length is kept only as full or empty, so other lengths are refused by assertion.
    #[inline]
    pub(crate) fn push(&mut self, sheaf: Sheaf) {
        debug_assert!(sheaf.len() == 0 || sheaf.index() == 0, "a list holds full or empty sheaves");
        if self.nr_near == NEAR {
            let oldest = self.near[0] & !CAPACITY_OF_ENTRY;
            // SAFETY: the list owns it. Any word of it will do to find its info word.
            unsafe { Sheaf::from_top(oldest) }.set_link(self.far);
            self.far = oldest;
            self.near.copy_within(1.., 0);
            self.nr_near -= 1;
        }
        self.near[self.nr_near] = sheaf.base() as usize | sheaf.capacity();
        self.nr_near += 1;
        self.count += 1;
    }

    /// Address and capacity of the last that came.
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
        // SAFETY: the list owned it. Any word of it will do to find its info word.
        let sheaf = unsafe { Sheaf::from_top(base) };
        self.far = sheaf.link();
        self.count -= 1;
        Some((base, sheaf.capacity()))
    }

    /// Takes a sheaf from a list of full ones, and says how many objects it holds.
    #[inline]
    pub(crate) fn pop_full(&mut self) -> Option<(Sheaf, usize)> {
        let (base, capacity) = self.pop()?;
        // SAFETY: the list owned it; the top of a full sheaf is the word behind its info word.
        Some((unsafe { Sheaf::from_top(base + WORD) }, capacity))
    }

    /// Takes a sheaf from a list of empty ones.
    #[inline]
    pub(crate) fn pop_empty(&mut self) -> Option<Sheaf> {
        let (base, capacity) = self.pop()?;
        // SAFETY: the list owned it; the sentinel behind its room is the top of an empty sheaf.
        Some(unsafe { Sheaf::from_top(base + (1 + capacity) * WORD) })
    }

    /// Asks for the info words of the sheaves that came last, all at a time: they may be in another CPU's cache.
    pub(crate) fn prefetch(&self) {
        for &entry in &self.near[..self.nr_near] {
            prefetch(entry & !CAPACITY_OF_ENTRY);
        }
    }
}

/// Sheaves that no cache uses, by [`SheafSize`]. Lock: the *sheaf pool lock*, one for each size, taken under nothing but the meta lock's callers.
#[cfg(not(ashlar_loom))]
static POOLS: [SpinLock<SheafList>; SheafSize::SMALLEST.0 as usize + 1] =
    [const { SpinLock::new(SheafList::new()) }; SheafSize::SMALLEST.0 as usize + 1];

#[cfg(not(ashlar_loom))]
fn pool(size: SheafSize) -> &'static SpinLock<SheafList> {
    &POOLS[size.0 as usize]
}

/// Requests for a sheaf that are still to be refused without asking the system: see [`new_sheaf`].
#[cfg(not(ashlar_loom))]
static REFUSALS: AtomicU32 = AtomicU32::new(0);
/// After a refusal the system is left alone for so many requests: at a memory limit each free would be a failing
/// system call otherwise.
#[cfg(not(ashlar_loom))]
const REFUSALS_AT_A_TIME: u32 = 1000;

/// An empty sheaf of the given size and capacity, from the pool or from metadata memory.
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

/// A sheaf from metadata memory. The others of its page go to the pool.
#[cfg(not(ashlar_loom))]
fn new_sheaf_page(size: SheafSize) -> Option<Sheaf> {
    // The count need not be exact, so no read-modify-write.
    let refusals = REFUSALS.load(Ordering::Relaxed);
    if refusals > 0 {
        REFUSALS.store(refusals - 1, Ordering::Relaxed);
        return None;
    }
    let Some(memory) = META.alloc(SHEAF_PAGE_BYTES, SHEAF_PAGE_BYTES) else {
        REFUSALS.store(REFUSALS_AT_A_TIME, Ordering::Relaxed);
        return None;
    };
    let page = memory.as_ptr() as usize;
    // SAFETY: fresh, zeroed, aligned memory of a sheaf page's size that nobody else knows.
    let first = unsafe { Sheaf::from_top(page) };
    first.info().store(NO_ROOM | u64::from(size.0) << SIZE_SHIFT, Relaxed);
    for other in (page..page + SHEAF_PAGE_BYTES).step_by(size.bytes()).skip(1) {
        // SAFETY: a part of the page, which has just been size.
        let mut other = unsafe { Sheaf::from_top(other) };
        other.set_capacity(size.most());
        pool(size).lock().push(other);
    }
    Some(first)
}

/// Gives an empty sheaf to the pool.
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

    /// The sheaves of a sheaf page side by side, each full of its own objects: whoever wrote over another's words would be found out.
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
                sheaf.set_len(capacity);
                assert_eq!((sheaf.len(), sheaf.free(), sheaf.size()), (capacity, 0, size));
                assert!(super::super::is_full(sheaf.0.as_ptr() as usize));
                while sheaf.pop().is_some() {}
            }
            retire_sheaf(sheaf);
        }
    }

    /// More than the list knows by heart, so that some are linked.
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
                sheaf.set_len(0);
                retire_sheaf(sheaf);
            }
            assert_eq!(list.len(), model.len());
        }
        let mut empty = SheafList::new();
        while let Some((mut sheaf, _)) = list.pop_full() {
            sheaf.set_len(0);
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
