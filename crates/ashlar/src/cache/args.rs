//! How a cache is made: the kernel's `kmem_cache_args` and flags.

use super::constructor::Constructor;
use crate::engine::Engine;
#[cfg(doc)]
use crate::engine::Tunable;

/// How a cache is made; the kernel's `kmem_cache_args` and flags. Options of the process stand in for what is `None`, and those for a
/// cache of this name (`cache.NAME.KEY=VALUE`) for what is not, too: so a user can tune a program of somebody else's.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheArgs {
    /// Alignment of objects in bytes, a power of two up to 4096; 0 for the default of 8.
    pub align: usize,
    /// Align to cache lines, to a fraction of one for small objects (`SLAB_HWCACHE_ALIGN`).
    pub hwcache_align: bool,
    /// Called once for each object when it is first carved; for each allocation by the engines
    /// `slob`, `slob-seg` and `slob-cache`. Objects must come back in constructed state.
    pub ctor: Option<Constructor>,
    /// Objects in a sheaf, 1 to 254; `None`: by object size.
    pub sheaf_capacity: Option<usize>,
    /// Empty slabs that each node keeps, 0 to 1048576; `None`: by object size.
    pub min_partial: Option<usize>,
    /// Free objects that a CPU's partial slabs may have, 0 to 1048576, of the engine `slub-bulk`; `None`: by object size.
    pub cpu_partial: Option<usize>,
    /// See [`Tunable::RemoteNodeDefragRatio`], 0 to 100; `None`: the option of the process.
    pub remote_node_defrag_ratio: Option<usize>,
    /// Smallest order of slabs, 0 to 9; `None`: the option of the process.
    pub min_order: Option<u8>,
    /// Largest order of slabs, 0 to 9; `None`: the option of the process.
    pub max_order: Option<u8>,
    /// The strategy; `None`: the option `engine` of the process.
    pub engine: Option<Engine>,
    /// The cache shares its slabs with no other (`SLAB_NO_MERGE`). Without, caches of objects alike are one cache with several
    /// names, unless the option of the process says `merge=off`. Never merged is a cache with `ctor`, `sheaf_capacity`, `min_partial`,
    /// `cpu_partial`, `remote_node_defrag_ratio`, `min_order` or `max_order`, or with options for its name. The engines `slob` and
    /// `slob-seg` share pages all the same: they know no caches.
    pub no_merge: bool,
    /// Only caches with the same number here are merged: what the kernel has in flags that must be equal.
    pub merge_group: u8,
}

impl CacheArgs {
    /// All defaults, for constants.
    pub const DEFAULT: CacheArgs = CacheArgs {
        align: 0,
        hwcache_align: false,
        ctor: None,
        sheaf_capacity: None,
        min_partial: None,
        cpu_partial: None,
        remote_node_defrag_ratio: None,
        min_order: None,
        max_order: None,
        engine: None,
        no_merge: false,
        merge_group: 0,
    };
}
