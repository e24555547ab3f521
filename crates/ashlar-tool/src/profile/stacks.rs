//! Backtraces with names, and what was allocated there.

use super::code::Frame;
use super::read::Profile;
use super::symbols::{Symbols, is_of_allocator, is_ours};

/// What was allocated in one place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) live_bytes: f64,
    pub(crate) live_objects: f64,
    pub(crate) allocated_bytes: f64,
    pub(crate) allocated_objects: f64,
    /// The samples that are live.
    pub(crate) live_samples: u64,
    pub(crate) oldest_ms: u64,
}

impl Memory {
    pub(crate) fn add(&mut self, other: &Memory) {
        self.live_bytes += other.live_bytes;
        self.live_objects += other.live_objects;
        self.allocated_bytes += other.allocated_bytes;
        self.allocated_objects += other.allocated_objects;
        self.live_samples += other.live_samples;
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
    }
}

/// A site: a backtrace in a cache.
pub(crate) struct Stack {
    pub(crate) cache: String,
    /// Return addresses without those of the allocator, innermost first.
    pub(crate) addresses: Vec<u64>,
    /// Their functions, innermost first: for each address one or more.
    pub(crate) frames: Vec<Vec<Frame>>,
    pub(crate) memory: Memory,
}

/// What stands for a backtrace without frames.
pub(crate) const NO_FRAMES: &str = "[no backtrace]";
/// What stands for the frames that had no room.
pub(crate) const TRUNCATED: &str = "[truncated]";
/// What stands for allocations of the unwinder.
pub(crate) const NESTED: &str = "[inside a backtrace]";

impl Stack {
    /// Returns all functions, innermost first.
    pub(crate) fn functions(&self) -> impl DoubleEndedIterator<Item = &Frame> {
        self.frames.iter().flatten()
    }

    /// Returns the function that called the allocator.
    pub(crate) fn innermost(&self) -> &str {
        self.functions().next().map_or(NO_FRAMES, |frame| frame.function.as_str())
    }
}

/// All sites of a profile, in its order.
pub(crate) struct Stacks<'a> {
    pub(crate) all: Vec<Stack>,
    pub(crate) symbols: Symbols<'a>,
}

impl<'a> Stacks<'a> {
    /// Looks up the names of all functions.
    pub(crate) fn of(profile: &'a Profile) -> Self {
        let symbols = Symbols::new(profile);
        let mut all: Vec<Stack> = profile
            .sites
            .iter()
            .map(|site| {
                let skipped = site.frames.iter().take_while(|&&frame| is_ours(symbols.map(frame))).count();
                let mut addresses = site.frames[skipped..].to_vec();
                let mut frames: Vec<Vec<Frame>> = addresses.iter().map(|&address| symbols.frames(address)).collect();
                // Functions that were inlined have one address. A backtrace of nothing else stays.
                if let Some(first) = frames.iter().position(|all| !all.iter().all(is_of_allocator)) {
                    addresses.drain(..first);
                    frames.drain(..first);
                    let own = frames[0].iter().take_while(|frame| is_of_allocator(frame)).count();
                    frames[0].drain(..own);
                }
                let note = match (site.truncated, site.nested) {
                    (true, _) => Some(TRUNCATED),
                    (_, true) => Some(NESTED),
                    _ => None,
                };
                frames.extend(note.map(|note| vec![Frame { function: note.to_owned(), file: String::new(), line: 0 }]));
                let memory = Memory {
                    allocated_bytes: site.bytes as f64,
                    allocated_objects: site.objects as f64,
                    ..Memory::default()
                };
                Stack { cache: site.cache().to_owned(), addresses, frames, memory }
            })
            .collect();
        for live in &profile.live {
            all[live.site].memory.add(&Memory {
                live_bytes: live.bytes(),
                live_objects: live.objects(),
                live_samples: 1,
                oldest_ms: live.age_ms,
                ..Memory::default()
            });
        }
        Stacks { all, symbols }
    }
}
