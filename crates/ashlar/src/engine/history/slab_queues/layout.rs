//! The layout of objects in slabs: order, place of the record of free objects, colours.
//!
//! For an index array, three places are tried in the kernel's order:
//!
//! * *In a free object* is free of cost. The array must be no larger than an object, and free
//!   objects must be writable (no constructor).
//! * *Off the slab* leaves the whole slab to objects. The block of metadata may take at most half
//!   an object, and a slab with room left for the array keeps it.
//! * *On the slab*, at its end, works for all objects that leave room.
//!
//! A descriptor with its chain lies off the slab if objects have an eighth of a page or more, and
//! if the chain has no more entries than would fit into an object. A slab with room left for both
//! keeps them. All others lie at the start of the slab, behind the colour.
//!
//! Source: the kernel's `calculate_slab_order` and its callers.

use super::chain::{DESCRIPTOR_BYTES, ENTRY_BYTES, descriptor_bytes};
use super::index_array::array_bytes;
use super::record::SMALLEST_BLOCK;
use crate::base::units::{BLOCK_ORDER, CACHE_LINE, MAX_OBJECTS_PER_SLAB, Order, PAGE_SIZE, align_up};
use crate::pages::head::MAX_COLOUR;
use crate::slab::OrderRule;
use crate::slab::geometry::{Geometry, IndexArray};

/// Largest order of slabs with more than one object, unless the process sets it: the kernel's
/// `slab_max_order`.
const MAX_ORDER: u8 = 1;

/// Returns the rule of the process with SLAB's default in place of the general one. `min_objects`
/// has no meaning here.
pub(crate) const fn order_rule(rule: OrderRule) -> OrderRule {
    if rule.max_order != OrderRule::DEFAULT.max_order {
        return rule;
    }
    OrderRule { max_order: if rule.min_order > MAX_ORDER { rule.min_order } else { MAX_ORDER }, ..rule }
}

/// An order, the objects that fit, and the bytes left over.
#[derive(Clone, Copy)]
struct Fit {
    order: u8,
    objects: usize,
    left: usize,
}

/// Counts the objects of `stride` bytes in a slab of `order`, each with its entry of the array if
/// that is on the slab.
#[place(cold)]
fn estimate(stride: usize, order: u8, array: IndexArray) -> Fit {
    let bytes = PAGE_SIZE << order;
    let mut objects = bytes / stride;
    if array == IndexArray::OnSlab {
        objects = bytes / (stride + 1);
        if objects > 256 {
            // Entries have two bytes, or there are as many objects as one byte can number.
            objects = ((bytes - 1) / (stride + 2)).max(256);
        }
    }
    let objects = objects.min(MAX_OBJECTS_PER_SLAB);
    let taken = if array == IndexArray::OnSlab { align_up(array_bytes(objects), 2) } else { 0 };
    Fit { order, objects, left: bytes - objects * stride - taken.min(bytes - objects * stride) }
}

/// Returns the fit of the first order that wastes at most an eighth, or else of the largest allowed
/// one, among the orders for which `fit_of` has a fit.
#[place(cold)]
fn first_fit(rule: OrderRule, fit_of: impl Fn(u8) -> Option<Fit>) -> Option<Fit> {
    let mut best = None;
    for order in rule.min_order..=BLOCK_ORDER {
        let Some(fit) = fit_of(order) else { continue };
        best = Some(fit);
        if order >= rule.max_order || fit.left * 8 <= PAGE_SIZE << order {
            break;
        }
    }
    best
}

/// Returns the fit of slabs with an index array.
#[place(cold)]
fn fit(stride: usize, array: IndexArray, rule: OrderRule) -> Option<Fit> {
    first_fit(rule, |order| {
        let fit = estimate(stride, order, array);
        let block = array_bytes(fit.objects).next_power_of_two().max(SMALLEST_BLOCK);
        let too_large = array == IndexArray::OffSlab && block > stride / 2;
        (fit.objects > 0 && !too_large).then_some(fit)
    })
}

