//! Refill: fills an array with objects from slabs.
//!
//! Sources in order: the CPU's partial slabs, whole freelists at a time under one list_lock; slabs
//! of other CPUs of the node that are free to a good part, and all of idle CPUs; other nodes'
//! partial slabs, if the defragmentation ratio says so; evicted objects (`sparse`); new slabs; then
//! other nodes, and what busy CPUs have left.
//!
//! A slab belongs to the CPU that opened it ([`crate::slab::node`]). Two CPUs that use objects of
//! one slab share cache lines of the object map and, if objects are small, of the objects. Then
//! each access may have to wait for the other CPU. A free does not know who will allocate the
//! object again, so the slab decides: its objects return to the list of its CPU.
//!
//! Freelists are walked after list_lock is dropped, so that cold objects do not lengthen the hold
//! time. Those of several slabs are walked side by side and handed out by address (`locality`).
//! Carving a fresh slab without a constructor touches no object.
#![allow(unsafe_code, reason = "walks freelists and calls constructors")]

use super::node::SheafNode;
use super::{locality, sparse};
use crate::base::report;
use crate::base::sync::{Ordering, prefetch};
use crate::base::units::{CpuId, NodeId, Order, PageIndex};
use crate::engine::{RawCache, defrags_now};
use crate::pages::memmap::MEMMAP;
use crate::pages::zone::{PageRun, ZONE};
use crate::slab::discard::discard;
use crate::slab::freelist::{CorruptLink, read_link, write_link};
use crate::slab::partial::{Chain, Freed, Taken, Taker};
use crate::slab::state::{NO_OBJECT, SlabState};
use ashlar_macros::place;

/// Slabs handled in one batch.
const BATCH: usize = 16;
/// Returns the number of objects that a CPU may take for a sheaf. With
/// [`Policy::refill_share`](crate::engine::Policy::refill_share), that is at most this share of all
/// objects in the node's slabs, but at least a slab's worth.
///
/// Without the limit, a program that uses dozens of caches would need slabs for a whole sheaf of
/// each on every CPU. One that passes objects from CPU to CPU would open new slabs before the first
/// objects come back.
pub(super) fn share(cache: &RawCache, node: &SheafNode) -> usize {
    let Some(share) = cache.policy.refill_share else { return usize::MAX };
    let objects = node.slabs.counters.objects();
    node.objects.store(objects, Ordering::Relaxed);
    let slab = usize::from(cache.slabs.geometry.objects(cache.slabs.geometry.order)).max(1);
    slab.max(objects / share)
}

/// Returns whether there may be partial slabs of `cpu` on `node`, in a cache whose slabs are kept
/// by CPU.
pub(super) fn has_own(cache: &RawCache, node: &SheafNode, cpu: CpuId) -> bool {
    cache.slabs.lists > 1 && node.slabs.lists[usize::from(cache.slabs.list_of_cpu(cpu))].count() > 0
}

/// Fills `out` from its start with objects of slabs of `cpu` on `node`. Returns the number filled.
pub(super) fn from_own(cache: &'static RawCache, node: &'static SheafNode, cpu: CpuId, out: &mut [usize]) -> usize {
    from_list(cache, node, usize::from(cache.slabs.list_of_cpu(cpu)), Taker::Own, out)
}

/// As [`from_own`], from slabs of other CPUs.
#[cold]
#[inline(never)]
fn from_others(
    cache: &'static RawCache,
    node: &'static SheafNode,
    cpu: CpuId,
    taker: Taker,
    out: &mut [usize],
) -> usize {
    let lists = usize::from(cache.slabs.lists);
    let own = usize::from(cache.slabs.list_of_cpu(cpu));
    let mut got = 0;
    for next in 1..lists {
        got += from_list(cache, node, (own + next) % lists, taker, &mut out[got..]);
    }
    got
}

/// Fills `out` from its start with objects for `cpu`, of `node` if it has memory. Returns the
/// number filled.
pub(super) fn refill(cache: &'static RawCache, node: NodeId, cpu: CpuId, out: &mut [usize]) -> usize {
    let nodes = cache.state.sheaf_nodes.len();
    let home = usize::from(node.0) % nodes;
    cache.state.sheaf_nodes[home].slabs.counters.count_refill();
    let mut got = from_own(cache, &cache.state.sheaf_nodes[home], cpu, out);
    if got < out.len() && cache.slabs.lists > 1 {
        got += from_others(cache, &cache.state.sheaf_nodes[home], cpu, Taker::Other, &mut out[got..]);
    }
    if got == 0 && nodes > 1 && defrags_now(cache) {
        got = from_other_nodes(cache, home, cpu, out);
    }
    got += sparse::refill(&cache.state.sheaf_nodes[home], &mut out[got..]);
    if got < out.len() {
        let used = got;
        got += from_new_slabs(cache, NodeId(home as u8), cpu, &mut out[used..]);
        // Objects of partial slabs go last. They share cache lines of memory and of the object map
        // with the CPU that works on the rest of the slab, and the first objects of a sheaf are
        // used most.
        out[..got].rotate_left(used);
    }
    if got == 0 { from_elsewhere(cache, home, cpu, out) } else { got }
}

