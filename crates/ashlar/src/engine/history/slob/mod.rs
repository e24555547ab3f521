//! SLOB, the kernel's allocator for small memory until 6.3: objects of all sizes share single
//! pages.
//!
//! ```text
//!  page:  free blocks in order of address   first fit, coalesced: see `blocks`
//!  list:  pages with free space             three, by the size asked for; next fit
//!  CPU:   free pages                        an empty page is given back at once
//! ```
//!
//! One lock, slob_lock, covers all pages of all caches and nodes. An allocation searches the list
//! of its size for a page with enough free units, and that page for the first block that fits. The
//! next search starts at the page where the last one succeeded. Sizes below 256 bytes are small,
//! below 1024 medium, all others large. A page stays on its list until it is full; the size of the
//! first free to it then chooses the list. Objects of a page and more are runs of pages, each a
//! slab of one object.
//!
//! Objects of most caches have no header, because the cache knows their size. Objects freed by
//! address alone have a header of 8 bytes with the size asked for. They take that size, not that of
//! a size class. The constructor runs at each allocation, because a free object is overwritten from
//! its start. Source: the kernel's mm/slob.c, as a description.
//!
//! ## Detected misuse
//! * A double free, if the units are still free.
//! * A write to a free block, when a search or a free visits the block.
//! * A header that does not decode, when its object is freed.
//!
//! A page records neither which cache an object belongs to nor where objects start.
//!
//! ## Locks
//! slob_lock has the place of list_lock in the lock order; the zone lock is not taken under it. A
//! page without free space is on no list. A page that is neither full nor listed belongs to the one
//! thread that has just allocated it or is about to give it back.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

mod blocks;

use crate::base::error::CreateError;
use crate::base::report;
use crate::base::sync::{Guard, Ordering, SpinLock, Visit};
use crate::base::units::{NodeId, Order, PAGE_SIZE, PageIndex};
use crate::engine::{CacheSpec, Counts, EngineState, Object, RawCache, Search, Strategy, Usage, tally};
use crate::pages::memmap::{ClassWord, MEMMAP, PageKind};
use crate::pages::zone::{PageRun, ZONE};
use crate::percpu::{self, area::PERCPU, pages};
use crate::slab::counters::SlowPathStats;
use crate::slab::freelist::key;
use crate::slab::geometry::Geometry;
use crate::slab::partial::Partial;
use crate::slab::state::SlabState;
use ashlar_macros::place;
use blocks::{Bad, Space, UNIT, UNITS, Want, units_for};

/// Bytes of the header in front of an object freed by address alone; also its smallest alignment.
pub(crate) const HEADER: usize = 8;
/// Largest object with a header that is not a run of pages: less than a page together with its
/// header (the kernel's rule).
pub(crate) const MAX_WITH_HEADER: usize = PAGE_SIZE - HEADER - 1;
/// Sizes below are small (the kernel's `SLOB_BREAK1`).
const SMALL: usize = 256;
/// Sizes below are medium (the kernel's `SLOB_BREAK2`).
const MEDIUM: usize = 1024;

/// Returns the list of a size.
#[place(cold)]
const fn list_of(bytes: usize) -> usize {
    if bytes < SMALL {
        0
    } else if bytes < MEDIUM {
        1
    } else {
        2
    }
}

/// The lists of pages with free space. The head of each page records its list.
struct Lists([Partial; 3]);

/// slob_lock.
static SLOB: SpinLock<Lists> = SpinLock::new(Lists([Partial::EMPTY; 3]));

/// Takes slob_lock. Also returns the search figures of this call, with one wait if the lock was
/// taken.
fn lock() -> (Guard<'static, Lists>, Search) {
    match SLOB.try_lock() {
        Some(lists) => (lists, Search::default()),
        None => (SLOB.lock(), Search { waits: 1, ..Search::default() }),
    }
}

/// Set in the state word of a page that was retired because one of its free blocks was overwritten.
const CORRUPT: u64 = 1 << 32;

fn space_of(page: PageIndex) -> Space {
    let word = MEMMAP.head(page).state.load(Ordering::Relaxed);
    Space { units: word as u16, first: (word >> 16) as u16 }
}

