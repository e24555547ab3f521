//! Walks the tables of pages: the state of each slab, and large objects.

use std::collections::HashMap;

use ashlar::window::Window;

use super::caches::Found;
use super::memory::{Fields, ReadError, Reader};
use super::report::Large;

/// Bytes of a page head, and of a class word.
const HEAD: u64 = 32;
const WORD: u64 = 4;
/// The most pages: 8 TiB of pages of 4 KiB.
const MAX_PAGES: u64 = 1 << 31;

/// Adds the state of every slab to its cache, and returns what the large objects take.
pub(super) fn walk(reader: &Reader<'_>, window: &Window, caches: &mut [Found]) -> Result<Large, ReadError> {
    let places = &window.places;
    let pages = reader.word(places.nr_pages)?;
    if pages > MAX_PAGES {
        return Err(ReadError::Nonsense("there are too many pages"));
    }
    let of_address: HashMap<u64, usize> = caches.iter().enumerate().map(|(at, found)| (found.address, at)).collect();
    let mut large = Large::default();
    // The tables are mapped for whole blocks.
    let in_block = window.block_pages();
    for block in (0..pages).step_by(in_block as usize) {
        let count = in_block.min(pages - block);
        let words = match reader.bytes(places.class.wrapping_add(block * WORD), (count * WORD) as usize) {
            // Another mapping lay in the way of the zone, so this block has no tables.
            Err(ReadError::Unmapped(_)) => continue,
            words => words?,
        };
        let mut heads = words.chunks_exact(4).enumerate().filter_map(|(page, word)| {
            let word = word.u32_at(0).ok()?;
            Head::of_word(word).map(|head| (page as u64, head))
        });
        let Some(first) = heads.next() else { continue };
        let rest: Vec<(u64, Head)> = heads.collect();
        let last = rest.last().unwrap_or(&first).0;
        let table = places.heads.wrapping_add((block + first.0) * HEAD);
        let table = reader.bytes(table, ((last - first.0 + 1) * HEAD) as usize)?;
        for (page, head) in core::iter::once(first).chain(rest) {
            let at = ((page - first.0) * HEAD) as usize;
            let entry = &table[at..at + HEAD as usize];
            match head {
                Head::Slab => {
                    if let Some(&at) = of_address.get(&entry.u64_at(16)?) {
                        count_slab(entry, &mut caches[at])?;
                    }
                }
                Head::Large => {
                    large.objects += 1;
                    large.bytes = large.bytes.saturating_add(entry.u64_at(0)?.saturating_mul(window.page_bytes()));
                }
            }
        }
    }
    Ok(large)
}

/// What a page that heads a run holds.
#[derive(Clone, Copy)]
enum Head {
    Slab,
    Large,
}

impl Head {
    fn of_word(word: u32) -> Option<Head> {
        match (word >> 25, word >> 16 & 0x1ff) {
            (1, 0) => Some(Head::Slab),
            (2, _) => Some(Head::Large),
            _ => None,
        }
    }
}

/// Adds one slab, by its page head: the state word, links, owner, shape, list.
fn count_slab(head: &[u8], found: &mut Found) -> Result<(), ReadError> {
    let (state, shape, listed) = (head.u64_at(0)?, head.u32_at(24)?, head.u32_at(28)? & 1 != 0);
    let (objects, in_use) = (u64::from(shape & 0xffff), state >> 16 & 0x7fff);
    let free = objects.saturating_sub(in_use);
    let cache = &mut found.cache;
    match (free, in_use) {
        (0, _) => cache.full += 1,
        (_, 0) => cache.empty += 1,
        _ => {
            cache.partial += 1;
            cache.sparse += u64::from(in_use * 4 <= objects);
            cache.pinned_bytes = cache.pinned_bytes.saturating_add(free.saturating_mul(cache.stride));
        }
    }
    if listed {
        cache.free += free;
    }
    Ok(())
}
