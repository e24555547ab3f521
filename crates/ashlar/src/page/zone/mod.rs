//! The zone: one reserved range of addresses, cut into nodes, cut into 2 MiB blocks.
//!
//! Owns every page of slab space. A slab, or a short run, is served from the fullest block that has a run
//! large enough, so that others drain and become empty; a long run goes where it fits most closely, across
//! blocks; one that has to start at a block takes whole blocks; one above
//! [`DIRECT_BYTES`] is no business of the zone and goes to the page source directly (see [`super::direct`]).
//!
//! ## Locks
//! One lock a node, the *zone lock*. It is the innermost lock of the allocator: nothing is taken under it.
//! It covers the node's blocks and lists. Committing a new block (a system call) happens under it, giving
//! memory back does not: the reaper takes the pages out of their block, releases them, and puts them back.
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
//! [`grow`]: reservation and commitment; [`lists`]: blocks by fullness; [`fit`]: long runs; [`purge`]: giving memory back;
//! [`objects`]: the memory of the object map; here: handing out and taking back.
#![allow(unsafe_code, reason = "blocks live in memory of the page source")]

mod fit;
mod grow;
mod lists;
mod objects;
mod purge;

use super::block::{Block, LEVELS};
use super::memmap::MEMMAP;
use super::source::PageSource;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, SpinLock, Visit};
use crate::units::{BLOCK_PAGES, BLOCK_SIZE, MAX_NODES, NodeId, Order, PAGE_SIZE, PageIndex};
use fit::LONG_RUN;

/// Requests above this many bytes are mapped directly.
pub(crate) const DIRECT_BYTES: usize = 32 << 20;
const NO_BLOCK: u32 = u32::MAX;
/// How often memory is asked for again before a request fails.
const ATTEMPTS: usize = 8;

/// A run of pages handed out by the zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) first: PageIndex,
    /// Every byte reads as zero.
    pub(crate) zeroed: bool,
}

/// The blocks of one node.
struct NodeBlocks {
    /// Blocks of this node are numbered from here.
    first: u32,
    /// Blocks committed so far.
    committed: u32,
    /// Blocks reserved.
    reserved: u32,
    /// Lists of blocks by largest free run (one more than its order) and fullness.
    lists: [[u32; LEVELS]; 11],
    /// For each largest run, a bit for each level whose list is not empty.
    nonempty: [u8; 11],
    free_pages: usize,
    dirty_pages: usize,
}

/// Where a run of pages may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a multiple of its size rounded up to a power of two, of 2 MiB at most.
    Aligned,
    /// At any page: packed closely, for large objects that ask for no alignment.
    Anywhere,
}

/// Figures of the zone, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneStats {
    /// Pages committed: backed by address space that may be touched.
    pub committed: usize,
    /// Committed pages that nobody uses.
    pub free: usize,
    /// Free pages that may still be resident and go back to the system after the decay time.
    pub dirty: usize,
}

/// The zone of the process.
pub(crate) struct Zone {
    source: source_cell::SourceCell,
    nodes: AtomicU32,
    blocks: AtomicUsize,
    class: AtomicUsize,
    heads: AtomicUsize,
    /// The object map; 0 while there is none.
    objects: AtomicUsize,
    /// First usable byte and end of an arena that does not start or end on a block; 0 and MAX otherwise.
    usable_from: AtomicUsize,
    usable_to: AtomicUsize,
    node: [SpinLock<NodeBlocks>; MAX_NODES],
    /// Runs that purges have in hand at this moment: see [`Zone::take_after_all`].
    in_hand: AtomicU32,
    /// Free pages that may be resident, over all nodes; a look at one moment, without a lock.
    dirty: AtomicUsize,
    /// Pages handed out so far that were not resident; wraps around.
    cold_taken: AtomicUsize,
    /// Reaper ticks so far; stamps blocks.
    pub(crate) tick: AtomicU32,
    /// What to ask for memory before fresh memory is taken: a [`BeforeGrowth`], or 0.
    before_growth: AtomicUsize,
}

