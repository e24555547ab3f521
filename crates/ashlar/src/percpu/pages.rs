//! Per-CPU page lists: free runs of pages that a CPU keeps before the zone, as the kernel's page allocator does.
//!
//! Engines that take one slab at a time, and kmalloc where it hands out pages, would take the zone lock for each. Worse,
//! two CPUs would be handed neighbouring pages by turns, whose class words and page heads share cache lines, and both
//! write them. A CPU's list takes a batch of neighbours under one zone lock and gives half of what it has back when it
//! has too many. The default engine does without: it takes and gives many slabs at once.
//!
//! Owns: the lists, in metadata memory, one entry for each CPU that has an area.
//!
//! Invariants: a run on a list is free for nobody else (its bits in the block are taken, its class words are
//! [`crate::pages::memmap::ClassWord::FREE`]); all runs of a list are of its CPU's node and order; a list holds at most
//! [`HIGH_PAGES`] pages.
//!
//! Lock: the *page list lock*, one for each CPU. Only fork and [`drain`] wait for it; who finds it taken, because the
//! thread was moved or interrupted by a signal handler, goes to the zone. Nothing is taken under it.
//!
//! | a run | from | to |
//! |---|---|---|
//! | arrives | the zone, a batch at a time | the list of the CPU that asked; the first goes to the caller |
//! | arrives | a caller who gives it back | the list of the CPU where he runs, if the run is of its node |
//! | leaves | a list that is full: the older half | the zone, under one lock |
//! | leaves | all lists: before the zone grows, when the program is idle, when memory ends | the zone |

use super::area::PERCPU;
use crate::base::sync::{AtomicPtr, AtomicUsize, Ordering, SpinLock, Visit};
use crate::base::units::{CpuId, NodeId, Order, PageIndex};
use crate::pages::meta::META;
use crate::pages::zone::{PageRun, RunAlign, ZONE};

/// Orders that have a list: those that the kernel does not call costly.
const ORDERS: usize = 4;
/// Pages that a list holds at most.
const HIGH_PAGES: usize = 64;
/// Pages that come or go at once.
const BATCH_PAGES: usize = HIGH_PAGES / 2;

/// The lists of one CPU.
#[repr(align(128))]
pub(crate) struct PageLists(SpinLock<[List; ORDERS]>);

/// Free runs of one order; the last is used first.
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

    /// Adds a run; false when the list has `most` already.
    fn push(&mut self, run: PageRun, most: usize) -> bool {
        let room = self.count < most;
        if room {
            self.runs[self.count] = run;
            self.count += 1;
        }
        room
    }

    /// Takes the `n` oldest runs.
    fn take_oldest(&mut self, out: &mut [PageRun]) -> usize {
        let n = out.len().min(self.count);
        out[..n].copy_from_slice(&self.runs[..n]);
        self.runs.copy_within(n..self.count, 0);
        self.count -= n;
        n
    }
}

/// The entries, one for each CPU; none before somebody wants them and where there was no memory for them.
static ENTRIES: AtomicPtr<PageLists> = AtomicPtr::new(core::ptr::null_mut());
static NR_ENTRIES: AtomicUsize = AtomicUsize::new(0);

/// Says that lists will be used: they are made when the first asks. Under the registry lock, so by one thread, and before or
/// after a fork. Without memory for them everybody goes to the zone.
pub(crate) fn want() {
    if !entries().is_empty() {
        return;
    }
    let cpus = PERCPU.cpus.load(Ordering::Relaxed) as usize;
    // Not written to: zeros are entries with free locks and empty lists, and what no CPU uses stays untouched.
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
    #[expect(unsafe_code, reason = "reads the array that want published")]
    // SAFETY: `want` stored zeroed memory for so many entries, which lives for ever; all of it is plain numbers, and zero
    // is a value of each of them. They are only used through their locks.
    unsafe {
        core::slice::from_raw_parts(ENTRIES.load(Ordering::Relaxed), count)
    }
}

/// The lists of the CPU where this thread runs, and its node.
fn here() -> Option<(&'static PageLists, NodeId)> {
    let cpu: CpuId = super::this_cpu();
    Some((entries().get(cpu.0 as usize)?, PERCPU.node_of(cpu)))
}

/// Most runs of an order on a list.
const fn most(order: Order) -> usize {
    HIGH_PAGES >> order.0
}

/// A run of `order` on `node`, aligned to its size: off this CPU's list, else of the zone.
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
    // Not under the lock of the list: the zone may ask everybody for memory, this list too.
    let mut runs = [NO_RUN; BATCH_PAGES];
    let got = ZONE.alloc_many(node, order, BATCH_PAGES >> order.0, &mut runs);
    let (&first, rest) = runs[..got].split_first()?;
    // From the end, so that they are handed out in the order of their addresses.
    let mut kept = 0;
    if let Some(mut lists) = lists.0.try_lock() {
        kept = rest.iter().rev().take_while(|&&run| lists[list].push(run, most(order))).count();
    }
    // Somebody else filled the list meanwhile.
    to_zone(order, &rest[..rest.len() - kept]);
    Some(first)
}

/// Gives a run of `order` back, whatever it holds: to this CPU's list, or to the zone. True when enough free memory of the
/// zone is resident to be worth the reaper's while.
pub(crate) fn free(page: PageIndex, order: Order) -> bool {
    let own = here().filter(|(_, home)| *home == ZONE.node_of(page) && usize::from(order.0) < ORDERS);
    let Some(mut lists) = own.and_then(|(lists, _)| lists.0.try_lock()) else {
        return ZONE.free(page, order.pages());
    };
    let run = PageRun { first: page, zeroed: false };
    let list = &mut lists[usize::from(order.0)];
    if list.push(run, most(order)) {
        return false;
    }
    let mut oldest = [NO_RUN; BATCH_PAGES];
    let taken = list.take_oldest(&mut oldest[..BATCH_PAGES >> order.0]);
    list.push(run, most(order));
    drop(lists);
    to_zone(order, &oldest[..taken])
}

/// Gives runs of one node back to the zone; as [`free`].
#[place(cold)]
fn to_zone(order: Order, runs: &[PageRun]) -> bool {
    let mut pages = [(PageIndex::NONE, 0); BATCH_PAGES];
    for (at, run) in pages.iter_mut().zip(runs) {
        *at = (run.first, order.pages());
    }
    ZONE.free_many(&pages[..runs.len()])
}

/// Gives the runs of all CPUs back to the zone; true if there were any.
pub(crate) fn drain() -> bool {
    !entries().is_empty() && drain_all()
}

#[inline(never)]
#[place(cold)]
fn drain_all() -> bool {
    let mut any = false;
    for lists in entries() {
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

/// Pages on all lists.
pub(crate) fn held_pages() -> usize {
    let pages = |lists: &PageLists| {
        let lists = lists.0.lock();
        lists.iter().enumerate().map(|(order, list)| list.count << order).sum::<usize>()
    };
    entries().iter().map(pages).sum()
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
