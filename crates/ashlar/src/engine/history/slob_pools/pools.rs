//! Pools: the pages that serve one or more caches.
//!
//! A pool is a hidden cache: geometry, link key, and a partial list for each node. It owns its
//! pages, so a page leads to its pool. Caches of different families ([`crate::engine::Policy`])
//! share no pool, because a free by address alone must find the cache to charge. The kernel keeps
//! accounted caches apart for the same reason.
//!
//! * `slob-seg`: the pool of a cache is that of the next power of two.
//! * `slob-cache`: an existing pool whose objects are alike ([`Geometry::serves`]), or a new one. A
//!   cache that must not be merged has a pool of its own.
//!
//! Locks: pools are made, joined and left under the registry lock, which fork holds too. Their
//! memory is never given back. A pool without members and pages is reused for the next cache that
//! needs one.
//!
//! ## Which cache an object belongs to
//! A page does not record which cache of the pool an object belongs to. A free to a cache names it;
//! a free by address does not. In a pool of several caches the latter is counted at the pool, as
//! *unknown*. While there are unknown frees, a cache has only an upper bound of its live objects.
//! It may be destroyed if all of them may be among the unknown. A cache that ends adds its counts
//! to the pool.

use crate::base::sync::Visit;
use crate::base::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::base::units::PAGE_SIZE;
use crate::engine::{CacheSpec, EMPTY_STATE, Engine, EngineState, Merge, RawCache, tally};
use crate::pages::meta::META;
use crate::percpu::area::MAX_CACHES;
use crate::slab::OrderRule;
use crate::slab::geometry::{Geometry, LINK_BYTES, MAX_OBJECT_SIZE};
use crate::slab::node;

/// Empty pages that a pool keeps listed on a node. Without one, a program at the edge of a page
/// would take and give back a page with every object.
pub(super) const KEPT: usize = 1;

/// The pages of one size of objects.
pub(crate) struct Pool {
    /// The hidden cache that owns the pages.
    pub(super) pages: RawCache,
    /// Number of member caches.
    members: AtomicUsize,
    /// The member that reports the figures of the pages. Null after it was destroyed, until the
    /// figures of another member are read.
    home: AtomicPtr<RawCache>,
}

#[place(large_bss)]
static POOLS: [AtomicPtr<Pool>; MAX_CACHES] = [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CACHES];

/// Returns a pool by its number.
fn pool_at(number: usize) -> Option<&'static Pool> {
    // SAFETY: entries point to pools in metadata memory, which were written before they were stored
    // and are never given back.
    unsafe { POOLS.get(number)?.load(Ordering::Acquire).as_ref() }
}

fn all() -> impl Iterator<Item = (usize, &'static Pool)> {
    (0..MAX_CACHES).map_while(|number| pool_at(number).map(|pool| (number, pool)))
}

/// Returns the pool of a cache of these engines.
#[inline]
pub(super) fn pool_of(cache: &RawCache) -> &'static Pool {
    let pool = POOLS[usize::from(cache.state.pool)].load(Ordering::Acquire);
    // SAFETY: `open` gave the cache the number of an existing pool.
    unsafe { &*pool }
}

impl Pool {
    /// Returns the member that reports the figures of the pages.
    pub(super) fn home(&self) -> Option<&'static RawCache> {
        // SAFETY: caches are never unmapped, and `close` clears the pointer when its cache is
        // destroyed.
        unsafe { self.home.load(Ordering::Acquire).as_ref() }
    }

    /// True if `cache`, a member, reports the figures of the pages. Appoints it if no member does.
    pub(super) fn is_home(&self, cache: &'static RawCache) -> bool {
        let this = core::ptr::from_ref(cache).cast_mut();
        match self.home.compare_exchange(core::ptr::null_mut(), this, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(home) => home == this,
        }
    }

    /// Returns the only member, to which every object of the pages then belongs.
    #[inline]
    pub(super) fn only_member(&self) -> Option<&'static RawCache> {
        // A second member is counted here before it has objects. A thread that holds one of them
        // was handed it after that.
        if self.members.load(Ordering::Relaxed) == 1 { self.home() } else { None }
    }

    /// Returns the number of frees by address that named no cache.
    pub(super) fn unknown(&self) -> usize {
        tally::balance(self.pages.state.tallies).min(0).unsigned_abs()
    }

    /// See [`Geometry::serves`].
    fn serves(&self, wanted: &Geometry) -> bool {
        self.pages.merge.mergeable && self.pages.slabs.geometry.serves(wanted, false)
    }
}

/// Returns the geometry of the power-of-two pool for such objects.
fn power_of_two(wanted: &Geometry) -> Option<Geometry> {
    let size = wanted.object_size.max(wanted.align).max(LINK_BYTES).next_power_of_two();
    let rule = OrderRule { min_order: 0, max_order: 0, min_objects: 0 };
    let size = size.min(MAX_OBJECT_SIZE);
    Geometry::new(size, size.min(PAGE_SIZE), false, false, rule, 1).ok()
}

