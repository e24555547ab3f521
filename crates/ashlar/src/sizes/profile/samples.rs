//! The table of samples: the live ones by address, and the sites, each a backtrace in a cache.
//!
//! It lies in mappings of its own, which grow with their use up to a bound. What finds no room is
//! counted and left out. One lock guards it, and the marks on slabs ([`marks`]). Nothing that takes
//! a lock is called under it.
#![allow(unsafe_code, reason = "maps tables of numbers")]

use core::mem::offset_of;

use super::marks;
use super::random::weight;
use crate::base::os::{Extent, map_table, unmap_table};
use crate::base::sync::{SpinLock, Visit};
use crate::base::window::ProfileAt;
use crate::slab::cache::MAX_NAME;

/// The most frames of a site. A few more are recorded, because the innermost are the allocator's.
pub(super) const DEPTH: usize = 64 + 8;
/// The lists of live samples and of sites, by a hash.
const LIVE_LISTS: usize = 1 << 18;
const SITE_LISTS: usize = 1 << 16;
/// The most live samples.
const MOST_LIVE: usize = 1 << 22;
/// The most words of sites.
const MOST_WORDS: usize = 1 << 24;
/// How often the tables are halved if the system refuses them.
const HALVINGS: usize = 8;

/// A sampled object that was not freed yet. Number 0 is none.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Live {
    /// 0 in a free place.
    pub(super) address: usize,
    pub(super) size: usize,
    pub(super) born_ms: u64,
    /// The place of its site.
    pub(super) site: u32,
    pub(super) rate: u32,
    /// The next of its list, or the next free place.
    next: u32,
    pub(super) thread: u32,
    pub(super) name: [u8; 16],
    /// Whether its slab counts it (see [`marks`]).
    marked: bool,
    /// Whether it is an object of a cache of the program.
    of_program: bool,
}

/// The words of a site; the name of the cache and the frames follow.
pub(super) const HASH: usize = 0;
pub(super) const NEXT: usize = 1;
/// The depth, the cache's object size shifted by 16, and the extent shifted by 48.
pub(super) const SHAPE: usize = 2;
pub(super) const COUNT: usize = 3;
pub(super) const BYTES: usize = 4;
/// What the samples stand for, as the bits of floating-point numbers.
pub(super) const OBJECTS_FOR: usize = 5;
pub(super) const BYTES_FOR: usize = 6;
/// The name of the cache, padded with zeros; none for a large object.
pub(super) const NAME: usize = 7;
const NAME_WORDS: usize = (MAX_NAME + 1) / 8;
pub(super) const HEAD: usize = NAME + NAME_WORDS;
const _: () = assert!(NAME_WORDS * 8 > MAX_NAME);

/// Where a reader outside finds the samples.
pub(crate) const LAYOUT: ProfileAt = ProfileAt {
    live: offset_of!(Table, live) as u32,
    live_used: offset_of!(Table, live_used) as u32,
    words: offset_of!(Table, words) as u32,
    words_used: offset_of!(Table, words_used) as u32,
    counts: offset_of!(Table, counts) as u32,
    sample_bytes: size_of::<Live>() as u32,
    address: offset_of!(Live, address) as u32,
    size: offset_of!(Live, size) as u32,
    born_ms: offset_of!(Live, born_ms) as u32,
    site: offset_of!(Live, site) as u32,
    rate: offset_of!(Live, rate) as u32,
    thread: offset_of!(Live, thread) as u32,
    name: offset_of!(Live, name) as u32,
    site_head: HEAD as u32,
};

/// Returns the address of the table.
#[place(cold)]
pub(super) fn address() -> usize {
    TABLE.data_ptr().addr()
}

/// How many samples there were, and what became of some.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) taken: u64,
    pub(crate) freed: u64,
    /// Without room in the table.
    pub(crate) lost: u64,
    pub(crate) truncated: u64,
    pub(crate) nested: u64,
}

/// A sample to be entered.
pub(super) struct Sample<'a> {
    pub(super) address: usize,
    pub(super) size: usize,
    /// The object size of the cache; 0 for a large object.
    pub(super) class_size: usize,
    /// The name of the cache; empty for a large object.
    pub(super) cache: &'a str,
    pub(super) of_program: bool,
    pub(super) rate: usize,
    pub(super) born_ms: u64,
    pub(super) thread: u32,
    pub(super) name: [u8; 16],
    pub(super) frames: &'a [usize],
    pub(super) extent: Extent,
}