fn set_space(page: PageIndex, space: Space) {
    MEMMAP.head(page).state.store(u64::from(space.units) | u64::from(space.first) << 16, Ordering::Relaxed);
}

/// What one object takes: bytes, alignment, and bytes of header.
#[derive(Clone, Copy)]
struct Shape {
    bytes: usize,
    align: usize,
    header: usize,
}

impl Shape {
    /// The shape of the objects of `cache`.
    fn of(cache: &RawCache) -> Shape {
        if cache.policy.by_address {
            return Shape::with_header(cache.slabs.geometry.object_size.min(MAX_WITH_HEADER));
        }
        Shape { bytes: cache.slabs.geometry.object_size, align: cache.slabs.geometry.align, header: 0 }
    }

    /// The shape of an object freed by address alone. Powers of two are aligned to their size.
    fn with_header(size: usize) -> Shape {
        let align = if size.is_power_of_two() { size.max(HEADER) } else { HEADER };
        Shape { bytes: size, align, header: HEADER }
    }

    fn want(self) -> Want {
        Want {
            units: units_for(self.bytes + self.header),
            align: (self.align / UNIT) as u16,
            offset: (self.header / UNIT) as u16,
        }
    }

    /// True if the object is a run of pages.
    fn is_run(self) -> bool {
        self.header == 0 && self.bytes >= PAGE_SIZE
    }
}

#[place(cold)]
impl Lists {
    /// Takes units for an object from a listed page, of `node` if one is given. Returns their
    /// address; `None` if no page has them. A page with a corrupt block is taken off the list and
    /// passed to `report`. Adds its search length to `search`.
    fn find(
        &mut self,
        shape: Shape,
        node: Option<NodeId>,
        search: &mut Search,
        report: &mut impl FnMut(usize),
    ) -> Option<usize> {
        let want = shape.want();
        let list = &mut self.0[list_of(shape.bytes + shape.header)];
        let mut page = list.first();
        while page != PageIndex::NONE {
            let head = MEMMAP.head(page);
            let next = head.next();
            let mut space = space_of(page);
            search.pages += 1;
            if space.units >= want.units && node.is_none_or(|node| head.node() == node.0) {
                search.walked += 1;
                let base = MEMMAP.address_of(page);
                // SAFETY: the page is listed and slob_lock is held, so this thread owns its free
                // blocks.
                match unsafe { blocks::alloc(base, &mut space, want, &mut search.blocks) } {
                    Ok(Some(start)) => {
                        set_space(page, space);
                        if space.units == 0 {
                            list.unlink(&MEMMAP, page);
                        } else {
                            list.rotate_to_front(&MEMMAP, page);
                        }
                        return Some(base + usize::from(start) * UNIT);
                    }
                    Ok(None) => {}
                    Err(Bad::Corrupt(at)) => {
                        list.unlink(&MEMMAP, page);
                        head.state.fetch_or(CORRUPT, Ordering::Relaxed);
                        report(at);
                    }
                    Err(Bad::Overlap) => {}
                }
            }
            page = next;
        }
        None
    }

    /// Puts a page at the front of the list of a size.
    fn enlist(&mut self, page: PageIndex, bytes: usize) {
        let list = list_of(bytes);
        MEMMAP.head(page).init(0, list as u16, 0, ZONE.node_of(page).0);
        self.0[list].push_front(&MEMMAP, page);
    }
}

/// Allocates a page of node `home`, or else of another node.
fn new_page(home: NodeId) -> Option<(PageRun, NodeId)> {
    any_node(home, |node| pages::alloc(node, Order(0)))
}

/// Calls `take` for `home`, then for the other nodes in turn, until it succeeds.
fn any_node<T>(home: NodeId, take: impl Fn(NodeId) -> Option<T>) -> Option<(T, NodeId)> {
    let nodes = ZONE.nodes() as u8;
    (0..nodes).find_map(|i| {
        let node = NodeId((home.0 % nodes + i) % nodes);
        take(node).map(|got| (got, node))
    })
}

