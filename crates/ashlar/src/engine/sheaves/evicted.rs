//! The evicted objects of a node and cache, on sheaves: see [`sparse`](super::sparse).
//!
//! Lock: the *evicted lock*, one a node and cache, held for a few instructions; nothing is taken under it.

use crate::base::sync::{AtomicUsize, LockWord, Ordering, SpinLock};
use crate::percpu::sheaf::{Sheaf, SheafList};

struct Stock {
    /// Full sheaves, and those of them that [`restore_emptied`](super::sparse::restore_emptied) has looked at since it began.
    sheaves: SheafList,
    looked_at: SheafList,
}

/// The evicted objects of a node and cache; see the module.
pub(crate) struct Evicted {
    stock: SpinLock<Stock>,
    /// Objects here. Changed under the lock; read without it, so that a refill takes none where there is nothing.
    objects: AtomicUsize,
}

impl Evicted {
    pub(super) const fn new() -> Self {
        let stock = Stock { sheaves: SheafList::new(), looked_at: SheafList::new() };
        Evicted { stock: SpinLock::new(stock), objects: AtomicUsize::new(0) }
    }

    /// Objects here.
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

    /// Begins a look at all sheaves.
    pub(super) fn look_at_all_again(&self) {
        let mut stock = self.stock.lock();
        while let Some((sheaf, _)) = stock.looked_at.pop_full() {
            stock.sheaves.push(sheaf);
        }
    }

    /// The evicted lock, for a fork.
    pub(super) fn lock_word(&self) -> &LockWord {
        self.stock.word()
    }
}
