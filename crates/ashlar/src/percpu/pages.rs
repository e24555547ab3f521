//! Per-CPU page lists: free runs of pages in front of the zone, as in the kernel's page allocator.
//!
//! Engines that take one slab at a time, and size classes that hand out pages, would take the zone
//! lock for each. Worse, two CPUs would take neighbouring pages in turn, whose class words and page
//! heads share cache lines that both write. So a list takes a batch of neighbours under one zone
//! lock, and returns half of its runs when it is full. The default engine does not use the lists,
//! because it takes and returns many slabs at once.
//!
//! Owns: the lists, in metadata memory, one entry for each CPU that has an area.
//!
//! Invariants: a run on a list is taken in its block, and its class words are
//! [`crate::pages::memmap::ClassWord::FREE`], so no other code uses it. All runs of a list are of
//! its CPU's node and its order. A list holds at most [`HIGH_PAGES`] pages.
//!
//! Lock: the *page list lock*, one for each CPU. Only fork and [`drain`] block on it. A thread that
//! finds it taken, because it was migrated or runs in a signal handler, goes to the zone. No other
//! lock is taken under it.
//!
//! | a run | from | to |
//! |---|---|---|
//! | arrives | the zone, a [`Batch`] at a time | this CPU's list; the first run goes to the caller |
//! | arrives | a caller that frees it | the list of this CPU, if the run is of its node |
//! | leaves | a full list: the older half, or the oldest run | the zone, under one lock |
//! | leaves | all lists, before the zone grows, when idle or out of memory | the zone |

use super::area::PERCPU;
use crate::base::sync::{AtomicBool, AtomicPtr, AtomicUsize, Guard, Ordering, SpinLock, Visit};
use crate::base::units::{CpuId, NodeId, Order, PageIndex};
use crate::pages::meta::META;
use crate::pages::zone::{PageRun, RunAlign, ZONE};

/// Orders that have a list: those that the kernel does not call costly.
const ORDERS: usize = 4;
/// Most pages on a list.
const HIGH_PAGES: usize = 64;
/// Most pages that move between a list and the zone at once.
const BATCH_PAGES: usize = HIGH_PAGES / 2;

/// How many pages move between a list and the zone at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    /// Half a list.
    Half,
    /// One run, for engines that bound the instructions of every call.
    Single,
}

/// The lists of one CPU.
#[repr(align(128))]
pub(crate) struct PageLists(SpinLock<[List; ORDERS]>);

/// Free runs of one order; the newest is used first.
#[derive(Clone, Copy)]
struct List {
    runs: [PageRun; HIGH_PAGES],
    count: usize,
}

const NO_RUN: PageRun = PageRun { first: PageIndex::NONE, zeroed: false };

impl List {
    fn pop(&mut self) -> Option<PageRun> {
        self.count = self.count.checked_sub(1)?;
        Some(self.runs[self.count])
    }

    /// Adds a run. Returns false if the list already has `most`.
    fn push(&mut self, run: PageRun, most: usize) -> bool {
        let room = self.count < most;
        if room {
            self.runs[self.count] = run;
            self.count += 1;
        }
        room
    }

    /// Takes as many of the oldest runs as `out` has places, and returns their number.
    fn take_oldest(&mut self, out: &mut [PageRun]) -> usize {
        let n = out.len().min(self.count);
        out[..n].copy_from_slice(&self.runs[..n]);
        self.runs.copy_within(n..self.count, 0);
        self.count -= n;
        n
    }
}

/// The entries, one for each CPU. There are none before [`want`], or if there was no memory for
/// them.
static ENTRIES: AtomicPtr<PageLists> = AtomicPtr::new(core::ptr::null_mut());
static NR_ENTRIES: AtomicUsize = AtomicUsize::new(0);

/// Whether runs move one by one: from the first cache that asked for that on, for all caches.
static SINGLE: AtomicBool = AtomicBool::new(false);