struct Table {
    live_lists: &'static mut [u32],
    site_lists: &'static mut [u32],
    live: &'static mut [Live],
    /// Places that were ever in use; place 0 is none.
    live_used: usize,
    /// Head of the list of free places.
    free: u32,
    words: &'static mut [u64],
    words_used: usize,
    counts: Counts,
    /// Whether samples of the program's caches are refused: their frees are not noticed.
    closed_to_program: bool,
}

static TABLE: SpinLock<Table> = SpinLock::new(Table {
    live_lists: &mut [],
    site_lists: &mut [],
    live: &mut [],
    live_used: 1,
    free: 0,
    words: &mut [],
    words_used: 1,
    counts: Counts { taken: 0, freed: 0, lost: 0, truncated: 0, nested: 0 },
    closed_to_program: false,
});

/// See `fork`.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    visit(TABLE.word());
}

/// Maps a table of zeros.
///
/// # Safety
/// Zeros are a valid `T`.
#[place(cold)]
unsafe fn zeros<T>(count: usize) -> Option<&'static mut [T]> {
    let at = map_table(count * size_of::<T>())?.cast::<T>();
    // SAFETY: the mapping is fresh, readable and writable for this length, aligned to a page, and
    // never unmapped while the slice is in use. It reads as zeros, which the caller says is valid.
    Some(unsafe { core::slice::from_raw_parts_mut(at.as_ptr(), count) })
}

/// All tables, in one mapping, so that the system refuses all of them or none.
type Tables = (&'static mut [Live], &'static mut [u64], &'static mut [u32], &'static mut [u32]);

#[place(cold)]
fn map_tables(halvings: usize) -> Option<Tables> {
    let (live, words) = (MOST_LIVE >> halvings, MOST_WORDS >> halvings);
    let [live_bytes, words_bytes, lists_bytes] = [live * size_of::<Live>(), words * 8, LIVE_LISTS * 4];
    let at = map_table(live_bytes + words_bytes + lists_bytes + SITE_LISTS * 4)?.as_ptr();
    // SAFETY: the four parts follow one another in a fresh mapping of zeros, which is never
    // unmapped, and each starts at a multiple of its alignment: the lengths are multiples of 8.
    unsafe {
        let words_at = at.add(live_bytes);
        let lists_at = words_at.add(words_bytes);
        Some((
            core::slice::from_raw_parts_mut(at.cast(), live),
            core::slice::from_raw_parts_mut(words_at.cast(), words),
            core::slice::from_raw_parts_mut(lists_at.cast(), LIVE_LISTS),
            core::slice::from_raw_parts_mut(lists_at.add(lists_bytes).cast(), SITE_LISTS),
        ))
    }
}

/// Empties the table, and maps it the first time. Returns false if the system refuses memory.
#[place(cold)]
#[inline(never)]
pub(super) fn open() -> bool {
    if TABLE.lock().words.is_empty() {
        let Some((live, words, live_lists, site_lists)) = (0..HALVINGS).find_map(map_tables) else { return false };
        let mut table = TABLE.lock();
        // Another thread may have been faster. Its table stays, and this one costs addresses only.
        if table.words.is_empty() {
            (table.live_lists, table.site_lists, table.live, table.words) = (live_lists, site_lists, live, words);
        }
    }
    let mut table = TABLE.lock();
    table.unmark(|_| true);
    table.closed_to_program = false;
    // A table without sites is as it was mapped. To write it would make its pages resident.
    if table.words_used > 1 {
        table.live_lists.fill(0);
        table.site_lists.fill(0);
    }
    (table.live_used, table.free, table.words_used, table.counts) = (1, 0, 1, Counts::default());
    true
}

/// Has the slabs of the program's caches count no samples any more, because from now on these may
/// be freed without notice. A slab is written to only as long as it is certain to be there. Further
/// samples are refused.
#[place(cold)]
#[inline(never)]
pub(super) fn close_to_program() {
    let mut table = TABLE.lock();
    table.closed_to_program = true;
    table.unmark(|live| live.of_program);
}

/// Mixes the bits of a word into a hash.
fn mixed(hash: u64, word: u64) -> u64 {
    let z = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z ^ (z >> 29)
}

/// Returns the list of an address.
fn list_of(address: usize) -> usize {
    mixed(0, address as u64 >> 4) as usize >> 8 & (LIVE_LISTS - 1)
}

#[place(cold)]
impl Table {
    /// Takes back the marks of live samples.
    fn unmark(&mut self, which: fn(&Live) -> bool) {
        let used = self.live_used;
        for live in self.live.iter_mut().take(used) {
            if live.address != 0 && live.marked && which(live) {
                live.marked = false;
                marks::remove(live.address);
            }
        }
    }

