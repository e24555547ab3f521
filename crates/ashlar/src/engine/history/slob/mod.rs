//! SLOB, the kernel's allocator for small memory until 6.3: objects of all sizes side by side in single pages.
//!
//! ```text
//!  page:  free blocks in order of address   first fit, coalesced: see `blocks`
//!  list:  pages with free space             three, by the size asked for; next fit
//!  zone:  pages                             a page whose last object goes is given back at once
//! ```
//!
//! One lock, slob_lock, covers all of it, for all caches and nodes. An allocation looks through the list of its size for a page with
//! enough free units, and in it for the first block that fits; where it found one is where the next search
//! begins. A size below 256 bytes is small, below 1024 medium, everything else large; a page stays on the list that
//! it came to until it is full, and then goes to the list of the size that is freed to it first. Objects of a page and more are
//! runs of pages, each a slab of one object.
//!
//! Objects of caches have nothing around them: the cache knows their size. Those of kmalloc have 8 bytes before them
//! with the size that was asked for, which is therefore what they take, not that of a class. The constructor is called for
//! each allocation: a free object is overwritten from its start. Source: the kernel's mm/slob.c, as a description.
//!
//! ## What it sees of misuse
//! Units that are free already are seen when they are freed again; a free block that was written to, when a search comes by
//! it; a size in front of a kmalloc object that does not decode, when that is freed. What no page says is which
//! cache an object belongs to, and where objects start.
//!
//! ## Lock order
//! slob_lock has the place of list_lock; the zone lock is not taken under it. A page without free space is on no list, and a
//! page is known to the lists, or to the one thread that just got it, or is about to give it back.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

mod blocks;

use crate::base::error::CreateError;
use crate::base::report;
use crate::base::sync::{Guard, Ordering, SpinLock, Visit};
use crate::base::units::{NodeId, Order, PAGE_SIZE, PageIndex};
use crate::engine::{CacheSpec, Counts, EngineState, RawCache, Search, Strategy, Usage, tally};
use crate::pages::memmap::{ClassWord, MEMMAP, PageKind};
use crate::pages::zone::{PageRun, RunAlign, ZONE};
use crate::percpu::{self, area::PERCPU};
use crate::slab::counters::SlowPathStats;
use crate::slab::freelist::key;
use crate::slab::geometry::Geometry;
use crate::slab::partial::Partial;
use crate::slab::state::SlabState;
use blocks::{Bad, Space, UNIT, UNITS, Want, units_for};

/// Bytes in front of an object of kmalloc: its smallest alignment, and its size.
pub(crate) const HEADER: usize = 8;
/// The largest object of kmalloc that is no run of pages: with its header less than a page (the kernel's rule).
pub(crate) const MAX_WITH_HEADER: usize = PAGE_SIZE - HEADER - 1;
/// Sizes below are small (the kernel's `SLOB_BREAK1`).
const SMALL: usize = 256;
/// Sizes below are medium (the kernel's `SLOB_BREAK2`).
const MEDIUM: usize = 1024;

/// The list of a size.
const fn list_of(bytes: usize) -> usize {
    if bytes < SMALL {
        0
    } else if bytes < MEDIUM {
        1
    } else {
        2
    }
}

/// The lists of pages with free space; the head of each page says which it is on.
struct Lists([Partial; 3]);

/// slob_lock.
static SLOB: SpinLock<Lists> = SpinLock::new(Lists([Partial::EMPTY; 3]));

/// Takes slob_lock; and what a call that had to wait for it counts.
fn lock() -> (Guard<'static, Lists>, Search) {
    match SLOB.try_lock() {
        Some(lists) => (lists, Search::default()),
        None => (SLOB.lock(), Search { waits: 1, ..Search::default() }),
    }
}

/// Set in the state word of a page that is not used any more since one of its blocks was written to.
const CORRUPT: u64 = 1 << 32;

fn space_of(page: PageIndex) -> Space {
    let word = MEMMAP.head(page).state.load(Ordering::Relaxed);
    Space { units: word as u16, first: (word >> 16) as u16 }
}

fn set_space(page: PageIndex, space: Space) {
    MEMMAP.head(page).state.store(u64::from(space.units) | u64::from(space.first) << 16, Ordering::Relaxed);
}

/// What a cache's objects, or one object of kmalloc, take: bytes, alignment, and bytes in front.
#[derive(Clone, Copy)]
struct Shape {
    bytes: usize,
    align: usize,
    header: usize,
}

