//! Reads the heap profile of a process from outside, while the profile runs or after it was
//! stopped.
//!
//! The process goes on meanwhile, so a sample may be half written: what makes no sense is left out.

use std::collections::HashMap;

use ashlar::window::Window;

use super::memory::{Fields, MAX_STRUCTURE, ReadError, Reader, printable};
use crate::profile::read::{Counts, Live, Profile, Site};

/// The most live samples, and the most words of sites.
const MOST_LIVE: u64 = 1 << 22;
const MOST_WORDS: u64 = 1 << 24;
/// Bytes of one read.
const PIECE: u64 = 1 << 20;
/// Words of a site before its frames, the last of them the name of the cache, and the most frames.
const NAME: usize = 7;
const HEAD: usize = NAME + 6;
const MOST_FRAMES: usize = 1024;

/// Returns the profile; `None` if none was started. It has no mappings yet.
pub(super) fn read(reader: &Reader<'_>, window: &Window, now_ms: u64) -> Result<Option<Profile>, ReadError> {
    let (places, layout) = (&window.places, &window.profile);
    let word = |offset: u32| reader.word(places.profile.wrapping_add(offset.into()));
    let words_used = word(layout.words_used)?;
    // A slice of no elements is a table that was never mapped.
    if word(layout.words.wrapping_add(8))? == 0 {
        return Ok(None);
    }
    let live_used = word(layout.live_used)?;
    if live_used > MOST_LIVE || words_used > MOST_WORDS || !(32..=MAX_STRUCTURE).contains(&layout.sample_bytes) {
        return Err(ReadError::Nonsense("the table of samples"));
    }
    if layout.site_head as usize != HEAD {
        return Err(ReadError::Nonsense("the sites of samples"));
    }
    let count = |number: u32| word(layout.counts.wrapping_add(8 * number));
    let counts =
        Counts { taken: count(0)?, freed: count(1)?, lost: count(2)?, truncated: count(3)?, nested: count(4)? };
    let words = all(reader, word(layout.words)?, words_used * 8)?;
    let (sites, numbers) = sites(&words);
    let samples = all(reader, word(layout.live)?, live_used * u64::from(layout.sample_bytes))?;
    let mut live = Vec::new();
    for sample in samples.chunks_exact(layout.sample_bytes as usize) {
        let address = sample.u64_at(layout.address)?;
        let Some(&site) = numbers.get(&sample.u32_at(layout.site)?) else { continue };
        if address == 0 {
            continue;
        }
        let name: [u8; 16] = sample.array(layout.name)?;
        live.push(Live {
            site,
            address,
            size: sample.u64_at(layout.size)?.min(1 << 47),
            rate: sample.u32_at(layout.rate)?.into(),
            age_ms: now_ms.saturating_sub(sample.u64_at(layout.born_ms)?),
            thread: sample.u32_at(layout.thread)?.into(),
            name: printable(name.split(|&byte| byte == 0).next().unwrap_or_default()),
        });
    }
    let started = reader.word(places.profile_started)?;
    let lasted_ms = now_ms.saturating_sub(started);
    let rate = reader.word(places.profile_rate)?.min(1 << 47);
    Ok(Some(Profile { rate, lasted_ms, counts, sites, live, ..Profile::default() }))
}

/// Returns the time that processes stamp samples with.
#[expect(unsafe_code, reason = "the standard library does not tell this clock")]
pub(super) fn now_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is writable, and every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Reads a long array.
fn all(reader: &Reader<'_>, start: u64, bytes: u64) -> Result<Vec<u8>, ReadError> {
    let mut read = Vec::new();
    for from in (0..bytes).step_by(PIECE as usize) {
        let piece = PIECE.min(bytes - from);
        read.extend(reader.bytes(start.wrapping_add(from), piece as usize)?);
    }
    Ok(read)
}

/// Returns a name that zeros follow.
fn name_in(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|&byte| byte != 0).collect();
    printable(&bytes)
}

/// Returns the sites, and which of them has which number. Ends at the first that makes no sense.
fn sites(bytes: &[u8]) -> (Vec<Site>, HashMap<u32, usize>) {
    let words: Vec<u64> = bytes.chunks_exact(8).filter_map(|word| word.u64_at(0).ok()).collect();
    let (mut sites, mut numbers) = (Vec::new(), HashMap::new());
    // Place 0 is none.
    let mut at = 1;
    while let Some(head) = words.get(at..at + HEAD) {
        let shape = head[2];
        let (depth, class_size, extent) = ((shape & 0xffff) as usize, shape >> 16 & 0xffff_ffff, shape >> 48);
        let Some(frames) = words.get(at + HEAD..at + HEAD + depth) else { break };
        if depth > MOST_FRAMES || class_size > 1 << 20 || extent > 2 {
            break;
        }
        let rounded =
            |word: u64| Some(f64::from_bits(word)).filter(|number| number.is_finite()).map_or(0, |n| n as u64);
        numbers.insert(at as u32, sites.len());
        sites.push(Site {
            cache: name_in(&head[NAME..]),
            truncated: extent == 1,
            nested: extent == 2,
            objects: rounded(head[5]),
            bytes: rounded(head[6]),
            frames: frames.to_vec(),
        });
        at += HEAD + depth;
    }
    (sites, numbers)
}
