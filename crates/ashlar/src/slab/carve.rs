//! Carving: turns a run of pages into a slab, and the slab's memory into objects.
#![allow(unsafe_code, reason = "calls constructors")]

use super::cache::CacheSlabs;
use super::state::SlabState;
use crate::base::sync::Ordering;
use crate::base::units::{NodeId, Order, PageIndex};
use crate::pages::memmap::MEMMAP;

impl CacheSlabs {
    /// Prepares an object that is carved for the first time, and returns it.
    #[inline]
    pub(crate) fn carve(&self, object: usize) -> usize {
        if let Some(ctor) = self.ctor {
            // SAFETY: the object is memory of its cache's size and alignment that the caller owns.
            // By the contract of `Constructor::new`, the function constructs such memory, and the
            // creation of the cache compared size and alignment.
            unsafe { ctor(object as *mut u8) };
        }
        object
    }

    /// Writes the head and the class words of a fresh run of pages that becomes a slab of this
    /// cache in `state`. Returns the number of its objects.
    ///
    /// The caller owns the run. A thread that gets an object of the slab sees these words, because
    /// the hand-over of the object orders them.
    pub(crate) fn open_slab(
        &self,
        page: PageIndex,
        order: Order,
        node: NodeId,
        state: impl Fn(u16) -> SlabState,
    ) -> u16 {
        let objects = self.geometry.objects(order);
        let head = MEMMAP.head(page);
        head.init(self.owner_word(), objects, order.0, node.0);
        head.state.store(state(objects).0, Ordering::Release);
        self.set_class_words(page, order, node);
        objects
    }
}