impl Shape {
    /// Of the objects of `cache`.
    fn of(cache: &RawCache) -> Shape {
        if cache.policy.by_address {
            return Shape::with_header(cache.slabs.geometry.object_size.min(MAX_WITH_HEADER));
        }
        Shape { bytes: cache.slabs.geometry.object_size, align: cache.slabs.geometry.align, header: 0 }
    }

    /// Of an object of kmalloc: powers of two are aligned to their size.
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

    /// True for objects that are runs of pages.
    fn is_run(self) -> bool {
        self.header == 0 && self.bytes >= PAGE_SIZE
    }
}

impl Lists {
    /// The address of so many units of a listed page, of `node` if one is given; `None` when no page has them. Pages with a
    /// corrupt block leave the list; `report` learns of them. Adds to `search` what it looked at.
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
                // SAFETY: the page is on a list and we hold slob_lock: its free blocks are ours.
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

    /// Puts a page in front of the list of a size.
    fn enlist(&mut self, page: PageIndex, bytes: usize) {
        let list = list_of(bytes);
        MEMMAP.head(page).init(0, list as u16, 0, ZONE.node_of(page).0);
        self.0[list].push_front(&MEMMAP, page);
    }
}

/// A page of `node`, or else of another.
fn new_page(home: NodeId) -> Option<(PageRun, NodeId)> {
    any_node(home, |node| ZONE.alloc(node, 1, RunAlign::Aligned))
}

/// What `take` gets from `home`, or else from the other nodes in turn.
fn any_node<T>(home: NodeId, take: impl Fn(NodeId) -> Option<T>) -> Option<(T, NodeId)> {
    let nodes = ZONE.nodes() as u8;
    (0..nodes).find_map(|i| {
        let node = NodeId((home.0 % nodes + i) % nodes);
        take(node).map(|got| (got, node))
    })
}

/// Units for an object; the address of the first.
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
    // SAFETY: the zone just gave the page to us.
    let mut space = unsafe { blocks::fresh(base) };
    // SAFETY: nobody else knows the page.
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

/// A run of pages for one object: a slab of its own, so that whoever is given the address finds the cache.
fn alloc_run(cache: &'static RawCache, shape: Shape, wish: Option<NodeId>) -> Option<usize> {
    let order = Order::for_bytes(shape.bytes);
    let home = wish.unwrap_or_else(|| PERCPU.node_of(percpu::this_cpu()));
    let (run, node) = any_node(home, |node| ZONE.alloc(node, order.pages(), RunAlign::Aligned))?;
    let head = MEMMAP.head(run.first);
    head.init(core::ptr::from_ref(cache) as usize, 1, order.0, node.0);
    head.state.store(SlabState::carved_from_fresh(1).0, Ordering::Relaxed);
    MEMMAP.set_class(run.first, order.pages(), cache.slabs.class_word(0), |back| cache.slabs.class_word(back));
    let _lists = SLOB.lock();
    cache.state.tallies[0].count_alloc();
    Some(MEMMAP.address_of(run.first))
}

fn alloc_shape(cache: &'static RawCache, shape: Shape, wish: Option<NodeId>) -> *mut u8 {
    percpu::adopt_thread();
    let take = || if shape.is_run() { alloc_run(cache, shape, wish) } else { alloc_units(cache, shape, wish) };
    // Stores of caches of other engines may hold the last memory there is.
    let Some(start) = take().or_else(|| ZONE.take_after_all(take)) else {
        return core::ptr::null_mut();
    };
    if shape.header > 0 {
        // SAFETY: the first bytes of what was just allocated, aligned to the header's size.
        unsafe { write_header(start, shape.bytes) };
    }
    cache.slabs.carve(start + shape.header) as *mut u8
}

/// Where the header's halves are: what it is checked by first, since a free block overwrites that, then the size.
unsafe fn write_header(at: usize, size: usize) {
    // SAFETY: 8 bytes, by the caller's promise.
    unsafe { (at as *mut [u32; 2]).write([check_of(at, size), size as u32]) };
}

fn check_of(at: usize, size: usize) -> u32 {
    let mixed = (key(crate::engine::process_secret(), at) ^ size as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32
}

/// What kmalloc's object at an address in a page of this engine turns out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectState {
    /// Live, of so many bytes.
    Live(usize),
    /// Free already; it had so many bytes.
    Free(usize),
    /// None starts there.
    None,
}

