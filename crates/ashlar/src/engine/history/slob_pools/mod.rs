//! The segregated successors of SLOB: `slob-seg` and `slob-cache`. Constant time, bounded memory,
//! small code.
//!
//! ```text
//!  pool, node:  pages with free objects    one list, one lock
//!  page:        free objects of one size   a freelist, and uncarved objects
//!  CPU:         free pages                 taken if the list is empty; empty pages but one go back
//! ```
//!
//! All objects of a page have one size, so any free one will do. An allocation takes the first
//! object of the first listed page; a free pushes onto the page's freelist. Neither loops over
//! anything that grows.
//!
//! The *pool* of a cache ([`pools`]) is the set of pages that serve it. In `slob-seg` there is one
//! pool for each power of two, shared by all caches of that size. In `slob-cache` each cache has
//! its own, and caches with objects alike share one by the kernel's merge rules. Source: the two
//! mails of 2021 that proposed them. Caches whose objects are freed by address alone have pools of
//! their own, because such a free must find the cache to charge.
//!
//! A page is a slab as in the default engine: state word, links, partial list, head. Its owner is
//! the pool. All changes happen under the list_lock of the pool's node. The constructor runs at
//! each allocation, as in SLOB.
//!
//! ## Double frees
//! The link of a free object decodes, and allocation clears it. So a free reads the link first. If
//! it decodes, the freelist is walked to make sure.
#![allow(unsafe_code, reason = "links and frees objects")]

pub(crate) mod pools;

pub(crate) use pools::for_each_lock;

use crate::base::error::CreateError;
use crate::base::report;
use crate::base::sync::Ordering;
use crate::base::units::{NodeId, Order, PAGE_SIZE, PageIndex};
use crate::engine::{CacheSpec, Counts, EngineState, Object, RawCache, Strategy, Usage, tally};
use crate::pages::memmap::{MEMMAP, PageKind};
use crate::pages::zone::ZONE;
use crate::percpu::{self, area::PERCPU};
use crate::slab::OrderRule;
use crate::slab::counters::SlowPathStats;
use crate::slab::freelist::{read_link, write_link};
use crate::slab::geometry::Geometry;
use crate::slab::node::Node;
use crate::slab::state::{NO_OBJECT, SlabState};
use ashlar_macros::place;
use pools::{Pool, pool_of};

fn link_at(pages: &RawCache, base: usize, index: u16) -> usize {
    base + usize::from(index) * pages.slabs.geometry.stride + pages.slabs.geometry.link_offset
}

/// The result of an allocation from a node's list.
enum Taken {
    Object(usize),
    /// No listed page has a free object.
    Nothing,
    /// The first page was corrupt and was taken off the list. Holds the address of the bad link.
    Corrupt(usize),
}

/// Takes the first object of the first listed page of a node.
#[place(cold)]
fn take(cache: &'static RawCache, pages: &'static RawCache, node: usize) -> Taken {
    let mut list = pages.slabs.nodes[node].list().raw().lock();
    let page = list.first();
    if page == PageIndex::NONE {
        return Taken::Nothing;
    }
    let head = MEMMAP.head(page);
    let base = MEMMAP.address_of(page);
    let state = SlabState(head.state.load(Ordering::Relaxed));
    let (index, new) = if state.head() == NO_OBJECT {
        (state.carved(), state.carved_one())
    } else {
        // SAFETY: a free object of a listed page, under its list_lock; its index was checked when
        // it was decoded.
        match unsafe { read_link(link_at(pages, base, state.head()), pages.slabs.secret, head.objects()) } {
            Ok(next) => (state.head(), state.popped(next)),
            Err(bad) => {
                list.unlink(&MEMMAP, page);
                head.state.store(state.freeze().0, Ordering::Relaxed);
                return Taken::Corrupt(bad.at);
            }
        }
    };
    head.state.store(new.0, Ordering::Relaxed);
    if new.inuse() == head.objects() {
        list.unlink(&MEMMAP, page);
    }
    cache.state.tallies[node].count_alloc();
    drop(list);
    // SAFETY: this thread owns the object. Clearing the link keeps it from decoding when the object
    // is freed.
    unsafe { (link_at(pages, base, index) as *mut u64).write(0) };
    Taken::Object(base + usize::from(index) * pages.slabs.geometry.stride)
}

