//! Reads what the library writes of a profile; see `sizes/profile/dump.rs` of the crate `ashlar`.
//!
//! The file may be damaged, or of another program. Nothing in it is trusted: a line that cannot be
//! understood ends the reading with its number.

use std::collections::HashMap;
use std::path::Path;

use crate::error::ToolError;

/// The first line.
const FORMAT: &str = "ashlar-profile 2";
/// The most bytes of a file: ten million samples.
const MOST_BYTES: u64 = 2 << 30;
/// The largest size and rate that a program can have.
const MOST_SIZE: u64 = 1 << 47;

/// A profile.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// Bytes between samples; 0 if the profile was stopped before it was written.
    pub(crate) rate: u64,
    pub(crate) pid: u64,
    /// Milliseconds from its start to the moment when it was written.
    pub(crate) lasted_ms: u64,
    pub(crate) counts: Counts,
    pub(crate) sites: Vec<Site>,
    pub(crate) live: Vec<Live>,
    pub(crate) maps: Vec<Map>,
}

impl Profile {
    /// Returns the part that belongs to one cache.
    pub(crate) fn of_cache(&self, cache: &str) -> Profile {
        let mut places = HashMap::new();
        let mut sites = Vec::new();
        for (number, site) in self.sites.iter().enumerate().filter(|(_, site)| site.cache() == cache) {
            places.insert(number, sites.len());
            sites.push(site.clone());
        }
        let moved = |live: &Live| Some(Live { site: *places.get(&live.site)?, ..live.clone() });
        let live = self.live.iter().filter_map(moved).collect();
        Profile { sites, live, maps: self.maps.clone(), ..*self }
    }
}

/// How many samples there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) taken: u64,
    pub(crate) freed: u64,
    pub(crate) lost: u64,
    pub(crate) truncated: u64,
    pub(crate) nested: u64,
}

/// A backtrace in a cache, and what was allocated there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site {
    /// The name of the cache; empty for large objects.
    pub(crate) cache: String,
    pub(crate) truncated: bool,
    pub(crate) nested: bool,
    /// What was allocated here, by estimate.
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    /// Return addresses, innermost first.
    pub(crate) frames: Vec<u64>,
}

impl Site {
    /// Returns the name of the cache.
    pub(crate) fn cache(&self) -> &str {
        if self.cache.is_empty() { "large" } else { &self.cache }
    }
}

/// A sample that was not freed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    /// Its place in the list of sites.
    pub(crate) site: usize,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) rate: u64,
    pub(crate) age_ms: u64,
    pub(crate) thread: u64,
    pub(crate) name: String,
}

impl Live {
    /// Returns the objects that the sample stands for.
    pub(crate) fn objects(&self) -> f64 {
        if self.rate <= 1 {
            return 1.0;
        }
        -1.0 / (-(self.size.max(1) as f64) / self.rate as f64).exp_m1()
    }

    /// Returns the bytes that the sample stands for.
    pub(crate) fn bytes(&self) -> f64 {
        self.objects() * self.size as f64
    }
}

/// A line of `/proc/PID/maps`.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) path: String,
}

/// Reads a profile from a file.
pub(crate) fn from_file(path: &Path) -> Result<Profile, ToolError> {
    let bad = |message: &dyn core::fmt::Display| ToolError::option(&path.display().to_string(), message);
    let length = std::fs::metadata(path).map_err(|error| bad(&error))?.len();
    if length > MOST_BYTES {
        return Err(bad(&"expected a profile of at most 2 GiB"));
    }
    let bytes = std::fs::read(path).map_err(|error| bad(&error))?;
    parse(&String::from_utf8_lossy(&bytes)).map_err(|message| bad(&message))
}

