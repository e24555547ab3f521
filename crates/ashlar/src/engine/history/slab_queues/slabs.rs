//! [`Slabs`]: the slabs of one cache, as lists need them; and the beginning and the end of a slab.
//!
//! Lock: a slab's record of free objects changes under list_lock alone.
#![cfg_attr(not(ashlar_loom), allow(unsafe_code, reason = "gives index arrays back"))]

use super::index_array;
use super::record::{Put, SlabRef, Taken};
use crate::base::units::PageIndex;
use crate::slab::geometry::IndexArray;
use crate::slab::partial::Heads;
#[cfg(not(ashlar_loom))]
use crate::{
    pages::{head::PageHead, memmap::MEMMAP},
    slab::cache::CacheSlabs,
};

/// The slabs of a cache: the cache itself, or a few slabs of a model.
pub(crate) trait Slabs: Heads {
    /// Objects in a slab.
    fn objects(&self) -> usize;
    /// Bytes from one object to the next.
    fn stride(&self) -> usize;
    /// Where a slab records its free objects.
    fn array(&self) -> IndexArray;
    /// The address of a slab.
    fn address_of(&self, page: PageIndex) -> usize;
    /// The address of its first object.
    fn first_object(&self, page: PageIndex) -> usize;
    /// The slab and the index of an object.
    fn find(&self, object: usize) -> Option<(PageIndex, usize)>;

    /// Returns one slab.
    fn slab(&self, page: PageIndex) -> SlabRef<'_> {
        SlabRef { head: self.head(page), address: self.address_of(page), objects: self.objects() }
    }

    /// Takes up to `want` objects from a slab, and passes the address of each to `take`.
    fn take_objects(&self, page: PageIndex, want: usize, mut take: impl FnMut(usize)) -> Taken {
        let (first, stride) = (self.first_object(page), self.stride());
        let take = |index| take(first + index * stride);
        index_array::take(self.slab(page), want, self.array() == IndexArray::InObject, take)
    }

    /// Returns an object to its slab.
    fn put_object(&self, page: PageIndex, index: usize, object: usize) -> Put {
        index_array::put(self.slab(page), index, object)
    }

    /// Makes `place` the record of a slab whose objects are all free.
    fn fill(&self, page: PageIndex, place: usize) {
        index_array::fill(self.slab(page), place);
    }

    /// The indices of a slab's free objects, for models that check them.
    #[cfg(ashlar_loom)]
    fn free_indices(&self, page: PageIndex) -> std::vec::Vec<usize> {
        index_array::free_indices(self.slab(page))
    }
}

#[cfg(not(ashlar_loom))]
impl Heads for CacheSlabs {
    fn head(&self, page: PageIndex) -> &PageHead {
        MEMMAP.head(page)
    }
}

#[cfg(not(ashlar_loom))]
impl Slabs for CacheSlabs {
    fn objects(&self) -> usize {
        usize::from(self.geometry.max_objects)
    }

    fn stride(&self) -> usize {
        self.geometry.stride
    }

    fn array(&self) -> IndexArray {
        self.geometry.array
    }

    fn address_of(&self, page: PageIndex) -> usize {
        MEMMAP.address_of(page)
    }

    fn first_object(&self, page: PageIndex) -> usize {
        MEMMAP.address_of(page) + MEMMAP.head(page).colour()
    }

    fn find(&self, object: usize) -> Option<(PageIndex, usize)> {
        let page = MEMMAP.page_of(object)?;
        let page = PageIndex(page.0 - MEMMAP.class_of(page).back());
        let index = self.geometry.index_of(object - self.first_object(page))?;
        Some((page, usize::from(index)))
    }
}

/// Sets up the index array of a fresh slab with all objects free; false when there is no memory for
/// it.
#[cfg(not(ashlar_loom))]
#[place(cold)]
pub(super) fn open_slab(cache: &CacheSlabs, page: PageIndex) -> bool {
    let objects = cache.objects();
    let bytes = index_array::array_bytes(objects);
    let array = match cache.geometry.array {
        IndexArray::OffSlab => match super::pool::take_indices(bytes) {
            Some(array) => array,
            None => return false,
        },
        IndexArray::OnSlab => {
            (cache.address_of(page) + cache.geometry.order.bytes() - bytes) & !(index_array::index_bytes(objects) - 1)
        }
        IndexArray::InObject | IndexArray::None => cache.first_object(page) + (objects - 1) * cache.stride(),
    };
    cache.fill(page, array);
    true
}

/// Gives a slab without live objects, which is on no list, back to the zone.
#[cfg(not(ashlar_loom))]
#[place(cold)]
pub(super) fn destroy_slab(cache: &CacheSlabs, page: PageIndex) {
    if cache.geometry.array == IndexArray::OffSlab {
        let (_, array) = cache.slab(page).word();
        // SAFETY: the array came from `take_indices` with the same number of bytes when the slab
        // was opened, and the slab ends here.
        unsafe { super::pool::give_indices(array, index_array::array_bytes(cache.objects())) };
    }
    crate::slab::discard::discard_one(cache.node_of(page), page);
}
