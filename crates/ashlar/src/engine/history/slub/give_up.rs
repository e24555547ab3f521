//! Slabs that a CPU gives up, and its partial slabs, which wait for that.
#![allow(unsafe_code, reason = "links freelists")]

use super::chain::{chain_of, walk};
use super::local::{self, exchange, interrupts_off, protection, read, switches};
use super::partly;
use super::slabs::{self, Protection, Thawed};
use super::stage::Switches;
use crate::base::sync::Ordering;
use crate::base::units::{CpuId, PageIndex};
use crate::engine::{RawCache, tunable};
use crate::pages::memmap::MEMMAP;
use crate::slab::freelist::{read_link, write_link};
use crate::slab::state::{NO_OBJECT, SlabState};

/// Attempts at this CPU's words before an operation proceeds without them.
pub(super) const ATTEMPTS: usize = 8;
/// First bit of the tag in the words of partial slabs; the bits below count free objects.
const TAG: u32 = 32;

/// A slab frozen for the caller, with the freelist taken from it.
#[derive(Clone, Copy)]
pub(super) struct Fed {
    pub(super) page: PageIndex,
    pub(super) base: usize,
    pub(super) head: u16,
}

/// Gives up the CPU slab of `words`, which the caller alone owns, with the rest of its freelist.
/// `lock` is false if the caller holds a CPU lock already.
#[place(cold)]
pub(super) fn give_up(cache: &'static RawCache, switches: &Switches, words: [usize; 2], lock: bool) {
    let [head, base] = words;
    if base == 0 {
        return;
    }
    let Some(page) = MEMMAP.page_of(base) else { return };
    // A corrupt freelist leaves the slab frozen, in quarantine.
    let Some((chain, last)) = chain_of(cache, page, head as u16) else { return };
    let guard = if lock { interrupts_off(cache, switches) } else { None };
    let node = cache.slabs.node_of(page);
    let min_partial = cache.slabs.min_partial();
    let set_link = |object, prior| {
        // SAFETY: this thread owns the chain until it is published.
        unsafe { write_link(local::link_at(cache, base, object), cache.slabs.secret, prior) };
    };
    let outcome = match protection(switches) {
        Protection::Partly => {
            let limit = MEMMAP.head(page).objects();
            let next = |object| {
                // SAFETY: as above; `chain_of` has followed this link.
                unsafe { read_link(local::link_at(cache, base, object), cache.slabs.secret, limit) }
                    .unwrap_or(NO_OBJECT)
            };
            partly::thaw(node.list(), &MEMMAP, page, chain, min_partial, next, set_link)
        }
        protection => {
            let link = |prior| set_link(last, prior);
            slabs::thaw(node.list(), &MEMMAP, page, chain, min_partial, protection, link)
        }
    };
    drop(guard);
    if outcome == Thawed::Discard {
        crate::slab::discard::discard_one(node, page);
    }
}

/// Returns the number of free objects that a CPU's partial slabs may hold.
pub(super) fn cpu_partial(cache: &RawCache) -> usize {
    tunable(&cache.cpu_partial)
}

/// Makes a slab frozen for the caller one of this CPU's partial slabs. If `drains` is set and those
/// hold enough free objects already, all of them go to their nodes first.
#[place(cold)]
pub(super) fn put_cpu_partial(cache: &'static RawCache, page: PageIndex, drains: bool) {
    let switches = switches(cache);
    let place = cache.state.places.partial;
    let linked = usize::from(SlabState(MEMMAP.head(page).state.load(Ordering::Relaxed)).linked());
    for _ in 0..ATTEMPTS {
        let Some(view) = read(cache, place) else { continue };
        let [first, counted] = view.words;
        let tag = (counted >> TAG).wrapping_add(1) << TAG;
        let objects = counted & ((1 << TAG) - 1);
        if drains && first != 0 && objects > cpu_partial(cache) {
            if exchange(cache, place, &view, [0, tag]) {
                give_up_partial(cache, view.words);
            }
            continue;
        }
        let next = if first == 0 { PageIndex::NONE } else { PageIndex(first as u32 - 1) };
        MEMMAP.head(page).set_next(next);
        if exchange(cache, place, &view, [page.0 as usize + 1, tag | (objects + linked)]) {
            return;
        }
    }
    give_up(cache, switches, [usize::from(NO_OBJECT), MEMMAP.address_of(page)], true);
}

