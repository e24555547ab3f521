//! [`Policy`]: the behaviour of a cache that depends on its callers.
//!
//! There is one constant for each kind of caller, defined next to that caller and passed when a
//! cache is created. Code below consults the policy only, and never needs to know the caller.

use crate::percpu::sheaf::{HALF_SHEAF_CAPACITY, MAX_SHEAF_CAPACITY};

/// Bytes of objects that one sheaf should cover unless the policy says otherwise.
const SHEAF_BYTES: usize = 128 << 10;
/// Most objects in a barn. Their sheaves take a quarter of a MiB, which is much compared to small
/// objects: freeing all objects must not cost a program more memory. Returning them takes the
/// reaper some milliseconds, at up to 100 ns each.
const BARN_OBJECTS: usize = 1 << 15;
/// Fewest objects on a sheaf.
const FEWEST: usize = 2;
/// Fewest objects on a sheaf of a cache whose sheaves grow with use. With fewer, a program that
/// frees and allocates a few objects of each size spends its time between slabs and sheaves.
const FEWEST_GRANTED: usize = 4;

/// How a cache behaves towards its callers.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Caches of different families never share pages.
    pub(crate) family: u8,
    /// The program made the cache: the program may destroy it, choose its engine, and have it
    /// merged.
    pub(crate) of_program: bool,
    /// Objects are freed by address alone. What their page does not record must be stored in front
    /// of them.
    pub(crate) by_address: bool,
    /// Live objects are tracked in the object map, which every free checks first.
    pub(crate) tracked: bool,
    /// The order of the words of its slots depends on the CPU's side: see
    /// [`crate::percpu::area::is_sided`].
    pub(crate) sided: bool,
    /// Largest stride of objects whose slabs are kept by CPU (see [`crate::slab::node`]), so that
    /// CPUs do not share what lies beside an object.
    pub(crate) by_cpu_stride: usize,
    /// Largest stride of objects whose sheaves hold as many objects as fit.
    pub(crate) full_sheaf_stride: usize,
    /// Most bytes of larger objects on a sheaf. A cache in little use has smaller sheaves, of the
    /// bytes that follow.
    pub(crate) sheaf_bytes: usize,
    /// Bytes of larger objects on a sheaf that a CPU frees for another one.
    pub(crate) other_cpu_bytes: usize,
    /// Bytes of larger objects on a sheaf that a CPU frees for itself.
    pub(crate) this_cpu_bytes: usize,
    /// A refill takes at most one in this many of the objects in the cache's slabs; `None` for no
    /// limit.
    pub(crate) refill_share: Option<usize>,
    /// Empty slabs that a node keeps; `None` to derive it from the object size.
    pub(crate) min_partial: Option<usize>,
    /// Guard sampling includes its objects, unless an option says otherwise.
    pub(crate) guarded: bool,
    /// The policy of such a cache when it is debugged, if that is another.
    pub(crate) when_debugged: Option<&'static Policy>,
}

impl Policy {
    /// For caches tuned for speed only: one program uses them, and it has few.
    pub(crate) const GENEROUS: Policy = Policy {
        family: 0,
        of_program: false,
        by_address: false,
        tracked: false,
        sided: false,
        by_cpu_stride: 0,
        full_sheaf_stride: usize::MAX,
        sheaf_bytes: SHEAF_BYTES,
        other_cpu_bytes: usize::MAX,
        this_cpu_bytes: usize::MAX,
        refill_share: None,
        min_partial: None,
        guarded: false,
        when_debugged: None,
    };

    /// Returns the most objects on a sheaf: enough to cover its bytes, at least a few, at most a
    /// whole sheaf.
    pub(crate) fn sheaf_capacity(&self, stride: usize) -> usize {
        if stride <= self.full_sheaf_stride {
            (SHEAF_BYTES / stride).clamp(FEWEST, MAX_SHEAF_CAPACITY)
        } else {
            (self.sheaf_bytes / stride).clamp(FEWEST_GRANTED, HALF_SHEAF_CAPACITY)
        }
    }

    /// Returns the capacity that every sheaf has that a CPU frees for itself.
    #[inline]
    pub(crate) fn this_cpu_capacity(&self, stride: usize) -> usize {
        self.granted(self.this_cpu_bytes, stride)
    }

    /// Returns the capacity that every sheaf has that a CPU frees for another one.
    #[inline]
    pub(crate) fn other_cpu_capacity(&self, stride: usize) -> usize {
        self.granted(self.other_cpu_bytes, stride)
    }

    fn granted(&self, bytes: usize, stride: usize) -> usize {
        if stride <= self.full_sheaf_stride { usize::MAX } else { (bytes / stride).max(FEWEST_GRANTED) }
    }

    /// Returns the most full sheaves of `capacity` objects in a barn, where the process allows
    /// `bytes` bytes of objects.
    pub(crate) fn barn_limit(bytes: usize, capacity: usize, stride: usize) -> usize {
        let objects = (bytes / stride).min(BARN_OBJECTS);
        objects.checked_div(capacity).map_or(0, |sheaves| sheaves.max(1))
    }

    /// Returns the number of empty slabs that a node keeps. Unless the policy sets it, the kernel's
    /// rule applies: half of log2 of the size, between 5 and 10.
    pub(crate) fn min_partial(&self, stride: usize) -> usize {
        self.min_partial.unwrap_or((stride.ilog2() as usize / 2).clamp(5, 10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barns_are_limited_in_bytes_and_in_objects() {
        let limit = |bytes, capacity, stride| Policy::barn_limit(bytes, capacity, stride);
        assert_eq!(limit(256 << 20, 16, 8192), 2048, "bytes");
        assert_eq!(limit(256 << 20, 128, 8), 256, "32768 objects");
        assert_eq!((limit(0, 128, 8), limit(1 << 20, 0, 8)), (1, 0), "one at least, where there are sheaves");
    }

    #[test]
    fn empty_slabs_are_kept_by_size_or_by_policy() {
        assert_eq!([8, 1024, 1 << 20].map(|stride| Policy::GENEROUS.min_partial(stride)), [5, 5, 10]);
        assert_eq!(Policy { min_partial: Some(1), ..Policy::GENEROUS }.min_partial(8192), 1);
    }
}