/// Makes the lists. The caller holds the registry lock, so one thread runs this, and never during a
/// fork. If there is no memory for the lists, all callers go to the zone.
pub(crate) fn want(batch: Batch) {
    if batch == Batch::Single {
        SINGLE.store(true, Ordering::Relaxed);
    }
    if !entries().is_empty() {
        return;
    }
    let cpus = PERCPU.cpus.load(Ordering::Relaxed) as usize;
    // The memory is not written to: zeros are entries with free locks and empty lists. So the
    // entries of unused CPUs stay untouched.
    if let Some(zeroed) = META.alloc(cpus * size_of::<PageLists>(), align_of::<PageLists>()) {
        ENTRIES.store(zeroed.as_ptr().cast(), Ordering::Relaxed);
        NR_ENTRIES.store(cpus, Ordering::Release);
    }
}

fn entries() -> &'static [PageLists] {
    let count = NR_ENTRIES.load(Ordering::Acquire);
    if count == 0 {
        return &[];
    }
    #[expect(unsafe_code, reason = "reads the array that `want` published")]
    // SAFETY: `want` stored the address of zeroed memory for `count` entries, which is never freed.
    // All fields are plain numbers for which zero is valid. They are only accessed through their
    // locks.
    unsafe {
        core::slice::from_raw_parts(ENTRIES.load(Ordering::Relaxed), count)
    }
}

/// Returns the lists of the CPU that this thread runs on, and the CPU's node.
fn here() -> Option<(&'static PageLists, NodeId)> {
    let cpu: CpuId = super::this_cpu_quick();
    Some((entries().get(cpu.0 as usize)?, PERCPU.node_of(cpu)))
}

/// Returns the most runs of an order on a list.
const fn most(order: Order) -> usize {
    HIGH_PAGES >> order.0
}

/// Takes a run of `order` on `node`, aligned to its size, off this CPU's list, else from the zone.
#[place(cold)]
pub(crate) fn alloc(node: NodeId, order: Order) -> Option<PageRun> {
    let own = here().filter(|(_, home)| *home == node && usize::from(order.0) < ORDERS);
    let Some((lists, _)) = own else {
        return ZONE.alloc(node, order.pages(), RunAlign::Aligned);
    };
    let list = usize::from(order.0);
    match lists.0.try_lock() {
        Some(mut lists) => {
            if let Some(run) = lists[list].pop() {
                return Some(run);
            }
        }
        None => return ZONE.alloc(node, order.pages(), RunAlign::Aligned),
    }
    if SINGLE.load(Ordering::Relaxed) {
        return ZONE.alloc(node, order.pages(), RunAlign::Aligned);
    }
    alloc_batch(lists, node, order)
}

/// Takes a batch of runs from the zone, and puts all but the first on a list, which is not locked:
/// the zone may drain all lists, including this one, to find memory.
#[inline(never)]
#[place(cold)]
fn alloc_batch(lists: &PageLists, node: NodeId, order: Order) -> Option<PageRun> {
    let mut runs = [NO_RUN; BATCH_PAGES];
    let got = ZONE.alloc_many(node, order, BATCH_PAGES >> order.0, &mut runs);
    let (&first, rest) = runs[..got].split_first()?;
    // Push from the end, so that the runs are handed out in the order of their addresses.
    let mut kept = 0;
    if let Some(mut lists) = lists.0.try_lock() {
        let list = &mut lists[usize::from(order.0)];
        kept = rest.iter().rev().take_while(|&&run| list.push(run, most(order))).count();
    }
    // Return the runs that do not fit, because another thread has filled the list meanwhile.
    to_zone(order, &rest[..rest.len() - kept]);
    Some(first)
}

/// Returns a run of `order` to this CPU's list, or to the zone; its contents do not matter. Returns
/// true if the zone has enough free resident memory for the reaper to trim.
pub(crate) fn free(page: PageIndex, order: Order) -> bool {
    let own = here().filter(|(_, home)| *home == ZONE.node_of(page) && usize::from(order.0) < ORDERS);
    let Some(mut lists) = own.and_then(|(lists, _)| lists.0.try_lock()) else {
        return ZONE.free(page, order.pages());
    };
    let run = PageRun { first: page, zeroed: false };
    if lists[usize::from(order.0)].push(run, most(order)) { false } else { make_room(lists, run, order) }
}

