//! [`Policy`]: how a cache behaves towards its callers.
//!
//! One constant for each kind of caller, made where that caller is known, and named once, when a cache is created. From then on
//! everything below asks the policy, and no function needs to know who calls.

use crate::percpu::sheaf::{HALF_SHEAF_CAPACITY, MAX_SHEAF_CAPACITY};

/// Bytes of objects that one sheaf should cover where nothing speaks against it.
const SHEAF_BYTES: usize = 128 << 10;
/// Most objects in a barn. Their sheaves take a quarter of a MiB, which is much beside small objects: a program that frees all it
/// has must not need more memory for that. And to return them takes the reaper some milliseconds, at up to 100 ns for each.
const BARN_OBJECTS: usize = 1 << 15;
/// Fewest objects on a sheaf.
const FEWEST: usize = 2;

/// How a cache behaves towards its callers; see the module.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Caches of different families never share pages.
    pub(crate) family: u8,
    /// The program made the cache: it may destroy it and choose its engine, and others may be merged with it.
    pub(crate) of_program: bool,
    /// Objects come back by their address alone: what their page does not tell must stand in front of them.
    pub(crate) by_address: bool,
    /// Live objects stand in a map, where every free looks first.
    pub(crate) tracked: bool,
    /// The words of its slots lie by the side of the CPU: see [`crate::percpu::area::is_sided`].
    pub(crate) sided: bool,
    /// Largest stride of objects whose sheaves hold as many as they can.
    pub(crate) full_sheaf_stride: usize,
    /// Bytes of objects that one sheaf of larger objects should cover.
    pub(crate) sheaf_bytes: usize,
    /// Bytes of larger objects that a sheaf covers at most of what a CPU frees for itself.
    pub(crate) this_cpu_bytes: usize,
    /// A CPU takes at a time at most one part in so many of what the slabs of the cache hold; `None`: as much as it has room for.
    pub(crate) refill_share: Option<usize>,
    /// Most bytes of objects in a barn.
    pub(crate) barn_bytes: usize,
    /// Empty slabs that a node keeps; `None`: by object size.
    pub(crate) min_partial: Option<usize>,
}

impl Policy {
    /// Of a cache that speed is all for: its callers are one program, which has few such caches.
    pub(crate) const GENEROUS: Policy = Policy {
        family: 0,
        of_program: false,
        by_address: false,
        tracked: false,
        sided: false,
        full_sheaf_stride: usize::MAX,
        sheaf_bytes: SHEAF_BYTES,
        this_cpu_bytes: usize::MAX,
        refill_share: None,
        barn_bytes: usize::MAX,
        min_partial: None,
    };

    /// Objects in a sheaf: as many as cover its bytes, at least 2 and at most a whole sheaf.
    pub(crate) fn sheaf_capacity(&self, stride: usize) -> usize {
        if stride <= self.full_sheaf_stride {
            (SHEAF_BYTES / stride).clamp(FEWEST, MAX_SHEAF_CAPACITY)
        } else {
            (self.sheaf_bytes / stride).clamp(FEWEST, HALF_SHEAF_CAPACITY)
        }
    }

    /// Objects in a sheaf of what a CPU frees for itself, where sheaves hold `capacity`.
    #[inline]
    pub(crate) fn this_cpu_capacity(&self, capacity: usize, stride: usize) -> usize {
        if stride <= self.full_sheaf_stride {
            capacity
        } else {
            capacity.min((self.this_cpu_bytes / stride).max(FEWEST))
        }
    }

    /// Most full sheaves of `capacity` objects in a barn, where the process allows `bytes` bytes of objects.
    pub(crate) fn barn_limit(&self, bytes: usize, capacity: usize, stride: usize) -> usize {
        let objects = (bytes.min(self.barn_bytes) / stride).min(BARN_OBJECTS);
        objects.checked_div(capacity).map_or(0, |sheaves| sheaves.max(1))
    }

    /// Empty slabs that a node keeps: the kernel's rule, half of log2 of the size, between 5 and 10, unless the policy has its own.
    pub(crate) fn min_partial(&self, stride: usize) -> usize {
        self.min_partial.unwrap_or((stride.ilog2() as usize / 2).clamp(5, 10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barns_are_limited_in_bytes_and_in_objects() {
        let limit = |bytes, capacity, stride| Policy::GENEROUS.barn_limit(bytes, capacity, stride);
        assert_eq!(limit(256 << 20, 16, 8192), 2048, "bytes");
        assert_eq!(limit(256 << 20, 128, 8), 256, "32768 objects");
        assert_eq!((limit(0, 128, 8), limit(1 << 20, 0, 8)), (1, 0), "one at least, where there are sheaves");
        let small_barns = Policy { barn_bytes: 128 << 10, ..Policy::GENEROUS };
        assert_eq!(small_barns.barn_limit(256 << 20, 4, 8192), 4, "16 objects by the policy");
        assert_eq!(small_barns.barn_limit(16 << 10, 1, 8192), 2, "a process that allows less has less");
    }

    #[test]
    fn empty_slabs_are_kept_by_size_or_by_policy() {
        assert_eq!([8, 1024, 1 << 20].map(|stride| Policy::GENEROUS.min_partial(stride)), [5, 5, 10]);
        assert_eq!(Policy { min_partial: Some(1), ..Policy::GENEROUS }.min_partial(8192), 1);
    }
}
