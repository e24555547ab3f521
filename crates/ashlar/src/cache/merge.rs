//! Merging: caches of similar objects are one cache with several names.
//!
//! A new cache whose objects fit into those of another
//! ([`Geometry::serves`](crate::slab::geometry::Geometry::serves)) gets no slabs, slot or sheaves
//! of its own. It becomes an *alias*, a name with a reference to the other cache, and its handle
//! uses the same slot and the same fast paths. So figures and tunables apply to all names together,
//! and an object may be freed by any of them. The slabs keep the first name until the last handle
//! is destroyed.
//!
//! Source of the rules: the kernel's `find_mergeable` and `slab_unmergeable`. Never merged is a
//! cache with a constructor, with the flag ([`CacheArgs::no_merge`]), with tunables or orders of
//! its own, by its arguments or by options for its name (the kernel has that rule for
//! `sheaf_capacity`), with other [`CacheArgs::merge_group`] or engine than the other, and all where
//! the option says `merge=off`. The caches of kmalloc and malloc are never merged, because a free
//! by address alone must find the owner of the object, and the names of the program's caches should
//! describe only the program's objects. (The kernel excludes kmalloc's caches for the first reason,
//! if memory is accounted to groups of processes.)
//!
//! The engine `slab24` merges nothing, as its kernel.
//!
//! The engines `slob`, `slob-seg` and `slob-cache` share pages below caches that each count their
//! own objects, so they need no merging. `slob-cache` does so by the same rules ([`rule`]).
//!
//! Aliases are created and removed under the registry lock. Their memory is reused.

use super::args::CacheArgs;
use super::settings::{Options, Own};
use crate::engine::{CacheSpec, Engine, Merge, Policy, RawCache};

/// Returns which other caches a new cache may be merged with.
pub(super) fn rule(args: &CacheArgs, policy: &Policy, options: &Options, own: &Own) -> Merge {
    let tuned = [args.sheaf_capacity, args.min_partial, args.cpu_partial, args.remote_node_defrag_ratio];
    let tuned = tuned.iter().any(Option::is_some) || [args.min_order, args.max_order].iter().any(Option::is_some);
    let may = options.merge && !args.no_merge && args.ctor.is_none();
    let mergeable = may && policy.of_program && !tuned && !own.any();
    Merge { mergeable, group: args.merge_group }
}

/// Returns whether a new cache can be an alias of `cache`.
pub(super) fn fits(new: &CacheSpec<'_>, cache: &RawCache) -> bool {
    let (merge, own) = (&new.merge, &cache.merge);
    merge.mergeable
        && own.mergeable
        && cache.engine == new.engine
        && new.engine.merges()
        && own.group == merge.group
        && cache.slabs.geometry.serves(&new.geometry, new.engine == Engine::Slab)
}