/// Takes the units of an object and returns the address of the first.
#[place(cold)]
fn alloc_units(cache: &'static RawCache, shape: Shape, wish: Option<NodeId>) -> Option<usize> {
    let mut corrupt = 0;
    let found = {
        let (mut lists, mut search) = lock();
        let found = lists.find(shape, wish, &mut search, &mut |at| corrupt = at);
        cache.state.tallies[0].count_search(&search);
        if found.is_some() {
            cache.state.tallies[0].count_alloc();
        }
        found
    };
    if corrupt != 0 {
        report::corrupt_link(cache.name(), corrupt);
    }
    if found.is_some() {
        return found;
    }
    let home = wish.unwrap_or_else(|| PERCPU.node_of(percpu::this_cpu()));
    let Some((run, _)) = new_page(home) else {
        // Memory of another node is better than none.
        wish?;
        return alloc_units(cache, shape, None);
    };
    let base = MEMMAP.address_of(run.first);
    // SAFETY: the zone has just given the page to this thread.
    let mut space = unsafe { blocks::fresh(base) };
    // SAFETY: the page is not published yet, so no other thread accesses it.
    let start = unsafe { blocks::alloc(base, &mut space, shape.want(), &mut 0) }.ok().flatten()?;
    MEMMAP.set_class(run.first, 1, ClassWord::new(PageKind::Slob, 0, 0), |_| ClassWord::FREE);
    set_space(run.first, space);
    let mut lists = SLOB.lock();
    cache.state.tallies[0].count_alloc();
    MEMMAP.head(run.first).init(0, 0, 0, ZONE.node_of(run.first).0);
    if space.units > 0 {
        lists.enlist(run.first, shape.bytes + shape.header);
    }
    Some(base + usize::from(start) * UNIT)
}

/// Allocates a run of pages for one object. It is a slab of its own, so that a free by address
/// finds the cache.
#[place(cold)]
fn alloc_run(cache: &'static RawCache, shape: Shape, wish: Option<NodeId>) -> Option<usize> {
    let order = Order::for_bytes(shape.bytes);
    let home = wish.unwrap_or_else(|| PERCPU.node_of(percpu::this_cpu()));
    let (run, node) = any_node(home, |node| pages::alloc(node, order))?;
    let head = MEMMAP.head(run.first);
    head.init(core::ptr::from_ref(cache) as usize, 1, order.0, node.0);
    head.state.store(SlabState::carved_from_fresh(1).0, Ordering::Relaxed);
    cache.slabs.set_class_words(run.first, order, node);
    let _lists = SLOB.lock();
    cache.state.tallies[0].count_alloc();
    Some(MEMMAP.address_of(run.first))
}

/// Not part of the closure that calls it, because closures are not placed.
#[inline(never)]
#[place(cold)]
fn alloc_run_or_units(cache: &'static RawCache, shape: Shape, wish: Option<NodeId>) -> Option<usize> {
    if shape.is_run() { alloc_run(cache, shape, wish) } else { alloc_units(cache, shape, wish) }
}

#[place(cold)]
fn alloc_shape(cache: &'static RawCache, shape: Shape, wish: Option<NodeId>) -> *mut u8 {
    percpu::adopt_thread();
    let take = || alloc_run_or_units(cache, shape, wish);
    // Caches of other engines may hold the last free memory.
    let Some(start) = take().or_else(|| ZONE.take_after_all(take)) else {
        return core::ptr::null_mut();
    };
    if shape.header > 0 {
        // SAFETY: the first bytes of the new object, aligned to the header's size.
        unsafe { write_header(start, shape.bytes) };
    }
    cache.slabs.carve(start + shape.header) as *mut u8
}

/// Writes the header: the check word first, because a free block overwrites that half, then the
/// size.
///
/// # Safety
/// `at` is aligned to 8 bytes, which the caller owns.
unsafe fn write_header(at: usize, size: usize) {
    // SAFETY: the caller owns these 8 bytes.
    unsafe { (at as *mut [u32; 2]).write([check_of(at, size), size as u32]) };
}

fn check_of(at: usize, size: usize) -> u32 {
    let mixed = (key(crate::engine::process_secret(), at) ^ size as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32
}

/// The state of an object freed by address alone, at an address in a page of this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectState {
    /// Live, with its size in bytes.
    Live(usize),
    /// Free already, with its former size in bytes.
    Free(usize),
    /// No object starts there.
    None,
}

