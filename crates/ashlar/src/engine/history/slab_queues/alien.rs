//! Alien caches: objects of one remote node that CPUs of this node freed, gathered to be returned
//! in batches.
//!
//! Lock: the *alien lock*, one per pair of nodes. It is taken under a CPU lock; the remote node's
//! list_lock is taken under it.

use super::lists::{After, Lists};
use super::slabs::Slabs;
use crate::base::sync::SpinLock;

/// Objects in an alien cache.
pub(crate) const ALIEN_LIMIT: usize = 12;

/// Objects of one remote node, waiting to be returned.
pub(crate) struct AlienCache {
    entries: [usize; ALIEN_LIMIT],
    avail: usize,
    pub(crate) limit: usize,
    /// Objects freed into it, and times that it was full.
    pub(super) frees: u64,
    pub(super) overflows: u64,
}

#[place(cold)]
impl AlienCache {
    pub(crate) const NEW: AlienCache =
        AlienCache { entries: [0; ALIEN_LIMIT], avail: 0, limit: 0, frees: 0, overflows: 0 };

    pub(crate) fn avail(&self) -> usize {
        self.avail
    }

    /// The objects in it, for models that check them.
    #[cfg(ashlar_loom)]
    pub(crate) fn objects(&self) -> &[usize] {
        &self.entries[..self.avail]
    }

    /// Adds an object of the node whose lists are `home`. Drains the cache there first if it is
    /// full. False, and nothing done, if the object is the newest one already: a double free.
    pub(crate) fn free(
        &mut self,
        slabs: &impl Slabs,
        home: &SpinLock<Lists>,
        object: usize,
        after: &mut After,
    ) -> bool {
        if self.entries[..self.avail].last() == Some(&object) {
            return false;
        }
        if self.avail >= self.limit {
            self.overflows += 1;
            self.drain(slabs, home, after);
        }
        self.frees += 1;
        self.entries[self.avail] = object;
        self.avail += 1;
        true
    }

    /// Returns all objects to their node: to its shared array as far as that has room, the rest to
    /// their slabs.
    pub(crate) fn drain(&mut self, slabs: &impl Slabs, home: &SpinLock<Lists>, after: &mut After) {
        if self.avail == 0 {
            return;
        }
        let mut lists = home.lock();
        if let Some(shared) = lists.shared {
            while self.avail > 0 && shared.push(self.entries[self.avail - 1]) {
                self.avail -= 1;
            }
        }
        lists.free_block(slabs, &self.entries[..self.avail], after);
        self.avail = 0;
    }
}
