//! The public description of a cache: shape, tunables, figures.

use super::alias::Alias;
use super::registry;
use crate::base::sync::Ordering;
use crate::engine::history::slab_queues::{self, QueueInfo};
use crate::engine::{self, Counts, Engine, RawCache, Usage, tunable};
use crate::slab::cache::{MAX_NAME, copied_name};

/// The state of a cache at one moment: the columns of the kernel's slabinfo and sysfs files.
#[derive(Clone, Copy)]
pub struct CacheInfo {
    name: [u8; MAX_NAME],
    name_len: usize,
    /// The engine.
    pub engine: Engine,
    /// The number of handles of these slabs: more than 1 if caches were merged.
    /// [`crate::for_each_alias`] lists their other names.
    pub refcount: usize,
    /// Usable bytes of an object.
    pub object_size: usize,
    /// Bytes from one object to the next.
    pub stride: usize,
    /// Alignment of objects in bytes.
    pub align: usize,
    /// Objects in a slab.
    pub objects_per_slab: usize,
    /// Order of a slab: 2^order pages of [`PAGE_SIZE`](crate::PAGE_SIZE) bytes.
    pub order: u8,
    /// Objects in a sheaf.
    pub sheaf_capacity: usize,
    /// Full sheaves that each barn may hold.
    pub barn_limit: usize,
    /// Empty slabs that each node keeps.
    pub min_partial: usize,
    /// Slabs, objects, bytes.
    pub usage: Usage,
    /// The counters of the barns.
    pub barn: crate::engine::sheaves::barn::BarnStats,
    /// The counters of the slow paths.
    pub slow: crate::slab::counters::SlowPathStats,
    /// Locks taken, slow paths entered.
    pub counts: Counts,
    /// The queues of a cache of SLAB.
    pub queues: Option<QueueInfo>,
}

impl CacheInfo {
    /// Name of the cache.
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..self.name_len]).unwrap_or("?")
    }

    /// Returns the same description under another name.
    pub(crate) fn named(mut self, name: &str) -> CacheInfo {
        self.name_len = name.len().min(MAX_NAME);
        self.name[..self.name_len].copy_from_slice(&name.as_bytes()[..self.name_len]);
        self
    }
}

impl core::fmt::Debug for CacheInfo {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {:?}", self.name(), self.usage)
    }
}

#[place(cold)]
pub(crate) fn info(raw: &'static RawCache) -> CacheInfo {
    let (barn, slow) = (engine::barn_stats(raw), engine::slow_path_stats(raw));
    let info = CacheInfo {
        name: [0; MAX_NAME],
        name_len: 0,
        engine: raw.engine,
        refcount: raw.refcount.load(Ordering::Relaxed) as usize,
        object_size: raw.object_size(),
        stride: raw.slabs.geometry.stride,
        align: raw.slabs.geometry.align,
        objects_per_slab: usize::from(raw.slabs.geometry.objects(raw.slabs.geometry.order)),
        order: raw.slabs.geometry.order.0,
        sheaf_capacity: tunable(&raw.sheaf_capacity),
        barn_limit: tunable(&raw.barn_limit),
        min_partial: raw.slabs.min_partial(),
        usage: engine::usage(raw),
        barn,
        slow,
        counts: engine::counts(raw),
        queues: raw.engine.has_queues().then(|| slab_queues::queue_info(raw)),
    };
    info.named(raw.name())
}

/// Returns the counts of locks and slow paths of all existing caches and of the page layer. The
/// call itself is not counted.
pub fn total_counts() -> Counts {
    let mut sum = Counts { zone_locks: crate::pages::zone::ZONE.locks_taken() as u64, ..Counts::default() };
    registry::for_each(|cache| engine::counts(cache).add_to(&mut sum));
    sum
}

/// Calls `each` for every cache, in order of their entries. No lock is held meanwhile: `each` may
/// allocate, and create and destroy caches.
pub fn for_each_cache(mut each: impl FnMut(&CacheInfo)) {
    let mut index = 0;
    // A cache that is destroyed meanwhile is seen whole or not at all.
    while let Some(seen) = registry::nth(index, info) {
        if let Some(info) = seen {
            each(&info);
        }
        index += 1;
    }
}

/// Checks the debugged and the guarded caches of this name, those of the library included, as
/// [`KmemCache::validate`](crate::KmemCache::validate). Returns the number of errors; `None` if no
/// cache of this name is debugged or guarded.
#[place(cold)]
pub fn validate(name: &str) -> Option<usize> {
    let mut index = 0;
    let mut errors = None;
    // No lock is held while a cache is checked: an entry whose cache goes meanwhile has no slabs.
    while let Some(seen) = registry::nth(index, |cache| (cache.name() == name).then_some(cache)) {
        let found = seen.flatten().and_then(engine::validate_debugged);
        errors = found.map(|count| count + errors.unwrap_or(0)).or(errors);
        index += 1;
    }
    errors
}

/// A cache without slabs of its own, at one moment.
#[derive(Clone, Copy)]
pub struct AliasInfo {
    name: [u8; MAX_NAME],
    name_len: u8,
    cache: [u8; MAX_NAME],
    cache_len: u8,
    /// Bytes of an object that were asked for under this name.
    pub object_size: usize,
}

impl AliasInfo {
    fn new(name: &str, cache: &RawCache, object_size: usize) -> AliasInfo {
        let ((name, name_len), (cache, cache_len)) = (copied_name(name), copied_name(cache.name()));
        AliasInfo { name, name_len, cache, cache_len, object_size }
    }

    /// The name.
    #[place(cold)]
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..usize::from(self.name_len)]).unwrap_or("?")
    }

    /// The cache whose slabs serve it.
    #[place(cold)]
    pub fn cache(&self) -> &str {
        core::str::from_utf8(&self.cache[..usize::from(self.cache_len)]).unwrap_or("?")
    }
}

impl core::fmt::Debug for AliasInfo {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} -> {}", self.name(), self.cache())
    }
}

/// Calls `each` for every cache that has no slabs of its own, and tells whose it uses: who was
/// merged with whom, and what shares pages by its engine. No lock is held meanwhile: `each` may
/// allocate, and create and destroy caches.
pub fn for_each_alias(mut each: impl FnMut(&AliasInfo)) {
    let of_name = |alias: &Alias| AliasInfo::new(alias.name(), alias.cache, alias.object_size);
    let mut index = 0;
    while let Some(info) = registry::nth_alias(index, of_name) {
        each(&info);
        index += 1;
    }
    let of_cache = |cache: &'static RawCache| {
        engine::home(cache).map(|home| AliasInfo::new(cache.name(), home, cache.object_size()))
    };
    index = 0;
    while let Some(seen) = registry::nth(index, of_cache) {
        if let Some(info) = seen.flatten() {
            each(&info);
        }
        index += 1;
    }
}
