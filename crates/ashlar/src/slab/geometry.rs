//! Geometry of a cache's slabs: order, stride, number of objects, place of the free link.
//!
//! Source of every rule: the kernel's `calculate_order`, `calculate_sizes` and
//! `calculate_alignment`.

use crate::base::error::CreateError;
use crate::base::units::{BLOCK_ORDER, BLOCK_SIZE, CACHE_LINE, MAX_OBJECTS_PER_SLAB, Order, PAGE_SIZE, align_up};

/// Largest object that a cache can hold, in bytes: one huge-page block.
pub const MAX_OBJECT_SIZE: usize = BLOCK_SIZE;
/// Bytes of a free link; also the smallest stride and alignment.
pub(crate) const LINK_BYTES: usize = 8;

/// Limits of the order rule, named as the kernel's boot parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrderRule {
    /// `slab_min_order`: the smallest order of a slab (0 to 9).
    pub min_order: u8,
    /// `slab_max_order`: the largest order of a slab, unless one object needs more (0 to 9).
    pub max_order: u8,
    /// `slab_min_objects`: objects that a slab should hold; 0 derives it from the number of CPUs.
    pub min_objects: u32,
}

impl OrderRule {
    /// The kernel's defaults.
    pub(crate) const DEFAULT: OrderRule = OrderRule { min_order: 0, max_order: 3, min_objects: 0 };
}

/// Returns the order of slabs for objects of `size` bytes on a machine with `cpus` CPUs.
pub(crate) fn calculate_order(size: usize, rule: OrderRule, cpus: u32) -> Order {
    let wanted = match rule.min_objects {
        0 => 4 * (32 - cpus.max(1).leading_zeros() + 1),
        n => n,
    } as usize;
    let max_objects = ((PAGE_SIZE << rule.max_order) / size).max(1);
    let min_objects = wanted.min(max_objects);
    let order_of = |bytes: usize| Order::for_bytes(bytes).0;
    let mut min_order = rule.min_order.max(order_of(min_objects * size));
    if (PAGE_SIZE << min_order) / size > MAX_OBJECTS_PER_SLAB {
        min_order = order_of(size * MAX_OBJECTS_PER_SLAB) - 1;
    }
    for fraction in [16, 8, 4, 2] {
        for order in min_order..=rule.max_order {
            let slab = PAGE_SIZE << order;
            if slab >= size && slab % size <= slab / fraction {
                return Order(order);
            }
        }
    }
    Order(order_of(size))
}

/// Where a slab of SLAB records its free objects: the engine `slab` in an array of their indices,
/// the engine `slab24` in a chain behind the slab's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexArray {
    /// There is no array: free objects are linked.
    None,
    /// In the free object that will be allocated last.
    InObject,
    /// Outside, in metadata memory.
    OffSlab,
    /// At the end of the slab.
    OnSlab,
    /// A chain at the start of the slab.
    ChainOnSlab,
    /// A chain outside, in metadata memory.
    ChainOffSlab,
}

impl IndexArray {
    /// Returns whether slabs have a descriptor and a chain.
    #[inline]
    pub(crate) const fn is_chain(self) -> bool {
        matches!(self, IndexArray::ChainOnSlab | IndexArray::ChainOffSlab)
    }
}

/// How the objects of a cache lie in its slabs. Constant over the cache's life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Usable bytes of an object.
    pub(crate) object_size: usize,
    /// Bytes from one object to the next.
    pub(crate) stride: usize,
    pub(crate) align: usize,
    /// Offset of the free link in a free object.
    pub(crate) link_offset: usize,
    /// The order to try first.
    pub(crate) order: Order,
    /// The order that holds one object, to try when the first is refused.
    pub(crate) min_order: Order,
    /// Most objects in a slab of any order.
    pub(crate) max_objects: u16,
    pub(crate) array: IndexArray,
    /// Bytes between the starts of slabs of neighbouring colours, and the number of colours; 0 and
    /// 1 without colours.
    pub(crate) colour_off: usize,
    pub(crate) colours: usize,
    /// 2^32 / stride, rounded up, to divide by multiplication.
    reciprocal: u64,
}

impl Geometry {
    /// Computes the geometry. An `align` of 0 is the default. `constructed` objects have their free
    /// link after the object.
    pub(crate) fn new(
        object_size: usize,
        align: usize,
        hwcache_align: bool,
        constructed: bool,
        rule: OrderRule,
        cpus: u32,
    ) -> Result<Geometry, CreateError> {
        if object_size == 0 || object_size > MAX_OBJECT_SIZE {
            return Err(CreateError::Size);
        }
        if align != 0 && (!align.is_power_of_two() || align > PAGE_SIZE) {
            return Err(CreateError::Align);
        }
        let mut align = align.max(LINK_BYTES);
        if hwcache_align {
            let mut line = CACHE_LINE;
            while object_size <= line / 2 {
                line /= 2;
            }
            align = align.max(line);
        }
        let body = align_up(object_size, LINK_BYTES);
        let (link_offset, used) = if constructed {
            (body, body + LINK_BYTES)
        } else {
            // A link in the middle of the object survives small over- and underflows of its
            // neighbours.
            ((object_size / 2) & !(LINK_BYTES - 1), body)
        };
        let stride = align_up(used, align);
        if stride > MAX_OBJECT_SIZE {
            return Err(CreateError::Size);
        }
        let order = calculate_order(stride, rule, cpus);
        if order.0 > BLOCK_ORDER {
            return Err(CreateError::Size);
        }
        Ok(Geometry {
            object_size,
            stride,
            align,
            link_offset,
            order,
            min_order: Order::for_bytes(stride),
            max_objects: MAX_OBJECTS_PER_SLAB as u16,
            array: IndexArray::None,
            colour_off: 0,
            colours: 1,
            reciprocal: (1u64 << 32).div_ceil(stride as u64),
        })
    }

