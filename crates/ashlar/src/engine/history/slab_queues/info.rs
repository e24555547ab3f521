//! The figures of a cache's queues: [`QueueInfo`].

use super::array::ArrayCache;
use super::state::QueueTunables;
use super::tune::queues;
use crate::engine::RawCache;
use crate::slab::geometry::IndexArray;

/// The queues of a cache at one moment, as in slabinfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    /// The tunables in force.
    pub tunables: QueueTunables,
    /// The place of the index arrays of slabs.
    #[doc(hidden)]
    pub array: IndexArray,
    /// Different offsets of the first object in a slab.
    pub colours: usize,
    /// Objects in shared arrays.
    pub shared_avail: usize,
    /// Objects in alien caches.
    pub alien_avail: usize,
    /// Free objects above which a node gives free slabs back; that of node 0.
    pub free_limit: usize,
    /// Free slabs that are kept.
    pub free_slabs: usize,
    /// Refills of a CPU's array out of a shared array.
    pub shared_refills: u64,
    /// Frees into alien caches.
    pub alien_frees: u64,
    /// Times that an alien cache was full.
    pub alien_overflows: u64,
    /// Objects that the reaper returned to slabs.
    pub reaped: u64,
}

/// Returns the figures of a cache's queues.
#[place(cold)]
pub(crate) fn queue_info(cache: &'static RawCache) -> QueueInfo {
    let queues = queues(cache);
    let mut info = QueueInfo {
        tunables: queues.tunables(),
        array: cache.slabs.geometry.array,
        colours: cache.slabs.geometry.colours,
        shared_avail: 0,
        alien_avail: 0,
        free_limit: 0,
        free_slabs: 0,
        shared_refills: 0,
        alien_frees: 0,
        alien_overflows: 0,
        reaped: 0,
    };
    for (id, node) in queues.nodes.iter().enumerate() {
        for alien in node.aliens {
            let alien = alien.lock();
            info.alien_avail += alien.avail();
            info.alien_frees += alien.frees;
            info.alien_overflows += alien.overflows;
        }
        let lists = node.lists.lock();
        info.shared_avail += lists.shared.map_or(0, ArrayCache::avail);
        info.free_slabs += lists.free.count;
        info.shared_refills += lists.shared_refills;
        info.reaped += lists.reaped;
        if id == 0 {
            info.free_limit = lists.free_limit;
        }
    }
    info
}
