//! The size classes of malloc: multiples of 16 bytes up to 128, then eight per doubling, up to 28
//! KiB.
//!
//! So an object wastes at most 15 bytes, or a ninth of its size.

use crate::percpu::area::SIDED_CACHES;

/// The largest size served by a cache, in bytes. Larger ones are runs of pages, which waste at most
/// an eighth: 28 KiB and a byte take eight pages.
pub const MALLOC_MAX_CACHE_SIZE: usize = 28 << 10;
/// The least alignment, and the step of the small classes: the alignment of C's `max_align_t`.
pub(crate) const STEP: usize = 16;
/// Number of classes.
pub(crate) const CLASSES: usize = SIDED_CACHES;
const LINEAR: usize = 8;
/// Returns the class of a size of at most 28 KiB. A size of 0 counts as 1.
pub(crate) const fn class_of(size: usize) -> usize {
    if size <= LINEAR * STEP {
        return size.div_ceil(STEP).saturating_sub(1);
    }
    // The three bits after the leading one number the classes of this doubling.
    let doubling = (size - 1).ilog2() as usize;
    LINEAR + (doubling - 7) * 8 + (((size - 1) >> (doubling - 3)) & 7)
}

/// Returns the bytes of the objects of a class.
pub(crate) const fn size_of_class(class: usize) -> usize {
    if class < LINEAR {
        return (class + 1) * STEP;
    }
    let (doubling, step) = (7 + (class - LINEAR) / 8, (class - LINEAR) % 8);
    (1 << doubling) + ((step + 1) << (doubling - 3))
}

/// The prefix of all names, and room for the size.
pub(crate) const NAME: [u8; 12] = *b"malloc-\0\0\0\0\0";

/// Writes the name of the cache of a class into `place`, a copy of [`NAME`]. Does not use
/// `core::fmt`, because that code would become resident in every program.
pub(crate) fn name_of_class(class: usize, place: &mut [u8; NAME.len()]) -> &str {
    let size = size_of_class(class);
    let mut end = NAME.iter().position(|&byte| byte == 0).unwrap_or(0);
    let mut unit = 10usize.pow(size.ilog10());
    while unit > 0 {
        place[end] = b'0' + (size / unit % 10) as u8;
        end += 1;
        unit /= 10;
    }
    #[expect(unsafe_code, reason = "nor by `core::str::from_utf8`, for the same reason")]
    // SAFETY: NAME starts with ASCII letters, and ASCII digits follow.
    unsafe {
        core::str::from_utf8_unchecked(&place[..end])
    }
}

/// The bytes of objects by half of their entry in the object map; 0 for entries of no class.
static ENTRY_BYTES: [u16; 1 << 7] = {
    let mut table = [0; 1 << 7];
    let mut class = 0;
    while class < CLASSES {
        table[Code::of_class(class).entry() as usize / 2] = size_of_class(class) as u16;
        class += 1;
    }
    table
};

/// Returns the bytes of an object with `entry` in the object map; 0 if there is no such entry.
#[inline]
pub(crate) fn size_of_entry(entry: u8) -> usize {
    usize::from(ENTRY_BYTES[usize::from(entry / 2)])
}

/// A class as the object map stores it. A code is even, so that eight times a code is the offset of
/// a slot, and never 0. The lowest bit of an entry is the side of the CPU that handed the object
/// out (see `faces::malloc::entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(u8);

impl Code {
    /// Returns the code of a class.
    pub(crate) const fn of_class(class: usize) -> Code {
        Code(2 * (class as u8 + 1))
    }

    /// Returns the code in an entry of the map; `None` for 0.
    #[inline]
    pub(crate) fn from_map(entry: u8) -> Option<Code> {
        (entry != 0).then_some(Code(entry & !1))
    }

    /// Returns the entry for an object that a CPU of side 0 hands out.
    #[inline]
    pub(crate) const fn entry(self) -> u8 {
        self.0
    }

    /// Returns the class.
    #[inline]
    pub(crate) fn class(self) -> usize {
        usize::from(self.0 / 2 - 1)
    }
}

/// Returns the smallest class for `size` bytes whose objects all start at multiples of `align`, a
/// power of two of at most a page. `None` if no class is large enough.
pub(crate) fn aligned_class(size: usize, align: usize) -> Option<usize> {
    let least = crate::base::units::checked_align_up(size.max(1), align)?;
    if least > MALLOC_MAX_CACHE_SIZE {
        return None;
    }
    // Slabs start at pages, so any class works whose size is a multiple of `align`.
    (class_of(least)..CLASSES).find(|&class| size_of_class(class).is_multiple_of(align))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it_and_wastes_little() {
        assert_eq!(size_of_class(CLASSES - 1), MALLOC_MAX_CACHE_SIZE);
        assert_eq!(class_of(0), 0);
        for size in 1..=MALLOC_MAX_CACHE_SIZE {
            let class = class_of(size);
            let given = size_of_class(class);
            assert!(given >= size && given.is_multiple_of(STEP), "size {size}: class of {given}");
            assert!(class == 0 || size_of_class(class - 1) < size, "size {size}: class of {given} is not the smallest");
            let waste = given - size;
            assert!(waste < 16 || waste * 9 <= given, "size {size}: {waste} bytes wasted of {given}");
        }
    }

    #[test]
    fn caches_are_named_after_their_size() {
        for class in 0..CLASSES {
            assert_eq!(name_of_class(class, &mut { NAME }), std::format!("malloc-{}", size_of_class(class)));
        }
    }

    #[test]
    fn codes_are_even_bytes_and_never_zero() {
        for class in 0..CLASSES {
            let code = Code::of_class(class);
            assert!(code.entry() != 0 && code.entry().is_multiple_of(2));
            assert_eq!(Code::from_map(code.entry()).map(Code::class), Some(class));
            for side in 0..2 {
                assert_eq!(size_of_entry(code.entry() + side), size_of_class(class));
            }
        }
        assert_eq!(size_of_entry(0), 0);
        assert_eq!(Code::from_map(0), None);
    }

    #[test]
    fn aligned_classes_are_multiples_and_large_enough() {
        for shift in 4..=12 {
            let align = 1 << shift;
            for size in (0..=MALLOC_MAX_CACHE_SIZE).step_by(37) {
                let given = size_of_class(aligned_class(size, align).expect("28 KiB are a multiple of any"));
                assert!(given >= size && given.is_multiple_of(align), "{size} at {align}: {given}");
            }
        }
        assert_eq!(aligned_class(MALLOC_MAX_CACHE_SIZE + 1, 16), None);
        assert_eq!(aligned_class(usize::MAX, 16), None);
    }
}
