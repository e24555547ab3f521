//! The way of a slab's pages back to the page layer.

use super::node::Node;
use crate::base::units::{Order, PageIndex};
use crate::pages::memmap::{ClassWord, MEMMAP};
use crate::pages::zone::ZONE;
use crate::percpu;

/// Slabs given back under one zone lock.
const BATCH: usize = 16;

/// Gives empty slabs, all of one node, back to the zone.
pub(crate) fn discard(node: &Node, pages: &[PageIndex]) {
    discard_to(node, pages, |runs| ZONE.free_many(runs));
}

/// Gives an empty slab back to the page list of this CPU: for engines that take their slabs there, one at a time.
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
