//! Array caches: stacks of object addresses, one a CPU and one a node; and where their memory comes from.
//!
//! An array cache is used by whoever holds its lock: the CPU's lock, or, of the shared array, list_lock; one that was
//! replaced is the caller's alone. Memory comes from two pools of metadata blocks, of powers of two bytes, that are never
//! given back to the system: one of array caches, one of index arrays.
//!
//! Lock: a *pool lock*, one for each pool, a leaf but for the meta lock.
#![allow(unsafe_code, reason = "places arrays in metadata memory")]

use super::layout::SMALLEST_BLOCK;
use crate::engine::RawCache;
use crate::engine::cpu_slab::this_cpu;
use crate::page::meta::META;
use crate::percpu::area::PERCPU;
use crate::percpu::lock;
use crate::sync::{AtomicUsize, Ordering, SpinLock, bump};
use crate::units::CpuId;

/// Largest block: log2 of its bytes.
const LARGEST: u32 = 20;

/// Blocks that nobody uses, by log2 of their bytes; each holds the address of the next.
struct Pool(SpinLock<[usize; LARGEST as usize + 1]>);

static ARRAYS: Pool = Pool(SpinLock::new([0; LARGEST as usize + 1]));
static INDICES: Pool = Pool(SpinLock::new([0; LARGEST as usize + 1]));

fn block_of(bytes: usize) -> usize {
    bytes.next_power_of_two().max(SMALLEST_BLOCK)
}

impl Pool {
    /// A block of at least `bytes` bytes, aligned to its size up to 128.
    fn take(&self, bytes: usize) -> Option<usize> {
        let size = block_of(bytes);
        let class = size.trailing_zeros();
        if class > LARGEST {
            return None;
        }
        let mut free = self.0.lock();
        let first = free[class as usize];
        if first == 0 {
            drop(free);
            return META.alloc(size, size.min(128)).map(|at| at.as_ptr() as usize);
        }
        // SAFETY: blocks of the pool are ours, and hold the address of the next in their first word.
        free[class as usize] = unsafe { (first as *const usize).read() };
        Some(first)
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// The block came from `take` of this pool with the same number of bytes, and nobody uses it any more.
    unsafe fn give(&self, block: usize, bytes: usize) {
        let mut free = self.0.lock();
        let first = &mut free[block_of(bytes).trailing_zeros() as usize];
        // SAFETY: by the caller's promise the block is ours; it has room for a word.
        unsafe { (block as *mut usize).write(*first) };
        *first = block;
    }
}

/// Memory for an index array of `bytes` bytes.
pub(super) fn take_indices(bytes: usize) -> Option<usize> {
    INDICES.take(bytes)
}

/// Takes the memory of an index array back.
///
/// # Safety
/// As for a block of a pool: from [`take_indices`] with the same number, and no longer used.
pub(super) unsafe fn give_indices(block: usize, bytes: usize) {
    // SAFETY: by the caller's promise.
    unsafe { INDICES.give(block, bytes) };
}

/// Takes the pool locks, for fork.
pub(crate) fn lock_pools() {
    ARRAYS.0.lock_raw();
    INDICES.0.lock_raw();
}

/// Releases what [`lock_pools`] took.
///
/// # Safety
/// This thread, or its parent's across fork, called `lock_pools`.
pub(crate) unsafe fn unlock_pools() {
    // SAFETY: by the caller's promise.
    unsafe {
        INDICES.0.unlock_raw();
        ARRAYS.0.unlock_raw();
    }
}

/// See the module. The entries follow in memory.
#[repr(C, align(64))]
pub(crate) struct ArrayCache {
    /// Objects in it.
    avail: AtomicUsize,
    /// Objects that it may hold.
    limit: AtomicUsize,
    /// Objects that move at a time.
    batchcount: AtomicUsize,
    /// Nonzero if used since the reaper looked last.
    touched: AtomicUsize,
    capacity: u32,
    pub(super) alloc_slow: AtomicUsize,
    pub(super) free_slow: AtomicUsize,
    /// Times that the CPU's lock was taken for it.
    pub(super) locks: AtomicUsize,
    /// Time of the background thread's next round here.
    #[cfg(feature = "os")]
    pub(super) next_reap: crate::sync::AtomicU32,
}

impl ArrayCache {
    const fn bytes(capacity: usize) -> usize {
        size_of::<ArrayCache>() + capacity * size_of::<usize>()
    }