/// Fills `out` from its start with what other CPUs have left, and then with memory of other nodes.
/// Called only if the node has no other memory, so that objects stay local.
#[inline(never)]
#[place(cold)]
fn from_elsewhere(cache: &'static RawCache, home: usize, cpu: CpuId, out: &mut [usize]) -> usize {
    let nodes = cache.state.sheaf_nodes.len();
    let mut got = 0;
    let mut next = 0;
    while got == 0 && next < nodes {
        let other = (home + next) % nodes;
        let entry = &cache.state.sheaf_nodes[other];
        got = from_own(cache, entry, cpu, out);
        if got == 0 {
            got = from_others(cache, entry, cpu, Taker::Last, out);
        }
        if got == 0 && other != home {
            got = sparse::refill(entry, out);
        }
        if got == 0 && other != home {
            got = from_new_slabs(cache, NodeId(other as u8), cpu, out);
        }
        next += 1;
    }
    got
}

/// Takes objects of other nodes' partial slabs, if the nodes have more than they keep.
#[inline(never)]
#[place(cold)]
fn from_other_nodes(cache: &'static RawCache, home: usize, cpu: CpuId, out: &mut [usize]) -> usize {
    let nodes = cache.state.sheaf_nodes.len();
    let others = (1..nodes).map(|next| &cache.state.sheaf_nodes[(home + next) % nodes]);
    others
        .filter(|node| node.slabs.has_to_spare(cache.slabs.min_partial()))
        .map(|node| from_own(cache, node, cpu, out))
        .find(|&n| n > 0)
        .unwrap_or(0)
}

/// Fills `out` from its start with objects of slabs on a partial list.
#[inline(never)]
fn from_list(
    cache: &'static RawCache,
    node: &'static SheafNode,
    list: usize,
    taker: Taker,
    out: &mut [usize],
) -> usize {
    let list = &node.slabs.lists[list];
    let mut got = 0;
    while got < out.len() {
        let mut taken = [Taken::NOTHING; BATCH];
        let need = out.len() - got;
        let (slabs, _) = list.take(&MEMMAP, taker, need, &mut taken);
        if slabs == 0 {
            break;
        }
        got += gather(cache, node, &taken[..slabs], &mut out[got..]);
    }
    got
}

/// The walk along one slab's freelist.
#[derive(Clone, Copy)]
struct Walk<'a> {
    cache: &'a RawCache,
    base: usize,
    limit: u16,
    /// The next object, and the number of objects from it on.
    rest: Chain,
    /// The range of `out` that this walk has filled so far.
    from: usize,
    to: usize,
    is_corrupt: bool,
}

impl<'a> Walk<'a> {
    fn new(cache: &'a RawCache, taken: &Taken, from: usize) -> Self {
        let base = MEMMAP.address_of(taken.page);
        let limit = MEMMAP.head(taken.page).objects();
        let walk = Self { cache, base, limit, rest: taken.chain, from, to: from, is_corrupt: false };
        if walk.rest.count > 0 {
            prefetch(walk.link_at(walk.rest.head));
        }
        walk
    }

    fn link_at(&self, index: u16) -> usize {
        self.base + usize::from(index) * self.cache.slabs.geometry.stride + self.cache.slabs.geometry.link_offset
    }

    fn next_of(&self, index: u16) -> Result<u16, CorruptLink> {
        // SAFETY: the freelist was taken together with the slab's state word, so this thread owns
        // its objects. Each index was checked against the slab's number of objects when its link
        // was decoded.
        unsafe { read_link(self.link_at(index), self.cache.slabs.secret, self.limit) }
    }

    /// Takes one object. Ends the walk, after a report, if its index or its link is corrupt.
    fn step(&mut self, out: &mut [usize]) {
        let index = self.rest.head;
        if index >= self.limit {
            return self.end(None);
        }
        out[self.to] = self.base + usize::from(index) * self.cache.slabs.geometry.stride;
        self.to += 1;
        match self.next_of(index) {
            Ok(next) => {
                self.rest = Chain { head: next, count: self.rest.count - 1 };
                if self.rest.count > 0 {
                    prefetch(self.link_at(next));
                }
            }
            Err(bad) => self.end(Some(bad.at)),
        }
    }

    /// Ends the walk, after a report of the corrupt freelist, or of the corrupt link at `link`.
    fn end(&mut self, link: Option<usize>) {
        report_corrupt(self.cache, self.base, link);
        self.rest.count = 0;
        self.is_corrupt = true;
    }
}