/// Reads the header in front of an address in a page of this engine.
#[place(cold)]
pub(crate) fn object_state(address: usize) -> ObjectState {
    let at = address.wrapping_sub(HEADER);
    if !address.is_multiple_of(HEADER) || address & (PAGE_SIZE - 1) < HEADER {
        return ObjectState::None;
    }
    // SAFETY: 8 aligned bytes of the same page. They may hold anything; the size counts only if the
    // check word confirms it.
    let [check, size] = unsafe { (at as *const [u32; 2]).read() };
    let size = size as usize;
    let inside = (1..=MAX_WITH_HEADER).contains(&size) && (at & (PAGE_SIZE - 1)) + HEADER + size <= PAGE_SIZE;
    if !inside {
        return ObjectState::None;
    }
    if check == check_of(at, size) {
        return ObjectState::Live(size);
    }
    let Some(page) = MEMMAP.page_of(at) else { return ObjectState::None };
    let start = ((at & (PAGE_SIZE - 1)) / UNIT) as u16;
    let _lists = SLOB.lock();
    // SAFETY: slob_lock is held.
    match unsafe { blocks::is_free(MEMMAP.address_of(page), &space_of(page), start, units_for(HEADER + size)) } {
        Ok(true) => ObjectState::Free(size),
        _ => ObjectState::None,
    }
}

/// Returns the bytes set aside for a size.
pub(crate) const fn roundup(size: usize) -> usize {
    size.next_multiple_of(UNIT)
}

/// See [`crate::engine::alloc`].
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    alloc_shape(cache, Shape::of(cache), None)
}

/// See [`crate::engine::alloc_sized`].
pub(crate) fn alloc_sized(cache: &'static RawCache, size: usize) -> *mut u8 {
    let shape = if cache.policy.by_address { Shape::with_header(size) } else { Shape::of(cache) };
    alloc_shape(cache, shape, None)
}

/// See [`crate::engine::alloc_on`].
pub(crate) fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    alloc_shape(cache, Shape::of(cache), Some(node))
}

/// See [`crate::engine::free`].
#[place(cold)]
pub(crate) fn free(freed: Object) {
    let Object { cache, address: object } = freed;
    let Some(page) = MEMMAP.page_of(object) else { return report::not_of_cache(cache.name(), object) };
    match MEMMAP.class_of(page).kind() {
        PageKind::Slob => {}
        PageKind::Slab if cache.slabs.locate(object).is_ok() => return free_run(cache, page),
        _ => return report::not_of_cache(cache.name(), object),
    }
    if cache.policy.by_address {
        return match object_state(object) {
            ObjectState::Live(size) => free_sized(freed, page, size),
            ObjectState::Free(_) => report::double_free(cache.name(), object),
            ObjectState::None => report::misaligned(cache.name(), object),
        };
    }
    let bytes = cache.slabs.geometry.object_size;
    let fits = (object & (PAGE_SIZE - 1)) + bytes <= PAGE_SIZE;
    if !fits || !object.is_multiple_of(cache.slabs.geometry.align) {
        return report::misaligned(cache.name(), object);
    }
    free_units(cache, page, object, object, bytes);
}

/// See [`crate::engine::free_sized`].
#[place(cold)]
pub(crate) fn free_sized(freed: Object, page: PageIndex, size: usize) {
    let Object { cache, address: object } = freed;
    // SAFETY: the header of the object that the caller frees. The changed check word keeps it from
    // being taken for a live object again.
    unsafe { ((object - HEADER) as *mut u32).write(!check_of(object - HEADER, size)) };
    free_units(cache, page, object, object - HEADER, HEADER + size);
}

