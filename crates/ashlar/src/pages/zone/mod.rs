//! The zone: one range of addresses, cut into 2 MiB blocks, each of which belongs to a node.
//!
//! Owns every page of slab space. A slab, or a short run, is served from the fullest block that has
//! a large enough free run, so that the other blocks drain. A long run goes into the shortest
//! stretch of free pages that holds it, across blocks. A run that must start at a block takes whole
//! blocks. A request above [`DIRECT_BYTES`] goes to the page source directly (see
//! [`super::direct`]).
//!
//! The zone grows at its end, block by block. Where its addresses are open (see [`super::layout`]),
//! another mapping may lie in its way, or in that of one of its tables. Then the zone continues
//! behind the mapping, and the blocks between belong to no node. With several nodes, each node sets
//! aside a stretch of block numbers at a time.
//!
//! ## Locks
//! *Growth lock*: one, taken before any zone lock, by threads that need blocks. System calls that
//! commit memory are made under it. *Zone lock*: one per node. It covers the node's blocks and
//! lists. Only the meta lock may be taken under it, and no system call is made under it. The reaper
//! takes pages out of their block, releases them, and puts them back.
//!
//! ## States of a page
//!
//! | state | free bit | dirty bit | class word |
//! |---|---|---|---|
//! | never used, or given back | 1 | 0 | 0 |
//! | free, may be resident | 1 | 1 | 0 |
//! | in use | 0 | 0 | kind != 0 on slab pages and heads |
//!
//! ## Files
//! [`grow`]: commits new blocks; [`frontier`]: the end of the zone; [`lists`]: blocks by fullness;
//! [`fit`]: places for long runs; [`empties`]: blocks that are wholly free; [`purge`]: returns
//! memory to the system; [`shadow`]: a table beside the zone for a layer above; `outside`: where a
//! reader of another process finds the figures. This file allocates and frees runs.
#![allow(unsafe_code, reason = "blocks live in memory of the page source")]

mod empties;
mod extents;
mod fit;
mod frontier;
mod grow;
mod lists;
#[cfg(all(feature = "os", not(ashlar_loom)))]
mod outside;
mod purge;
mod shadow;

use super::block::{Block, LEVELS};
use super::layout::{Supply, Table};
use super::memmap::MEMMAP;
use super::shadow::Shadow;
use crate::base::source::PageSource;
use crate::base::sync::{AtomicU8, AtomicU32, AtomicUsize, BootCell, Guard, Ordering, SetOnce, SpinLock, Visit};
use crate::base::units::{BLOCK_PAGES, BLOCK_SIZE, MAX_NODES, NodeId, Order, PAGE_SIZE, PageIndex};
use extents::Extents;
use frontier::Frontier;
pub(crate) use purge::Purge;

/// Requests above this many bytes are mapped directly.
pub(crate) const DIRECT_BYTES: usize = 32 << 20;
/// Runs of at least this many pages are long: 64 KiB.
const LONG_RUN: usize = (64 << 10) / PAGE_SIZE;
const NO_BLOCK: u32 = u32::MAX;
/// The number of attempts before a request fails.
const ATTEMPTS: usize = 8;
/// Free resident pages above which the reaper is woken: 2 MiB.
const DIRTY_WORTH_REAPING: usize = BLOCK_PAGES;

/// A run of pages handed out by the zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRun {
    pub(crate) first: PageIndex,
    /// Whether every byte reads as zero.
    pub(crate) zeroed: bool,
}

/// The pages of a run that may not read as zeros, as ranges of pages counted from its start. If
/// there are more ranges than the array holds, its last entry covers all that remain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DirtyParts {
    ranges: [(u32, u32); 16],
    count: usize,
}

impl DirtyParts {
    /// Returns the whole of a run of `pages` pages.
    pub(crate) fn all(pages: usize) -> DirtyParts {
        let mut parts = DirtyParts::default();
        parts.add(0, pages);
        parts
    }