/// Returns the geometry of a cache of slabs with index arrays, from the general one; `constructed`
/// objects are never written to. `None` if not even one object fits.
#[inline(never)]
#[place(cold)]
pub(crate) fn with_index_array(geometry: Geometry, constructed: bool, rule: OrderRule) -> Option<Geometry> {
    let stride = geometry.stride;
    let in_object = || {
        let fit = fit(stride, IndexArray::InObject, rule)?;
        let small = array_bytes(fit.objects) <= stride;
        (!constructed && small).then_some((fit, IndexArray::InObject))
    };
    let off_slab = || {
        let fit = fit(stride, IndexArray::OffSlab, rule)?;
        (fit.left < array_bytes(fit.objects)).then_some((fit, IndexArray::OffSlab))
    };
    let on_slab = || fit(stride, IndexArray::OnSlab, rule).map(|fit| (fit, IndexArray::OnSlab));
    let (fit, array) = in_object().or_else(off_slab).or_else(on_slab)?;
    Some(complete(geometry, fit, array))
}

/// Size from which on objects have the descriptor of their slab elsewhere, in bytes.
const OFF_SLAB: usize = PAGE_SIZE / 8;

/// Returns the geometry of a cache of slabs with descriptors, from the general one. `None` if not
/// even one object fits.
#[inline(never)]
#[place(cold)]
pub(crate) fn with_chain(geometry: Geometry, rule: OrderRule) -> Option<Geometry> {
    let stride = geometry.stride;
    let align = natural_align(&geometry);
    let on_slab = |order: u8| {
        let bytes = PAGE_SIZE << order;
        let taken = |objects: usize| align_up(descriptor_bytes(objects), align) + objects * stride;
        let most = ((bytes - DESCRIPTOR_BYTES) / (stride + ENTRY_BYTES)).min(MAX_OBJECTS_PER_SLAB);
        let objects = (1..=most).rev().find(|&objects| taken(objects) <= bytes)?;
        Some(Fit { order, objects, left: bytes - taken(objects) })
    };
    let off_slab = |order: u8| {
        let bytes = PAGE_SIZE << order;
        let objects = (bytes / stride).min(MAX_OBJECTS_PER_SLAB);
        let is_small = objects > 0 && descriptor_bytes(objects) <= stride;
        is_small.then_some(Fit { order, objects, left: bytes - objects * stride })
    };
    let off = || (stride >= OFF_SLAB).then(|| first_fit(rule, off_slab)).flatten();
    let Some(fit) = off() else {
        return first_fit(rule, on_slab).map(|fit| complete(geometry, fit, IndexArray::ChainOnSlab));
    };
    let taken = align_up(descriptor_bytes(fit.objects), align);
    Some(match fit.left.checked_sub(taken) {
        Some(left) => complete(geometry, Fit { left, ..fit }, IndexArray::ChainOnSlab),
        None => complete(geometry, fit, IndexArray::ChainOffSlab),
    })
}

/// Returns the bytes of a slab before its first object, without the colour.
#[place(cold)]
pub(super) fn bytes_before_objects(geometry: &Geometry) -> usize {
    match geometry.array {
        IndexArray::ChainOnSlab => {
            align_up(descriptor_bytes(usize::from(geometry.max_objects)), natural_align(geometry))
        }
        _ => 0,
    }
}

/// Returns the alignment that the first object of a slab must have. Callers rely on objects whose
/// size is a multiple of a power of two being aligned to it.
fn natural_align(geometry: &Geometry) -> usize {
    geometry.align.max((1usize << geometry.stride.trailing_zeros()).min(PAGE_SIZE))
}