/// Reads a profile.
pub(crate) fn parse(text: &str) -> Result<Profile, String> {
    let mut lines = text.lines().enumerate();
    match lines.next() {
        Some((_, FORMAT)) => {}
        Some((_, line)) if line.starts_with("ashlar-profile ") => {
            return Err(format!("expected `{FORMAT}`: it was written by another version of ashlar"));
        }
        _ => return Err(format!("expected a profile, which starts with `{FORMAT}`")),
    }
    let mut profile = Profile::default();
    let (mut now, mut started, mut places) = (0, 0, HashMap::new());
    let mut has_maps = false;
    for (number, line) in &mut lines {
        if line == "maps" {
            has_maps = true;
            break;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let read = match word {
            "rate" => only(rest, MOST_SIZE).map(|rate| profile.rate = rate),
            "pid" => only(rest, u64::from(u32::MAX)).map(|pid| profile.pid = pid),
            "now" => only(rest, u64::MAX).map(|ms| now = ms),
            "started" => only(rest, u64::MAX).map(|ms| started = ms),
            "counts" => counts(rest).map(|counts| profile.counts = counts),
            "site" => site(rest).map(|(number, site)| {
                places.insert(number, profile.sites.len());
                profile.sites.push(site);
            }),
            "live" => live(rest, &places).map(|live| profile.live.push(live)),
            _ => None,
        };
        read.ok_or_else(|| format!("line {} is no line of a profile", number + 1))?;
    }
    if !has_maps {
        return Err("the profile is cut off: expected a line `maps`".to_owned());
    }
    profile.maps = maps(lines.map(|(_, line)| line));
    profile.lasted_ms = now.saturating_sub(started);
    Ok(profile)
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

/// The only number of a line.
fn only(text: &str, most: u64) -> Option<u64> {
    hex(text).filter(|&number| number <= most)
}

fn counts(text: &str) -> Option<Counts> {
    let mut words = text.split(' ');
    let mut next = || words.next().and_then(hex);
    let counts = Counts { taken: next()?, freed: next()?, lost: next()?, truncated: next()?, nested: next()? };
    words.next().is_none().then_some(counts)
}

fn site(text: &str) -> Option<(u64, Site)> {
    let mut words = text.split(' ');
    let mut next = || words.next().and_then(hex).filter(|&number| number <= 1 << 62);
    let (number, class_size, extent, _samples, _bytes) = (next()?, next()?, next()?, next()?, next()?);
    let (objects, bytes) = (next()?, next()?);
    let cache = name(words.next()?)?;
    let frames: Vec<u64> = words.map(hex).collect::<Option<_>>()?;
    let (truncated, nested) = (extent == 1, extent == 2);
    (class_size <= 1 << 20 && extent <= 2 && frames.len() <= 1024)
        .then_some((number, Site { cache, truncated, nested, objects, bytes, frames }))
}

fn live(text: &str, places: &HashMap<u64, usize>) -> Option<Live> {
    let mut words = text.split(' ');
    let mut next = || words.next().and_then(hex);
    let (site, address, size, rate) = (next()?, next()?, next()?, next()?);
    let (age_ms, thread) = (next()?, next()?);
    let name = name(words.next()?)?;
    (size <= MOST_SIZE && rate <= MOST_SIZE && words.next().is_none()).then_some(Live {
        site: *places.get(&site)?,
        address,
        size,
        rate,
        age_ms,
        thread,
        name,
    })
}

/// A name in hexadecimal digits, after a dot.
fn name(word: &str) -> Option<String> {
    let bytes: Vec<u8> = word.strip_prefix('.')?.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?;
    // Names stand in lines of text.
    let name: String = String::from_utf8_lossy(&bytes).chars().filter(|c| !c.is_control()).collect();
    (name.len() <= 64).then_some(name)
}

fn byte(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(core::str::from_utf8(digits).ok().filter(|digits| digits.len() == 2)?, 16).ok()
}

/// Reads the lines of `/proc/PID/maps`.
pub(crate) fn maps<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Map> {
    lines.filter_map(map).collect()
}

fn map(line: &str) -> Option<Map> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let offset = hex(words.nth(1)?)?;
    let path = words.nth(2).unwrap_or("").trim_start().to_owned();
    Some(Map { start: hex(start)?, end: hex(end)?, offset, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "ashlar-profile 2\nrate 80000\npid 1f\nnow 64\nstarted 14\ncounts 3 1 0 0 0\n\
        site 1 70 0 2 e0 4001 1c0070 .6b2d313132 aa bb\nsite a 0 1 1 100000 1 100000 .\n\
        live 1 7f0010 64 80000 a 20 .6d61696e\nlive a 7f0000 100000 1 b 20 .\nmaps\n\
        400000-401000 r-xp 00001000 fe:00 12   /bin/a b\n401000-402000 rw-p 00000000 00:00 0 \n";

    #[test]
    fn all_lines_are_read() {
        let profile = parse(GOOD).expect("a profile");
        assert_eq!((profile.rate, profile.pid, profile.lasted_ms), (512 << 10, 31, 80));
        assert_eq!(profile.counts, Counts { taken: 3, freed: 1, ..Counts::default() });
        assert_eq!(profile.sites[0].frames, [0xaa, 0xbb]);
        assert_eq!((profile.sites[0].cache(), profile.sites[1].cache()), ("k-112", "large"));
        assert!(profile.sites[1].truncated && profile.sites[1].frames.is_empty());
        assert_eq!((profile.live[0].name.as_str(), profile.live[0].site, profile.live[1].site), ("main", 0, 1));
        assert!((profile.live[0].objects() - 5243.38).abs() < 0.01, "{}", profile.live[0].objects());
        assert_eq!(profile.live[1].bytes(), 1048576.0);
        assert_eq!((profile.maps[0].path.as_str(), profile.maps[0].offset), ("/bin/a b", 4096));
        assert_eq!(profile.maps.len(), 2);
        let large = profile.of_cache("large");
        assert_eq!((large.sites.len(), large.live.len(), large.live[0].site, large.pid), (1, 1, 0, 31));
        assert_eq!(large.live[0].address, 0x7f_0000);
    }

    #[test]
    fn what_is_no_profile_is_refused_with_the_line() {
        for (text, expected) in [
            ("", "expected a profile"),
            ("heap\n", "expected a profile"),
            ("ashlar-profile 1\n", "another version"),
            ("ashlar-profile 2\nrate 80000\n", "cut off"),
            ("ashlar-profile 2\nrate x\nmaps\n", "line 2 is"),
            ("ashlar-profile 2\npid 1 2\nmaps\n", "line 2 is"),
            ("ashlar-profile 2\ncolour 1\nmaps\n", "line 2 is"),
            ("ashlar-profile 2\nlive 7 1 1 1 1 1 .\nmaps\n", "line 2 is"),
            ("ashlar-profile 2\nsite 1 70 3 2 e0 1 1 .\nmaps\n", "line 2 is"),
            ("ashlar-profile 2\nsite 1 70 0 2 e0 1 1 aa\nmaps\n", "line 2 is"),
        ] {
            let message = parse(text).expect_err(text);
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    proptest! {
        /// A damaged file is read or refused.
        #[test]
        fn damaged_files_do_no_harm(cut in 0..GOOD.len(), at in 0..GOOD.len(), byte in any::<u8>()) {
            let mut bytes = GOOD.as_bytes().to_vec();
            bytes[at] = byte;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let _ = parse(&text);
            let _ = parse(&String::from_utf8_lossy(&bytes[..cut]));
        }

        #[test]
        fn any_text_does_no_harm(text in "(site|live|counts|rate| |[0-9a-f]{1,20}|\n|maps|.){0,200}") {
            let _ = parse(&format!("{FORMAT}\n{text}"));
        }
    }
}
