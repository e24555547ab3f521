//! Who allocated the objects of a cache that are in use, and who freed those that are free: the
//! kernel's files `alloc_traces` and `free_traces`.
//!
//! The stacks are gathered into a table of their own memory under list_lock of each node, and
//! handed out when no lock is held. So their receiver may allocate from the same cache.
#![allow(unsafe_code, reason = "a table in mapped memory")]

use core::ptr::NonNull;

use super::object::{Event, Mark};
use super::track::{FRAMES, Track};
use super::{DebugFlags, slabs};
use crate::base::os;
use crate::engine::RawCache;
use ashlar_macros::place;

/// Most different call stacks that are told apart; the rest counts as one without frames.
const MOST: usize = 4096;
/// Places of the table: more than half of them stay free.
const PLACES: usize = 2 * MOST;
const BYTES: usize = PLACES * size_of::<Trace>();

/// The objects of a cache that were allocated, or freed, by one call stack: what the kernel's
/// `alloc_traces` and `free_traces` say in a line and the stack below it.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// The number of objects.
    pub count: usize,
    /// Milliseconds since it happened: of the object for which that is least.
    pub age_min: u64,
    /// The sum over all objects.
    pub age_sum: u64,
    /// The largest.
    pub age_max: u64,
    /// The least number of a thread, as the system counts threads.
    pub thread_min: u32,
    /// The largest.
    pub thread_max: u32,
    /// The CPUs, a bit for each of the first 64.
    pub cpus: u64,
    frames: [usize; FRAMES],
    depth: usize,
}

impl Trace {
    /// Returns the return addresses, innermost first.
    pub fn frames(&self) -> &[usize] {
        &self.frames[..self.depth]
    }

    fn new(frames: [usize; FRAMES]) -> Trace {
        let depth = frames.iter().position(|&frame| frame == 0).unwrap_or(FRAMES);
        let (age_min, thread_min) = (u64::MAX, u32::MAX);
        Trace { count: 0, age_min, age_sum: 0, age_max: 0, thread_min, thread_max: 0, cpus: 0, frames, depth }
    }

    fn add(&mut self, track: &Track, now: u64) {
        let age = now.saturating_sub(track.at_ms);
        self.count += 1;
        self.age_min = self.age_min.min(age);
        self.age_max = self.age_max.max(age);
        self.age_sum = self.age_sum.saturating_add(age);
        self.thread_min = self.thread_min.min(track.thread);
        self.thread_max = self.thread_max.max(track.thread);
        self.cpus |= 1u64.checked_shl(track.cpu).unwrap_or(0);
    }
}

/// The stacks that were found, in mapped memory: a hash table with open addressing, in which a
/// count of 0 marks a free place.
struct Table {
    at: NonNull<Trace>,
    count: usize,
}

impl Table {
    #[place(cold)]
    fn new() -> Option<Table> {
        Some(Table { at: os::map_table(BYTES)?.cast(), count: 0 })
    }

    fn traces(&mut self) -> &mut [Trace] {
        // SAFETY: the mapping has room for as many entries, and starts at a page. It holds zeros or
        // what was written since, and all zeros are an entry. The table has it to itself.
        unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr(), PLACES) }
    }

    /// Returns the place of a stack, or the free one where it belongs.
    #[place(cold)]
    fn place_of(&mut self, frames: &[usize; FRAMES]) -> &mut Trace {
        let mix = |hash: u64, &frame: &usize| (hash ^ frame as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let mut at = frames.iter().fold(0, mix) as usize % PLACES;
        // There are free places always, so this ends.
        while self.traces()[at].count != 0 && self.traces()[at].frames != *frames {
            at = (at + 1) % PLACES;
        }
        &mut self.traces()[at]
    }

    #[place(cold)]
    fn add(&mut self, track: &Track, now: u64) {
        let is_full = self.count >= MOST;
        let mut place = self.place_of(&track.frames);
        if place.count == 0 && is_full {
            place = self.place_of(&[0; FRAMES]);
        }
        let is_new = place.count == 0;
        if is_new {
            *place = Trace::new(if is_full { [0; FRAMES] } else { track.frames });
        }
        place.add(track, now);
        self.count += usize::from(is_new);
    }
}

impl Drop for Table {
    #[place(cold)]
    fn drop(&mut self) {
        // SAFETY: `new` mapped it, and slices of it do not outlive the table.
        unsafe { os::unmap_table(self.at.as_ptr().cast(), BYTES) };
    }
}

/// Calls `each` for every call stack by which objects in use were allocated, or free ones freed,
/// the most frequent first. Returns the number of stacks; `None` if the cache has no flag `U`, or
/// without memory.
#[place(cold)]
#[inline(never)]
pub(crate) fn for_each(cache: &'static RawCache, freed: bool, mut each: impl FnMut(&Trace)) -> Option<usize> {
    if !super::flags_of(cache).has(DebugFlags::STORE_USER) {
        return None;
    }
    let mut table = Table::new()?;
    let now = os::now_ms();
    let event = if freed { Event::Free } else { Event::Alloc };
    slabs::for_each_object(cache, &mut |slot| {
        let fits = matches!((slot.mark(), freed), (Mark::Live(_), false) | (Mark::Free, true));
        if let Some(track) = slot.track(event).filter(|_| fits) {
            table.add(&track, now);
        }
    });
    let count = table.count;
    let traces = table.traces();
    // A sort that allocates nothing. Free places come last.
    traces.sort_unstable_by_key(|trace| core::cmp::Reverse(trace.count));
    traces[..count].iter().for_each(&mut each);
    Some(count)
}
