//! Array caches: stacks of object addresses, one per CPU and one per node.
//!
//! Lock: an array cache belongs to the holder of its lock: the CPU lock, or list_lock for a shared
//! array. One that was replaced belongs to the thread that replaced it.
#![allow(unsafe_code, reason = "places arrays in metadata memory")]

#[cfg(not(ashlar_loom))]
use super::pool;
use crate::base::sync::{AtomicUsize, Ordering};

/// A stack of object addresses. The entries follow in memory, except in models.
#[repr(C, align(64))]
pub(crate) struct ArrayCache {
    /// Objects in it.
    avail: AtomicUsize,
    /// Objects that it may hold.
    limit: AtomicUsize,
    /// Objects moved at a time.
    batchcount: AtomicUsize,
    /// Nonzero if used since the reaper's last round.
    touched: AtomicUsize,
    capacity: u32,
    #[cfg(ashlar_loom)]
    entries: std::vec::Vec<AtomicUsize>,
    pub(super) alloc_slow: AtomicUsize,
    pub(super) free_slow: AtomicUsize,
    /// Times that the CPU lock was taken for it.
    pub(super) locks: AtomicUsize,
    /// Time of the reaper's next round.
    pub(super) next_reap: crate::base::sync::AtomicU32,
}

#[cfg(not(ashlar_loom))]
#[place(cold)]
impl ArrayCache {
    const fn bytes(capacity: usize) -> usize {
        size_of::<ArrayCache>() + capacity * size_of::<usize>()
    }

    /// Makes an empty array for `limit` objects.
    pub(crate) fn new(limit: usize, batchcount: usize) -> Option<&'static ArrayCache> {
        let at = pool::ARRAYS.take(Self::bytes(limit))?;
        // The rest of the block is used if the limit is raised.
        let capacity = (pool::block_of(Self::bytes(limit)) - size_of::<ArrayCache>()) / size_of::<usize>();
        let zero = || AtomicUsize::new(0);
        let place = at as *mut ArrayCache;
        // SAFETY: the pool gave this thread the block, which is large enough and aligned to 64 at
        // least. `write_bytes` initialises the entries, and the memory stays for ever.
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
                next_reap: crate::base::sync::AtomicU32::new(0),
            });
            Some(&*place)
        }
    }

    /// Returns an array's memory to the pool. It is empty, and no CPU or node refers to it.
    pub(crate) fn retire(&'static self) {
        debug_assert_eq!(self.avail(), 0, "a retired array holds objects");
        // SAFETY: the block came from `take` in `new`, and its size class is that of its capacity.
        // By contract no thread uses it.
        unsafe { pool::ARRAYS.give(core::ptr::from_ref(self) as usize, Self::bytes(self.capacity())) };
    }

    #[inline]
    fn entries(&self) -> &[AtomicUsize] {
        let first = core::ptr::from_ref(self) as usize + size_of::<ArrayCache>();
        // SAFETY: `capacity` initialised words follow the header in the same block, for ever.
        unsafe { core::slice::from_raw_parts(first as *const AtomicUsize, self.capacity()) }
    }

    /// Moves the objects and the counts of a smaller array here.
    pub(crate) fn take_over(&self, other: &ArrayCache) {
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
}

#[cfg(ashlar_loom)]
#[place(cold)]
impl ArrayCache {
    /// As the real array, without a pool.
    pub(crate) fn new(limit: usize, batchcount: usize) -> ArrayCache {
        let zero = || AtomicUsize::new(0);
        ArrayCache {
            avail: zero(),
            limit: AtomicUsize::new(limit),
            batchcount: AtomicUsize::new(batchcount),
            touched: zero(),
            capacity: limit as u32,
            entries: (0..limit).map(|_| zero()).collect(),
            alloc_slow: zero(),
            free_slow: zero(),
            locks: zero(),
            next_reap: crate::base::sync::AtomicU32::new(0),
        }
    }

    fn entries(&self) -> &[AtomicUsize] {
        &self.entries
    }
}

#[place(cold)]
impl ArrayCache {
    #[inline]
    pub(crate) fn avail(&self) -> usize {
        self.avail.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn batchcount(&self) -> usize {
        self.batchcount.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Sets limit and batchcount. The limit is at most the capacity, and at least the objects in
    /// it.
    pub(crate) fn tune(&self, limit: usize, batchcount: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        self.batchcount.store(batchcount, Ordering::Relaxed);
    }

    /// Objects that may be added.
    pub(crate) fn room(&self) -> usize {
        self.limit().saturating_sub(self.avail())
    }

    /// Returns the newest object without taking it; 0 for none.
    #[inline]
    pub(crate) fn top(&self) -> usize {
        match self.avail() {
            0 => 0,
            avail => self.entries()[avail - 1].load(Ordering::Relaxed),
        }
    }

    /// Takes the newest object; 0 for none.
    #[inline]
    pub(crate) fn pop(&self) -> usize {
        let avail = self.avail();
        if avail == 0 {
            return 0;
        }
        self.touch();
        self.avail.store(avail - 1, Ordering::Relaxed);
        self.entries()[avail - 1].load(Ordering::Relaxed)
    }

    /// Adds an object; false at the limit.
    #[inline]
    pub(crate) fn push(&self, object: usize) -> bool {
        let avail = self.avail();
        if avail >= self.limit() {
            return false;
        }
        let Some(entry) = self.entries().get(avail) else { return false };
        entry.store(object, Ordering::Relaxed);
        self.avail.store(avail + 1, Ordering::Relaxed);
        true
    }

    /// Copies the oldest objects to `out` without taking them. Returns their number.
    pub(crate) fn oldest(&self, out: &mut [usize]) -> usize {
        let count = out.len().min(self.avail());
        for (to, from) in out.iter_mut().zip(&self.entries()[..count]) {
            *to = from.load(Ordering::Relaxed);
        }
        count
    }

    /// Copies up to `count` of the oldest objects to `to`, as many as fit. Returns their number.
    pub(crate) fn oldest_to(&self, to: &ArrayCache, count: usize) -> usize {
        let count = count.min(self.avail()).min(to.room());
        self.entries()[..count].iter().take_while(|entry| to.push(entry.load(Ordering::Relaxed))).count()
    }

    /// Removes the `count` oldest objects and moves the others down.
    pub(crate) fn shift(&self, count: usize) {
        let avail = self.avail();
        let count = count.min(avail);
        let entries = self.entries();
        for at in count..avail {
            entries[at - count].store(entries[at].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.avail.store(avail - count, Ordering::Relaxed);
    }

    /// Moves up to `count` of the newest objects to `to`, as many as fit. Returns their number.
    pub(crate) fn transfer(&self, to: &ArrayCache, count: usize) -> usize {
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

    #[inline]
    pub(crate) fn touch(&self) {
        self.touched.store(1, Ordering::Relaxed);
    }

    pub(crate) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn untouch(&self) -> bool {
        self.touched.swap(0, Ordering::Relaxed) != 0
    }
}