/// Allocates a page and takes its first object.
#[place(cold)]
fn take_new(cache: &'static RawCache, pages: &'static RawCache, node: usize) -> Option<usize> {
    let geometry = &pages.slabs.geometry;
    let id = NodeId(node as u8);
    let take = |order: Order| percpu::pages::alloc(id, order).map(|run| (run, order));
    let (run, order) = take(geometry.order).or_else(|| take(geometry.min_order))?;
    let objects = pages.slabs.open_slab(run.first, order, id, |_| SlabState::carved_from_fresh(1));
    let entry = &pages.slabs.nodes[node];
    entry.counters.count_taken(1, usize::from(objects));
    let base = MEMMAP.address_of(run.first);
    // SAFETY: as in `take`.
    unsafe { (link_at(pages, base, 0) as *mut u64).write(0) };
    let mut list = entry.list().raw().lock();
    cache.state.tallies[node].count_alloc();
    if objects > 1 {
        list.push_front(&MEMMAP, run.first);
    }
    Some(base)
}

/// Takes an object of a listed page of `home`, of a new page, or of another node.
#[place(cold)]
fn take_any(cache: &'static RawCache, pages: &'static RawCache, home: NodeId) -> Option<usize> {
    let nodes = pages.slabs.nodes.len();
    (0..nodes).find_map(|i| {
        let node = (usize::from(home.0) + i) % nodes;
        loop {
            match take(cache, pages, node) {
                Taken::Object(object) => return Some(object),
                Taken::Nothing => return take_new(cache, pages, node),
                // Each corrupt page leaves the list, so this ends.
                Taken::Corrupt(at) => report::corrupt_link(cache.name(), at),
            }
        }
    })
}

/// See [`crate::engine::alloc`].
#[inline(never)]
#[place(cold)]
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    let home = if ZONE.nodes() > 1 { PERCPU.node_of(percpu::this_cpu()) } else { NodeId(0) };
    alloc_on(cache, home)
}

/// See [`crate::engine::alloc_on`].
#[place(cold)]
pub(crate) fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    let pages = &pool_of(cache).pages;
    let take = || take_any(cache, pages, node);
    match take().or_else(|| ZONE.take_after_all(take)) {
        Some(object) => cache.slabs.carve(object) as *mut u8,
        None => core::ptr::null_mut(),
    }
}

/// See [`crate::engine::free`].
#[inline(never)]
#[place(cold)]
pub(crate) fn free(freed: Object) {
    let Object { cache, address: object } = freed;
    if let Some(page) = MEMMAP.page_of(object) {
        let class = MEMMAP.class_of(page);
        let first = PageIndex(page.0.wrapping_sub(class.back()));
        let owner = core::ptr::from_ref(&pool_of(cache).pages) as usize;
        if class.kind() == PageKind::Slab && MEMMAP.head(first).owner() == owner {
            return free_in(freed, first);
        }
    }
    report::not_of_cache(cache.name(), object);
}

/// Returns whether an object of the cache's pool starts at `address`, in use or free.
#[place(cold)]
pub(crate) fn is_object(cache: &'static RawCache, address: usize) -> bool {
    let pages = &pool_of(cache).pages;
    let slab = MEMMAP.page_of(address).filter(|&page| MEMMAP.class_of(page).kind() == PageKind::Slab);
    slab.map(|page| PageIndex(page.0.wrapping_sub(MEMMAP.class_of(page).back()))).is_some_and(|first| {
        let head = MEMMAP.head(first);
        let index = pages.slabs.geometry.index_of(address - MEMMAP.address_of(first));
        head.owner() == core::ptr::from_ref(pages) as usize && index.is_some_and(|index| index < head.objects())
    })
}

/// The outcome of a free.
enum Freed {
    Kept,
    /// The page is empty and off the list: the caller gives it back.
    Discard,
    Twice,
}

