//! Remote frees: objects that one CPU allocates and another frees.
//!
//! ```text
//!  allocating CPU             freeing CPU
//!  main sheaf <- own barn <- spare sheaf
//! ```
//!
//! The side of a CPU ([`crate::percpu::area`]) tells such objects from the CPU's own; they are
//! freed to the spare sheaf. A full spare goes to the barn of the CPU whose slabs its objects
//! belong to ([`owner`]), which takes it as one of its own. In caches whose slabs are not kept by
//! CPU it goes to the barn of the freeing CPU, where the allocating CPU robs it. Every cache line
//! on this path changes CPUs. Four rules make that cheap:
//!
//! * **Dirty each cache line before handing it over.** A line that one CPU wrote and another only
//!   read is in the caches of both. The next CPU to write it must wait until the other has dropped
//!   its copy, which costs more than taking over a line from one cache. A program that frees an
//!   object has mostly only read it. So the freeing CPU writes to the first line or two of each
//!   object of a full sheaf before it stores the sheaf ([`hand_over`]). A program that frees
//!   without reading pays for that: one store for each line that its cache must fetch. A robbed
//!   sheaf, which would only be read until it is empty, is written by the robber
//!   ([`Sheaf::move_here`]).
//! * **Sheaves for other CPUs are larger.** Each sheaf handed over costs both CPUs an access to a
//!   shared barn. What a CPU frees for itself may gather on smaller sheaves, if the policy of the
//!   cache says so ([`sheaf_capacity`]).
//! * **Batches, and empty sheaves in return.** See [`super::barn::ROBBED_AT_ONCE`] and
//!   [`super::exchange`]. All sheaves of a batch are prefetched before the first is read: see
//!   [`SheafList`](crate::percpu::sheaf::SheafList).
//! * **Order is kept roughly.** The object freed last is allocated first, across sheaves
//!   ([`super::exchange`]). The order need not be perfect: see [`super::locality`].
#![allow(unsafe_code, reason = "writes free objects")]

use super::node::SheafNode;
use crate::base::sync::Ordering;
use crate::base::units::{CACHE_LINE, CpuId, SMALLEST_SYSTEM_PAGE, align_up};
use crate::engine::{RawCache, tunable};
use crate::pages::memmap::MEMMAP;
use crate::percpu::sheaf::Sheaf;

/// Returns the bytes of an object that are written before it is handed over: two lines of a small
/// object, one of a larger one. The rest costs more to write than the next CPU saves.
const fn written(stride: usize) -> usize {
    if stride <= 4 * CACHE_LINE { 2 * CACHE_LINE } else { CACHE_LINE }
}
/// Bytes of a free link.
const WORD: usize = size_of::<u64>();

/// Which CPU allocated the objects of a full sheaf, and will probably allocate them again. See
/// [`crate::percpu::area`] on sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FreedFor {
    /// The CPU that freed them.
    ThisCpu,
    /// Another CPU, which will take the sheaf.
    OtherCpu,
}

/// A sheaf may hold one in this many of the objects in the cache's slabs, if that is more than the
/// policy grants every cache.
const SHARE_OF_SLABS: usize = 64;

/// Returns the capacity of a new sheaf of `cache` for CPUs of `node`; 0 if the cache has no
/// sheaves. Sheaves grow with the use of the cache, so that a sheaf's worth of objects costs few
/// visits of the barn where there are many objects, and keeps little memory where there are few.
#[inline]
pub(super) fn sheaf_capacity(cache: &RawCache, node: &SheafNode, freed_for: FreedFor) -> usize {
    let (most, stride) = (tunable(&cache.sheaf_capacity), cache.slabs.geometry.stride);
    let granted = match freed_for {
        FreedFor::ThisCpu => cache.policy.this_cpu_capacity(stride),
        FreedFor::OtherCpu => cache.policy.other_cpu_capacity(stride),
    };
    granted.max(node.objects.load(Ordering::Relaxed) / SHARE_OF_SLABS).min(most)
}

