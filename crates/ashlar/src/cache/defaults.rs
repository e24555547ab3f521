//! How much that is free a cache keeps when nobody says: sheaves, barns, empty slabs.
//!
//! The caches of malloc keep less than others. A program uses dozens of them at once, has two sheaves of each on each CPU, and what
//! one holds the others cannot have: sheaves that cover 31 KiB of objects, and a CPU's own half of that
//! (`engine::sheaves::remote_free`), cost little time where those of 64 took a tenth of a program's memory (docs/why.md). Of their *large* objects, those above a page, a program has few of each size, filling them
//! takes longer than allocating them, and their free objects were most of what it held.

use crate::base::units::PAGE_SIZE;
use crate::engine::Origin;
use crate::options::Options;
use crate::percpu::sheaf::{HALF_SHEAF_CAPACITY, MAX_SHEAF_CAPACITY};

/// Bytes of objects that one sheaf should cover.
const SHEAF_BYTES: usize = 128 << 10;
/// The same for malloc's caches, and for those of its large objects, of which one sheaf should hold a few.
const MALLOC_SHEAF_BYTES: usize = 31 << 10;
const LARGE_SHEAF_BYTES: usize = 32 << 10;
/// Strides of malloc's caches whose sheaves hold as many as others' all the same: of such objects programs have most, and CPUs hand most to
/// each other.
const SMALL: usize = 128;
/// Most objects in a barn. Their sheaves take a quarter of a MiB, which is much beside small objects: a program that frees all it has must not
/// need more memory for that. And to bring them home takes the reaper some milliseconds, at up to 100 ns for each.
const BARN_OBJECTS: usize = 1 << 15;
/// Most bytes of objects in a barn of malloc's large objects.
const LARGE_BARN_BYTES: usize = 128 << 10;
/// Empty slabs that a cache of malloc's large objects keeps: it has few slabs, of 64 KiB.
const LARGE_MIN_PARTIAL: usize = 1;

fn is_large(origin: Origin, stride: usize) -> bool {
    origin == Origin::Malloc && stride > PAGE_SIZE
}

/// Objects in a sheaf: so many that it covers its bytes, at least 2 and at most a whole sheaf.
pub(super) fn sheaf_capacity(origin: Origin, stride: usize) -> usize {
    let (bytes, most) = match origin {
        Origin::Malloc if stride > PAGE_SIZE => (LARGE_SHEAF_BYTES, HALF_SHEAF_CAPACITY),
        Origin::Malloc if stride > SMALL => (MALLOC_SHEAF_BYTES, HALF_SHEAF_CAPACITY),
        _ => (SHEAF_BYTES, MAX_SHEAF_CAPACITY),
    };
    (bytes / stride).clamp(2, most)
}

/// Most full sheaves in a barn.
pub(super) fn barn_limit(options: &Options, origin: Origin, capacity: usize, stride: usize) -> usize {
    let most = if is_large(origin, stride) { LARGE_BARN_BYTES } else { usize::MAX };
    let objects = (options.barn.min(most) / stride).min(BARN_OBJECTS);
    objects.checked_div(capacity).map_or(0, |sheaves| sheaves.max(1))
}

/// Empty slabs that a node keeps: the kernel's rule, half of log2 of the size, between 5 and 10.
pub(super) fn min_partial(origin: Origin, stride: usize) -> usize {
    if is_large(origin, stride) { LARGE_MIN_PARTIAL } else { (stride.ilog2() as usize / 2).clamp(5, 10) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barns_are_limited_in_bytes_and_in_objects() {
        let sheaves = |barn, origin, capacity, stride| {
            barn_limit(&Options { barn, ..Options::DEFAULT }, origin, capacity, stride)
        };
        let program = |barn, capacity, stride| sheaves(barn, Origin::Program, capacity, stride);
        assert_eq!(program(256 << 20, 16, 8192), 2048, "bytes");
        assert_eq!(program(256 << 20, 128, 8), 256, "32768 objects");
        assert_eq!((program(0, 128, 8), program(1 << 20, 0, 8)), (1, 0), "one at least, where there are sheaves");
        assert_eq!(sheaves(256 << 20, Origin::Malloc, 4, 8192), 4, "16 large objects of malloc");
        assert_eq!(sheaves(16 << 10, Origin::Malloc, 1, 8192), 2, "who allows less has less");
    }

    #[test]
    fn large_objects_of_malloc_are_kept_by_few() {
        let both = |stride| [Origin::Program, Origin::Malloc].map(|origin| sheaf_capacity(origin, stride));
        assert_eq!(both(64), [254, 254]);
        assert_eq!(both(128), [254, 254]);
        assert_eq!(both(256), [254, 124]);
        assert_eq!(both(4096), [32, 7]);
        assert_eq!(both(8192), [16, 4]);
        assert_eq!(both(28 << 10), [4, 2]);
        assert_eq!([Origin::Program, Origin::Malloc].map(|origin| min_partial(origin, 8192)), [6, 1]);
    }
}