/// Frees `bytes` from `start` on to their page. Gives the page back if it is empty then, and does
/// not add the units to its blocks before.
#[place(cold)]
fn free_units(cache: &'static RawCache, page: PageIndex, object: usize, start: usize, bytes: usize) {
    let head = MEMMAP.head(page);
    let first = ((start & (PAGE_SIZE - 1)) / UNIT) as u16;
    let (mut lists, mut search) = lock();
    if head.state.load(Ordering::Relaxed) & CORRUPT != 0 {
        // The rest of a corrupt page stays allocated and is never used again.
        cache.state.tallies[0].count_free();
        return;
    }
    let mut space = space_of(page);
    let (was_full, units) = (space.units == 0, units_for(bytes));
    // SAFETY: slob_lock is held, and the units are inside the page.
    if unsafe { blocks::is_all_else_free(MEMMAP.address_of(page), &space, first, units) } {
        cache.state.tallies[0].count_search(&search);
        cache.state.tallies[0].count_free();
        if !was_full {
            lists.0[usize::from(head.objects())].unlink(&MEMMAP, page);
        }
        drop(lists);
        return give_back(page, Order(0));
    }
    // SAFETY: slob_lock is held. The units are inside the page, and the caller's unless they are
    // free already.
    let freed = unsafe { blocks::free(MEMMAP.address_of(page), &mut space, first, units, &mut search.free_blocks) };
    cache.state.tallies[0].count_search(&search);
    if let Err(bad) = freed {
        if let Bad::Corrupt(_) = bad {
            lists.0[usize::from(head.objects())].unlink(&MEMMAP, page);
            head.state.fetch_or(CORRUPT, Ordering::Relaxed);
        }
        drop(lists);
        return match bad {
            Bad::Corrupt(at) => report::corrupt_link(cache.name(), at),
            Bad::Overlap => report::double_free(cache.name(), object),
        };
    }
    cache.state.tallies[0].count_free();
    set_space(page, space);
    debug_assert!(space.units < UNITS, "an empty page whose blocks hid it");
    if was_full {
        lists.enlist(page, bytes);
    }
}

fn free_run(cache: &'static RawCache, page: PageIndex) {
    let order = Order(MEMMAP.head(page).order());
    let lists = SLOB.lock();
    cache.state.tallies[0].count_free();
    drop(lists);
    give_back(page, order);
}

/// Returns pages to this CPU's list, or to the zone.
fn give_back(page: PageIndex, order: Order) {
    MEMMAP.set_class(page, order.pages(), ClassWord::FREE, |_| ClassWord::FREE);
    if pages::free(page, order) {
        crate::base::background::wake();
    }
    crate::base::background::settle();
}

/// Visits slob_lock, for fork.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    visit(SLOB.word());
}

/// The engine.
#[derive(Clone, Copy)]
pub(crate) struct Slob;

#[place(cold)]
impl Strategy for Slob {
    #[inline(always)]
    fn alloc(cache: &'static RawCache) -> *mut u8 {
        alloc(cache)
    }

    #[inline(always)]
    fn free(object: Object) {
        free(object);
    }

    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        alloc_on(cache, node)
    }

    /// Free pages were given back at once. What remains is the pages of live objects.
    fn trim(cache: &'static RawCache) -> usize {
        tally::live(cache.state.tallies)
    }

    /// No page belongs to one cache, so this returns objects and their bytes but no slabs.
    fn usage(cache: &'static RawCache) -> Usage {
        let live = tally::live(cache.state.tallies);
        Usage { objects: live, live, bytes: live * cache.slabs.geometry.object_size, ..Usage::default() }
    }

    /// slob_lock counts as a list_lock. The search lengths are included.
    fn counts(cache: &'static RawCache) -> Counts {
        tally::counts(cache.state.tallies)
    }

    /// Here that is slob_lock.
    fn list_lock_held(_cache: &'static RawCache) -> bool {
        SLOB.is_held()
    }

    fn slow_path_stats(_cache: &'static RawCache) -> SlowPathStats {
        Default::default()
    }

    fn open(self, state: &mut EngineState, _spec: &CacheSpec<'_>, _geometry: &mut Geometry) -> Result<(), CreateError> {
        pages::want(pages::Batch::Half);
        tally::open(&mut state.tallies).ok_or(CreateError::OutOfMemory)
    }

    // The engine does not separate caches: all objects share pages.
    fn share_pages(_one: &RawCache, _other: &RawCache) -> bool {
        true
    }

    fn max_class(self) -> usize {
        MAX_WITH_HEADER
    }

    fn round_up(self, size: usize, _class: usize) -> usize {
        roundup(size)
    }

    fn wants_size(self) -> bool {
        true
    }

    fn merges(self) -> bool {
        false
    }

    fn min_partial(self, _by_size: usize, _stride: usize) -> usize {
        0
    }
}
