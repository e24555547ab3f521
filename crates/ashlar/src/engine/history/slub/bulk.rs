//! Bulk operations of the stage of 2015: whole freelists of the CPU, and detached freelists.
#![allow(unsafe_code, reason = "reads and writes links")]

use super::free::{self, finish_free, push_chain};
use super::local::{self, FreedObject, exchange, read, switches};
use super::places::NO_SLAB;
use crate::base::report;
use crate::base::sync::Ordering;
use crate::base::units::PageIndex;
use crate::engine::{Objects, RawCache};
use crate::pages::memmap::MEMMAP;
use crate::slab::freelist::{read_link, write_link};
use crate::slab::partial::Chain;
use crate::slab::return_objects::slab_of;
use crate::slab::state::{NO_OBJECT, SlabState};

/// Fills `out` from this CPU's freelist. Returns the number filled.
#[place(cold)]
pub(super) fn take_local(cache: &'static RawCache, out: &mut [usize]) -> usize {
    let place = cache.state.places.slab;
    let Some(view) = read(cache, place) else { return 0 };
    let [head, base] = view.words;
    // Take the whole freelist before following it; then this thread owns it.
    if head >= usize::from(NO_OBJECT) || !exchange(cache, place, &view, [NO_SLAB[0], base]) {
        return 0;
    }
    let Some(page) = MEMMAP.page_of(base) else { return 0 };
    let objects = MEMMAP.head(page).objects();
    let (mut at, mut got) = (head as u16, 0);
    while got < out.len() && at < objects {
        // SAFETY: the freelist was taken off its CPU, so this thread owns the objects.
        match unsafe { read_link(local::link_at(cache, base, at), cache.slabs.secret, objects) } {
            Ok(next) => {
                out[got] = base + usize::from(at) * cache.slabs.geometry.stride;
                got += 1;
                at = next;
            }
            Err(_) => break,
        }
    }
    let emptied = local::Words { words: [NO_SLAB[0], base], ..view };
    if at != NO_OBJECT && !exchange(cache, place, &emptied, [usize::from(at), base]) {
        free::give_back(cache, switches(cache), page, at);
    }
    got
}

/// Objects of other slabs that the search for objects of one slab passes over before it ends. The
/// kernel's `lookahead` of 3 counts the one that ends it, too.
const LOOK_AHEAD: usize = 2;
/// Objects that are freed before others are looked at. A bit for each says whether it is.
const PART: usize = 256;

/// Frees objects as detached freelists, one compare-and-swap each.
#[place(cold)]
pub(super) fn free(objects: Objects<'_>) {
    let Objects { cache, addresses } = objects;
    for part in addresses.rchunks(PART) {
        cache.slabs.nodes[0].counters.count_flush();
        let mut freed = [0u64; PART / 64];
        let mut left = part.len();
        while left > 0 {
            left = free_last(cache, &part[..left], &mut freed);
        }
    }
}

/// A freelist under construction, of objects of one slab. Their links are written, but for the
/// last one's.
struct Detached {
    page: PageIndex,
    base: usize,
    objects: u16,
    /// Objects that are the first of a freelist of the slab already, which none of these may be.
    listed: [u16; 2],
    chain: Chain,
    last: u16,
    /// A bit for each object that is in it.
    seen: [u64; 8],
}

#[place(cold)]
impl Detached {
    fn of(cache: &'static RawCache, page: PageIndex) -> Detached {
        let (base, head) = (MEMMAP.address_of(page), MEMMAP.head(page));
        let on_cpu = local::is_cpu_slab(cache, base).then(|| read(cache, cache.state.places.slab)).flatten();
        let on_cpu = on_cpu.filter(|view| view.words[1] == base).map_or(NO_OBJECT, |view| view.words[0] as u16);
        // Until the chain is published this thread owns its objects, so no other thread can put
        // them there.
        let in_slab = SlabState(head.state.load(Ordering::Relaxed)).head();
        Detached {
            page,
            base,
            objects: head.objects(),
            listed: [in_slab, on_cpu],
            chain: Chain { head: NO_OBJECT, count: 0 },
            last: NO_OBJECT,
            seen: [0; 8],
        }
    }