    /// Returns whether slabs of this geometry can hold the objects of a cache with the geometry
    /// `wanted` and no constructor.
    ///
    /// These are the kernel's rules of merging (`find_mergeable`). The wanted size, rounded up,
    /// loses less than a word, and each object lies on a multiple of the wanted alignment. Slabs
    /// start on pages, so it suffices that the stride is such a multiple. If slabs have colours
    /// (`coloured`, the engine `slab`), their alignment must be a multiple too.
    pub(crate) fn serves(&self, wanted: &Geometry, coloured: bool) -> bool {
        let size = align_up(align_up(wanted.object_size, LINK_BYTES), wanted.align);
        size <= self.stride
            && self.stride - size < LINK_BYTES
            && self.stride.is_multiple_of(wanted.align)
            && (!coloured || self.align.is_multiple_of(wanted.align))
    }

    /// Returns the number of objects in a slab of `order`.
    pub(crate) const fn objects(&self, order: Order) -> u16 {
        let n = order.bytes() / self.stride;
        if n > self.max_objects as usize { self.max_objects } else { n as u16 }
    }

    /// Returns the object that starts `offset` bytes into its slab, or `None` if no object starts
    /// there.
    ///
    /// Exact because `offset` is below 2^21 and the reciprocal is off by less than one part in
    /// 2^32.
    #[inline]
    pub(crate) const fn index_of(&self, offset: usize) -> Option<u16> {
        let index = (offset as u64 * self.reciprocal) >> 32;
        if index as usize * self.stride == offset { Some(index as u16) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Orders by number of CPUs for some sizes, computed by the kernel's rule.
    #[test]
    #[cfg_attr(any(feature = "page-16k", feature = "page-64k"), ignore = "a table for pages of 4 KiB")]
    fn orders_are_the_kernels() {
        let sizes = [8, 16, 32, 64, 96, 128, 192, 256, 512, 700, 1024, 2048, 3000, 4096, 8192];
        let rows: [(u32, [u8; 15]); 6] = [
            (1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 3]),
            (2, [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 3]),
            (4, [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 3]),
            (8, [0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 3]),
            (16, [0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 3, 3]),
            (64, [0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 3, 3]),
        ];
        for (cpus, orders) in rows {
            for (size, order) in sizes.into_iter().zip(orders) {
                assert_eq!(calculate_order(size, OrderRule::DEFAULT, cpus).0, order, "size {size}, {cpus} CPUs");
            }
        }
    }

    #[test]
    fn order_options_are_obeyed() {
        let rule = OrderRule { min_order: 2, ..OrderRule::DEFAULT };
        assert_eq!(calculate_order(64, rule, 2).0, 2);
        let rule = OrderRule { max_order: 0, ..OrderRule::DEFAULT };
        assert_eq!(calculate_order(PAGE_SIZE / 4, rule, 2).0, 0);
        let rule = OrderRule { min_objects: 20, ..OrderRule::DEFAULT };
        assert_eq!(calculate_order(PAGE_SIZE / 8, rule, 2).0, 2);
    }

    #[test]
    fn links_of_constructed_objects_are_outside() {
        let g = Geometry::new(24, 0, false, true, OrderRule::DEFAULT, 2).unwrap();
        assert_eq!((g.link_offset, g.stride), (24, 32));
        let g = Geometry::new(24, 0, false, false, OrderRule::DEFAULT, 2).unwrap();
        assert_eq!((g.link_offset, g.stride), (8, 24));
    }

    #[test]
    fn hwcache_align_halves_for_small_objects() {
        let align = |size| Geometry::new(size, 0, true, false, OrderRule::DEFAULT, 2).unwrap().align;
        assert_eq!((align(100), align(33), align(32), align(16), align(4)), (64, 64, 32, 16, 8));
    }

    #[test]
    fn bad_sizes_and_alignments_are_refused() {
        let new = |size, align| Geometry::new(size, align, false, false, OrderRule::DEFAULT, 2).map(|_| ());
        assert_eq!(new(0, 0), Err(CreateError::Size));
        assert_eq!(new(MAX_OBJECT_SIZE + 1, 0), Err(CreateError::Size));
        assert_eq!(new(8, 24), Err(CreateError::Align));
        assert_eq!(new(8, 2 * PAGE_SIZE), Err(CreateError::Align));
        assert_eq!(new(MAX_OBJECT_SIZE, PAGE_SIZE), Ok(()));
    }

    proptest! {
        #[test]
        fn index_of_is_exact_division(size in 1usize..=MAX_OBJECT_SIZE, offset in 0usize..BLOCK_SIZE) {
            let g = Geometry::new(size, 0, false, false, OrderRule::DEFAULT, 2).unwrap();
            let expected = offset.is_multiple_of(g.stride).then_some((offset / g.stride) as u16);
            if offset / g.stride < MAX_OBJECTS_PER_SLAB {
                prop_assert_eq!(g.index_of(offset), expected);
            }
            prop_assert!(g.objects(g.order) >= 1);
            prop_assert!(g.link_offset + LINK_BYTES <= g.stride && g.link_offset.is_multiple_of(LINK_BYTES));
        }
    }
}