/// Looks at the header in front of an address in a page of this engine.
pub(crate) fn object_state(address: usize) -> ObjectState {
    let at = address.wrapping_sub(HEADER);
    if !address.is_multiple_of(HEADER) || address & (PAGE_SIZE - 1) < HEADER {
        return ObjectState::None;
    }
    // SAFETY: 8 bytes of the same page, aligned. They may be anything; only a size that the check confirms is believed.
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

/// Bytes that kmalloc sets aside for a size.
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
pub(crate) fn free(cache: &'static RawCache, object: usize) {
    let Some(page) = MEMMAP.page_of(object) else { return report::not_of_cache(cache.name(), object) };
    match MEMMAP.class_of(page).kind() {
        PageKind::Slob => {}
        PageKind::Slab if cache.slabs.locate(object).is_ok() => return free_run(cache, page),
        _ => return report::not_of_cache(cache.name(), object),
    }
    if cache.policy.by_address {
        return match object_state(object) {
            ObjectState::Live(size) => {
                // SAFETY: the header of the object, which the caller gives up. Nobody may take it for a live one again.
                unsafe { ((object - HEADER) as *mut u32).write(!check_of(object - HEADER, size)) };
                free_units(cache, page, object, object - HEADER, HEADER + size);
            }
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

/// Gives `bytes` from `start` on back to their page, and that to the zone when nothing of it is left.
fn free_units(cache: &'static RawCache, page: PageIndex, object: usize, start: usize, bytes: usize) {
    let head = MEMMAP.head(page);
    let first = ((start & (PAGE_SIZE - 1)) / UNIT) as u16;
    let (mut lists, mut search) = lock();
    if head.state.load(Ordering::Relaxed) & CORRUPT != 0 {
        // What is left of the page is in use until its last object goes, and then is nobody's.
        cache.state.tallies[0].count_free();
        return;
    }
    let mut space = space_of(page);
    let was_full = space.units == 0;
    // SAFETY: slob_lock is held; the units are inside the page, and the caller's unless they are free already.
    let freed =
        unsafe { blocks::free(MEMMAP.address_of(page), &mut space, first, units_for(bytes), &mut search.free_blocks) };
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
    let empty = space.units == UNITS;
    if empty && !was_full {
        lists.0[usize::from(head.objects())].unlink(&MEMMAP, page);
    } else if !empty && was_full {
        lists.enlist(page, bytes);
    }
    drop(lists);
    if empty {
        give_back(page, 1);
    }
}

fn free_run(cache: &'static RawCache, page: PageIndex) {
    let pages = Order(MEMMAP.head(page).order()).pages();
    let lists = SLOB.lock();
    cache.state.tallies[0].count_free();
    drop(lists);
    give_back(page, pages);
}

fn give_back(page: PageIndex, pages: usize) {
    MEMMAP.set_class(page, pages, ClassWord::FREE, |_| ClassWord::FREE);
    if ZONE.free(page, pages) {
        crate::base::background::wake();
    }
    crate::base::background::settle();
}

/// Visits slob_lock, for a fork.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    visit(SLOB.word());
}

/// The engine.
#[derive(Clone, Copy)]
pub(crate) struct Slob;

impl Strategy for Slob {
    #[inline(always)]
    fn alloc(cache: &'static RawCache) -> *mut u8 {
        alloc(cache)
    }

    #[inline(always)]
    fn free(cache: &'static RawCache, object: usize) {
        free(cache, object);
    }

    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        alloc_on(cache, node)
    }

    /// free pages went back at once. What remains is what live objects lie in.
    fn trim(cache: &'static RawCache) -> usize {
        tally::live(cache.state.tallies)
    }

    /// no page is of one cache, so there are objects and their bytes, and no slabs.
    fn usage(cache: &'static RawCache) -> Usage {
        let live = tally::live(cache.state.tallies);
        Usage { objects: live, live, bytes: live * cache.slabs.geometry.object_size, ..Usage::default() }
    }

    /// slob_lock counts as a list_lock. How far searches went is counted beside it.
    fn counts(cache: &'static RawCache) -> Counts {
        tally::counts(cache.state.tallies)
    }

    /// here that is slob_lock.
    fn list_lock_held(_cache: &'static RawCache) -> bool {
        SLOB.is_held()
    }

    fn slow_path_stats(_cache: &'static RawCache) -> SlowPathStats {
        Default::default()
    }

    fn open(self, state: &mut EngineState, _spec: &CacheSpec<'_>, _geometry: &mut Geometry) -> Result<(), CreateError> {
        tally::open(&mut state.tallies).ok_or(CreateError::OutOfMemory)
    }

    // It knows no caches: all objects are side by side.
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

    fn min_partial(self, _by_size: usize) -> usize {
        0
    }
}