    /// Adds a range behind all others.
    fn add(&mut self, start: usize, end: usize) {
        let (start, end) = (start as u32, end as u32);
        let full = self.count == self.ranges.len();
        match self.ranges[..self.count].last_mut() {
            Some(last) if last.1 == start || full => last.1 = end,
            _ => {
                self.ranges[self.count] = (start, end);
                self.count += 1;
            }
        }
    }

    /// The ranges, in bytes from the start of the run.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = core::ops::Range<usize>> + '_ {
        self.ranges[..self.count].iter().map(|&(start, end)| start as usize * PAGE_SIZE..end as usize * PAGE_SIZE)
    }
}

/// The blocks of one node.
struct NodeBlocks {
    /// The block numbers.
    extents: Extents,
    /// Lists of blocks by fullness and by the order of the largest free run, plus one.
    lists: [[u32; LEVELS]; 11],
    /// For each level of fullness, a bit for each list that is not empty.
    nonempty: [u16; LEVELS],
    /// The ends of the list of blocks with dirty pages, in order of their stamps, and its length.
    oldest: u32,
    youngest: u32,
    dirty_blocks: usize,
    free_pages: usize,
    dirty_pages: usize,
}

/// Where a run of pages may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunAlign {
    /// At a multiple of its size, rounded up to a power of two; of 2 MiB at most.
    Aligned,
    /// At any page. Large objects that need no alignment are packed closely this way.
    Anywhere,
}

/// Figures of the zone, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneStats {
    /// Pages committed: backed by address space that may be touched.
    pub committed: usize,
    /// Committed pages that are free.
    pub free: usize,
    /// Free pages that may still be resident; they are returned to the system after the decay time.
    pub dirty: usize,
}

/// The zone of the process.
pub(crate) struct Zone {
    supply: BootCell<Supply>,
    nodes: AtomicU32,
    /// Starts of the tables, in the order of [`Table::ALL`].
    tables: [AtomicUsize; Table::ALL.len()],
    /// The table of the layer above, and its address; 0 while there is no table.
    shadow: SetOnce<&'static Shadow>,
    shadow_at: AtomicUsize,
    /// First usable byte and end of a zone that does not start or end on a block.
    usable_from: AtomicUsize,
    usable_to: AtomicUsize,
    frontier: SpinLock<Frontier>,
    node: [SpinLock<NodeBlocks>; MAX_NODES],
    /// Runs that purges have taken out of their blocks at this moment; see
    /// [`Zone::take_after_all`].
    in_hand: AtomicU32,
    /// Free pages that may be resident, over all nodes. Read without a lock, so it may be stale.
    dirty: AtomicUsize,
    /// Pages handed out so far that were not resident; wraps around.
    cold_taken: AtomicUsize,
    /// Reaper ticks so far; stamps blocks.
    pub(crate) tick: AtomicU32,
    /// The function that frees memory before the zone grows: a [`BeforeGrowth`], or 0.
    before_growth: AtomicUsize,
}

/// The reason why the layers above are asked to free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The node must grow; it has this many bytes.
    Growth(usize),
    /// A request is about to fail. The calling thread holds no lock.
    Last,
}

/// Frees memory that the layers above can spare. Returns true if it freed some.
pub(crate) type BeforeGrowth = fn(Need) -> bool;

/// The one zone of the process.
#[place(large_data)]
pub(crate) static ZONE: Zone = Zone::new();

