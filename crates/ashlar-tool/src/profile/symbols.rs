//! Names of functions for the addresses in a profile, from the files that the process had mapped.

use core::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use super::code::{Code, Frame};
use super::read::{Map, Profile};

/// Finds names. Each file is read once, each address looked up once.
pub(crate) struct Symbols<'a> {
    maps: &'a [Map],
    files: RefCell<HashMap<String, Option<Code>>>,
    found: RefCell<HashMap<u64, Vec<Frame>>>,
}

impl<'a> Symbols<'a> {
    pub(crate) fn new(profile: &'a Profile) -> Self {
        Symbols { maps: &profile.maps, files: RefCell::default(), found: RefCell::default() }
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
        let mut files = self.files.borrow_mut();
        let code = files.entry(map.path.clone()).or_insert_with(|| Code::open(Path::new(&map.path)));
        code.as_ref().map_or_else(Vec::new, |code| code.frames(address - map.start + map.offset))
    }
}

/// The innermost frames of each backtrace are the allocator's.
pub(crate) fn is_ours(map: Option<&Map>) -> bool {
    let is_library = |name: &str| name.starts_with("libashlar_malloc") || name.starts_with("libashlar.so");
    map.is_some_and(|map| map.path.rsplit('/').next().is_some_and(is_library))
}

/// In a Rust program, the allocator and what leads to it are functions of the program's own file.
pub(crate) fn is_of_allocator(frame: &Frame) -> bool {
    let name = frame.function.trim_start_matches('<');
    ["ashlar::", "alloc::alloc::", "__rust", "__rg_"].into_iter().any(|start| name.starts_with(start))
}