/// See [`crate::engine::free_in`]. `cache` may be the pool's own cache, which a free by address
/// finds as the owner of the page. The object is then charged to the pool's only member, or to the
/// pool if there are several.
#[place(cold)]
pub(crate) fn free_in(freed: Object, slab: PageIndex) {
    let Object { cache, address: object } = freed;
    let pool = pool_of(cache);
    let pages = &pool.pages;
    let of_nobody = core::ptr::eq(cache, pages);
    let charged = if of_nobody { pool.only_member().unwrap_or(cache) } else { cache };
    let base = MEMMAP.address_of(slab);
    let head = MEMMAP.head(slab);
    let Some(index) = pages.slabs.geometry.index_of(object.wrapping_sub(base)).filter(|&index| index < head.objects())
    else {
        return report::misaligned(reported(cache, pool).name(), object);
    };
    let node = usize::from(head.node()) % pages.slabs.nodes.len();
    let entry = &pages.slabs.nodes[node];
    match free_to(charged, pages, entry, node, slab, index) {
        Freed::Kept => {}
        Freed::Discard => {
            crate::slab::discard::discard_one(entry, slab);
            crate::base::background::settle();
        }
        Freed::Twice => report::double_free(reported(cache, pool).name(), object),
    }
}

/// The cache that a report names. For the pool's own cache, that is the pool's home.
#[place(cold)]
fn reported(cache: &'static RawCache, pool: &'static Pool) -> &'static RawCache {
    if core::ptr::eq(cache, &pool.pages) { pool.home().unwrap_or(cache) } else { cache }
}

#[place(cold)]
fn free_to(
    charged: &'static RawCache,
    pages: &'static RawCache,
    entry: &Node,
    node: usize,
    slab: PageIndex,
    index: u16,
) -> Freed {
    let head = MEMMAP.head(slab);
    let base = MEMMAP.address_of(slab);
    let mut list = entry.list().raw().lock();
    let state = SlabState(head.state.load(Ordering::Relaxed));
    if state.inuse() == 0 || index >= state.carved() || is_listed(pages, base, state, index, head.objects()) {
        return Freed::Twice;
    }
    charged.state.tallies[node].count_free();
    // SAFETY: the caller frees the object, and list_lock guards the page's freelist.
    unsafe { write_link(link_at(pages, base, index), pages.slabs.secret, state.head()) };
    let new = state.pushed(index, 1);
    if state.frozen() {
        head.state.store(new.0, Ordering::Relaxed);
        return Freed::Kept;
    }
    let (was_full, empties) = (state.inuse() == head.objects(), new.inuse() == 0);
    head.state.store(if empties { new.reset().0 } else { new.0 }, Ordering::Relaxed);
    match (was_full, empties) {
        (true, true) => return Freed::Discard,
        (true, false) => list.push_front(&MEMMAP, slab),
        (false, true) if list.count > charged.slabs.min_partial() => {
            list.unlink(&MEMMAP, slab);
            return Freed::Discard;
        }
        _ => {}
    }
    Freed::Kept
}

/// True if the object is on its page's freelist. Costs one load if it is not, unless the program
/// wrote a word that decodes.
#[inline]
fn is_listed(pages: &RawCache, base: usize, state: SlabState, index: u16, limit: u16) -> bool {
    // SAFETY: the link lies inside an object of the page. It may hold anything.
    unsafe { read_link(link_at(pages, base, index), pages.slabs.secret, limit) }.is_ok()
        && walk(pages, base, state, index, limit)
}

#[cold]
#[inline(never)]
#[place(cold)]
fn walk(pages: &RawCache, base: usize, state: SlabState, wanted: u16, limit: u16) -> bool {
    let mut at = state.head();
    for _ in 0..state.linked() {
        if at == wanted {
            return true;
        }
        if at >= limit {
            break;
        }
        // SAFETY: as in `is_listed`, of an index below the number of objects.
        match unsafe { read_link(link_at(pages, base, at), pages.slabs.secret, limit) } {
            Ok(next) => at = next,
            Err(_) => break,
        }
    }
    false
}