/// Finds or makes the pool of a cache that is being created, and sets the geometry to the pool's.
#[inline(never)]
#[place(cold)]
pub(crate) fn open(state: &mut EngineState, spec: &CacheSpec<'_>, geometry: &mut Geometry) -> Option<()> {
    let (engine, family, group) = (spec.engine, spec.policy.family, spec.merge.group);
    tally::open(&mut state.tallies)?;
    let of_pool = if engine == Engine::SlobSeg { power_of_two(geometry)? } else { *geometry };
    let alike = |pool: &Pool| {
        pool.pages.engine == engine
            && pool.pages.policy.family == family
            && if engine == Engine::SlobSeg {
                pool.pages.slabs.geometry.stride == of_pool.stride
            } else {
                pool.pages.merge.group == group && pool.serves(geometry)
            }
    };
    let shared = engine == Engine::SlobSeg || !spec.stands_alone();
    let found = if shared { all().find(|&(_, pool)| alike(pool)).map(|(number, _)| number) } else { None };
    let number = match found {
        Some(number) => number,
        None => make(spec, of_pool, Merge { mergeable: shared, group })?,
    };
    let pool = pool_at(number)?;
    pool.members.fetch_add(1, Ordering::Relaxed);
    state.pool = number as u16;
    let object_size = geometry.object_size;
    *geometry = pool.pages.slabs.geometry;
    geometry.object_size = object_size;
    Some(())
}

#[place(cold)]
fn make(of: &CacheSpec<'_>, geometry: Geometry, merge: Merge) -> Option<usize> {
    let unused = |pool: &'static Pool| pool.members.load(Ordering::Relaxed) == 0 && pool.pages.slabs.slab_count() == 0;
    let old = all().find(|&(_, pool)| unused(pool));
    let number = old.map_or_else(|| all().count(), |(number, _)| number);
    let entry = POOLS.get(number)?;
    let mut state = old.map_or(EMPTY_STATE, |(_, pool)| pool.pages.state);
    node::open(&mut state.nodes)?;
    tally::open(&mut state.tallies)?;
    state.pool = number as u16;
    let place = match old {
        Some(_) => entry.load(Ordering::Relaxed),
        None => META.alloc(size_of::<Pool>(), align_of::<Pool>().max(64))?.as_ptr().cast(),
    };
    // In a shared pool all bytes of an object are usable, whichever cache it belongs to.
    let mut geometry = geometry;
    if merge.mergeable {
        geometry.object_size = geometry.stride;
    }
    let spec = CacheSpec {
        name: "slob",
        geometry,
        ctor: None,
        merge,
        sheaf_capacity: 0,
        barn_limit: 0,
        min_partial: KEPT,
        cpu_partial: 0,
        defrag_ratio: 0,
        guarded: false,
        slot: None,
        ..*of
    };
    let secret = crate::engine::process_secret().rotate_left(number as u32 % 63) | 1 << 63;
    let pool = Pool {
        pages: RawCache::new(&spec, geometry, state, 0, secret, 1),
        members: AtomicUsize::new(0),
        home: AtomicPtr::new(core::ptr::null_mut()),
    };
    // SAFETY: fresh memory for a pool, or a pool without members and pages.
    unsafe { place.write(pool) };
    entry.store(place, Ordering::Release);
    Some(number)
}

/// See [`crate::engine::home`].
pub(crate) fn home(cache: &'static RawCache) -> Option<&'static RawCache> {
    let pool = pool_of(cache);
    if pool.is_home(cache) { None } else { pool.home() }
}

/// Announces a cache to its pool, once the cache is at its final address.
#[inline(never)]
#[place(cold)]
pub(crate) fn attach(cache: &'static RawCache) {
    let pool = pool_of(cache);
    pool.is_home(cache);
    // Frees by address keep as many empty pages as frees to the cache.
    pool.pages.slabs.min_partial.store(cache.slabs.min_partial.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// See [`crate::engine::close`].
#[place(cold)]
pub(crate) fn close(cache: &'static RawCache) {
    let pool = pool_of(cache);
    let pages = &pool.pages.state;
    for (node, (to, of)) in pages.nodes.iter().zip(pages.tallies.iter().zip(cache.state.tallies)) {
        let _of_both = node.list().raw().lock();
        tally::add(to, of);
    }
    let this = core::ptr::from_ref(cache).cast_mut();
    let _ = pool.home.compare_exchange(this, core::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
    pool.members.fetch_sub(1, Ordering::Relaxed);
}

/// Visits the locks of all pools, for fork.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    all().for_each(|(_, pool)| node::for_each_lock(pool.pages.slabs.nodes, visit));
}