/// Why the layers above are asked for memory they could do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Only fresh memory would do, beside so many bytes that the zone has.
    Growth(usize),
    /// A request is about to fail. Whoever asks holds no lock.
    Last,
}

/// Makes memory free; true if there was some.
pub(crate) type BeforeGrowth = fn(Need) -> bool;

mod source_cell {
    use crate::page::PageSource;
    use core::cell::UnsafeCell;

    /// The page source, set once before the zone is published.
    pub(super) struct SourceCell(UnsafeCell<Option<&'static dyn PageSource>>);

    // SAFETY: written once by the initialising thread before any other thread can see the zone
    // (initialisation is serialised by the boot state), read-only after.
    unsafe impl Sync for SourceCell {}

    impl SourceCell {
        pub(super) const fn new() -> Self {
            SourceCell(UnsafeCell::new(None))
        }
        pub(super) fn get(&self) -> Option<&'static dyn PageSource> {
            // SAFETY: see the Sync impl: no write happens after publication.
            unsafe { *self.0.get() }
        }
        pub(super) fn set(&self, source: &'static dyn PageSource) {
            // SAFETY: see the Sync impl: only the initialising thread is here.
            unsafe { *self.0.get() = Some(source) }
        }
    }
}

/// The one zone of the process.
pub(crate) static ZONE: Zone = Zone::new();