    /// Returns the place of the site of a sample, and enters it if it is new.
    fn site(&mut self, sample: &Sample<'_>) -> Option<u32> {
        let shape = sample.frames.len() as u64 | (sample.class_size as u64) << 16 | (sample.extent as u64) << 48;
        let mut name = [0; NAME_WORDS];
        for (at, &byte) in sample.cache.as_bytes().iter().take(MAX_NAME).enumerate() {
            name[at / 8] |= u64::from(byte) << (8 * (at % 8));
        }
        let hash = name.iter().fold(mixed(1, shape), |hash, &word| mixed(hash, word));
        let hash = sample.frames.iter().fold(hash, |hash, &frame| mixed(hash, frame as u64));
        let list = hash as usize >> 8 & (SITE_LISTS - 1);
        let first = *self.site_lists.get(list)?;
        let mut at = first as usize;
        while at != 0 {
            let site = self.words.get(at..at + HEAD + sample.frames.len());
            let same = |site: &&[u64]| {
                site[HASH] == hash
                    && site[SHAPE] == shape
                    && site[NAME..HEAD] == name
                    && site[HEAD..].iter().zip(sample.frames).all(|(&word, &frame)| word == frame as u64)
            };
            if site.filter(same).is_some() {
                return Some(at as u32);
            }
            at = *self.words.get(at + NEXT)? as usize;
        }
        let at = self.words_used;
        let site = self.words.get_mut(at..at + HEAD + sample.frames.len())?;
        site[..NAME].copy_from_slice(&[hash, u64::from(first), shape, 0, 0, 0, 0]);
        site[NAME..HEAD].copy_from_slice(&name);
        site[HEAD..].iter_mut().zip(sample.frames).for_each(|(word, &frame)| *word = frame as u64);
        self.words_used += HEAD + sample.frames.len();
        *self.site_lists.get_mut(list)? = at as u32;
        Some(at as u32)
    }

    /// Enters a sample; `None` if there is no room.
    fn add(&mut self, sample: &Sample<'_>) -> Option<f64> {
        let site = self.site(sample)?;
        let free = self.free as usize;
        let place = if free != 0 { free } else { self.live_used };
        let list = self.live_lists.get_mut(list_of(sample.address))?;
        let live = self.live.get_mut(place)?;
        if free != 0 {
            self.free = live.next;
        } else {
            self.live_used += 1;
        }
        let Sample { address, size, born_ms, rate, thread, name, of_program, .. } = *sample;
        let marked = marks::add(address);
        *live = Live { address, size, born_ms, site, rate: rate as u32, next: *list, thread, name, marked, of_program };
        *list = place as u32;
        let objects = weight(size, rate);
        let words = self.words.get_mut(site as usize..site as usize + HEAD)?;
        words[COUNT] += 1;
        words[BYTES] += size as u64;
        words[OBJECTS_FOR] = (f64::from_bits(words[OBJECTS_FOR]) + objects).to_bits();
        words[BYTES_FOR] = (f64::from_bits(words[BYTES_FOR]) + objects * size as f64).to_bits();
        Some(objects * size as f64)
    }

    /// Takes out the sample at `address`, and its mark. Returns false if there is none.
    fn take_unmarked(&mut self, address: usize) -> bool {
        let taken = self.take(address);
        if taken.is_some_and(|live| live.marked) {
            marks::remove(address);
        }
        taken.is_some()
    }

    /// Takes out the sample at `address`.
    fn take(&mut self, address: usize) -> Option<Live> {
        let list = list_of(address);
        let (mut before, mut at) = (0, *self.live_lists.get(list)?);
        while at != 0 {
            let live = *self.live.get(at as usize)?;
            if live.address == address {
                match before {
                    0 => *self.live_lists.get_mut(list)? = live.next,
                    before => self.live.get_mut(before)?.next = live.next,
                }
                let place = self.live.get_mut(at as usize)?;
                (place.address, place.next) = (0, self.free);
                self.free = at;
                return Some(live);
            }
            (before, at) = (at as usize, live.next);
        }
        None
    }
}

/// Enters a sample. Returns the bytes that it stands for; `None` if there is no room.
#[place(cold)]
#[inline(never)]
pub(super) fn add(sample: &Sample<'_>) -> Option<f64> {
    let mut table = TABLE.lock();
    if sample.of_program && table.closed_to_program {
        return None;
    }
    table.counts.taken += 1;
    match sample.extent {
        Extent::Whole => {}
        Extent::Truncated => table.counts.truncated += 1,
        Extent::Nested => table.counts.nested += 1,
    }
    // A block that was freed beside a fork may still be there.
    if table.take_unmarked(sample.address) {
        table.counts.freed += 1;
    }
    let added = table.add(sample);
    if added.is_none() {
        table.counts.lost += 1;
    }
    added
}