/// Takes the first of this CPU's partial slabs, with its freelist.
#[place(cold)]
pub(super) fn take_cpu_partial(cache: &'static RawCache, switches: &Switches) -> Option<Fed> {
    let place = cache.state.places.partial;
    for _ in 0..ATTEMPTS {
        let Some(view) = read(cache, place) else { continue };
        let [first, counted] = view.words;
        let page = PageIndex(u32::try_from(first.checked_sub(1)?).ok()?);
        let head = MEMMAP.head(page);
        // The tag changes if this slab left and came back meanwhile with another successor.
        let next = head.next();
        let linked = usize::from(SlabState(head.state.load(Ordering::Relaxed)).linked());
        let objects = (counted & ((1 << TAG) - 1)).saturating_sub(linked);
        let tag = (counted >> TAG).wrapping_add(1) << TAG;
        let (word, objects) = if next == PageIndex::NONE { (0, 0) } else { (next.0 as usize + 1, objects) };
        if exchange(cache, place, &view, [word, tag | objects]) {
            let chain = slabs::take_freelist(head, protection(switches));
            if chain.count > 0 {
                return Some(Fed { page, base: MEMMAP.address_of(page), head: chain.head });
            }
            give_up(cache, switches, [usize::from(NO_OBJECT), MEMMAP.address_of(page)], true);
        }
    }
    None
}

/// Gives up all partial slabs of a CPU, under one list_lock for each run of them on one node. The
/// caller alone owns their words.
#[place(cold)]
pub(super) fn give_up_partial(cache: &'static RawCache, words: [usize; 2]) {
    let mut page = words[0].checked_sub(1).map_or(PageIndex::NONE, |page| PageIndex(page as u32));
    while page != PageIndex::NONE {
        let node = cache.slabs.node_of(page);
        let of_node = |page| core::ptr::eq(cache.slabs.node_of(page), node);
        let (next, mut discards) = slabs::thaw_several(node.list(), &MEMMAP, page, of_node, cache.slabs.min_partial());
        while discards != PageIndex::NONE {
            let after = MEMMAP.head(discards).next();
            crate::slab::discard::discard_one(node, discards);
            discards = after;
        }
        page = next;
    }
}

/// Returns the number of free objects in the slabs of one CPU. Racy.
#[place(cold)]
pub(super) fn free_on(cache: &'static RawCache, cpu: CpuId) -> usize {
    /// Bounds the walk: a list that changes meanwhile may seem endless. No CPU has more partial
    /// slabs.
    const MOST: usize = 1 << 16;
    let places = cache.state.places;
    let word = |place, at| local::word(cpu, place, at).load(Ordering::Acquire);
    let of_slab = |page: PageIndex| {
        let head = MEMMAP.head(page);
        usize::from(SlabState(head.state.load(Ordering::Relaxed)).linked())
    };
    let mut free = 0;
    let (head, base) = (word(places.slab, 0), word(places.slab, 1));
    if let Some(page) = MEMMAP.page_of(base).filter(|_| base != 0) {
        free += of_slab(page);
        walk(cache, base, head as u16, MEMMAP.head(page).objects(), |_| free += 1);
    }
    let mut next = word(places.partial, 0).checked_sub(1).map(|page| PageIndex(page as u32));
    for _ in 0..MOST {
        let Some(page) = next else { break };
        free += of_slab(page);
        let after = MEMMAP.head(page).next();
        next = (after != PageIndex::NONE).then_some(after);
    }
    free
}
