//! A barn: a store of full and empty sheaves of one cache. A node has one for each CPU; see
//! [`super::exchange`].
//!
//! The bound on full sheaves is generous, and in bytes of objects rather than sheaves. Use keeps a
//! barn small. On each pass the reaper takes as many sheaves as the barn never went below since the
//! last pass: the depot working set of Bonwick and Adams (2001). Before the zone grows, barns that
//! hold a large share of it are emptied first.
//!
//! Lock: the *barn lock*, one per barn, held for a few instructions. It is a leaf.

use crate::base::sync::SpinLock;
use crate::percpu::sheaf::{Sheaf, SheafList};

/// Empty sheaves that a barn keeps; more are returned to the pool. The kernel keeps 10. A barn here
/// may keep its working set, because a sheaf from the pool may come from another CPU's cache. The
/// reaper empties idle barns.
const MAX_EMPTY: usize = 1024;
/// Most sheaves that a CPU takes out of another CPU's barn at a time. Each access moves the barn's
/// cache line between the two CPUs; a batch does so once for several sheaves.
pub(crate) const ROBBED_AT_ONCE: usize = 8;

/// Events at a barn, counted since the cache was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarnStats {
    /// Full sheaves taken.
    pub get: u64,
    /// Times that no full sheaf was there.
    pub get_fail: u64,
    /// Full sheaves put in.
    pub put: u64,
    /// Full sheaves refused because the barn was full or the objects were scattered.
    pub put_fail: u64,
    /// Full sheaves taken by CPUs whose own barn was empty.
    pub robbed: u64,
}

impl BarnStats {
    /// Adds these figures to `sum`.
    pub(crate) fn add_to(&self, sum: &mut BarnStats) {
        sum.get += self.get;
        sum.get_fail += self.get_fail;
        sum.put += self.put;
        sum.put_fail += self.put_fail;
        sum.robbed += self.robbed;
    }
}

struct Inner {
    full: SheafList,
    /// Objects in the full sheaves; capacities differ.
    objects: usize,
    empty: SheafList,
    stats: BarnStats,
    /// Used since the reaper's last pass.
    touched: bool,
    /// Fewest full sheaves since the reaper's last pass.
    low: u32,
    /// Its own CPU took a full sheaf since another CPU last asked for one.
    taken_from: bool,
}

impl Inner {
    fn pop_full(&mut self) -> Option<Sheaf> {
        let (sheaf, objects) = self.full.pop_full()?;
        self.objects -= objects;
        self.low = self.low.min(self.full.len() as u32);
        Some(sheaf)
    }

    const NEW: Inner = Inner {
        full: SheafList::new(),
        objects: 0,
        empty: SheafList::new(),
        stats: BarnStats { get: 0, get_fail: 0, put: 0, put_fail: 0, robbed: 0 },
        touched: false,
        low: 0,
        taken_from: false,
    };
}

/// A store of full and empty sheaves. Aligned so that barns of two CPUs share neither a cache line
/// nor a pair of lines that is prefetched together.
#[repr(align(128))]
pub(crate) struct Barn {
    inner: SpinLock<Inner>,
    /// Allocations of this barn's CPU that found their sheaf empty, and frees that found it full.
    #[cfg(not(ashlar_loom))]
    alloc_slow: crate::base::sync::AtomicUsize,
    #[cfg(not(ashlar_loom))]
    free_slow: crate::base::sync::AtomicUsize,
}

