//! Locality: what is allocated one after the other should lie side by side.
//!
//! A program goes through its objects mostly in the order in which it made them. If they lie in that order too, each page and
//! each cache line is loaded once, and the processor sees the next one coming. A fresh slab hands its objects out so. But sheaves hand
//! out what was freed last, and programs free in another order than they allocate: whoever only recycled full sheaves would, after some
//! rounds, hand out every object from another page. A slab is where order comes back: its objects are together again, and when it
//! empties it starts from its first one.
//!
//! * So a full sheaf whose objects are *scattered* goes home to the slabs, while one whose objects are neighbours goes to the barn as it
//!   is ([`is_scattered`]). A barn that holds little takes scattered ones nevertheless ([`SCATTERED_BYTES`]): what a program frees and
//!   allocates again at once is in the processor's cache wherever it lies. And what another CPU will rob may be scattered further
//!   (`TOLERATED_OF_OTHERS`).
//! * And what a refill takes from a slab it hands out by address, in whatever order it was freed ([`sort`]).
//!
//! What this is worth, and what it costs, stands in docs/why.md.

use super::remote_free::FreedFor;
use crate::base::units::PAGE_SIZE;
use crate::engine::RawCache;
use crate::percpu::sheaf::Sheaf;
use crate::slab::geometry::Geometry;

/// Bytes of objects in a barn from which on it takes no scattered sheaf: less than a processor's second cache holds.
pub(super) const SCATTERED_BYTES: usize = 64 << 10;
/// Largest stride for which the place of an object matters: a page holds eight of them. Larger ones have most of their lines to themselves.
const MOST_STRIDE: usize = PAGE_SIZE / 8;
/// Places that objects in perfect order may be apart beyond those where one page ends: the ends of slabs.
const TOLERATED: usize = 2;
/// Of the pairs that are looked at, one in so many may be apart where another CPU will rob the sheaf. It finds the objects in no cache of
/// its own, in whatever order they lie; on the way through the slabs both CPUs would miss each of them.
const TOLERATED_OF_OTHERS: usize = 3;
/// Most objects of a slab for which [`sort`] has room: slabs hold more only by the option `min_order`.
const MOST_SORTED: usize = 512;

/// Whether the objects of a full sheaf of `cache` come from many places.
pub(super) fn is_scattered(cache: &RawCache, full: &Sheaf, freed_for: FreedFor) -> bool {
    cache.slabs.geometry.stride <= MOST_STRIDE && are_scattered(cache.slabs.geometry.stride, full.objects(), freed_for)
}

/// Counts how often an object and the next one on the sheaf lie in different pages, by every second object, since each look counts in
/// programs that only fill and empty sheaves. Twice as often as for objects in a row is still good.
fn are_scattered(stride: usize, objects: &[usize], freed_for: FreedFor) -> bool {
    let ends_of_pages = objects.len() * stride / PAGE_SIZE;
    let pairs = objects.chunks_exact(2);
    // The low half of the page number: slabs that differ in the high half alone are terabytes apart.
    let apart: u32 = pairs.map(|pair| u32::from(((pair[0] ^ pair[1]) / PAGE_SIZE) as u32 != 0)).sum();
    let tolerated = match freed_for {
        FreedFor::ThisCpu => TOLERATED,
        FreedFor::OtherCpu => objects.len() / 2 / TOLERATED_OF_OTHERS,
    };
    apart as usize > ends_of_pages + tolerated
}

/// Sorts objects of one slab, which starts at `base`, by address. Leaves them as they are if one occurs twice, which is found when it is freed,
/// or if the slab has too many objects.
pub(super) fn sort(geometry: &Geometry, base: usize, objects: &mut [usize]) {
    if objects.len() < 2 {
        return;
    }
    let mut present = [0u64; MOST_SORTED / 64];
    for &object in objects.iter() {
        let Some(index) = geometry.index_of(object - base) else { return };
        let Some(word) = present.get_mut(usize::from(index) / 64) else { return };
        *word |= 1 << (index % 64);
    }
    if present.iter().map(|word| word.count_ones() as usize).sum::<usize>() != objects.len() {
        return;
    }
    let mut places = objects.iter_mut();
    for (at, mut word) in present.into_iter().enumerate() {
        while word != 0 {
            if let Some(place) = places.next() {
                *place = base + (at * 64 + word.trailing_zeros() as usize) * geometry.stride;
            }
            word &= word - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::geometry::OrderRule;
    use std::vec::Vec;

    /// A sheaf's worth of objects in a row, from the middle of a page.
    fn row(stride: usize, from: usize, count: usize) -> impl Iterator<Item = usize> {
        (0..count).map(move |at| from + at * stride)
    }

    #[test]
    fn objects_in_a_row_are_not_scattered_wherever_they_start_and_whichever_way_they_go() {
        for stride in [16, 48, 64, 192, 512] {
            for start in (0x7000_0000..0x7000_1000).step_by(16) {
                let up: Vec<usize> = row(stride, start, 252).collect();
                let down: Vec<usize> = up.iter().rev().copied().collect();
                assert!(
                    !are_scattered(stride, &up, FreedFor::ThisCpu) && !are_scattered(stride, &down, FreedFor::ThisCpu),
                    "{stride} from {start:#x}"
                );
            }
        }
    }

    #[test]
    fn a_few_pieces_are_good_and_many_are_not() {
        let pieces = |stride: usize, each: usize| -> Vec<usize> {
            (0..252usize.div_ceil(each)).flat_map(|piece| row(stride, 0x7000_0000 + piece * 0x1_0000, each)).collect()
        };
        assert!(!are_scattered(64, &pieces(64, 63), FreedFor::ThisCpu), "four pieces of a page each");
        assert!(are_scattered(64, &pieces(64, 5), FreedFor::ThisCpu), "pieces of five");
        for stride in [16, 64, 512] {
            assert!(are_scattered(stride, &pieces(stride, 1), FreedFor::ThisCpu), "each from another slab");
        }
    }

    #[test]
    fn what_others_will_rob_may_be_in_smaller_pieces_but_not_in_single_objects() {
        let pieces = |each: usize| -> Vec<usize> {
            (0..252usize.div_ceil(each)).flat_map(|piece| row(64, 0x7000_0000 + piece * 0x1_0000, each)).collect()
        };
        assert!(
            !are_scattered(64, &pieces(5), FreedFor::OtherCpu) && are_scattered(64, &pieces(1), FreedFor::OtherCpu)
        );
    }

    #[test]
    fn sorting_keeps_the_objects_and_puts_them_in_order() {
        let geometry = Geometry::new(48, 16, false, false, OrderRule::DEFAULT, 2).expect("a geometry");
        let base = 0x7000_0000;
        let mut objects: Vec<usize> = [5usize, 84, 0, 63, 64, 7].iter().map(|index| base + index * 48).collect();
        let mut expected = objects.clone();
        expected.sort_unstable();
        sort(&geometry, base, &mut objects);
        assert_eq!(objects, expected);
        // An object that is there twice stays there twice.
        let twice = [base + 96, base, base + 96];
        let mut objects = twice;
        sort(&geometry, base, &mut objects);
        assert_eq!(objects, twice);
    }
}
