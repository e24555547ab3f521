//! Reads everything that a window leads to.

use ashlar::window::{FORMAT, SIGNATURE, Window};

use super::memory::{Memory, ReadError, Reader, printable};
use super::report::Allocator;
use super::{caches, pages, slabs};

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoSnapshot {
    /// The mapping of this name is no window.
    NoWindow,
    /// A window of another version of ashlar.
    OtherFormat {
        version: String,
        format: u32,
    },
    Unreadable(ReadError),
}

impl From<ReadError> for NoSnapshot {
    fn from(error: ReadError) -> Self {
        Self::Unreadable(error)
    }
}

/// A process changes while it is read, so a snapshot may fail. That many are tried.
const ATTEMPTS: usize = 3;

/// Reads the window at an address, and what it leads to. Reads at most `budget` bytes each time.
pub(super) fn take(memory: &dyn Memory, at: u64, budget: u64) -> Result<Allocator, NoSnapshot> {
    let mut failed = NoSnapshot::NoWindow;
    for _ in 0..ATTEMPTS {
        let reader = Reader::new(memory, budget);
        match window(&reader, at).and_then(|window| Ok(allocator(&reader, &window)?)) {
            Ok(allocator) => return Ok(allocator),
            Err(error) => failed = error,
        }
        if !matches!(failed, NoSnapshot::Unreadable(ReadError::Unmapped(_) | ReadError::Nonsense(_))) {
            break;
        }
    }
    Err(failed)
}

/// Reads a window alone, and returns its version and the address of its registry.
pub(super) fn window(reader: &Reader<'_>, at: u64) -> Result<Window, NoSnapshot> {
    let mut bytes = [0; Window::SIZE];
    // The head first: a window of another version may be shorter.
    reader.fill(at, &mut bytes[..32])?;
    let head = Window::from_bytes(&bytes);
    if head.signature != SIGNATURE {
        return Err(NoSnapshot::NoWindow);
    }
    if head.format != FORMAT || head.bytes as usize != Window::SIZE {
        return Err(NoSnapshot::OtherFormat { version: version(&head), format: head.format });
    }
    reader.fill(at, &mut bytes)?;
    Ok(Window::from_bytes(&bytes))
}

fn version(window: &Window) -> String {
    printable(window.version.split(|&byte| byte == 0).next().unwrap_or_default())
}

fn allocator(reader: &Reader<'_>, window: &Window) -> Result<Allocator, ReadError> {
    let mode = match window.constants.mode {
        1 => "rseq",
        2 => "lock",
        3 => "emulate",
        _ => "?",
    };
    let mut found = caches::walk(reader, window)?;
    caches::count_sheaves(reader, window, &mut found)?;
    let large = slabs::walk(reader, window, &mut found)?;
    let pages = pages::zone(reader, window)?;
    let aliases = caches::aliases(reader, window, &found)?;
    let mut allocator = Allocator {
        version: version(window),
        mode: mode.to_owned(),
        engine: ashlar::Engine::ALL.get(window.constants.engine as usize).map_or("?", |engine| engine.id()).to_owned(),
        thread: pages::has_thread(reader, window)?,
        mapped_bytes: pages::mapped(reader, window)?,
        metadata_bytes: pages::metadata(reader, window)?,
        large,
        aliases,
        ..Allocator::default()
    };
    let mut slab_bytes = 0u64;
    for mut cache in found.into_iter().map(|found| found.cache) {
        cache.cached = cache.on_cpus.saturating_add(cache.in_barns).saturating_add(cache.evicted);
        if !cache.engine.starts_with("slob") {
            cache.active = cache.objects.saturating_sub(cache.free).saturating_sub(cache.cached);
        }
        let add = |sum: &mut u64, count: u64, each: u64| *sum = sum.saturating_add(count.saturating_mul(each));
        add(&mut allocator.used_bytes, cache.active, cache.objsize);
        add(&mut allocator.cached_bytes, cache.cached, cache.stride);
        add(&mut allocator.pinned_bytes, cache.pinned_bytes, 1);
        add(&mut slab_bytes, cache.bytes, 1);
        allocator.caches.push(cache);
    }
    let in_use = pages.committed_bytes.saturating_sub(pages.free_bytes);
    allocator.used_bytes = allocator.used_bytes.saturating_add(in_use.saturating_sub(slab_bytes));
    allocator.held_bytes = in_use.saturating_add(pages.dirty_bytes);
    allocator.pages = pages;
    Ok(allocator)
}