#[cfg(all(feature = "os", not(ashlar_loom)))]
impl Barn {
    /// Where a reader outside of the process finds the figures.
    pub(crate) const LAYOUT: crate::base::window::BarnAt = {
        use core::mem::offset_of;
        const INNER: usize = offset_of!(Barn, inner) + SpinLock::<Inner>::VALUE;
        const STATS: usize = INNER + offset_of!(Inner, stats);
        crate::base::window::BarnAt {
            bytes: size_of::<Barn>() as u32,
            taken: (offset_of!(Barn, inner) + SpinLock::<Inner>::TAKEN) as u32,
            waited: (offset_of!(Barn, inner) + SpinLock::<Inner>::WAITED) as u32,
            objects: (INNER + offset_of!(Inner, objects)) as u32,
            full: (INNER + offset_of!(Inner, full) + SheafList::COUNT) as u32,
            empty: (INNER + offset_of!(Inner, empty) + SheafList::COUNT) as u32,
            get: (STATS + offset_of!(BarnStats, get)) as u32,
            get_fail: (STATS + offset_of!(BarnStats, get_fail)) as u32,
            put: (STATS + offset_of!(BarnStats, put)) as u32,
            put_fail: (STATS + offset_of!(BarnStats, put_fail)) as u32,
            robbed: (STATS + offset_of!(BarnStats, robbed)) as u32,
            alloc_slow: offset_of!(Barn, alloc_slow) as u32,
            free_slow: offset_of!(Barn, free_slow) as u32,
        }
    };
}

impl Barn {
    #[cfg(not(ashlar_loom))]
    pub(crate) const fn new() -> Self {
        use crate::base::sync::AtomicUsize;
        Barn { inner: SpinLock::new(Inner::NEW), alloc_slow: AtomicUsize::new(0), free_slow: AtomicUsize::new(0) }
    }

    /// Counts an allocation that found its sheaf empty.
    #[cfg(not(ashlar_loom))]
    #[inline]
    pub(crate) fn count_alloc(&self) {
        crate::base::sync::bump(&self.alloc_slow);
    }

    /// Counts a free that found its sheaf full.
    #[cfg(not(ashlar_loom))]
    #[inline]
    pub(crate) fn count_free(&self) {
        crate::base::sync::bump(&self.free_slow);
    }

    /// Returns the frees that have found their sheaf full.
    #[cfg(not(ashlar_loom))]
    #[inline]
    pub(crate) fn frees(&self) -> usize {
        self.free_slow.load(crate::base::sync::Ordering::Relaxed)
    }

    /// Adds this barn's counts to `sum`.
    #[cfg(not(ashlar_loom))]
    pub(crate) fn add_to(&self, sum: &mut crate::engine::Counts) {
        use crate::base::sync::Ordering;
        sum.alloc_slow += self.alloc_slow.load(Ordering::Relaxed) as u64;
        sum.free_slow += self.free_slow.load(Ordering::Relaxed) as u64;
        sum.barn_locks += self.inner.taken() as u64;
        sum.lock_waits += self.inner.waited() as u64;
    }

    #[cfg(ashlar_loom)]
    pub(crate) fn new() -> Self {
        Barn { inner: SpinLock::new(Inner::NEW) }
    }

    /// Takes a full sheaf, if there is one.
    pub(crate) fn get_full(&self) -> Option<Sheaf> {
        let mut barn = self.inner.lock();
        barn.touched = true;
        let sheaf = barn.pop_full();
        if sheaf.is_some() {
            barn.stats.get += 1;
            barn.taken_from = true;
        } else {
            barn.stats.get_fail += 1;
        }
        sheaf
    }

    /// Stores a full sheaf and returns the number of objects now here. Returns the sheaf if there
    /// would be more than `limit` objects.
    pub(crate) fn put_full(&self, sheaf: Sheaf, limit: usize) -> Result<usize, Sheaf> {
        let mut barn = self.inner.lock();
        barn.touched = true;
        if barn.objects + sheaf.len() > limit {
            barn.stats.put_fail += 1;
            return Err(sheaf);
        }
        barn.stats.put += 1;
        barn.objects += sheaf.len();
        barn.full.push(sheaf);
        Ok(barn.objects)
    }