/// Adds to a geometry what is the same for all records.
#[place(cold)]
fn complete(mut geometry: Geometry, fit: Fit, array: IndexArray) -> Geometry {
    geometry.order = Order(fit.order);
    geometry.min_order = geometry.order;
    geometry.max_objects = fit.objects as u16;
    geometry.array = array;
    geometry.colour_off = natural_align(&geometry).max(CACHE_LINE);
    // A page head has room for colours up to a limit, which only slabs of 2 MiB with objects of a
    // few bytes reach.
    let most = MAX_COLOUR - bytes_before_objects(&geometry);
    geometry.colours = fit.left.min(most) / geometry.colour_off + 1;
    geometry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::MAX_OBJECT_SIZE;
    use proptest::prelude::*;

    fn general(size: usize, align: usize) -> Geometry {
        Geometry::new(size, align, false, false, order_rule(OrderRule::DEFAULT), 2).unwrap()
    }

    fn of(size: usize, ctor: bool) -> Geometry {
        with_index_array(general(size, 0), ctor, order_rule(OrderRule::DEFAULT)).unwrap()
    }

    fn chained(size: usize) -> Geometry {
        with_chain(general(size, 0), order_rule(OrderRule::DEFAULT)).unwrap()
    }

    /// The objects of a slab are those that `/proc/slabinfo` shows with 2.6.24 on x86-64.
    #[test]
    #[cfg_attr(any(feature = "page-16k", feature = "page-64k"), ignore = "a table for pages of 4 KiB")]
    fn descriptors_lie_off_the_slab_from_an_eighth_of_a_page_on() {
        use IndexArray::{ChainOffSlab, ChainOnSlab};
        for (size, order, objects, array) in [
            (32, 0, 112, ChainOnSlab),
            (64, 0, 59, ChainOnSlab),
            (128, 0, 30, ChainOnSlab),
            (192, 0, 20, ChainOnSlab),
            (256, 0, 15, ChainOnSlab),
            (504, 0, 7, ChainOnSlab),
            (512, 0, 8, ChainOffSlab),
            (1024, 0, 4, ChainOffSlab),
            (2048, 0, 2, ChainOffSlab),
            (4096, 0, 1, ChainOffSlab),
            (8192, 1, 1, ChainOffSlab),
            (65_536, 4, 1, ChainOffSlab),
            // Five leave 576 bytes, more than an eighth of a page; eleven in two pages leave 448,
            // and a descriptor takes 92.
            (704, 1, 11, ChainOnSlab),
        ] {
            let g = chained(size);
            assert_eq!((g.order.0, g.objects(g.order), g.array), (order, objects, array), "size {size}");
        }
    }

    /// Worked out by hand for 2.6.24 on IA64: a descriptor takes 48 bytes and 4 for each object.
    #[test]
    #[cfg(all(feature = "page-16k", not(feature = "page-64k")))]
    fn descriptors_in_pages_of_16_kib_lie_off_the_slab_from_2048_bytes_on() {
        use IndexArray::{ChainOffSlab, ChainOnSlab};
        for (size, order, objects, array) in [
            (64, 0, 240, ChainOnSlab),
            (128, 0, 123, ChainOnSlab),
            (256, 0, 62, ChainOnSlab),
            (512, 0, 31, ChainOnSlab),
            (1024, 0, 15, ChainOnSlab),
            (2048, 0, 8, ChainOffSlab),
            (4096, 0, 4, ChainOffSlab),
            (8192, 0, 2, ChainOffSlab),
            (16_384, 0, 1, ChainOffSlab),
            (65_536, 2, 1, ChainOffSlab),
        ] {
            let g = chained(size);
            assert_eq!((g.order.0, g.objects(g.order), g.array), (order, objects, array), "size {size}");
        }
    }

    #[test]
    #[cfg_attr(any(feature = "page-16k", feature = "page-64k"), ignore = "a table for pages of 4 KiB")]
    fn a_descriptor_has_no_more_entries_than_would_fit_into_an_object() {
        // 512 bytes are a descriptor with 116 entries, and a slab of 2 MiB has room for 4096.
        for (min_order, array) in [(3, IndexArray::ChainOffSlab), (4, IndexArray::ChainOnSlab)] {
            let rule = OrderRule { min_order, max_order: min_order, min_objects: 0 };
            assert_eq!(with_chain(general(512, 0), rule).unwrap().array, array, "order {min_order}");
        }
    }

    #[test]
    #[cfg_attr(any(feature = "page-16k", feature = "page-64k"), ignore = "a table for pages of 4 KiB")]
    fn arrays_lie_where_the_kernel_puts_them() {
        // Worked out by hand from the rules: (size, constructor) → (order, objects, place).
        for (size, ctor, order, objects, array) in [
            (64, false, 0, 64, IndexArray::InObject),
            (32, false, 0, 124, IndexArray::OnSlab),
            (8, false, 0, 409, IndexArray::OnSlab),
            (256, false, 0, 16, IndexArray::InObject),
            (256, true, 0, 16, IndexArray::OffSlab),
            // 4096 % 104 leaves 40 bytes, enough for the 39 entries.
            (104, true, 0, 39, IndexArray::OnSlab),
            (4096, false, 0, 1, IndexArray::InObject),
            (8192, true, 1, 1, IndexArray::OffSlab),
        ] {
            let g = of(size, ctor);
            let got = (g.order.0, g.objects(g.order), g.array);
            assert_eq!(got, (order, objects, array), "size {size}, constructor {ctor}");
        }
    }

    #[test]
    #[cfg_attr(any(feature = "page-16k", feature = "page-64k"), ignore = "a table for pages of 4 KiB")]
    fn what_is_left_over_gives_colours() {
        // 5 objects of 704 bytes leave 576 bytes, more than an eighth of a page; 11 in two pages
        // leave 448.
        let g = of(704, false);
        assert_eq!((g.order.0, g.objects(g.order), g.colour_off, g.colours), (1, 11, 64, 8));
        assert_eq!(of(64, false).colours, 1);
    }

    proptest! {
        #[test]
        fn everything_fits_at_every_colour(size in 1usize..=MAX_OBJECT_SIZE, ctor: bool, min in 0u8..5, more in 0u8..5) {
            let rule = OrderRule { min_order: min, max_order: (min + more).min(BLOCK_ORDER), min_objects: 0 };
            let general = Geometry::new(size, 0, false, false, rule, 2).unwrap();
            let Some(g) = with_index_array(general, ctor, rule) else {
                // Only the largest objects leave no room for anything else.
                prop_assert!(ctor && size > MAX_OBJECT_SIZE / 2);
                return Ok(());
            };
            let objects = usize::from(g.objects(g.order));
            let array = if g.array == IndexArray::OnSlab { array_bytes(objects) } else { 0 };
            prop_assert!(objects > 0 && g.order.0 >= min);
            prop_assert!((g.colours - 1) * g.colour_off + objects * g.stride + array <= g.order.bytes());
            prop_assert!(g.array != IndexArray::InObject || (!ctor && array_bytes(objects) <= g.stride));
            prop_assert!(g.colour_off.is_multiple_of(g.align));
        }

        #[test]
        fn every_size_has_a_descriptor_that_fits_at_every_colour(
            size in 1usize..=MAX_OBJECT_SIZE,
            small in 1usize..1024,
            align in 0u32..=12,
            min in 0u8..=BLOCK_ORDER,
            more in 0u8..5,
        ) {
            let rule = OrderRule { min_order: min, max_order: (min + more).min(BLOCK_ORDER), min_objects: 0 };
            for size in [size, small] {
                let Ok(general) = Geometry::new(size, 1 << align, false, false, rule, 2) else { continue };
                let g = with_chain(general, rule).expect("the largest object fits off the slab");
                let objects = usize::from(g.objects(g.order));
                let (before, last) = (bytes_before_objects(&g), (g.colours - 1) * g.colour_off);
                prop_assert!(objects > 0 && g.order.0 >= min);
                prop_assert!(last + before + objects * g.stride <= g.order.bytes() && last + before <= MAX_COLOUR);
                prop_assert!((last + before).is_multiple_of(natural_align(&g)) && g.colour_off.is_multiple_of(CACHE_LINE));
                match g.array {
                    IndexArray::ChainOnSlab => prop_assert!(before >= descriptor_bytes(objects)),
                    _ => prop_assert!(g.stride >= OFF_SLAB && descriptor_bytes(objects) <= g.stride),
                }
            }
        }
    }
}
