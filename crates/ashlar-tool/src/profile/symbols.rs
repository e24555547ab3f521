//! Names of functions for the addresses in a profile, from the files that the process had mapped.

use core::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use addr2line::Loader;

use super::read::{Map, Profile};

/// A function at an address; several where functions were compiled into others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Frame {
    pub(crate) function: String,
    /// File and line of the call; empty and 0 without debug information.
    pub(crate) file: String,
    pub(crate) line: u32,
}

/// A file with code, and where its parts belong.
struct Object {
    loader: Option<Loader>,
    /// Of each loaded part: offset in the file, length, and address by the file.
    parts: Vec<[u64; 3]>,
}

/// Finds names. Each file is read once, each address looked up once.
pub(crate) struct Symbols<'a> {
    maps: &'a [Map],
    objects: RefCell<HashMap<String, Object>>,
    found: RefCell<HashMap<u64, Vec<Frame>>>,
}

impl<'a> Symbols<'a> {
    pub(crate) fn new(profile: &'a Profile) -> Self {
        Symbols { maps: &profile.maps, objects: RefCell::default(), found: RefCell::default() }
    }

    /// Returns the mapping of an address.
    pub(crate) fn map(&self, address: u64) -> Option<&'a Map> {
        self.maps.iter().find(|map| (map.start..map.end).contains(&address))
    }

    /// Returns the functions at a return address, the innermost first; one at least.
    pub(crate) fn frames(&self, address: u64) -> Vec<Frame> {
        if let Some(frames) = self.found.borrow().get(&address) {
            return frames.clone();
        }
        // The call is before the address to which it returns.
        let frames = self.look_up(address.saturating_sub(1));
        let frames = if frames.is_empty() { vec![self.unknown(address)] } else { frames };
        self.found.borrow_mut().insert(address, frames.clone());
        frames
    }

    /// An address without a name: its file and its place there.
    fn unknown(&self, address: u64) -> Frame {
        let function = match self.map(address) {
            Some(map) if !map.path.is_empty() => {
                let name = map.path.rsplit('/').next().unwrap_or(&map.path);
                format!("{name}+{:#x}", address - map.start + map.offset)
            }
            _ => format!("{address:#x}"),
        };
        Frame { function, file: String::new(), line: 0 }
    }

    fn look_up(&self, address: u64) -> Vec<Frame> {
        let Some(map) = self.map(address).filter(|map| map.path.starts_with('/')) else { return Vec::new() };
        let mut objects = self.objects.borrow_mut();
        let object = objects.entry(map.path.clone()).or_insert_with(|| Object::open(&map.path));
        let in_file = address - map.start + map.offset;
        let Some(place) = object.place(in_file) else { return Vec::new() };
        object.loader.as_ref().map_or_else(Vec::new, |loader| named(loader, place))
    }
}

/// Returns the functions at an address of a file.
fn named(loader: &Loader, address: u64) -> Vec<Frame> {
    let mut frames = Vec::new();
    if let Ok(mut found) = loader.find_frames(address) {
        while let Ok(Some(frame)) = found.next() {
            let Some(name) = frame.function else { continue };
            let function = name.demangle().map_or_else(|_| String::from("?"), |name| name.into_owned());
            let (file, line) = frame.location.map_or(("", 0), |at| (at.file.unwrap_or(""), at.line.unwrap_or(0)));
            frames.push(Frame { function: clean(&function), file: clean(file), line });
        }
    }
    if frames.is_empty()
        && let Some(symbol) = loader.find_symbol(address)
    {
        let function = addr2line::demangle_auto(symbol.into(), None);
        frames.push(Frame { function: clean(&function), file: String::new(), line: 0 });
    }
    frames
}

/// A name of a file that may be anybody's, for one line on a terminal.
fn clean(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(1000).collect()
}

impl Object {
    /// Opens a file. One that is not there, or no ELF file, has no names.
    fn open(path: &str) -> Object {
        let parts = File::open(path).ok().and_then(|file| loaded_parts(&file)).unwrap_or_default();
        let loader = if parts.is_empty() { None } else { Loader::new(path).ok() };
        Object { loader, parts }
    }

    /// Returns the address by the file of a place in the file.
    fn place(&self, in_file: u64) -> Option<u64> {
        let part =
            self.parts.iter().find(|[offset, length, _]| in_file.checked_sub(*offset).is_some_and(|at| at < *length));
        part.map(|[offset, _, address]| address.wrapping_add(in_file - offset))
    }
}

/// Reads which parts of an ELF file of 64 bits are loaded.
fn loaded_parts(file: &File) -> Option<Vec<[u64; 3]>> {
    const LOADED: u32 = 1;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0).ok()?;
    let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (word(&head, 32)?, half(54)?, half(56)?);
    let mut parts = Vec::new();
    for number in 0..u64::from(count) {
        let mut entry = [0; 56];
        file.read_exact_at(&mut entry, table.checked_add(number * u64::from(size))?).ok()?;
        if u32::from_le_bytes(entry[..4].try_into().ok()?) == LOADED {
            parts.push([word(&entry, 8)?, word(&entry, 32)?, word(&entry, 16)?]);
        }
    }
    Some(parts)
}

/// The innermost frames of each backtrace are the allocator's.
pub(crate) fn is_ours(map: Option<&Map>) -> bool {
    map.is_some_and(|map| map.path.rsplit('/').next().is_some_and(|name| name.starts_with("libashlar_malloc")))
}
