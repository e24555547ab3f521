//! How an object lies in its slab when it is debugged.
//!
//! | bytes, in order of address | with | filled with |
//! |---|---|---|
//! | left red zone, a multiple of the alignment | `Z` | 0xbb while free, 0xcc while in use |
//! | the object | | `P`: 0x6b and at its end 0xa5 |
//! | right red zone, to the next word and at least a byte | `Z` | as the left one |
//! | the free link | | |
//! | who allocated and who freed it | `U` | |
//! | the mark: in use or free, and the size that was asked for | | |
//! | a word of padding | `Z` | 0x5a |
//! | padding to the alignment | | 0x5a with `P` |
//!
//! Source: the kernel's `calculate_sizes` and the comment on the layout in mm/slub.c. There the
//! link may lie in the object, and the state of an object is where it is linked. A mark of its own
//! says in a look what an object is.

use super::flags::DebugFlags;
use super::track::Track;
use crate::base::units::align_up;
use crate::engine::Wish;
use crate::slab::geometry::{Geometry, LINK_BYTES};
use ashlar_macros::place;

/// Offsets from the start of the object, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of the left red zone, before the object.
    pub(crate) left: usize,
    /// Bytes of the object.
    pub(crate) size: usize,
    /// Where the right red zone ends and the link lies.
    pub(crate) link: usize,
    /// Two tracks, if `U` is set.
    pub(crate) tracks: usize,
    /// The mark.
    pub(crate) mark: usize,
    /// Where the padding begins.
    pub(crate) padding: usize,
    /// Where the next object's left red zone begins.
    pub(crate) end: usize,
}

impl Layout {
    /// Returns the layout of objects of `size` bytes.
    #[place(cold)]
    pub(crate) fn new(size: usize, align: usize, flags: DebugFlags) -> Layout {
        let zoned = flags.has(DebugFlags::RED_ZONE);
        let left = if zoned { align_up(LINK_BYTES, align) } else { 0 };
        let mut link = align_up(size, LINK_BYTES);
        if zoned && link == size {
            link += LINK_BYTES;
        }
        let tracks = link + LINK_BYTES;
        let mark = tracks + if flags.has(DebugFlags::STORE_USER) { 2 * size_of::<Track>() } else { 0 };
        let padding = mark + LINK_BYTES;
        let used = padding + if zoned { LINK_BYTES } else { 0 };
        let end = align_up(left + used, align) - left;
        Layout { left, size, link, tracks, mark, padding, end }
    }

    /// Returns the bytes from one object to the next.
    pub(crate) fn stride(&self) -> usize {
        self.left + self.end
    }
}

/// Returns the geometry with room for what the flags need; `None` if an object gets too large.
#[place(cold)]
pub(crate) fn lay_out(plain: Geometry, wish: Wish) -> Option<Geometry> {
    let layout = Layout::new(plain.object_size, plain.align, wish.debug);
    let mut geometry = Geometry::new(layout.stride(), plain.align, false, false, wish.rule, wish.cpus).ok()?;
    geometry.object_size = plain.object_size;
    geometry.link_offset = layout.link;
    geometry.colour_off = layout.left;
    Some(geometry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_places_of_a_word_are_those_of_the_kernel() {
        let plain = Layout::new(8, 8, DebugFlags::NONE);
        assert_eq!((plain.left, plain.link, plain.mark, plain.end), (0, 8, 16, 24));
        let zoned = Layout::new(64, 8, DebugFlags::RED_ZONE);
        assert_eq!((zoned.left, zoned.link, zoned.tracks, zoned.mark), (8, 72, 80, 80), "a word of red zone");
        assert_eq!((zoned.padding, zoned.end), (88, 96));
        let unaligned = Layout::new(61, 64, DebugFlags::RED_ZONE);
        assert_eq!((unaligned.left, unaligned.link, unaligned.stride()), (64, 64, 192), "three bytes of red zone");
    }

    proptest! {
        #[test]
        fn parts_are_in_order_and_aligned(size in 1usize..100_000, align in 3u32..13, bits in 0u8..64) {
            let flags = DebugFlags::LETTERS.iter().enumerate().filter(|(at, _)| bits & 1 << at != 0);
            let flags = flags.fold(DebugFlags::NONE, |all, (_, (_, flag))| all.with(*flag));
            let layout = Layout::new(size, 1 << align, flags);
            let parts = [size, layout.link, layout.tracks, layout.mark, layout.padding, layout.end];
            prop_assert!(parts.windows(2).all(|pair| pair[0] <= pair[1]), "{layout:?}");
            prop_assert!([layout.link, layout.tracks, layout.mark].iter().all(|at| at.is_multiple_of(LINK_BYTES)));
            prop_assert!(layout.stride().is_multiple_of(1 << align) && layout.left.is_multiple_of(LINK_BYTES));
            if flags.has(DebugFlags::RED_ZONE) {
                prop_assert!(layout.left >= 8 && layout.link > size && layout.end >= layout.padding + 8);
                prop_assert!(layout.left.is_multiple_of(1 << align));
            }
        }
    }
}
