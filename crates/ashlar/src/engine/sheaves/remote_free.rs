//! Crossing: objects that one CPU hands out and another frees.
//!
//! ```text
//!  CPU that allocates                               CPU that frees
//!  main sheaf <- own barn <- robbed, some at a time <- barn <- spare sheaf
//! ```
//!
//! The sides of CPUs ([`crate::percpu::area`]) tell such objects from the CPU's own: they gather on the spare sheaf. When that is full it
//! waits in the barn of the CPU that freed them until the one that allocates robs it. Every cache line that goes this way has to change
//! CPUs, and here stands what makes that cheap.
//!
//! * **Lines go over written.** A line that one CPU wrote and another only read is in the caches of both. Whoever writes it next has to wait
//!   until the other has dropped its copy, which costs more than taking over a line that only the other has. The program of a CPU that frees
//!   has mostly only read its objects. So the objects of a full sheaf are written before it goes to the barn ([`hand_over`]), in the caches
//!   where they lie, and in all their lines, since who is handed a buffer has read it; a program that frees without having looked pays for
//!   that, a store for each line which its cache has to fetch. And a sheaf that was robbed, which would only be read until it goes back empty, is written by the robber
//!   ([`Sheaf::move_here`]).
//! * **Sheaves for others are larger.** Each sheaf that goes over costs both CPUs a meeting at a barn. What a CPU frees for itself may gather on smaller
//!   ones, where the policy of the cache has it so ([`sheaf_capacity`]).
//! * **Several at a time, and empty ones for full ones.** See [`super::barn::ROBBED_AT_ONCE`] and [`super::exchange`]; and none is looked at before all are asked for: [`SheafList`](crate::percpu::sheaf::SheafList).
//! * **They keep some order.** What was freed last is allocated first, across the ends of sheaves ([`super::exchange`]). But they need not be in perfect
//!   order: see [`super::locality`].
#![allow(unsafe_code, reason = "writes free objects")]

use crate::base::units::{CACHE_LINE, PAGE_SIZE, align_up};
use crate::engine::{RawCache, tunable};
use crate::percpu::sheaf::Sheaf;

/// Bytes of a free link.
const WORD: usize = size_of::<u64>();

/// Which CPUs had handed out the objects of a full sheaf, and will probably do so again: see [`crate::percpu::area`] on sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FreedFor {
    /// That which freed them.
    ThisCpu,
    /// Another one, which will rob the sheaf.
    OtherCpu,
}

/// Objects that a new sheaf of `cache` holds; 0 if the cache works without sheaves.
#[inline]
pub(super) fn sheaf_capacity(cache: &RawCache, freed_for: FreedFor) -> usize {
    let (capacity, stride) = (tunable(&cache.sheaf_capacity), cache.slabs.geometry.stride);
    match freed_for {
        FreedFor::ThisCpu => cache.policy.this_cpu_capacity(capacity, stride),
        FreedFor::OtherCpu => capacity,
    }
}

/// Takes the lines of each object of a full sheaf for this CPU alone, before another one robs it; of constructed objects, which must stay as
/// they are, the line of the free link.
pub(super) fn hand_over(cache: &RawCache, full: &Sheaf) {
    let geometry = &cache.slabs.geometry;
    let is_constructed = geometry.link_offset >= geometry.object_size;
    let (from, to) =
        if is_constructed { (geometry.link_offset, geometry.link_offset + WORD) } else { (0, geometry.stride) };
    for &object in full.objects() {
        // SAFETY: the objects of a sheaf are free, and whoever has the sheaf has them, up to the next ones. What is in them, or behind them in
        // place of a link, means nothing. Objects and links are aligned for a word, so strides are multiples of one.
        unsafe { write_lines(object + from, object + to) };
    }
}

/// Writes a word of each cache line of `from..to`. Ends before a page that begins with a zero, as one does that the program never used: it
/// is not to become resident for this.
///
/// # Safety
/// The range is memory of the caller's, at least a word of it, whose contents mean nothing, and begins and ends at multiples of a word.
unsafe fn write_lines(from: usize, to: usize) {
    let mut at = from;
    loop {
        // SAFETY: by the caller's promise.
        unsafe { (at as *mut u64).write(0) };
        at = align_up(at + 1, CACHE_LINE);
        // SAFETY: by the caller's promise.
        if at >= to || at.is_multiple_of(PAGE_SIZE) && unsafe { (at as *mut u64).read() } == 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(4096))]
    struct Pages([u8; 4 * PAGE_SIZE]);

    /// Writes the lines of `from..to` of pages of which all bytes are 1 but those of `zeros`; the places that are 0 then.
    fn written(from: usize, to: usize, zeros: core::ops::Range<usize>) -> std::vec::Vec<usize> {
        let mut pages = std::boxed::Box::new(Pages([1; 4 * PAGE_SIZE]));
        pages.0[zeros.clone()].fill(0);
        let base = pages.0.as_mut_ptr() as usize;
        // SAFETY: inside the pages, which are this function's; the ends are multiples of 16.
        unsafe { write_lines(base + from, base + to) };
        assert!(pages.0[zeros].iter().all(|&byte| byte == 0));
        (0..pages.0.len()).step_by(WORD).filter(|&at| pages.0[at..at + WORD] == [0; WORD]).collect()
    }

    #[test]
    fn a_word_of_each_line_is_written_and_nothing_outside() {
        assert_eq!(written(48, 64, 0..0), [48]);
        assert_eq!(written(64, 128, 0..0), [64]);
        assert_eq!(written(96, 272, 0..0), [96, 128, 192, 256]);
        let all = written(4000, 3 * PAGE_SIZE, 0..0);
        assert_eq!(all[..3], [4000, 4032, 4096]);
        assert_eq!(all.len(), 2 + 2 * PAGE_SIZE / CACHE_LINE);
    }

    #[test]
    fn pages_that_were_never_used_stay_so() {
        // Only their first word is zero here, so that whoever writes the others is found out.
        let unused = 2 * PAGE_SIZE;
        let places = written(0, 4 * PAGE_SIZE, unused..unused + WORD);
        let expected: std::vec::Vec<usize> = (0..=unused).step_by(CACHE_LINE).collect();
        assert_eq!(places, expected, "all lines before, and the zero that was there");
        assert_eq!(written(PAGE_SIZE, 2 * PAGE_SIZE, 0..0).len(), PAGE_SIZE / CACHE_LINE, "an object may start a page");
    }
}