/// The engine, in one of two forms: pools of powers of two (`slob-seg`), or pools by cache
/// (`slob-cache`).
#[derive(Clone, Copy)]
pub(crate) struct SlobPools {
    pub(crate) of_powers_of_two: bool,
}

#[place(cold)]
impl Strategy for SlobPools {
    #[inline(always)]
    fn alloc(cache: &'static RawCache) -> *mut u8 {
        alloc(cache)
    }

    #[inline(always)]
    fn free(object: Object) {
        free(object);
    }

    #[inline(always)]
    fn free_in(object: Object, slab: PageIndex) {
        free_in(object, slab);
    }

    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        alloc_on(cache, node)
    }

    /// Pages hold objects of all caches of the pool, so a cache without live objects has no slab.
    /// Objects that may be among the pool's unknown frees do not keep a cache from being destroyed.
    fn trim(cache: &'static RawCache) -> usize {
        let pool = pool_of(cache);
        let left = pool.pages.slabs.trim();
        if tally::live(cache.state.tallies) <= pool.unknown() { 0 } else { left.max(1) }
    }

    /// The pages of a pool are counted at one of its caches, so that sums are right.
    fn usage(cache: &'static RawCache) -> Usage {
        let pool = pool_of(cache);
        let is_home = pool.is_home(cache);
        let pages = Usage::of_slabs(&pool.pages.slabs, 0);
        let live = match (tally::live(cache.state.tallies), pool.unknown()) {
            (live, 0) => live,
            (live, unknown) if pool.only_member().is_some() => live.saturating_sub(unknown),
            // An upper bound: frees by address did not record their cache.
            (live, _) => live.min(pages.live),
        };
        if is_home {
            // The pages were counted before, and other CPUs may have taken more meanwhile.
            return Usage { live: live.min(pages.objects), ..pages };
        }
        Usage { objects: live, live, bytes: live * cache.slabs.geometry.stride, ..Usage::default() }
    }

    fn counts(cache: &'static RawCache) -> Counts {
        tally::counts(cache.state.tallies)
    }

    /// Here that is the list_lock of the pool's pages.
    fn list_lock_held(cache: &'static RawCache) -> bool {
        pool_of(cache).pages.slabs.list_lock_held()
    }

    fn slow_path_stats(cache: &'static RawCache) -> SlowPathStats {
        let pool: &Pool = pool_of(cache);
        if pool.is_home(cache) { pool.pages.slabs.slow_path_stats() } else { Default::default() }
    }

    fn attach(cache: &'static RawCache) {
        pools::attach(cache);
    }

    fn close(cache: &'static RawCache) {
        pools::close(cache);
    }

    fn home(cache: &'static RawCache) -> Option<&'static RawCache> {
        pools::home(cache)
    }

    fn open(self, state: &mut EngineState, spec: &CacheSpec<'_>, geometry: &mut Geometry) -> Result<(), CreateError> {
        percpu::pages::want(percpu::pages::Batch::Single);
        pools::open(state, spec, geometry).ok_or(CreateError::OutOfMemory)
    }

    fn share_pages(one: &RawCache, other: &RawCache) -> bool {
        one.state.pool == other.state.pool
    }

    // Objects of a page and more are runs of pages, which need no list.
    fn max_class(self) -> usize {
        PAGE_SIZE
    }

    fn has_class(self, size: usize) -> bool {
        !self.of_powers_of_two || size.is_power_of_two()
    }

    fn round_up(self, _size: usize, class: usize) -> usize {
        if self.of_powers_of_two { class.next_power_of_two() } else { class }
    }

    fn merges(self) -> bool {
        false
    }

    fn min_partial(self, _by_size: usize, _stride: usize) -> usize {
        pools::KEPT
    }

    // Single pages, as SLOB's, unless the process asks for others.
    fn order_rule(self, rule: OrderRule) -> OrderRule {
        if self.of_powers_of_two || rule.max_order != OrderRule::DEFAULT.max_order {
            return rule;
        }
        OrderRule { max_order: rule.min_order, ..rule }
    }
}
