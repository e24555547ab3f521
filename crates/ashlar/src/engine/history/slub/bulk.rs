//! Bulk operations of the stage of 2015: whole freelists of the CPU, and detached freelists.
#![allow(unsafe_code, reason = "reads and writes links")]

use super::free::{self, Outcome, finish_free, push_chain};
use super::local::{self, exchange, read, switches};
use super::places::NO_SLAB;
use crate::base::units::PageIndex;
use crate::engine::{Objects, RawCache};
use crate::pages::memmap::MEMMAP;
use crate::slab::freelist::read_link;
use crate::slab::node::Node;
use crate::slab::partial::{Chain, Freed};
use crate::slab::return_objects::{Sink, return_objects_to};
use crate::slab::state::NO_OBJECT;

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

/// Frees objects as detached freelists, one compare-and-swap a slab.
pub(super) fn free(objects: Objects<'_>) {
    let Objects { cache, addresses } = objects;
    return_objects_to(&cache.slabs, addresses, &mut ToSlabs(cache));
}

/// The sink for groups of objects: their slabs.
struct ToSlabs(&'static RawCache);

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

#[place(cold)]
impl Sink for ToSlabs {
    fn first_on_cpu(&self, page: PageIndex) -> Option<u16> {
        let base = MEMMAP.address_of(page);
        let view = local::is_cpu_slab(self.0, base).then(|| read(self.0, self.0.state.places.slab)).flatten()?;
        (view.words[1] == base).then_some(view.words[0] as u16)
    }

    fn push_chain(&mut self, _node: &Node, page: PageIndex, chain: Chain, mut link: impl FnMut(u16)) -> Freed {
        if push_local(self.0, page, chain, &mut link) {
            return Freed::Kept;
        }
        match push_chain(self.0, switches(self.0), page, chain, link) {
            Outcome::Freed(freed) => freed,
            frozen => {
                let first = MEMMAP.address_of(page) + usize::from(chain.head) * self.0.slabs.geometry.stride;
                finish_free(self.0, local::FreedObject::new(self.0, page, chain.head, first), frozen);
                Freed::Kept
            }
        }
    }
}