    /// Takes full sheaves for another CPU: up to `most`, and at most half, rounded up. With
    /// `only_idle` it takes none if the barn's own CPU took one since the last such request.
    pub(crate) fn rob_full(&self, most: usize, only_idle: bool) -> SheafList {
        let mut robbed = SheafList::new();
        let mut barn = self.inner.lock();
        if core::mem::take(&mut barn.taken_from) && only_idle {
            return robbed;
        }
        for _ in 0..barn.full.len().div_ceil(2).min(most) {
            let Some(sheaf) = barn.pop_full() else { break };
            robbed.push(sheaf);
        }
        if robbed.len() > 0 {
            barn.touched = true;
            barn.stats.robbed += robbed.len() as u64;
        }
        robbed
    }

    /// Stores full sheaves robbed from another barn. No limit applies: this barn was empty a moment
    /// ago.
    pub(crate) fn keep_full(&self, mut robbed: SheafList) {
        let mut barn = self.inner.lock();
        while let Some((sheaf, objects)) = robbed.pop_full() {
            barn.objects += objects;
            barn.full.push(sheaf);
        }
    }

    /// Takes an empty sheaf, if there is one.
    pub(crate) fn get_empty(&self) -> Option<Sheaf> {
        self.inner.lock().empty.pop_empty()
    }

    /// Stores an empty sheaf, or returns it if the barn has enough.
    pub(crate) fn put_empty(&self, sheaf: Sheaf) -> Result<(), Sheaf> {
        let mut barn = self.inner.lock();
        if barn.empty.len() >= MAX_EMPTY {
            return Err(sheaf);
        }
        barn.empty.push(sheaf);
        Ok(())
    }

    /// Takes empty sheaves for another CPU: up to `most`, and at most half, rounded up.
    pub(crate) fn rob_empty(&self, most: usize) -> SheafList {
        let mut robbed = SheafList::new();
        let mut barn = self.inner.lock();
        for _ in 0..barn.empty.len().div_ceil(2).min(most) {
            let Some(sheaf) = barn.empty.pop_empty() else { break };
            robbed.push(sheaf);
        }
        robbed
    }

    /// Takes up to `most` empty sheaves, for a barn that was robbed of as many full ones.
    pub(crate) fn give_empty(&self, most: usize) -> SheafList {
        let mut given = SheafList::new();
        let mut barn = self.inner.lock();
        for _ in 0..most {
            let Some(sheaf) = barn.empty.pop_empty() else { break };
            given.push(sheaf);
        }
        given
    }

    /// Stores empty sheaves of another barn.
    pub(crate) fn keep_empty(&self, mut robbed: SheafList) {
        let mut barn = self.inner.lock();
        while let Some(sheaf) = robbed.pop_empty() {
            barn.empty.push(sheaf);
        }
    }

    /// Returns whether the barn was used since the last call, and the fewest full sheaves it held
    /// since then. Starts a new interval.
    pub(crate) fn take_surplus(&self) -> (bool, usize) {
        let mut barn = self.inner.lock();
        let unused = barn.low as usize;
        barn.low = barn.full.len() as u32;
        (core::mem::take(&mut barn.touched), unused)
    }

    /// Returns the number of full sheaves.
    #[cfg(ashlar_loom)]
    pub(crate) fn full_sheaves(&self) -> usize {
        self.inner.lock().full.len()
    }

    /// Returns the number of objects in the full sheaves.
    pub(crate) fn full_objects(&self) -> usize {
        self.inner.lock().objects
    }

    /// Resets the counts, for a new cache in an old registry entry.
    #[cfg(not(ashlar_loom))]
    pub(crate) fn reset_stats(&self) {
        use crate::base::sync::Ordering;
        self.inner.lock().stats = BarnStats::default();
        self.inner.reset_counts();
        self.alloc_slow.store(0, Ordering::Relaxed);
        self.free_slow.store(0, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> BarnStats {
        self.inner.lock().stats
    }

    /// The barn lock, for fork.
    #[cfg(not(ashlar_loom))]
    pub(crate) fn lock_word(&self) -> &crate::base::sync::LockWord {
        self.inner.word()
    }
}
