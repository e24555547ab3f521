//! Refill: from slabs to an array of object addresses.
//!
//! First the node's partial slabs, whole freelists at a time under one list_lock; then other nodes' partial
//! slabs; then new slabs. Freelists are walked after the lock is gone, so that a cold object never
//! lengthens the time under it, and handed out by address (`locality`). Carving a fresh slab touches no object at all.
#![allow(unsafe_code, reason = "walks freelists and calls constructors")]

use super::Node;
use super::locality;
use super::node::{Chain, Freed, Taken};
use crate::engine::{RawCache, defrags_now, tunable};
use crate::page::memmap::{ClassWord, MEMMAP, PageKind};
use crate::page::zone::{Run, ZONE};
use crate::report;
use crate::slab::freelist::{read_link, write_link};
use crate::slab::state::{NO_OBJECT, SlabState};
use crate::sync::{Ordering, prefetch};
use crate::units::{NodeId, Order, PageIndex};

/// Slabs handled in one go.
const BATCH: usize = 16;

const NOTHING: Taken =
    Taken { page: PageIndex::NONE, chain: Chain { head: NO_OBJECT, count: 0 }, first_fresh: 0, fresh: 0 };

/// Fills `out` from its start with objects for CPUs of `node`; how many were had.
pub(super) fn refill(cache: &'static RawCache, node: NodeId, out: &mut [usize]) -> usize {
    let nodes = cache.state.nodes.len();
    let home = usize::from(node.0) % nodes;
    cache.state.nodes[home].counters.count_refill();
    let mut got = from_partial(cache, &cache.state.nodes[home], out);
    if got == 0 && nodes > 1 && defrags_now(cache) {
        let others = (1..nodes).map(|next| &cache.state.nodes[(home + next) % nodes]);
        got = others
            .filter(|node| has_to_spare(cache, node))
            .map(|node| from_partial(cache, node, out))
            .find(|&n| n > 0)
            .unwrap_or(0);
    }
    if got < out.len() {
        got += from_new_slabs(cache, NodeId(home as u8), &mut out[got..]);
    }
    // Memory of other nodes is better than none; only then, so that objects stay local.
    let mut next = 1;
    while got == 0 && next < nodes {
        let other = (home + next) % nodes;
        got = from_partial(cache, &cache.state.nodes[other], out);
        if got == 0 {
            got = from_new_slabs(cache, NodeId(other as u8), out);
        }
        next += 1;
    }
    got
}

/// Whether a node has more partial slabs than it keeps: then others may take of them, by the kernel's rule.
pub(crate) fn has_to_spare(cache: &RawCache, node: &Node) -> bool {
    node.list.lock().count > tunable(&cache.min_partial)
}

fn from_partial(cache: &'static RawCache, node: &'static Node, out: &mut [usize]) -> usize {
    let mut got = 0;
    while got < out.len() {
        let mut taken = [NOTHING; BATCH];
        let (slabs, _) = node.list.take(&MEMMAP, out.len() - got, &mut taken);
        if slabs == 0 {
            break;
        }
        for taken in &taken[..slabs] {
            if taken.chain.count > 0 {
                let first = usize::from(taken.chain.head) * cache.geometry.stride;
                prefetch(MEMMAP.address_of(taken.page) + first + cache.geometry.link_offset);
            }
        }
        for taken in &taken[..slabs] {
            got += gather(cache, node, taken, &mut out[got..]);
        }
    }
    got
}

/// Turns what was taken from one slab into addresses, in ascending order. What does not fit goes back to the slab.
fn gather(cache: &'static RawCache, node: &Node, taken: &Taken, out: &mut [usize]) -> usize {
    let base = MEMMAP.address_of(taken.page);
    let stride = cache.geometry.stride;
    let limit = MEMMAP.head(taken.page).objects();
    let link_at = |index: u16| base + usize::from(index) * stride + cache.geometry.link_offset;
    let next_of = |index: u16| {
        // SAFETY: the freelist was taken with its slab's state word, so its objects are ours; each index was
        // checked against the slab's number of objects when its link was decoded.
        unsafe { read_link(link_at(index), cache.secret, limit) }
    };
    let mut got = 0;
    let mut index = taken.chain.head;
    let mut left = taken.chain.count;
    while left > 0 && got < out.len() {
        if index >= limit {
            report::corrupt_freelist(cache.name(), base);
            node.list.quarantine(&MEMMAP, taken.page);
            return got;
        }
        out[got] = base + usize::from(index) * stride;
        got += 1;
        left -= 1;
        index = match next_of(index) {
            Ok(next) => next,
            Err(bad) => {
                report::corrupt_link(cache.name(), bad.at);
                node.list.quarantine(&MEMMAP, taken.page);
                return got;
            }
        };
    }
    locality::sort(&cache.geometry, base, &mut out[..got]);
    if left > 0 {
        give_back(cache, node, taken.page, Chain { head: index, count: left }, &next_of, &link_at);
    }
    for fresh in taken.first_fresh..taken.first_fresh + taken.fresh {
        out[got] = carve(cache, base + usize::from(fresh) * stride);
        got += 1;
    }
    got
}

