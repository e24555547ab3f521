//! Merging: caches of objects alike are one cache with several names.
//!
//! A new cache whose objects fit into those of another ([`Geometry::serves`](crate::slab::geometry::Geometry::serves)) gets no slabs, no
//! slot and no sheaves of its own: it becomes an *alias*, a name with a reference to the other, and its handle uses the
//! same slot, so that its fast paths are those of every cache. Figures and tunables are therefore those of all names together,
//! and an object may be freed by any of them. The name of the first stays that of the slabs until the last handle is destroyed.
//!
//! Source of the rules: the kernel's `find_mergeable` and `slab_unmergeable`. Never merged is a cache with a
//! constructor, with the flag ([`CacheArgs::no_merge`]), with tunables or orders of its own, by its arguments or by options for its name
//! (the kernel has that rule for `sheaf_capacity`), with other [`CacheArgs::merge_group`] or engine than the other, and all where the option says `merge=off`.
//! kmalloc's and malloc's caches take no part: who frees by the address alone must find whose the object is, and the names of
//! the program's caches should stand for the program's objects. (The kernel leaves kmalloc's out for the first reason, where
//! memory is accounted to groups of processes.)
//!
//! The engines `slob`, `slob-seg` and `slob-cache` share pages by themselves, below caches that each count their own objects:
//! there is nothing to merge here. `slob-cache` does so by the same rules ([`rule`]).
//!
//! Aliases are made and given up under the registry lock. Their memory serves later ones.

use super::CacheArgs;
use super::registry;
use crate::base::sync::AtomicPtr;
use crate::cache::settings::{Options, Own};
use crate::engine::{self, CacheSpec, Engine, Merge, Policy, RawCache};
use crate::slab::cache::{MAX_NAME, copied_name};

/// One more name of a cache.
pub(crate) struct Alias {
    name: [u8; MAX_NAME],
    name_len: u8,
    /// Whose slabs serve it.
    cache: &'static RawCache,
    /// Bytes of an object that were asked for under this name.
    object_size: usize,
    /// The next on the list of names, or of free records.
    pub(super) next: AtomicPtr<Alias>,
}

impl core::fmt::Debug for Alias {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl Alias {
    pub(super) fn new(name: &str, cache: &'static RawCache, object_size: usize, next: *mut Alias) -> Alias {
        let (name, name_len) = copied_name(name);
        Alias { name, name_len, cache, object_size, next: AtomicPtr::new(next) }
    }

    pub(super) fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..usize::from(self.name_len)]).unwrap_or("?")
    }
}

/// With which others a new cache may be merged.
pub(super) fn rule(args: &CacheArgs, policy: &Policy, options: &Options, own: &Own) -> Merge {
    let tuned = [args.sheaf_capacity, args.min_partial, args.cpu_partial, args.remote_node_defrag_ratio];
    let tuned = tuned.iter().any(Option::is_some) || [args.min_order, args.max_order].iter().any(Option::is_some);
    let may = options.merge && !args.no_merge && args.ctor.is_none();
    let mergeable = may && policy.of_program && !tuned && !own.any();
    Merge { mergeable, group: args.merge_group }
}

/// Whether a new cache can be an alias of `cache`.
pub(super) fn fits(new: &CacheSpec<'_>, cache: &RawCache) -> bool {
    let (merge, own) = (&new.merge, &cache.merge);
    merge.mergeable
        && own.mergeable
        && cache.engine == new.engine
        && new.engine.merges()
        && own.group == merge.group
        && cache.slabs.geometry.serves(&new.geometry, new.engine == Engine::Slab)
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

/// Calls `each` for every cache that has no slabs of its own, and tells whose it uses: who was merged with whom, and what shares
/// pages by its engine. No lock is held meanwhile: `each` may allocate, and create and destroy caches.
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