/// Puts a run on a full list, whose oldest runs go to the zone. The result is that of [`free`].
#[inline(never)]
#[place(cold)]
fn make_room(mut lists: Guard<'_, [List; ORDERS]>, run: PageRun, order: Order) -> bool {
    let list = &mut lists[usize::from(order.0)];
    if SINGLE.load(Ordering::Relaxed) {
        let mut oldest = [NO_RUN];
        list.take_oldest(&mut oldest);
        list.push(run, most(order));
        drop(lists);
        return ZONE.free(oldest[0].first, order.pages());
    }
    let mut oldest = [NO_RUN; BATCH_PAGES];
    let taken = list.take_oldest(&mut oldest[..BATCH_PAGES >> order.0]);
    list.push(run, most(order));
    drop(lists);
    to_zone(order, &oldest[..taken])
}

/// Returns runs of one node to the zone. The result is that of [`free`].
#[place(cold)]
fn to_zone(order: Order, runs: &[PageRun]) -> bool {
    let mut pages = [(PageIndex::NONE, 0); BATCH_PAGES];
    for (at, run) in pages.iter_mut().zip(runs) {
        *at = (run.first, order.pages());
    }
    ZONE.free_many(&pages[..runs.len()])
}

/// Returns the runs of all CPUs to the zone. Returns true if there were any.
pub(crate) fn drain() -> bool {
    !entries().is_empty() && drain_all()
}

#[inline(never)]
#[place(cold)]
fn drain_all() -> bool {
    let mut any = false;
    for lists in entries() {
        any |= drain_lists(lists);
    }
    any
}

/// Returns the runs of one CPU to the zone.
#[cfg(not(feature = "os"))]
pub(crate) fn drain_cpu(cpu: CpuId) {
    if let Some(lists) = entries().get(cpu.0 as usize) {
        drain_lists(lists);
    }
}

#[place(cold)]
fn drain_lists(lists: &PageLists) -> bool {
    let mut any = false;
    {
        for order in 0..ORDERS as u8 {
            loop {
                let mut runs = [NO_RUN; BATCH_PAGES];
                let taken = lists.0.lock()[usize::from(order)].take_oldest(&mut runs);
                any |= taken > 0;
                to_zone(Order(order), &runs[..taken]);
                if taken < runs.len() {
                    break;
                }
            }
        }
    }
    any
}

/// Returns the number of pages on all lists.
pub(crate) fn held_pages() -> usize {
    let pages = |lists: &PageLists| {
        let lists = lists.0.lock();
        lists.iter().enumerate().map(|(order, list)| list.count << order).sum::<usize>()
    };
    entries().iter().map(pages).sum()
}

/// Where a reader outside of the process finds the numbers of runs.
#[cfg(feature = "os")]
pub(crate) const LAYOUT: crate::base::window::PageListsAt = crate::base::window::PageListsAt {
    bytes: size_of::<PageLists>() as u32,
    lists: SpinLock::<[List; ORDERS]>::VALUE as u32,
    list_bytes: size_of::<List>() as u32,
    orders: ORDERS as u32,
    count: core::mem::offset_of!(List, count) as u32,
};

/// Returns the address of the word that holds the address of the lists.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn entries_word() -> usize {
    (&raw const ENTRIES).addr()
}

/// Visits the locks of all lists, for a fork.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    entries().iter().for_each(|lists| visit(lists.0.word()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    fn run(number: u32) -> PageRun {
        PageRun { first: PageIndex(number), zeroed: false }
    }

    #[test]
    fn the_oldest_half_leaves_and_the_last_is_used_first() {
        let mut list = List { runs: [NO_RUN; HIGH_PAGES], count: 0 };
        for number in 0..8 {
            assert!(list.push(run(number), 8));
        }
        assert!(!list.push(run(8), 8), "full");
        let mut out = [NO_RUN; 4];
        assert_eq!(list.take_oldest(&mut out), 4);
        assert_eq!(out.map(|run| run.first.0), [0, 1, 2, 3]);
        let rest: Vec<u32> = core::iter::from_fn(|| list.pop()).map(|run| run.first.0).collect();
        assert_eq!(rest, [7, 6, 5, 4]);
        assert_eq!(list.take_oldest(&mut out), 0);
    }
}
