//! The figures of this process: as numbers, and as the table or the line of JSON that
//! `ASHLAR_STATS` prints at exit.

use crate::base::units::PAGE_SIZE;
use crate::cache::for_each_cache;
use crate::pages::{direct, meta::META};

/// What the memory of this process is used for; see [`stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of objects in use, without mappings of single objects.
    pub used_bytes: usize,
    /// Bytes taken from the system and not returned, without these mappings and metadata.
    pub held_bytes: usize,
    /// Bytes in mappings of single objects.
    pub mapped_bytes: usize,
    /// Bytes of metadata: caches, sheaves, tables.
    pub metadata_bytes: usize,
    /// Bytes of free pages that may be resident.
    pub dirty_bytes: usize,
    /// Free objects, in front of slabs and in them.
    pub free_objects: usize,
}

/// Returns what the memory of this process is used for at this moment. Visits every cache. Takes
/// locks, and so must not be called in a signal handler.
#[place(cold)]
pub fn stats() -> Stats {
    let (mut used, mut free_objects, mut slab_pages) = (0, 0, 0);
    for_each_cache(|cache| {
        used += cache.usage.live * cache.object_size;
        free_objects += cache.usage.objects.saturating_sub(cache.usage.live);
        slab_pages += cache.usage.bytes / PAGE_SIZE;
    });
    let zone = crate::zone_stats();
    let in_use = zone.committed - zone.free;
    Stats {
        used_bytes: used + in_use.saturating_sub(slab_pages) * PAGE_SIZE,
        held_bytes: (in_use + zone.dirty) * PAGE_SIZE,
        mapped_bytes: direct::total_bytes(),
        metadata_bytes: META.used(),
        dirty_bytes: zone.dirty * PAGE_SIZE,
        free_objects,
    }
}

#[cfg(feature = "os")]
mod at_exit;
#[cfg(feature = "os")]
mod print;

#[cfg(feature = "os")]
pub(super) use at_exit::is_wanted;
#[cfg(feature = "os")]
pub use at_exit::print_stats_in_any_case;
#[cfg(feature = "os")]
pub(crate) use at_exit::{at_exit, at_load};
#[cfg(feature = "os")]
pub use print::{print_stats, set_deepbind_counter};
