//! Locality: objects allocated in a row should be neighbours in memory.
//!
//! A program mostly visits its objects in the order in which it allocated them. If they lie in that
//! order, each page and each cache line is loaded once, and the prefetcher runs ahead. A fresh slab
//! hands out its objects in order. Sheaves hand out the object freed last, and programs free in
//! another order than they allocate. With recycled sheaves alone, every object would soon come from
//! another page. Slabs restore the order: an empty slab starts again from its first object.
//!
//! * A full sheaf whose objects are *scattered* is returned to slabs; one whose objects are
//!   neighbours goes to the barn ([`is_scattered`]).
//! * A nearly empty barn takes scattered sheaves too ([`SCATTERED_BYTES`]): objects freed and
//!   allocated again at once are in the processor's cache, wherever they lie.
//! * A sheaf that another CPU will rob may be more scattered (`TOLERATED_OF_OTHERS`).
//! * A refill hands out the objects of a slab by address, in whatever order they were freed
//!   ([`sort`]).
//!
//! docs/why.md has the gain and the cost.

use super::remote_free::FreedFor;
use crate::base::units::PAGE_SIZE;
use crate::engine::RawCache;
use crate::percpu::sheaf::Sheaf;
use crate::slab::geometry::Geometry;

/// Bytes of objects above which a barn takes no scattered sheaf. Less than a processor's
/// second-level cache.
pub(super) const SCATTERED_BYTES: usize = 64 << 10;
/// Largest stride for which placement matters: eight objects a page. Larger objects share few cache
/// lines.
const MOST_STRIDE: usize = PAGE_SIZE / 8;
/// Pairs that may span two pages beyond the page ends of perfectly ordered objects, for the ends of
/// slabs.
const TOLERATED: usize = 2;
/// One in this many sampled pairs may span two pages if another CPU will rob the sheaf. That CPU
/// has the objects in none of its caches, in whatever order they lie. By way of the slabs, both
/// CPUs would miss on each of them.
const TOLERATED_OF_OTHERS: usize = 3;
/// Most objects of a slab that [`sort`] has room for. Slabs hold more only with the option
/// `min_order`.
const MOST_SORTED: usize = 512;

/// Whether the objects of a full sheaf of `cache` are scattered.
pub(super) fn is_scattered(cache: &RawCache, full: &Sheaf, freed_for: FreedFor) -> bool {
    cache.slabs.geometry.stride <= MOST_STRIDE && are_scattered(cache.slabs.geometry.stride, full.objects(), freed_for)
}

/// Counts pairs of adjacent objects on the sheaf that lie in different pages. Samples disjoint
/// pairs, because the cost shows in programs that only fill and empty sheaves. The limit for
/// sampled pairs is the number of page ends in all objects, twice what objects in a row need.
fn are_scattered(stride: usize, objects: &[usize], freed_for: FreedFor) -> bool {
    let ends_of_pages = objects.len() * stride / PAGE_SIZE;
    let pairs = objects.chunks_exact(2);
    // Compares the low half of the page number only: slabs that differ in the high half alone are
    // terabytes apart.
    let apart: u32 = pairs.map(|pair| u32::from(((pair[0] ^ pair[1]) / PAGE_SIZE) as u32 != 0)).sum();
    let tolerated = match freed_for {
        FreedFor::ThisCpu => TOLERATED,
        FreedFor::OtherCpu => objects.len() / 2 / TOLERATED_OF_OTHERS,
    };
    apart as usize > ends_of_pages + tolerated
}

/// Sorts objects of one slab, which starts at `base`, by address. Leaves them unsorted if an object
/// occurs twice, which its free detects, or if the slab has too many objects.
#[inline(never)]
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

    /// Objects in a row, starting at `from`.
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
        // An object that occurs twice still does so afterwards.
        let twice = [base + 96, base, base + 96];
        let mut objects = twice;
        sort(&geometry, base, &mut objects);
        assert_eq!(objects, twice);
    }
}