    /// Adds an object of the slab at the front. Reports one that does not start where an object
    /// starts, or that is free already.
    fn add(&mut self, cache: &'static RawCache, object: usize) {
        let index = cache.slabs.geometry.index_of(object - self.base).filter(|&index| index < self.objects);
        let Some(index) = index else { return report::misaligned(cache.name(), object) };
        let mut twice = self.listed.contains(&index);
        if let Some(word) = self.seen.get_mut(usize::from(index) / 64) {
            let bit = 1u64 << (index % 64);
            twice |= *word & bit != 0;
            *word |= bit;
        }
        if twice {
            return report::double_free(cache.name(), object);
        }
        // SAFETY: the caller gives up the object, which is one of this slab and not free, so this
        // thread owns it until the chain is published.
        unsafe { write_link(local::link_at(cache, self.base, index), cache.slabs.secret, self.chain.head) };
        if self.chain.count == 0 {
            self.last = index;
        }
        self.chain = Chain { head: index, count: self.chain.count + 1 };
    }
}

/// Frees the last object that is not freed yet, together with those before it that are of its slab.
/// Returns the number of objects up to the last one that it passed over; 0 if it freed all.
#[place(cold)]
fn free_last(cache: &'static RawCache, objects: &[usize], freed: &mut [u64; PART / 64]) -> usize {
    let mut list: Option<Detached> = None;
    let (mut last_passed, mut passed) = (0, 0);
    for (at, &object) in objects.iter().enumerate().rev() {
        let (word, bit) = (&mut freed[at / 64], 1u64 << (at % 64));
        if *word & bit != 0 {
            continue;
        }
        match &mut list {
            None => {
                *word |= bit;
                let Some(page) = slab_of(&cache.slabs, object) else { continue };
                list.insert(Detached::of(cache, page)).add(cache, object);
            }
            // The first object's slab is the cache's, so this one is the cache's, too.
            Some(list) if MEMMAP.page_of(object).is_some_and(|page| MEMMAP.head_of(page) == list.page) => {
                *word |= bit;
                list.add(cache, object);
            }
            Some(_) => {
                if passed == 0 {
                    last_passed = at + 1;
                }
                if passed == LOOK_AHEAD {
                    break;
                }
                passed += 1;
            }
        }
    }
    if let Some(list) = list.filter(|list| list.chain.count > 0) {
        publish(cache, &list);
    }
    last_passed
}

/// Frees a detached freelist to this CPU's freelist, or to its slab.
#[place(cold)]
fn publish(cache: &'static RawCache, list: &Detached) {
    let Detached { page, base, chain, last, .. } = *list;
    let mut link = |prior| {
        // SAFETY: as in `Detached::add`.
        unsafe { write_link(local::link_at(cache, base, last), cache.slabs.secret, prior) };
    };
    if push_local(cache, page, chain, &mut link) {
        return;
    }
    let first = base + usize::from(chain.head) * cache.slabs.geometry.stride;
    let outcome = push_chain(cache, switches(cache), page, chain, link);
    finish_free(cache, FreedObject::new(cache, page, chain.head, first), outcome);
}

/// Pushes a chain onto this CPU's freelist if it belongs to the CPU slab, as the fast path does for
/// one object. The freelist may change and return to the same head between the read and the
/// exchange. That is harmless, because the chain links only to that head.
#[place(cold)]
fn push_local(cache: &'static RawCache, page: PageIndex, chain: Chain, mut link: impl FnMut(u16)) -> bool {
    let (place, base) = (cache.state.places.slab, MEMMAP.address_of(page));
    if !local::is_cpu_slab(cache, base) {
        return false;
    }
    while let Some(view) = read(cache, place) {
        let [head, own] = view.words;
        if own != base {
            return false;
        }
        link(head as u16);
        if exchange(cache, place, &view, [usize::from(chain.head), base]) {
            return true;
        }
    }
    false
}
