//! A sheaf: a stack of object pointers, the unit that CPUs and barns exchange.
//!
//! ```text
//!  word 0                                        capacity            255
//!  | free place .. | top object .. oldest object | 0 (sentinel) | .. | info |
//!                    ^ top                                             link to next sheaf + capacity
//! ```
//!
//! 2 KiB, aligned to 2 KiB, growing downwards. A sheaf is handled by the address of its top entry alone:
//! reading 0 there means empty (the sentinel), an address that is a multiple of 2 KiB means full. So the fast
//! paths need no counter, no limit and no second load, and a smaller capacity only moves the sentinel.
#![allow(unsafe_code, reason = "raw stacks of pointers")]

use core::ptr::NonNull;

use crate::units::CACHE_LINE;

#[cfg(not(ashlar_loom))]
use crate::page::meta::META;
#[cfg(not(ashlar_loom))]
use crate::sync::{AtomicU32, Ordering, SpinLock};

/// Bytes of a sheaf, and its alignment.
pub(crate) const SHEAF_BYTES: usize = 2048;
const WORDS: usize = SHEAF_BYTES / 8;
const INFO: usize = WORDS - 1;
/// Most objects in a sheaf: all words but the sentinel and the info word.
pub const MAX_SHEAF_CAPACITY: usize = WORDS - 2;

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
        self.0.as_ptr().map_addr(|a| a & !(SHEAF_BYTES - 1))
    }

    #[inline]
    fn index(&self) -> usize {
        (self.0.as_ptr() as usize % SHEAF_BYTES) / 8
    }

    /// Most objects that it holds.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        // SAFETY: the info word of a sheaf is always readable.
        unsafe { (self.base().add(INFO).read() & 0xff) as usize }
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
        // SAFETY: words 0..capacity belong to the sheaf, are initialised memory, and are ours.
        unsafe { core::slice::from_raw_parts_mut(self.base().cast(), capacity) }
    }

    /// Declares that the last `len` words of the room hold its objects.
    #[inline]
    pub(crate) fn set_len(&mut self, len: usize) {
        let top = self.base().wrapping_add(self.capacity() - len);
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
        if self.index() == 0 {
            return false;
        }
        // SAFETY: a top that is no multiple of 2 KiB has a free word above it.
        unsafe {
            self.0 = self.0.sub(1);
            self.0.write(object as u64);
        }
        true
    }

    fn link(&self) -> usize {
        // SAFETY: the info word is readable.
        unsafe { (self.base().add(INFO).read() & !(SHEAF_BYTES as u64 - 1)) as usize }
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

    fn set_link(&self, link: usize) {
        // SAFETY: the info word is ours.
        unsafe {
            let info = self.base().add(INFO);
            info.write(link as u64 | info.read() & (SHEAF_BYTES as u64 - 1));
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

    /// Gives an empty sheaf another capacity (1 to [`MAX_SHEAF_CAPACITY`]).
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        // SAFETY: both words belong to the sheaf, which is ours. It is in no list.
        unsafe {
            self.base().add(INFO).write(capacity as u64);
            self.base().add(capacity).write(0);
        }
        self.set_len(0);
    }
}

/// A stack of sheaves that are all full, or all empty, linked through their info words.
#[derive(Debug)]
pub(crate) struct SheafList {
    head: usize,
    count: usize,
}

impl SheafList {
    pub(crate) const fn new() -> Self {
        SheafList { head: 0, count: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds a sheaf; its length is kept only as full or empty, so other lengths are refused by assertion.
    #[inline]
    pub(crate) fn push(&mut self, sheaf: Sheaf) {
        debug_assert!(sheaf.len() == 0 || sheaf.index() == 0, "a list holds full or empty sheaves");
        sheaf.set_link(self.head);
        self.head = sheaf.base() as usize;
        self.count += 1;
    }

    fn pop(&mut self) -> Option<Sheaf> {
        if self.head == 0 {
            return None;
        }
        // SAFETY: the list owned the sheaf at `head`; its base is the top of a full sheaf.
        let sheaf = unsafe { Sheaf::from_top(self.head) };
        self.head = sheaf.link();
        self.count -= 1;
        Some(sheaf)
    }

    /// Takes a sheaf from a list of full ones.
    #[inline]
    pub(crate) fn pop_full(&mut self) -> Option<Sheaf> {
        self.pop()
    }

    /// Takes a sheaf from a list of empty ones.
    #[inline]
    pub(crate) fn pop_empty(&mut self) -> Option<Sheaf> {
        let mut sheaf = self.pop()?;
        sheaf.set_len(0);
        Some(sheaf)
    }
}

/// Sheaves that no cache uses. Lock: the *sheaf pool lock*, taken under nothing but the meta lock's callers.
#[cfg(not(ashlar_loom))]
static POOL: SpinLock<SheafList> = SpinLock::new(SheafList::new());

/// Requests for a sheaf that are still to be refused without asking the system: see [`new_sheaf`].
#[cfg(not(ashlar_loom))]
static REFUSALS: AtomicU32 = AtomicU32::new(0);
/// After a refusal the system is left alone for so many requests: at a memory limit each free would be a failing
/// system call otherwise.
#[cfg(not(ashlar_loom))]
const REFUSALS_AT_A_TIME: u32 = 1000;

/// An empty sheaf of the given capacity, from the pool or from metadata memory.
#[cfg(not(ashlar_loom))]
pub(crate) fn new_sheaf(capacity: usize) -> Option<Sheaf> {
    let pooled = POOL.lock().pop_empty();
    let mut sheaf = match pooled {
        Some(sheaf) => sheaf,
        None => {
            // The count need not be exact, so no read-modify-write.
            let refusals = REFUSALS.load(Ordering::Relaxed);
            if refusals > 0 {
                REFUSALS.store(refusals - 1, Ordering::Relaxed);
                return None;
            }
            let Some(memory) = META.alloc(SHEAF_BYTES, SHEAF_BYTES) else {
                REFUSALS.store(REFUSALS_AT_A_TIME, Ordering::Relaxed);
                return None;
            };
            // SAFETY: fresh, zeroed, aligned memory of a sheaf's size that nobody else knows.
            unsafe { Sheaf::from_top(memory.as_ptr() as usize) }
        }
    };
    sheaf.set_capacity(capacity.clamp(1, MAX_SHEAF_CAPACITY));
    Some(sheaf)
}

/// Gives an empty sheaf to the pool.
#[cfg(not(ashlar_loom))]
pub(crate) fn retire_sheaf(sheaf: Sheaf) {
    debug_assert_eq!(sheaf.len(), 0, "a retired sheaf holds objects");
    POOL.lock().push(sheaf);
}

/// Takes the pool lock, for fork.
#[cfg(not(ashlar_loom))]
pub(crate) fn lock_pool() {
    POOL.lock_raw();
}

/// Releases what [`lock_pool`] took.
///
/// # Safety
/// This thread, or its parent's across fork, called `lock_pool`.
#[cfg(not(ashlar_loom))]
pub(crate) unsafe fn unlock_pool() {
    // SAFETY: by the caller's promise.
    unsafe { POOL.unlock_raw() };
}
