//! Discarding: returns the pages of empty slabs to the page layer.

use super::node::Node;
use crate::base::units::{Order, PageIndex};
use crate::pages::memmap::{ClassWord, MEMMAP};
use crate::pages::zone::ZONE;
use crate::percpu;
use ashlar_macros::place;

/// Slabs returned under one zone lock.
const BATCH: usize = 16;

/// Returns empty slabs, all of one node, to the zone.
pub(crate) fn discard(node: &Node, pages: &[PageIndex]) {
    discard_to(node, pages, |runs| ZONE.free_many(runs));
}

/// Returns an empty slab to this CPU's page list. For engines that take their slabs there, one at a
/// time.
#[place(cold)]
pub(crate) fn discard_one(node: &Node, page: PageIndex) {
    discard_to(node, &[page], |runs| {
        runs.iter().any(|&(page, pages)| percpu::pages::free(page, Order(pages.trailing_zeros() as u8)))
    });
}

fn discard_to(node: &Node, pages: &[PageIndex], to: impl Fn(&[(PageIndex, usize)]) -> bool) {
    if pages.is_empty() {
        return;
    }
    let mut runs = [(PageIndex::NONE, 0usize); BATCH];
    let mut objects = 0;
    for part in pages.chunks(runs.len()) {
        for (run, &page) in runs.iter_mut().zip(part) {
            let head = MEMMAP.head(page);
            let count = 1usize << head.order();
            objects += usize::from(head.objects());
            MEMMAP.set_class(page, count, ClassWord::FREE, |_| ClassWord::FREE);
            *run = (page, count);
        }
        if to(&runs[..part.len()]) {
            crate::base::background::wake();
        }
    }
    node.counters.count_given(pages.len(), objects);
}

impl Node {
    /// Returns all empty slabs of the lists to the zone and sorts the rest. Returns the number of
    /// slabs that remain.
    #[place(background)]
    pub(crate) fn trim(&self) -> usize {
        for list in self.lists {
            loop {
                let mut empty = [PageIndex::NONE; 16];
                let count = list.take_empty(&MEMMAP, &mut empty);
                discard(self, &empty[..count]);
                if count < empty.len() {
                    break;
                }
            }
            list.lock().promote_fullest(&MEMMAP);
        }
        self.counters.slabs()
    }
}