/// Turns the objects taken from slabs into addresses, in ascending order for each slab. Returns
/// their number. Surplus objects go back to their slab.
///
/// The freelists are walked side by side: the objects are mostly cold, and each holds the only link
/// to the next.
fn gather(cache: &'static RawCache, node: &SheafNode, taken: &[Taken], out: &mut [usize]) -> usize {
    let mut walks =
        [Walk { cache, base: 0, limit: 0, rest: Taken::NOTHING.chain, from: 0, to: 0, is_corrupt: false }; BATCH];
    let mut from = 0;
    for (walk, taken) in walks.iter_mut().zip(taken) {
        *walk = Walk::new(cache, taken, from);
        from += usize::from(taken.chain.count + taken.fresh);
    }
    let walks = &mut walks[..taken.len()];
    loop {
        let mut ended = true;
        for walk in &mut *walks {
            if walk.rest.count > 0 && walk.to < out.len() {
                walk.step(out);
                ended = false;
            }
        }
        if ended {
            break;
        }
    }
    let mut got = 0;
    for (walk, taken) in walks.iter().zip(taken) {
        // Moves nothing unless an earlier walk ended at a corrupt freelist.
        out.copy_within(walk.from..walk.to, got);
        let len = walk.to - walk.from;
        locality::sort(&cache.slabs.geometry, walk.base, &mut out[got..got + len]);
        got += len;
        if walk.is_corrupt {
            node.slabs.list_of(taken.page).quarantine(&MEMMAP, taken.page);
            continue;
        }
        if walk.rest.count > 0 {
            give_back(node, taken.page, walk);
        }
        for fresh in taken.first_fresh..taken.first_fresh + taken.fresh {
            out[got] = cache.slabs.carve(walk.base + usize::from(fresh) * cache.slabs.geometry.stride);
            got += 1;
        }
    }
    got
}

/// Reports a corrupt freelist of the slab at `base`, or the address of its corrupt link.
#[cold]
#[inline(never)]
#[place(cold)]
fn report_corrupt(cache: &RawCache, base: usize, link: Option<usize>) {
    match link {
        Some(at) => report::corrupt_link(cache.name(), at),
        None => report::corrupt_freelist(cache.name(), base),
    }
}

/// Pushes the rest of a freelist back onto its slab's freelist. Its objects are linked already.
#[inline(never)]
fn give_back(node: &SheafNode, page: PageIndex, walk: &Walk<'_>) {
    let (cache, chain) = (walk.cache, walk.rest);
    let link = |prior: u16| {
        let mut last = chain.head;
        for _ in 1..chain.count {
            match walk.next_of(last) {
                Ok(next) if next != NO_OBJECT => last = next,
                _ => return report_corrupt(cache, walk.base, None),
            }
        }
        // SAFETY: `last` is a free object of the chain, which this thread owns until it is
        // published.
        unsafe { write_link(walk.link_at(last), cache.slabs.secret, prior) };
    };
    let min_partial = cache.slabs.min_partial_of_list();
    let list = node.slabs.list_of(page);
    let outcome = list.give_back(&MEMMAP, page, chain, min_partial, cache.slabs.ctor.is_none(), link);
    if outcome == Freed::Discard {
        discard(node.slabs, &[page]);
    }
}

fn from_new_slabs(cache: &'static RawCache, node: NodeId, cpu: CpuId, out: &mut [usize]) -> usize {
    let list = cache.slabs.list_of_cpu(cpu);
    let mut got = 0;
    while got < out.len() {
        let per_slab = usize::from(cache.slabs.geometry.objects(cache.slabs.geometry.order)).max(1);
        let want = (out.len() - got).div_ceil(per_slab).min(BATCH);
        let mut runs = [PageRun { first: PageIndex::NONE, zeroed: false }; BATCH];
        let mut order = cache.slabs.geometry.order;
        let mut slabs = ZONE.alloc_many(node, order, want, &mut runs);
        if slabs == 0 && cache.slabs.geometry.min_order != order {
            order = cache.slabs.geometry.min_order;
            slabs = ZONE.alloc_many(node, order, 1, &mut runs);
        }
        if slabs == 0 {
            break;
        }
        for run in &runs[..slabs] {
            let first = got;
            got += open_slab(cache, node, list, (run.first, order), &mut out[got..]);
            debug_assert!(got > first, "a slab holds an object");
        }
        let entry = &cache.slabs.nodes[usize::from(node.0)];
        if order != cache.slabs.geometry.order {
            entry.counters.count_fallback(slabs);
        }
        entry.counters.count_taken(slabs, slabs * usize::from(cache.slabs.geometry.objects(order)));
    }
    got
}

/// Makes a run of pages a slab of a partial list, and carves as many objects from it as fit into
/// `out`.
fn open_slab(
    cache: &'static RawCache,
    node: NodeId,
    list: u8,
    (page, order): (PageIndex, Order),
    out: &mut [usize],
) -> usize {
    let wanted = out.len();
    let carved_of = |objects: u16| usize::from(objects).min(wanted) as u16;
    let carved_now = |objects| SlabState::carved_from_fresh(carved_of(objects));
    let objects = cache.slabs.open_slab(page, order, node, carved_now);
    MEMMAP.head(page).set_list(list);
    let carved = carved_of(objects);
    let base = MEMMAP.address_of(page);
    for (index, place) in out[..usize::from(carved)].iter_mut().enumerate() {
        *place = cache.slabs.carve(base + index * cache.slabs.geometry.stride);
    }
    if carved < objects {
        cache.slabs.nodes[usize::from(node.0)].lists[usize::from(list)].add_new(&MEMMAP, page);
    }
    usize::from(carved)
}