    /// An empty array for `limit` objects.
    pub(super) fn new(limit: usize, batchcount: usize) -> Option<&'static ArrayCache> {
        let at = ARRAYS.take(Self::bytes(limit))?;
        // What the block has beyond the limit is of use when the limit is raised.
        let capacity = (block_of(Self::bytes(limit)) - size_of::<ArrayCache>()) / size_of::<usize>();
        let zero = || AtomicUsize::new(0);
        let place = at as *mut ArrayCache;
        // SAFETY: a block of the pool, ours, that is large enough and aligned to 64 at least; the entries become
        // initialised by `write_bytes`, and the memory stays for ever.
        unsafe {
            place.add(1).cast::<usize>().write_bytes(0, capacity);
            place.write(ArrayCache {
                avail: zero(),
                limit: AtomicUsize::new(limit),
                batchcount: AtomicUsize::new(batchcount),
                touched: zero(),
                capacity: capacity as u32,
                alloc_slow: zero(),
                free_slow: zero(),
                locks: zero(),
                #[cfg(feature = "os")]
                next_reap: crate::sync::AtomicU32::new(0),
            });
            Some(&*place)
        }
    }

    /// Gives an array's memory back; it is empty, and no CPU or node has it any more.
    pub(super) fn retire(&'static self) {
        debug_assert_eq!(self.avail(), 0, "a retired array holds objects");
        // SAFETY: the block came from `take` in `new`, whose size class is that of its capacity; by contract unused.
        unsafe { ARRAYS.give(core::ptr::from_ref(self) as usize, Self::bytes(self.capacity())) };
    }

    #[inline]
    fn entries(&self) -> &[AtomicUsize] {
        let first = core::ptr::from_ref(self) as usize + size_of::<ArrayCache>();
        // SAFETY: `capacity` initialised words follow the header in the same block, for ever.
        unsafe { core::slice::from_raw_parts(first as *const AtomicUsize, self.capacity()) }
    }