impl Zone {
    const fn new() -> Zone {
        Zone {
            supply: BootCell::new(),
            nodes: AtomicU32::new(0),
            tables: [const { AtomicUsize::new(0) }; Table::ALL.len()],
            shadow: SetOnce::new(),
            shadow_at: AtomicUsize::new(0),
            usable_from: AtomicUsize::new(0),
            usable_to: AtomicUsize::new(usize::MAX),
            frontier: SpinLock::new(Frontier::NEW),
            node: [const {
                SpinLock::new(NodeBlocks {
                    extents: Extents::NONE,
                    lists: [[NO_BLOCK; LEVELS]; 11],
                    nonempty: [0; LEVELS],
                    oldest: NO_BLOCK,
                    youngest: NO_BLOCK,
                    dirty_blocks: 0,
                    free_pages: 0,
                    dirty_pages: 0,
                })
            }; MAX_NODES],
            in_hand: AtomicU32::new(0),
            dirty: AtomicUsize::new(0),
            cold_taken: AtomicUsize::new(0),
            tick: AtomicU32::new(1),
            before_growth: AtomicUsize::new(0),
        }
    }

    /// Returns the page source; `None` before `init`.
    pub(crate) fn source(&self) -> Option<&'static dyn PageSource> {
        self.supply.get().map(|supply| supply.source())
    }

    /// Returns the number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Relaxed) as usize
    }

    /// Registers the function that frees memory before the zone grows.
    pub(crate) fn set_before_growth(&self, ask: BeforeGrowth) {
        self.before_growth.store(ask as usize, Ordering::Release);
    }

    /// Asks the layers above to free memory before `node` grows. Returns true if they freed some.
    #[cold]
    fn ask_above(&self, node: NodeId) -> bool {
        let committed = self.node[usize::from(node.0)].lock().extents.blocks() as usize * BLOCK_SIZE;
        self.ask(Need::Growth(committed))
    }

    /// Makes the last attempts of a request that is about to fail. Asks the layers above for all
    /// memory that they can spare, waits for the runs that purges hold, and calls `take` again.
    /// `take` runs at least once, because other threads may have freed memory meanwhile. It is
    /// repeated while more memory is freed, because other threads may take that memory first.
    #[cold]
    #[place(cold)]
    pub(crate) fn take_after_all<T>(&self, mut take: impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..ATTEMPTS {
            let asked = self.ask(Need::Last);
            let more = self.wait_for_purge() || asked;
            let taken = take();
            if taken.is_some() || !more {
                return taken;
            }
        }
        None
    }

    fn ask(&self, need: Need) -> bool {
        let ask = self.before_growth.load(Ordering::Acquire);
        if ask == 0 {
            return false;
        }
        // SAFETY: only `set_before_growth` stores here, and only values of this function type.
        let ask = unsafe { core::mem::transmute::<*const (), BeforeGrowth>(core::ptr::with_exposed_provenance(ask)) };
        ask(need)
    }

    /// Allocates a run of `pages` pages, placed as `align` requires.
    pub(crate) fn alloc(&self, node: NodeId, pages: usize, align: RunAlign) -> Option<PageRun> {
        self.alloc_noting(node, pages, align, None)
    }

    /// As [`Self::alloc`]; also adds the dirty pages of the run to `dirty`.
    pub(crate) fn alloc_noting(
        &self,
        node: NodeId,
        pages: usize,
        align: RunAlign,
        mut dirty: Option<&mut DirtyParts>,
    ) -> Option<PageRun> {
        let mut take = |blocks: &mut NodeBlocks| {
            let first = self.find(blocks, pages, align)?;
            if let Some(dirty) = dirty.as_deref_mut() {
                self.note_dirty(first, pages, dirty);
            }
            Some(self.take_run(blocks, first, pages))
        };
        let mut run = None;
        self.take_or_grow(node, &|blocks| self.blocks_wanted(blocks, pages, align), &mut |blocks| {
            run = take(blocks);
            run.is_some()
        });
        run
    }

    /// Calls `take` with the blocks of a node until it returns true. In between, asks the layers
    /// above to free memory, then grows the node by `wanted` blocks. Returns false if there is no
    /// memory.
    #[inline(never)]
    fn take_or_grow(
        &self,
        node: NodeId,
        wanted: &dyn Fn(&NodeBlocks) -> usize,
        take: &mut dyn FnMut(&mut NodeBlocks) -> bool,
    ) -> bool {
        let Some(lock) = self.node.get(usize::from(node.0)) else { return false };
        if take(&mut lock.lock()) || (self.ask_above(node) && take(&mut lock.lock())) {
            return true;
        }
        // Other threads may take the blocks that this thread added.
        for _ in 0..ATTEMPTS {
            let (want, seen) = {
                let blocks = lock.lock();
                (wanted(&blocks), blocks.extents.blocks())
            };
            let Some(mut blocks) = self.grow(node, want, seen) else { return false };
            if take(&mut blocks) {
                return true;
            }
        }
        false
    }

    /// Adds the dirty pages among the free pages from `first` on. The caller holds the zone lock.
    fn note_dirty(&self, first: usize, pages: usize, dirty: &mut DirtyParts) {
        for (number, at, count) in parts(first, first + pages) {
            let block = self.block(number);
            let from_run = (number as usize * BLOCK_PAGES).wrapping_sub(first);
            let mut from = at;
            while let Some((start, length)) = block.dirty_among(from..at + count) {
                from = start + length;
                dirty.add(from_run.wrapping_add(start), from_run.wrapping_add(from));
            }
        }
    }

    /// Allocates up to `want` runs of `order` under one lock. Returns the number allocated.
    #[inline(never)]
    pub(crate) fn alloc_many(&self, node: NodeId, order: Order, want: usize, out: &mut [PageRun]) -> usize {
        let want = want.min(out.len());
        let mut got = 0;
        if want > 0 {
            // The node grows only if it has no run at all.
            self.take_or_grow(node, &|_| 1, &mut |blocks| {
                got = self.fill(blocks, order, &mut out[..want]);
                got > 0
            });
        }
        got
    }

    /// Takes free pages of any node for metadata, zeroed and for ever. Grows no node.
    #[inline(never)]
    #[place(cold)]
    pub(crate) fn lend(&self, bytes: usize) -> Option<core::ops::Range<usize>> {
        let pages = bytes.div_ceil(PAGE_SIZE);
        let run = self.node[..self.nodes()].iter().find_map(|node| {
            let mut blocks = node.lock();
            let first = self.find(&blocks, pages, RunAlign::Anywhere)?;
            Some(self.take_run(&mut blocks, first, pages))
        })?;
        let (start, bytes) = (MEMMAP.address_of(run.first), pages * PAGE_SIZE);
        if !run.zeroed {
            // SAFETY: the pages are committed, and were just taken from their node.
            unsafe { core::ptr::with_exposed_provenance_mut::<u8>(start).write_bytes(0, bytes) };
        }
        Some(start..start + bytes)
    }

    /// Fills `out` from its start with free runs of `order`. Returns the number filled.
    fn fill(&self, blocks: &mut NodeBlocks, order: Order, out: &mut [PageRun]) -> usize {
        let mut got = 0;
        for run in out {
            let Some(first) = self.find(blocks, order.pages(), RunAlign::Aligned) else { break };
            *run = self.take_run(blocks, first, order.pages());
            got += 1;
        }
        got
    }

    /// Returns the first page of a free run, placed as `align` requires.
    fn find(&self, blocks: &NodeBlocks, pages: usize, align: RunAlign) -> Option<usize> {
        if align == RunAlign::Anywhere && pages >= LONG_RUN {
            self.fit(blocks, pages)
        } else if pages > BLOCK_PAGES {
            self.whole_blocks(blocks, pages)
        } else if align == RunAlign::Anywhere
            && let Some((number, first)) = blocks.pick_run(self, pages)
        {
            Some(number as usize * BLOCK_PAGES + first)
        } else {
            let order = Order::for_bytes(pages * PAGE_SIZE).0;
            let number = blocks.pick(order)?;
            Some(number as usize * BLOCK_PAGES + self.block(number).find(order)?)
        }
    }

    /// Returns the number of blocks that the node must add to fit the run.
    fn blocks_wanted(&self, blocks: &NodeBlocks, pages: usize, align: RunAlign) -> usize {
        let pages = if align == RunAlign::Anywhere && pages >= LONG_RUN {
            pages.saturating_sub(self.free_at_end(blocks))
        } else {
            pages
        };
        pages.div_ceil(BLOCK_PAGES).max(1)
    }

    /// Takes free pages from `page` on, out of every block that they lie in.
    #[inline(never)]
    fn take_run(&self, blocks: &mut NodeBlocks, page: usize, pages: usize) -> PageRun {
        let mut dirty = 0;
        for (number, at, count) in parts(page, page + pages) {
            dirty += self.take_in_block(blocks, number, at, count);
        }
        self.cold_taken.fetch_add(pages - dirty, Ordering::Relaxed);
        PageRun { first: PageIndex(page as u32), zeroed: dirty == 0 }
    }

    /// Takes free pages of one block. Returns the number of dirty ones.
    #[inline(never)]
    fn take_in_block(&self, blocks: &mut NodeBlocks, number: u32, at: usize, count: usize) -> usize {
        let dirty = self.block(number).take(at, count);
        blocks.free_pages -= count;
        blocks.dirty_pages -= dirty;
        self.dirty.fetch_sub(dirty, Ordering::Relaxed);
        self.relist(blocks, number);
        dirty
    }

    /// Extends a run from `old` to `new` pages in place. Returns false if the pages behind it are
    /// in use.
    pub(crate) fn extend(&self, first: PageIndex, old: usize, new: usize) -> bool {
        let Some(lock) = self.node.get(usize::from(self.node_of(first).0)) else { return false };
        let mut blocks = lock.lock();
        let (start, end) = (first.0 as usize + old, first.0 as usize + new);
        // The run and all that follows must lie in one stretch of the node's blocks.
        let stretch = blocks.extents.around(first.0 / BLOCK_PAGES as u32);
        if stretch.is_none_or(|stretch| end > stretch.end as usize * BLOCK_PAGES) {
            return false;
        }
        if !parts(start, end).all(|(number, at, count)| self.block(number).is_free(at, count)) {
            return false;
        }
        self.take_run(&mut blocks, start, new - old);
        true
    }

    /// Frees pages. Returns true if enough free memory is resident for the reaper to be woken.
    pub(crate) fn free(&self, first: PageIndex, pages: usize) -> bool {
        self.free_many(&[(first, pages)])
    }

    /// Frees several runs of one node under one lock; as [`Self::free`].
    #[inline(never)]
    pub(crate) fn free_many(&self, runs: &[(PageIndex, usize)]) -> bool {
        let Some(&(first, _)) = runs.first() else { return false };
        let node = self.node_of(first);
        let mut blocks = self.node[usize::from(node.0)].lock();
        for &(first, pages) in runs {
            self.put_locked(&mut blocks, first, pages, true);
        }
        blocks.dirty_pages >= DIRTY_WORTH_REAPING
    }

    #[inline(never)]
    fn put_locked(&self, blocks: &mut NodeBlocks, first: PageIndex, pages: usize, dirty: bool) {
        let page = first.0 as usize;
        for (number, at, count) in parts(page, page + pages) {
            self.block(number).put(at, count, dirty);
            blocks.free_pages += count;
            if dirty {
                blocks.dirty_pages += count;
                self.dirty.fetch_add(count, Ordering::Relaxed);
            }
            self.relist(blocks, number);
        }
    }

    /// Returns the node that owns a page.
    #[inline]
    pub(crate) fn node_of(&self, page: PageIndex) -> NodeId {
        if self.nodes() <= 1 {
            return NodeId(0);
        }
        NodeId(self.owner(page.0 / BLOCK_PAGES as u32).load(Ordering::Relaxed))
    }

    /// Returns the table entry that holds the node of a block.
    fn owner(&self, block: u32) -> &AtomicU8 {
        let table = self.tables[Table::Owners as usize].load(Ordering::Relaxed) as *const AtomicU8;
        // SAFETY: the table is committed for every block below the end of the zone that memmap has
        // published, and pages in circulation lie in such blocks.
        unsafe { &*table.add(block as usize) }
    }

    /// Returns the figures summed over all nodes.
    pub(crate) fn stats(&self) -> ZoneStats {
        let mut stats = ZoneStats::default();
        for node in &self.node[..self.nodes()] {
            let blocks = node.lock();
            stats.committed += blocks.extents.blocks() as usize * BLOCK_PAGES;
            stats.free += blocks.free_pages;
            stats.dirty += blocks.dirty_pages;
        }
        stats
    }

    /// Returns the number of free pages that may be resident, without a lock.
    #[cfg(feature = "os")]
    pub(crate) fn dirty_pages(&self) -> usize {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Returns the number of pages handed out so far that were not resident; wraps around.
    #[cfg(feature = "os")]
    pub(crate) fn cold_pages_taken(&self) -> usize {
        self.cold_taken.load(Ordering::Relaxed)
    }

    /// Returns the number of times that zone locks were taken.
    pub(crate) fn locks_taken(&self) -> usize {
        self.node[..self.nodes()].iter().map(SpinLock::taken).sum()
    }

    /// Returns whether the lock of any node is held at this moment.
    pub(crate) fn lock_held(&self) -> bool {
        self.node[..self.nodes()].iter().any(SpinLock::is_held)
    }

    /// Visits the growth lock and every zone lock, for a fork.
    pub(crate) fn for_each_lock(&self, visit: Visit<'_>) {
        visit(self.frontier.word());
        self.node[..self.nodes()].iter().for_each(|node| visit(node.word()));
    }

    /// Returns the state of a block.
    #[expect(clippy::mut_from_ref, reason = "the zone lock of the block's node makes the reference unique")]
    fn block(&self, number: u32) -> &mut Block {
        let table = self.tables[Table::Blocks as usize].load(Ordering::Relaxed) as *mut Block;
        // SAFETY: callers hold the zone lock of the block's node, and its extents contain the
        // block. So its entry is committed, and no other thread has a reference to it. No caller
        // uses a reference after another call of `block` for the same number.
        unsafe { &mut *table.add(number as usize) }
    }

    /// Updates all lists and tables that hold a block after its pages changed.
    fn relist(&self, blocks: &mut NodeBlocks, number: u32) {
        let block = self.block(number);
        if block.is_empty() != block.in_empties {
            block.in_empties = !block.in_empties;
            self.note_empty(number, block.in_empties);
        }
        let dirty = block.dirty_count() > 0;
        if dirty != block.in_dirty {
            if dirty {
                block.stamp = self.tick.load(Ordering::Relaxed);
                blocks.link_youngest(self, number);
            } else {
                blocks.unlink_dirty(self, number);
            }
        }
        let block = self.block(number);
        let level = block.fullness_level();
        let key = (block.max_order, level);
        let old = (block.level >> 4, block.level & 0xf);
        if block.level != u8::MAX {
            if old == key {
                return;
            }
            blocks.unlink(self, number, old);
        }
        let block = self.block(number);
        block.level = key.0 << 4 | key.1;
        blocks.link(self, number, key);
    }
}

/// Splits the pages `from..to` at block borders: number of the block, first page in it, pages.
fn parts(from: usize, to: usize) -> impl Iterator<Item = (u32, usize, usize)> {
    let mut page = from;
    core::iter::from_fn(move || {
        let at = page % BLOCK_PAGES;
        let count = (BLOCK_PAGES - at).min(to - page);
        let part = (count > 0).then_some(((page / BLOCK_PAGES) as u32, at, count));
        page += count;
        part
    })
}