/// Puts the end of a freelist, which is linked already, back in front of its slab's freelist.
fn give_back(
    cache: &'static RawCache,
    node: &Node,
    page: PageIndex,
    chain: Chain,
    next_of: &impl Fn(u16) -> Result<u16, crate::slab::freelist::CorruptLink>,
    link_at: &impl Fn(u16) -> usize,
) {
    let link = |prior: u16| {
        let mut last = chain.head;
        for _ in 1..chain.count {
            match next_of(last) {
                Ok(next) if next != NO_OBJECT => last = next,
                _ => return report::corrupt_freelist(cache.name(), MEMMAP.address_of(page)),
            }
        }
        // SAFETY: `last` is a free object of the chain, which is ours until it is published.
        unsafe { write_link(link_at(last), cache.secret, prior) };
    };
    let min_partial = tunable(&cache.min_partial);
    let outcome = node.list.give_back(&MEMMAP, page, chain, min_partial, cache.ctor.is_none(), link);
    if outcome == Freed::Discard {
        super::discard(node, &[page]);
    }
}

/// Prepares an object that is carved for the first time.
#[inline]
pub(crate) fn carve(cache: &RawCache, object: usize) -> usize {
    if let Some(ctor) = cache.ctor {
        // SAFETY: the object is memory of its cache's size and alignment that nobody uses; the creator of the
        // cache promised a constructor for such memory.
        unsafe { ctor(object as *mut u8) };
    }
    object
}

/// The class word of a page of a slab of `cache`, `back` pages behind the first.
pub(crate) fn class_word(cache: &RawCache, back: usize) -> ClassWord {
    ClassWord::new(PageKind::Slab, cache.page_slot(), back)
}

fn from_new_slabs(cache: &'static RawCache, node: NodeId, out: &mut [usize]) -> usize {
    let mut got = 0;
    while got < out.len() {
        let per_slab = usize::from(cache.geometry.objects(cache.geometry.order)).max(1);
        let want = (out.len() - got).div_ceil(per_slab).min(BATCH);
        let mut runs = [Run { first: PageIndex::NONE, zeroed: false }; BATCH];
        let mut order = cache.geometry.order;
        let mut slabs = ZONE.alloc_many(node, order, want, &mut runs);
        if slabs == 0 && cache.geometry.min_order != order {
            order = cache.geometry.min_order;
            slabs = ZONE.alloc_many(node, order, 1, &mut runs);
        }
        if slabs == 0 {
            break;
        }
        for run in &runs[..slabs] {
            let first = got;
            got += open_slab(cache, node, run.first, order, &mut out[got..]);
            debug_assert!(got > first, "a slab holds an object");
        }
        let entry = &cache.state.nodes[usize::from(node.0)];
        if order != cache.geometry.order {
            entry.counters.count_fallback(slabs);
        }
        entry.counters.count_taken(slabs, slabs * usize::from(cache.geometry.objects(order)));
    }
    got
}

/// Makes a run of pages a slab and carves from it what fits into `out`.
fn open_slab(cache: &'static RawCache, node: NodeId, page: PageIndex, order: Order, out: &mut [usize]) -> usize {
    let objects = cache.geometry.objects(order);
    let carved = usize::from(objects).min(out.len()) as u16;
    let head = MEMMAP.head(page);
    head.init(core::ptr::from_ref(cache) as usize, objects, order.0, node.0);
    head.state.store(SlabState::carved_from_fresh(carved).0, Ordering::Release);
    let word = |back| class_word(cache, back);
    MEMMAP.set_class(page, order.pages(), word(0), word);
    let base = MEMMAP.address_of(page);
    for (index, place) in out[..usize::from(carved)].iter_mut().enumerate() {
        *place = carve(cache, base + index * cache.geometry.stride);
    }
    if carved < objects {
        cache.state.nodes[usize::from(node.0)].list.add_new(&MEMMAP, page);
    }
    usize::from(carved)
}
