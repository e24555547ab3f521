//! [`Slabs`]: the slabs of one cache, as lists need them; and the beginning and the end of a slab.
//!
//! Lock: a slab's record of free objects changes under list_lock alone.
#![cfg_attr(not(ashlar_loom), allow(unsafe_code, reason = "gives records back"))]

use super::chain;
use super::index_array;
#[cfg(not(ashlar_loom))]
use super::layout;
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
        let array = self.array();
        if array.is_chain() {
            return chain::take(self.slab(page), want, take);
        }
        index_array::take(self.slab(page), want, array == IndexArray::InObject, take)
    }

    /// Returns an object to its slab.
    fn put_object(&self, page: PageIndex, index: usize, object: usize) -> Put {
        if self.array().is_chain() {
            return chain::put(self.slab(page), index);
        }
        index_array::put(self.slab(page), index, object)
    }

    /// Makes `place` the record of a slab whose objects are all free.
    fn fill(&self, page: PageIndex, place: usize) {
        if self.array().is_chain() {
            return chain::fill(self.slab(page), place);
        }
        index_array::fill(self.slab(page), place);
    }

    /// The indices of a slab's free objects, for models that check them.
    #[cfg(ashlar_loom)]
    fn free_indices(&self, page: PageIndex) -> std::vec::Vec<usize> {
        if self.array().is_chain() {
            return chain::free_indices(self.slab(page));
        }
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

/// Bytes of the record of a slab.
#[cfg(not(ashlar_loom))]
fn record_bytes(cache: &CacheSlabs) -> usize {
    let bytes = if cache.geometry.array.is_chain() { chain::descriptor_bytes } else { index_array::array_bytes };
    bytes(cache.objects())
}

/// Sets up the colour and the record of a fresh slab with all objects free; false when there is no
/// memory for the record.
#[cfg(not(ashlar_loom))]
#[place(cold)]
pub(super) fn open_slab(cache: &CacheSlabs, page: PageIndex, colour: usize) -> bool {
    let geometry = &cache.geometry;
    let (slab, objects, bytes) = (cache.address_of(page), cache.objects(), record_bytes(cache));
    cache.head(page).set_colour(colour + layout::bytes_before_objects(geometry));
    let record = match geometry.array {
        IndexArray::OffSlab | IndexArray::ChainOffSlab => match super::pool::take_record(bytes) {
            Some(record) => record,
            None => return false,
        },
        IndexArray::OnSlab => (slab + geometry.order.bytes() - bytes) & !(index_array::index_bytes(objects) - 1),
        IndexArray::ChainOnSlab => slab + colour,
        IndexArray::InObject | IndexArray::None => cache.first_object(page) + (objects - 1) * cache.stride(),
    };
    cache.fill(page, record);
    true
}

/// Gives a slab without live objects, which is on no list, back to the zone.
#[cfg(not(ashlar_loom))]
#[place(cold)]
pub(super) fn destroy_slab(cache: &CacheSlabs, page: PageIndex) {
    if matches!(cache.geometry.array, IndexArray::OffSlab | IndexArray::ChainOffSlab) {
        let (_, record) = cache.slab(page).word();
        // SAFETY: the record came from `take_record` with the same number of bytes when the slab
        // was opened, and the slab ends here.
        unsafe { super::pool::give_record(record, record_bytes(cache)) };
    }
    crate::slab::discard::discard_one(cache.node_of(page), page);
}