/// Returns a CPU whose slabs the objects of a full sheaf belong to, by a few of them. `None` if
/// they belong to several CPUs. If the cache does not keep slabs by CPU, they belong to `cpu`.
pub(super) fn owner(cache: &RawCache, full: &Sheaf, cpu: CpuId) -> Option<CpuId> {
    if cache.slabs.lists == 1 {
        return Some(cpu);
    }
    let objects = full.objects();
    let list_of = |at: usize| {
        let page = MEMMAP.page_of(*objects.get(at)?)?;
        Some(MEMMAP.head(MEMMAP.head_of(page)).list())
    };
    let [first, middle, last] = [0, objects.len() / 2, objects.len().wrapping_sub(1)].map(list_of);
    if first != middle || middle != last {
        return None;
    }
    first.map(|list| CpuId(u32::from(list)))
}

/// Writes to the first cache lines of each object of a full sheaf, before another CPU takes it.
/// Constructed objects must not change, so for them only the line of the free link is written.
pub(super) fn hand_over(cache: &RawCache, full: &Sheaf) {
    let geometry = &cache.slabs.geometry;
    let is_constructed = geometry.link_offset >= geometry.object_size;
    let (from, to) = if is_constructed {
        (geometry.link_offset, geometry.link_offset + WORD)
    } else {
        (0, geometry.stride.min(written(geometry.stride)))
    };
    for &object in full.objects() {
        // SAFETY: the objects of a sheaf are free, and the holder of the sheaf owns them, up to the
        // next object. Neither their bytes nor those in place of a link have a meaning. Objects and
        // links are word-aligned, so strides are multiples of a word.
        unsafe { write_lines(object + from, object + to) };
    }
}

/// Writes a word of each cache line of `from..to`. Stops at a page whose first word is zero,
/// because the program probably never touched it: writing would make it resident.
///
/// # Safety
/// The caller owns the range, which is at least one word long and word-aligned at both ends. Its
/// contents have no meaning.
unsafe fn write_lines(from: usize, to: usize) {
    let mut at = from;
    loop {
        // SAFETY: `at` is a word of the caller's range.
        unsafe { (at as *mut u64).write(0) };
        at = align_up(at + 1, CACHE_LINE);
        // SAFETY: `at < to`, so it is a word of the caller's range.
        if at >= to || at.is_multiple_of(SMALLEST_SYSTEM_PAGE) && unsafe { (at as *mut u64).read() } == 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(4096))]
    struct Pages([u8; 4 * SMALLEST_SYSTEM_PAGE]);

    /// Writes the lines of `from..to` in pages whose bytes are all 1, except for those of `zeros`.
    /// Returns the offsets of zero words afterwards.
    fn written(from: usize, to: usize, zeros: core::ops::Range<usize>) -> std::vec::Vec<usize> {
        let mut pages = std::boxed::Box::new(Pages([1; 4 * SMALLEST_SYSTEM_PAGE]));
        pages.0[zeros.clone()].fill(0);
        let base = pages.0.as_mut_ptr() as usize;
        // SAFETY: the range lies inside the pages, which this function owns; its ends are multiples
        // of 16.
        unsafe { write_lines(base + from, base + to) };
        assert!(pages.0[zeros].iter().all(|&byte| byte == 0));
        (0..pages.0.len()).step_by(WORD).filter(|&at| pages.0[at..at + WORD] == [0; WORD]).collect()
    }

    #[test]
    fn a_word_of_each_line_is_written_and_nothing_outside() {
        assert_eq!(written(48, 64, 0..0), [48]);
        assert_eq!(written(64, 128, 0..0), [64]);
        assert_eq!(written(96, 272, 0..0), [96, 128, 192, 256]);
        let all = written(4000, 3 * SMALLEST_SYSTEM_PAGE, 0..0);
        assert_eq!(all[..3], [4000, 4032, 4096]);
        assert_eq!(all.len(), 2 + 2 * SMALLEST_SYSTEM_PAGE / CACHE_LINE);
    }

    #[test]
    fn pages_that_were_never_used_stay_so() {
        // Only the first word is zero here, so that a write to the others shows.
        let unused = 2 * SMALLEST_SYSTEM_PAGE;
        let places = written(0, 4 * SMALLEST_SYSTEM_PAGE, unused..unused + WORD);
        let expected: std::vec::Vec<usize> = (0..=unused).step_by(CACHE_LINE).collect();
        assert_eq!(places, expected, "all lines before, and the zero that was there");
        assert_eq!(
            written(SMALLEST_SYSTEM_PAGE, 2 * SMALLEST_SYSTEM_PAGE, 0..0).len(),
            SMALLEST_SYSTEM_PAGE / CACHE_LINE,
            "an object may start a page"
        );
    }
}