/// Takes out the sample at `address`, which is freed. Returns false if there is none.
#[place(cold)]
#[inline(never)]
pub(super) fn remove(address: usize) -> bool {
    let mut table = TABLE.lock();
    let found = table.take_unmarked(address);
    table.counts.freed += u64::from(found);
    found
}

/// Moves the sample at `old` to `new`, where its object is now.
#[place(cold)]
#[inline(never)]
pub(super) fn relocate(old: usize, new: usize) {
    let mut table = TABLE.lock();
    let Some(live) = table.take(old) else { return };
    // The place that was just freed.
    let place = table.free;
    let Some(next) = table.live.get(place as usize).map(|live| live.next) else { return };
    let list = list_of(new);
    let Some(first) = table.live_lists.get(list).copied() else { return };
    table.free = next;
    table.live_lists[list] = place;
    table.live[place as usize] = Live { address: new, next: first, ..live };
}

#[cfg(test)]
pub(super) fn counts() -> Counts {
    TABLE.lock().counts
}

/// A copy of the table, of one moment.
pub(super) struct Snapshot {
    pub(super) live: &'static [Live],
    pub(super) words: &'static [u64],
    pub(super) counts: Counts,
}

/// Calls `visit` with a copy of the table. `None` if the system refuses memory for the copy.
#[place(cold)]
#[inline(never)]
pub(super) fn with_snapshot<R>(mut visit: impl FnMut(&Snapshot) -> R) -> Option<R> {
    let (mut live_room, mut words_room) = {
        let table = TABLE.lock();
        (table.live_used, table.words_used)
    };
    loop {
        // Some more, because the program goes on.
        (live_room, words_room) = (live_room + live_room / 8 + 64, words_room + words_room / 8 + 4096);
        // SAFETY: both hold numbers only.
        let (live, words) = unsafe { (zeros::<Live>(live_room)?, zeros::<u64>(words_room)?) };
        let copied = {
            let table = TABLE.lock();
            let fits = table.live_used <= live_room && table.words_used <= words_room;
            if fits && !table.words.is_empty() {
                live[..table.live_used].copy_from_slice(&table.live[..table.live_used]);
                words[..table.words_used].copy_from_slice(&table.words[..table.words_used]);
            }
            fits.then_some((table.live_used, table.words_used, table.counts))
        };
        let (live, words) = (&*live, &*words);
        let result = copied.map(|(used, words_used, counts)| {
            visit(&Snapshot { live: &live[1..used], words: &words[1..words_used], counts })
        });
        // SAFETY: the two mappings are this call's, and nothing refers to them any more.
        unsafe {
            unmap_table(live.as_ptr().cast(), size_of_val(live));
            unmap_table(words.as_ptr().cast(), size_of_val(words));
        }
        if result.is_some() {
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample<'a>(address: usize, frames: &'a [usize], extent: Extent) -> Sample<'a> {
        let (size, class_size, rate) = (100, 112, 1);
        let (cache, of_program) = ("malloc-112", false);
        Sample {
            address,
            size,
            class_size,
            cache,
            of_program,
            rate,
            born_ms: 5,
            thread: 1,
            name: [0; 16],
            frames,
            extent,
        }
    }

    #[test]
    fn samples_are_found_by_address_until_they_are_removed_and_sites_are_shared() {
        assert!(open());
        let frames = [[1usize, 2, 3], [1, 2, 4]];
        for address in (16..16 * 3000).step_by(16) {
            assert_eq!(add(&sample(address, &frames[address / 16 % 2], Extent::Whole)), Some(100.0));
        }
        assert_eq!(with_snapshot(|table| table.words.len()), Some(2 * (HEAD + 3)), "two sites");
        relocate(16, 1 << 20);
        assert!(!remove(16) && remove(1 << 20) && !remove(1 << 20));
        for address in (32..16 * 3000).step_by(16).rev() {
            assert!(remove(address), "{address}");
        }
        let left = with_snapshot(|table| table.live.iter().filter(|live| live.address != 0).count());
        assert_eq!((left, counts().taken, counts().freed, counts().lost), (Some(0), 2999, 2999, 0));
        // Places are used again.
        add(&sample(64, &[], Extent::Truncated));
        add(&sample(64, &[7; DEPTH], Extent::Nested));
        let used =
            with_snapshot(|table| (table.live.len(), table.live.iter().filter(|live| live.address == 64).count()));
        assert_eq!((used, counts().truncated, counts().nested), (Some((2999, 1)), 1, 1));
    }
}
