//! [`Route`]: what takes the calls that allocate and free the objects of a cache, and
//! [`Hardening`]: the options that decide it.
//!
//! In a process with such an option the route of every cache leads to [`super::hardened`], which
//! does what was asked for and calls the engine. So does that of a cache of the program some of
//! whose objects are to be guarded. In all other cases it leads to the engine, and no path has an
//! instruction for the options.

use super::Engine;
use crate::base::sync::{AtomicU32, Ordering};

/// What takes the calls of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The cache's engine.
    Own(Engine),
    /// What the options of the process ask for, and then the engine.
    Hardened,
}

// It stands in the place of an engine, in one byte.
const _: () = assert!(size_of::<Route>() == 1);

/// What the options of the process ask for beside the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hardening {
    /// Memory is zero when it is allocated.
    pub(crate) init_on_alloc: bool,
    /// Memory is cleared when it is freed.
    pub(crate) init_on_free: bool,
    /// Freed objects that each cache holds back.
    pub(crate) quarantine: u16,
    /// Objects are handed out in a random order.
    pub(crate) random: bool,
}

/// Which allocations guard sampling takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarding {
    /// None.
    Off,
    /// One of so many on average.
    #[cfg(feature = "os")]
    Count(u32),
    /// One in so many milliseconds at most.
    #[cfg(feature = "os")]
    Every(u32),
}

const INIT_ON_ALLOC: u32 = 1;
const INIT_ON_FREE: u32 = 2;
const RANDOM: u32 = 4;
/// The first bit of the number of objects that are held back.
const QUARANTINE: u32 = 16;

/// The options in force. Written before the first cache is made.
static HARDENING: AtomicU32 = AtomicU32::new(0);

/// What looks at allocations of size classes on their slow paths.
#[cfg(feature = "os")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watcher {
    /// A heap profile that runs.
    Profile = 1,
    /// Guard sampling.
    Guard = 2,
}

/// The watchers, as bits.
#[cfg(feature = "os")]
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// Has slow paths tell a watcher of allocations, or no longer.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn watch(watcher: Watcher, on: bool) {
    if on {
        WATCHED.fetch_or(watcher as u32, Ordering::Release);
    } else {
        WATCHED.fetch_and(!(watcher as u32), Ordering::Release);
    }
}

/// Whether anything looks at allocations.
#[cfg(feature = "os")]
#[inline]
pub(crate) fn is_watched() -> bool {
    WATCHED.load(Ordering::Relaxed) != 0
}

/// Whether a watcher looks at allocations.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn is_watched_by(watcher: Watcher) -> bool {
    WATCHED.load(Ordering::Relaxed) & watcher as u32 != 0
}

#[place(cold)]
pub(crate) fn harden(options: Hardening) {
    let on_alloc = if options.init_on_alloc { INIT_ON_ALLOC } else { 0 };
    let on_free = if options.init_on_free { INIT_ON_FREE } else { 0 };
    let random = if options.random { RANDOM } else { 0 };
    let quarantine = u32::from(options.quarantine) << QUARANTINE;
    HARDENING.store(on_alloc | on_free | random | quarantine, Ordering::Relaxed);
}

#[inline]
fn has(option: u32) -> bool {
    HARDENING.load(Ordering::Relaxed) & option != 0
}

/// Whether any option asks for something.
#[inline]
pub(crate) fn is_hardened() -> bool {
    HARDENING.load(Ordering::Relaxed) != 0
}

/// Whether memory is to be zero when it is allocated.
#[inline]
pub(crate) fn inits_on_alloc() -> bool {
    has(INIT_ON_ALLOC)
}

/// Whether memory is to be cleared when it is freed.
#[inline]
pub(crate) fn inits_on_free() -> bool {
    has(INIT_ON_FREE)
}

/// Whether objects are to be handed out in a random order.
#[inline]
pub(crate) fn has_random() -> bool {
    has(RANDOM)
}

/// Returns how many freed objects each cache is to hold back.
#[inline]
pub(crate) fn quarantine() -> usize {
    (HARDENING.load(Ordering::Relaxed) >> QUARANTINE) as usize
}

impl Route {
    /// Returns the route of a new cache of `engine`, each of whose calls counts for guard sampling
    /// if `counts` is true.
    pub(crate) fn of(engine: Engine, counts: bool) -> Route {
        if counts || is_hardened() { Route::Hardened } else { Route::Own(engine) }
    }
}