    #[inline]
    pub(super) fn avail(&self) -> usize {
        self.avail.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn batchcount(&self) -> usize {
        self.batchcount.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Changes limit and batchcount; the limit is at most the capacity, and at least what is in it.
    pub(super) fn tune(&self, limit: usize, batchcount: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        self.batchcount.store(batchcount, Ordering::Relaxed);
    }

    /// Objects that may be added.
    pub(super) fn room(&self) -> usize {
        self.limit().saturating_sub(self.avail())
    }

    /// The object that came last, without taking it; 0 for none.
    #[inline]
    pub(super) fn top(&self) -> usize {
        match self.avail() {
            0 => 0,
            avail => self.entries()[avail - 1].load(Ordering::Relaxed),
        }
    }

    /// Takes the object that came last; 0 for none.
    #[inline]
    pub(super) fn pop(&self) -> usize {
        let avail = self.avail();
        if avail == 0 {
            return 0;
        }
        self.touch();
        self.avail.store(avail - 1, Ordering::Relaxed);
        self.entries()[avail - 1].load(Ordering::Relaxed)
    }

    /// Adds an object; false when it is at its limit.
    #[inline]
    pub(super) fn push(&self, object: usize) -> bool {
        let avail = self.avail();
        if avail >= self.limit() {
            return false;
        }
        let Some(entry) = self.entries().get(avail) else { return false };
        entry.store(object, Ordering::Relaxed);
        self.avail.store(avail + 1, Ordering::Relaxed);
        true
    }

    /// Copies the oldest objects to `out`, without taking them; how many.
    pub(super) fn oldest(&self, out: &mut [usize]) -> usize {
        let count = out.len().min(self.avail());
        for (to, from) in out.iter_mut().zip(&self.entries()[..count]) {
            *to = from.load(Ordering::Relaxed);
        }
        count
    }

    /// Copies up to `count` of its oldest objects to `to`, as many as fit there; how many.
    pub(super) fn oldest_to(&self, to: &ArrayCache, count: usize) -> usize {
        let count = count.min(self.avail()).min(to.room());
        self.entries()[..count].iter().take_while(|entry| to.push(entry.load(Ordering::Relaxed))).count()
    }

    /// Forgets the `count` oldest objects: the others move down.
    pub(super) fn shift(&self, count: usize) {
        let avail = self.avail();
        let count = count.min(avail);
        let entries = self.entries();
        for at in count..avail {
            entries[at - count].store(entries[at].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.avail.store(avail - count, Ordering::Relaxed);
    }

    /// Moves up to `count` of its newest objects to `to`, as many as fit there; how many.
    pub(super) fn transfer(&self, to: &ArrayCache, count: usize) -> usize {
        let mut moved = 0;
        while moved < count && to.room() > 0 {
            let object = self.pop();
            if object == 0 || !to.push(object) {
                break;
            }
            moved += 1;
        }
        moved
    }

    /// Takes the objects and the counts of a smaller array.
    pub(super) fn take_over(&self, other: &ArrayCache) {
        let held = other.avail();
        for (to, from) in self.entries().iter().zip(&other.entries()[..held]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.avail.store(held, Ordering::Relaxed);
        other.avail.store(0, Ordering::Relaxed);
        for (to, from) in
            [(&self.alloc_slow, &other.alloc_slow), (&self.free_slow, &other.free_slow), (&self.locks, &other.locks)]
        {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn touch(&self) {
        self.touched.store(1, Ordering::Relaxed);
    }

    pub(super) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed) != 0
    }

    pub(super) fn untouch(&self) -> bool {
        self.touched.swap(0, Ordering::Relaxed) != 0
    }
}

/// A CPU with its lock held: the stand-in for disabled interrupts.
pub(super) struct Here {
    pub(super) cpu: CpuId,
}

impl Here {
    /// This thread's CPU.
    #[inline]
    pub(super) fn take() -> Here {
        let cpu = this_cpu();
        if !lock::try_lock_cpu(cpu) {
            lock::lock_cpu(cpu);
        }
        Here { cpu }
    }

    /// Any CPU.
    pub(super) fn of(cpu: CpuId) -> Here {
        lock::lock_cpu(cpu);
        Here { cpu }
    }

    /// The CPU's array, if it has one yet.
    #[inline]
    pub(super) fn array(&self, cache: &RawCache) -> Option<&'static ArrayCache> {
        let at = word(cache, self.cpu).load(Ordering::Relaxed);
        // SAFETY: the word is 0 or the address of an array, which is replaced and retired under this lock only.
        (at != 0).then(|| unsafe { &*(at as *const ArrayCache) })
    }

    /// Makes `array` the CPU's.
    pub(super) fn set_array(&self, cache: &RawCache, array: Option<&'static ArrayCache>) {
        word(cache, self.cpu).store(array.map_or(0, |array| core::ptr::from_ref(array) as usize), Ordering::Relaxed);
    }
}

impl Drop for Here {
    #[inline]
    fn drop(&mut self) {
        lock::unlock_cpu(self.cpu);
    }
}

/// The word of the CPU's area that holds the address of its array.
#[inline]
fn word(cache: &RawCache, cpu: CpuId) -> &'static AtomicUsize {
    // SAFETY: the place was claimed in the committed areas, which stay for ever, and is only ever used as this word.
    unsafe { &*PERCPU.slot(cpu, cache.state.slab.place).cast::<AtomicUsize>() }
}

/// Counts one use of the CPU's lock.
#[inline]
pub(super) fn count_lock(array: &ArrayCache) {
    bump(&array.locks);
}
