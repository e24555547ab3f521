//! The layout of objects in slabs: order, place of the index array, colours.
//!
//! Three places for the index array are tried in the kernel's order:
//!
//! * *In a free object* is free of cost. The array must be no larger than an object, and free
//!   objects must be writable (no constructor).
//! * *Off the slab* leaves the whole slab to objects. The block of metadata may take at most half
//!   an object, and a slab with room left for the array keeps it.
//! * *On the slab*, at its end, works for all objects that leave room.
//!
//! Source: the kernel's `calculate_slab_order` and its callers.

use super::index_array::array_bytes;
use super::record::SMALLEST_BLOCK;
use crate::base::units::{BLOCK_ORDER, CACHE_LINE, MAX_OBJECTS_PER_SLAB, Order, PAGE_SIZE, align_up};
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

/// Returns the first order that wastes at most an eighth, or the largest allowed one.
#[place(cold)]
fn fit(stride: usize, array: IndexArray, rule: OrderRule) -> Option<Fit> {
    let mut best = None;
    for order in rule.min_order..=BLOCK_ORDER {
        let fit = estimate(stride, order, array);
        if fit.objects == 0 {
            continue;
        }
        let block = (array_bytes(fit.objects)).next_power_of_two().max(SMALLEST_BLOCK);
        if array == IndexArray::OffSlab && block > stride / 2 {
            continue;
        }
        best = Some(fit);
        if order >= rule.max_order || fit.left * 8 <= PAGE_SIZE << order {
            break;
        }
    }
    best
}

/// Returns the geometry of a cache of this engine, from the general one; `constructed` objects are
/// never written to. `None` if not even one object fits.
#[inline(never)]
#[place(cold)]
pub(crate) fn layout(mut geometry: Geometry, constructed: bool, rule: OrderRule) -> Option<Geometry> {
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
    geometry.order = Order(fit.order);
    geometry.min_order = geometry.order;
    geometry.max_objects = fit.objects as u16;
    geometry.array = array;
    // A colour must keep natural alignment: callers rely on objects whose size is a multiple of a
    // power of two being aligned to it.
    let natural = (1usize << stride.trailing_zeros()).min(PAGE_SIZE);
    geometry.colour_off = geometry.align.max(CACHE_LINE).max(natural);
    geometry.colours = fit.left / geometry.colour_off + 1;
    Some(geometry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::MAX_OBJECT_SIZE;
    use proptest::prelude::*;

    fn of(size: usize, ctor: bool) -> Geometry {
        let rule = order_rule(OrderRule::DEFAULT);
        let general = Geometry::new(size, 0, false, false, rule, 2).unwrap();
        layout(general, ctor, rule).unwrap()
    }

    #[test]
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
            let rule = OrderRule { min_order: min, max_order: min + more, min_objects: 0 };
            let general = Geometry::new(size, 0, false, false, rule, 2).unwrap();
            let Some(g) = layout(general, ctor, rule) else {
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
    }
}
