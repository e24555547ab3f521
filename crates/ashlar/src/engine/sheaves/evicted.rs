//! The store of a node's evicted objects, on full sheaves. See [`sparse`](super::sparse).
//!
//! Lock: the *evicted lock*, one per node and cache, held for a few instructions. It is a leaf.

use crate::base::sync::{AtomicUsize, LockWord, Ordering, SpinLock};
use crate::percpu::sheaf::{Sheaf, SheafList};
use ashlar_macros::place;

struct Stock {
    /// Full sheaves, and those that [`restore_emptied`](super::sparse::restore_emptied) has already
    /// examined in its current pass.
    sheaves: SheafList,
    looked_at: SheafList,
}

/// The evicted objects of one node and cache.
pub(crate) struct Evicted {
    stock: SpinLock<Stock>,
    /// Number of objects here. Written under the lock; read without it, so that a refill skips an
    /// empty store.
    objects: AtomicUsize,
}

impl Evicted {
    /// The offset of the number of objects, for a reader outside of the process.
    #[cfg(feature = "os")]
    pub(super) const OBJECTS: usize = core::mem::offset_of!(Evicted, objects);

    pub(super) const fn new() -> Self {
        let stock = Stock { sheaves: SheafList::new(), looked_at: SheafList::new() };
        Evicted { stock: SpinLock::new(stock), objects: AtomicUsize::new(0) }
    }

    /// Returns the number of objects here. Racy without the lock.
    #[inline]
    pub(super) fn objects(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }

    pub(super) fn put(&self, sheaf: Sheaf, looked_at: bool) {
        let mut stock = self.stock.lock();
        self.objects.store(self.objects() + sheaf.len(), Ordering::Relaxed);
        if looked_at { stock.looked_at.push(sheaf) } else { stock.sheaves.push(sheaf) }
    }

    #[place(background)]
    pub(super) fn take(&self, looked_at: bool) -> Option<Sheaf> {
        if self.objects() == 0 {
            return None;
        }
        let mut stock = self.stock.lock();
        let mut sheaf = stock.sheaves.pop_full();
        if sheaf.is_none() && looked_at {
            sheaf = stock.looked_at.pop_full();
        }
        let (sheaf, objects) = sheaf?;
        self.objects.store(self.objects() - objects, Ordering::Relaxed);
        Some(sheaf)
    }

    /// Starts a new pass over all sheaves.
    pub(super) fn look_at_all_again(&self) {
        let mut stock = self.stock.lock();
        while let Some((sheaf, _)) = stock.looked_at.pop_full() {
            stock.sheaves.push(sheaf);
        }
    }

    /// The evicted lock, for fork.
    pub(super) fn lock_word(&self) -> &LockWord {
        self.stock.word()
    }
}
