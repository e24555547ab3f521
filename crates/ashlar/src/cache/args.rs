//! How a cache is made: the kernel's `kmem_cache_args` and flags.

use super::constructor::Constructor;
#[cfg(doc)]
use crate::engine::Tunable;
use crate::engine::{DebugFlags, Engine};

/// How a cache is made: the kernel's `kmem_cache_args` and flags.
///
/// Options of the process replace fields that are `None`. Options for a cache of this name
/// (`cache.NAME.KEY=VALUE`) also override the other fields, so that users can tune programs that
/// they did not write.
///
/// ```
/// use ashlar::{CacheArgs, KmemCache};
///
/// const ARGS: CacheArgs = CacheArgs::DEFAULT.align(64).no_merge(true);
/// let packets = KmemCache::create("packet", 1500, &ARGS.sheaf_capacity(32))?;
/// # Ok::<(), ashlar::CreateError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CacheArgs {
    /// Alignment of objects in bytes, a power of two up to [`PAGE_SIZE`](crate::PAGE_SIZE); 0 for
    /// the default of 8.
    pub align: usize,
    /// Align to cache lines, to a fraction of one for small objects (`SLAB_HWCACHE_ALIGN`).
    pub hwcache_align: bool,
    /// Called once for each object when it is first carved; in the engines `slob`, `slob-seg` and
    /// `slob-cache`, at each allocation. Objects must be freed in constructed state.
    pub ctor: Option<Constructor>,
    /// Objects in a sheaf, 1 to 254; `None`: chosen by object size.
    pub sheaf_capacity: Option<usize>,
    /// Empty slabs that each node keeps, 0 to 1048576; `None`: chosen by object size.
    pub min_partial: Option<usize>,
    /// The most free objects on a CPU's partial slabs, 0 to 1048576, in the engine `slub-bulk`;
    /// `None`: chosen by object size.
    pub cpu_partial: Option<usize>,
    /// See [`Tunable::RemoteNodeDefragRatio`], 0 to 100; `None`: the option of the process.
    pub remote_node_defrag_ratio: Option<usize>,
    /// Smallest order of slabs, 0 to 9; `None`: the option of the process.
    pub min_order: Option<u8>,
    /// Largest order of slabs, 0 to 9; `None`: the option of the process.
    pub max_order: Option<u8>,
    /// The engine; `None`: the option `engine` of the process.
    pub engine: Option<Engine>,
    /// The cache shares its slabs with no other cache (`SLAB_NO_MERGE`). Otherwise, caches of
    /// similar objects are one cache with several names, unless the option is `merge=off`. A cache
    /// with `ctor`, `sheaf_capacity`, `min_partial`, `cpu_partial`, `remote_node_defrag_ratio`,
    /// `min_order` or `max_order`, or with options for its name, is never merged. The engines
    /// `slob` and `slob-seg` share pages in any case, because they do not distinguish caches.
    pub no_merge: bool,
    /// Which debugging the cache has, beside what `ASHLAR_DEBUG` says for its name. A cache with
    /// flags is never merged, and is served by [`Engine::Debug`].
    pub debug: DebugFlags,
    /// `ASHLAR_DEBUG` does not hold for the cache (`SLAB_NO_USER_FLAGS`).
    pub no_user_debug: bool,
    /// Only caches with the same number are merged. It stands for the kernel's flags that must be
    /// equal.
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
        debug: DebugFlags::NONE,
        no_user_debug: false,
        merge_group: 0,
    };

    /// These arguments with another [`align`](field@CacheArgs::align).
    #[must_use]
    pub const fn align(self, align: usize) -> CacheArgs {
        CacheArgs { align, ..self }
    }

    /// These arguments with another [`hwcache_align`](field@CacheArgs::hwcache_align).
    #[must_use]
    pub const fn hwcache_align(self, hwcache_align: bool) -> CacheArgs {
        CacheArgs { hwcache_align, ..self }
    }

    /// These arguments with another [`ctor`](field@CacheArgs::ctor).
    #[must_use]
    pub const fn ctor(self, ctor: Constructor) -> CacheArgs {
        CacheArgs { ctor: Some(ctor), ..self }
    }

    /// These arguments with another [`sheaf_capacity`](field@CacheArgs::sheaf_capacity).
    #[must_use]
    pub const fn sheaf_capacity(self, sheaf_capacity: usize) -> CacheArgs {
        CacheArgs { sheaf_capacity: Some(sheaf_capacity), ..self }
    }

    /// These arguments with another [`min_partial`](field@CacheArgs::min_partial).
    #[must_use]
    pub const fn min_partial(self, min_partial: usize) -> CacheArgs {
        CacheArgs { min_partial: Some(min_partial), ..self }
    }

    /// These arguments with another [`cpu_partial`](field@CacheArgs::cpu_partial).
    #[must_use]
    pub const fn cpu_partial(self, cpu_partial: usize) -> CacheArgs {
        CacheArgs { cpu_partial: Some(cpu_partial), ..self }
    }

    /// These arguments with another
    /// [`remote_node_defrag_ratio`](field@CacheArgs::remote_node_defrag_ratio).
    #[must_use]
    pub const fn remote_node_defrag_ratio(self, remote_node_defrag_ratio: usize) -> CacheArgs {
        CacheArgs { remote_node_defrag_ratio: Some(remote_node_defrag_ratio), ..self }
    }

    /// These arguments with another [`min_order`](field@CacheArgs::min_order).
    #[must_use]
    pub const fn min_order(self, min_order: u8) -> CacheArgs {
        CacheArgs { min_order: Some(min_order), ..self }
    }

    /// These arguments with another [`max_order`](field@CacheArgs::max_order).
    #[must_use]
    pub const fn max_order(self, max_order: u8) -> CacheArgs {
        CacheArgs { max_order: Some(max_order), ..self }
    }

    /// These arguments with another [`engine`](field@CacheArgs::engine).
    #[must_use]
    pub const fn engine(self, engine: Engine) -> CacheArgs {
        CacheArgs { engine: Some(engine), ..self }
    }

    /// These arguments with another [`no_merge`](field@CacheArgs::no_merge).
    #[must_use]
    pub const fn no_merge(self, no_merge: bool) -> CacheArgs {
        CacheArgs { no_merge, ..self }
    }

    /// These arguments with other [`debug`](field@CacheArgs::debug) flags.
    #[must_use]
    pub const fn debug(self, debug: DebugFlags) -> CacheArgs {
        CacheArgs { debug, ..self }
    }

    /// These arguments with another [`no_user_debug`](field@CacheArgs::no_user_debug).
    #[must_use]
    pub const fn no_user_debug(self, no_user_debug: bool) -> CacheArgs {
        CacheArgs { no_user_debug, ..self }
    }

    /// These arguments with another [`merge_group`](field@CacheArgs::merge_group).
    #[must_use]
    pub const fn merge_group(self, merge_group: u8) -> CacheArgs {
        CacheArgs { merge_group, ..self }
    }
}