impl Zone {
    const fn new() -> Zone {
        Zone {
            source: source_cell::SourceCell::new(),
            nodes: AtomicU32::new(0),
            blocks: AtomicUsize::new(0),
            class: AtomicUsize::new(0),
            heads: AtomicUsize::new(0),
            objects: AtomicUsize::new(0),
            usable_from: AtomicUsize::new(0),
            usable_to: AtomicUsize::new(usize::MAX),
            node: [const {
                SpinLock::new(NodeBlocks {
                    first: 0,
                    committed: 0,
                    reserved: 0,
                    lists: [[NO_BLOCK; LEVELS]; 11],
                    nonempty: [0; 11],
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

    /// The page source; `None` before `init`.
    pub(crate) fn source(&self) -> Option<&'static dyn PageSource> {
        self.source.get()
    }

    /// Nodes of the zone.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Relaxed) as usize
    }

    /// Registers what is asked for memory before the zone grows.
    pub(crate) fn set_before_growth(&self, ask: BeforeGrowth) {
        self.before_growth.store(ask as usize, Ordering::Release);
    }

    /// Asks the layers above for memory they could do without; true when it is worth looking again.
    #[cold]
    fn ask_above(&self, node: NodeId) -> bool {
        let committed = self.node[usize::from(node.0)].lock().committed as usize * BLOCK_SIZE;
        self.ask(Need::Growth(committed))
    }

    /// What `take` finds after it found nothing: asks the layers above for everything they could do without, waits for what a purge has
    /// in hand, and takes again. Once in any case, since what others gave back meanwhile is for everybody; then for as long as
    /// something comes back, of which a thread that was quicker may have taken more than it needs. Before every request fails.
    #[cold]
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
        let ask = unsafe { core::mem::transmute::<usize, BeforeGrowth>(ask) };
        ask(need)
    }

    /// Takes `pages` pages in a run where `place` wants it.
    pub(crate) fn alloc(&self, node: NodeId, pages: usize, place: Place) -> Option<Run> {
        let lock = self.node.get(usize::from(node.0))?;
        for grow in [false, true] {
            if grow
                && self.ask_above(node)
                && let Some(run) = self.alloc_locked(&mut lock.lock(), node, pages, place, false)
            {
                return Some(run);
            }
            if let Some(run) = self.alloc_locked(&mut lock.lock(), node, pages, place, grow) {
                return Some(run);
            }
        }
        None
    }

    /// Takes runs of `order` until `want` are had or memory ends, under one lock; the number taken.
    pub(crate) fn alloc_many(&self, node: NodeId, order: Order, want: usize, out: &mut [Run]) -> usize {
        let Some(lock) = self.node.get(usize::from(node.0)) else { return 0 };
        let want = want.min(out.len());
        let mut got = 0;
        for grow in [false, true] {
            if grow {
                self.ask_above(node);
            }
            let mut blocks = lock.lock();
            while got < want {
                match self.alloc_locked(&mut blocks, node, order.pages(), Place::Aligned, grow) {
                    Some(run) => out[got] = run,
                    None => break,
                }
                got += 1;
            }
            // Fresh memory only for who would go away with nothing.
            if got > 0 {
                break;
            }
        }
        got
    }

    fn alloc_locked(
        &self,
        blocks: &mut NodeBlocks,
        node: NodeId,
        pages: usize,
        place: Place,
        grow: bool,
    ) -> Option<Run> {
        let long = place == Place::Anywhere && pages >= LONG_RUN;
        if long || pages > BLOCK_PAGES {
            let first = if long {
                self.find_long(blocks, node, pages, grow)
            } else {
                self.find_blocks(blocks, node, pages, grow)
            };
            return Some(self.take_run(blocks, first?, pages));
        }
        if place == Place::Anywhere
            && let Some((number, first)) = blocks.pick_run(self, pages)
        {
            return Some(self.take_run(blocks, number as usize * BLOCK_PAGES + first, pages));
        }
        let order = Order::for_bytes(pages * PAGE_SIZE).0;
        let number = match blocks.pick(order) {
            Some(number) => number,
            None if grow => {
                self.commit_more(blocks, node, 1)?;
                blocks.pick(order)?
            }
            None => return None,
        };
        let first = self.block(number).find(order)?;
        Some(self.take_run(blocks, number as usize * BLOCK_PAGES + first, pages))
    }

    /// The first page for a long run that may lie anywhere.
    fn find_long(&self, blocks: &mut NodeBlocks, node: NodeId, pages: usize, grow: bool) -> Option<usize> {
        match self.fit(blocks, pages) {
            None if grow => self.fit_at_end(blocks, pages, |blocks, want| self.commit_more(blocks, node, want)),
            found => found,
        }
    }

    /// The first page for a run of more than a block that starts at one.
    fn find_blocks(&self, blocks: &mut NodeBlocks, node: NodeId, pages: usize, grow: bool) -> Option<usize> {
        match self.adjacent_free(blocks, pages) {
            None if grow => {
                self.commit_more(blocks, node, pages.div_ceil(BLOCK_PAGES))?;
                self.adjacent_free(blocks, pages)
            }
            found => found,
        }
    }

    /// Takes free pages from `page` on, in as many blocks as they lie in.
    fn take_run(&self, blocks: &mut NodeBlocks, page: usize, pages: usize) -> Run {
        let mut dirty = 0;
        for (number, at, count) in parts(page, page + pages) {
            dirty += self.block(number).take(at, count);
            self.relist(blocks, number);
        }
        blocks.dirty_pages -= dirty;
        blocks.free_pages -= pages;
        self.dirty.fetch_sub(dirty, Ordering::Relaxed);
        self.cold_taken.fetch_add(pages - dirty, Ordering::Relaxed);
        Run { first: PageIndex(page as u32), zeroed: dirty == 0 }
    }

    /// The first page of `pages` free pages from a block's start on.
    fn adjacent_free(&self, blocks: &NodeBlocks, pages: usize) -> Option<usize> {
        let mut run = 0;
        for number in blocks.first..blocks.first + blocks.committed {
            let block = self.block(number);
            let free = if block.free_count() == BLOCK_PAGES { BLOCK_PAGES } else { block.edges().0 };
            if run + free >= pages {
                return Some(number as usize * BLOCK_PAGES - run);
            }
            run = if free == BLOCK_PAGES { run + free } else { 0 };
        }
        None
    }

    /// Makes a run of `old` pages from `first` one of `new`, if the pages behind it are free.
    pub(crate) fn extend(&self, first: PageIndex, old: usize, new: usize) -> bool {
        let Some(lock) = self.node.get(usize::from(self.node_of(first).0)) else { return false };
        let mut blocks = lock.lock();
        let end = first.0 as usize + new;
        if end > (blocks.first + blocks.committed) as usize * BLOCK_PAGES {
            return false;
        }
        let more = || parts(first.0 as usize + old, end);
        if !more().all(|(number, at, count)| self.block(number).is_free(at, count)) {
            return false;
        }
        self.take_run(&mut blocks, first.0 as usize + old, new - old);
        true
    }

    /// Gives pages back; true when enough free memory is resident to be worth the reaper's while.
    pub(crate) fn free(&self, first: PageIndex, pages: usize) -> bool {
        self.free_many(&[(first, pages)])
    }

    /// Gives several runs of one node back under one lock; as [`Self::free`].
    pub(crate) fn free_many(&self, runs: &[(PageIndex, usize)]) -> bool {
        let Some(&(first, _)) = runs.first() else { return false };
        let node = self.node_of(first);
        let mut blocks = self.node[usize::from(node.0)].lock();
        for &(first, pages) in runs {
            self.put_locked(&mut blocks, first, pages, true);
        }
        blocks.dirty_pages >= DIRTY_WORTH_REAPING
    }

    fn put_locked(&self, blocks: &mut NodeBlocks, first: PageIndex, pages: usize, dirty: bool) {
        let page = first.0 as usize;
        for (number, at, count) in parts(page, page + pages) {
            let block = self.block(number);
            block.put(at, count, dirty);
            block.freed_at = self.tick.load(Ordering::Relaxed);
            blocks.free_pages += count;
            if dirty {
                blocks.dirty_pages += count;
                self.dirty.fetch_add(count, Ordering::Relaxed);
            }
            self.relist(blocks, number);
        }
    }

    /// The node that owns a page.
    #[inline]
    pub(crate) fn node_of(&self, page: PageIndex) -> NodeId {
        let nodes = self.nodes();
        if nodes <= 1 {
            return NodeId(0);
        }
        let each = MEMMAP.nr_pages.load(Ordering::Relaxed) / BLOCK_PAGES / nodes;
        NodeId((page.0 as usize / BLOCK_PAGES / each).min(nodes - 1) as u8)
    }

    /// Figures over all nodes.
    pub(crate) fn stats(&self) -> ZoneStats {
        let mut stats = ZoneStats::default();
        for node in &self.node[..self.nodes()] {
            let blocks = node.lock();
            stats.committed += blocks.committed as usize * BLOCK_PAGES;
            stats.free += blocks.free_pages;
            stats.dirty += blocks.dirty_pages;
        }
        stats
    }

    /// Free pages that may be resident, without a lock.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Pages handed out so far that were not resident before; wraps around.
    pub(crate) fn cold_pages_taken(&self) -> usize {
        self.cold_taken.load(Ordering::Relaxed)
    }

    /// How often zone locks were taken.
    pub(crate) fn locks_taken(&self) -> usize {
        self.node[..self.nodes()].iter().map(SpinLock::taken).sum()
    }

    /// Whether the lock of any node is held at this moment.
    pub(crate) fn lock_held(&self) -> bool {
        self.node[..self.nodes()].iter().any(SpinLock::is_held)
    }

    /// Visits every zone lock, for a fork.
    pub(crate) fn for_each_lock(&self, visit: Visit<'_>) {
        self.node[..self.nodes()].iter().for_each(|node| visit(node.word()));
    }

    /// The state of a block.
    #[expect(clippy::mut_from_ref, reason = "the zone lock of the block's node makes the reference unique")]
    fn block(&self, number: u32) -> &mut Block {
        let table = self.blocks.load(Ordering::Relaxed) as *mut Block;
        // SAFETY: callers hold the zone lock of the block's node and the block is committed (or being
        // committed under that lock), so its entry is writable and no other reference to it is alive; no
        // caller keeps the reference across another call of `block` for the same number that it then uses.
        unsafe { &mut *table.add(number as usize) }
    }

    /// Moves a block to the list that its free runs and fullness call for.
    fn relist(&self, blocks: &mut NodeBlocks, number: u32) {
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

/// The parts of the pages `from..to` that lie in one block each: number of the block, first page in it, pages.
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

/// Free resident pages above which the reaper is woken: 2 MiB.
const DIRTY_WORTH_REAPING: usize = BLOCK_PAGES;
