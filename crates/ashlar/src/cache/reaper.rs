//! The reaper: what is done each tick, and what [`crate::reap`] does at once.
//!
//! Ticks come from the background thread, or from the program's calls where there is no such thread
//! (see [`crate::base::background`]). A program without it that frees much and then sleeps makes no more
//! calls, so there [`trim`] bounds what is free and resident at any time.
//!
//! Barns give back to slabs what they held without need since the last look. When no barn of any cache is in use,
//! the program is idle: then the sheaves of all CPUs are drained too and everything free goes back to the system.
//! Free pages of a busy program go back when their block has seen no free for the decay time.
//!
//! [`before_growth`] is the other way out of barns: the zone calls it before it takes fresh memory.

use super::registry;
#[cfg(feature = "os")]
use crate::base::background::{Job, TICK_MS};
#[cfg(feature = "os")]
use crate::base::error::ReaperError;
use crate::base::sync::{self, AtomicU32, AtomicUsize, Ordering};
use crate::base::units::PAGE_SIZE;
#[cfg(feature = "os")]
use crate::cache::settings::Reaper;
use crate::engine;
use crate::pages::zone::{Need, Purge, ZONE};
#[cfg(feature = "os")]
use crate::percpu;
use crate::percpu::pages;

/// Barns are looked at every so many ticks: half a second.
#[cfg(feature = "os")]
const BARN_TICKS: u32 = 2;

/// Whether any barn was in use at the last look; ticks between two looks go by it.
#[cfg(feature = "os")]
static IN_USE: AtomicU32 = AtomicU32::new(0);
/// Set when an idle program has been drained already.
#[cfg(feature = "os")]
static DRAINED: AtomicU32 = AtomicU32::new(0);
/// Ticks in a row that gave nothing back.
#[cfg(feature = "os")]
static FRUITLESS: AtomicU32 = AtomicU32::new(0);

/// What [`crate::base::background`] has done.
#[cfg(feature = "os")]
pub(crate) static JOB: Job = Job { tick, trim: trim::trim };

/// One tick; true while there is more to come.
#[cfg(feature = "os")]
#[place(background)]
fn tick() -> bool {
    let now = ZONE.tick.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let mut given = 0;
    if now.is_multiple_of(BARN_TICKS) {
        let mut in_use = false;
        registry::for_each(|cache| in_use |= engine::reap(cache));
        IN_USE.store(u32::from(in_use), Ordering::Relaxed);
        if in_use {
            DRAINED.store(0, Ordering::Relaxed);
        } else if DRAINED.swap(1, Ordering::Relaxed) == 0 {
            given += drain_everything();
            given += ZONE.purge(Purge::All).0;
        }
    }
    let decay = (crate::cache::settings::options().decay_ms / TICK_MS).max(1);
    // Pages go back after one to two of these times.
    let (old, left) = ZONE.purge(Purge::Before(now.saturating_sub(decay.div_ceil(2))));
    given += old;
    let fruitless = if given > 0 { 0 } else { FRUITLESS.load(Ordering::Relaxed) + 1 };
    // What stays through a whole decay time cannot go back: parts of larger system pages, an arena.
    let more = IN_USE.load(Ordering::Relaxed) != 0 || (left > 0 && fruitless <= decay + BARN_TICKS);
    // The next thread counts from the start.
    FRUITLESS.store(if more { fruitless } else { 0 }, Ordering::Relaxed);
    more
}

#[cfg(feature = "os")]
mod trim;

/// Starts the background thread, which gives free memory back to the system while the program
/// sleeps; does nothing if it runs already. Without it the program's own calls do that work.
/// `docs/process.md` describes the thread. It does not exist in the child of a fork, and runs until
/// [`stop_reaper`] otherwise.
///
/// Not to be called by a thread that holds a lock which an allocation may need, because the C
/// library allocates to make a thread.
///
/// # Errors
/// See [`ReaperError`].
#[cfg(feature = "os")]
pub fn start_reaper() -> Result<(), ReaperError> {
    #[expect(unsafe_code, reason = "calls the C library")]
    // SAFETY: this is the C library's function; the contract of this one lets threads be made here.
    unsafe {
        start_reaper_by(libc::pthread_create)
    }
}

/// As [`start_reaper`], for a library whose own `pthread_create` stands in the way of the C
/// library's.
///
/// # Errors
/// See [`ReaperError`].
///
/// # Safety
/// `create` is the C library's `pthread_create`.
#[cfg(feature = "os")]
#[doc(hidden)]
#[expect(unsafe_code, reason = "calls the C library by pointer")]
pub unsafe fn start_reaper_by(create: crate::base::os::thread::Create) -> Result<(), ReaperError> {
    if !crate::boot::ensure_base() {
        return Err(ReaperError::Refused);
    }
    if crate::cache::settings::options().reaper != Reaper::Thread || percpu::mode() == percpu::Mode::Emulate {
        return Err(ReaperError::Off);
    }
    // SAFETY: passed on.
    if unsafe { crate::base::background::start(create) } { Ok(()) } else { Err(ReaperError::Refused) }
}

/// Ends the background thread, if there is one, and returns when the kernel knows it no more.
#[cfg(feature = "os")]
pub fn stop_reaper() {
    crate::base::background::stop();
}

/// Set while a thread empties barns before growth, or trims.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork the thread that emptied barns may be gone.
pub(crate) fn after_fork_in_child() {
    BUSY.store(0, Ordering::Relaxed);
}

/// Called by the zone when only fresh memory could serve a request: the page lists of all CPUs are emptied, and if barns hold more than an
/// eighth of the zone they are too. Before a request fails everything that is free in any cache goes back.
/// True if anything came back.
pub(crate) fn before_growth(need: Need) -> bool {
    let last = need == Need::Last;
    if BUSY.swap(1, Ordering::Acquire) != 0 {
        // Another thread is at it. Who would be refused otherwise waits for what that brings.
        return last && sync::wait_while(|| BUSY.load(Ordering::Acquire) != 0);
    }
    let found = match need {
        Need::Growth(committed) => {
            let released = held_bytes() > (committed / 8).max(2 << 20) && registry::try_for_each(engine::release_held);
            evict_from_caches(committed) || released
        }
        Need::Last => empty_all(),
    };
    let listed = pages::drain();
    BUSY.store(0, Ordering::Release);
    found || listed
}

/// Bytes committed below which slabs are not looked at for free pages.
const EVICT_FROM: usize = 8 << 20;

/// How much was committed when slabs were last looked at, and what was left in sparse ones then, which another look would not get. Only
/// looked at and changed by who set `BUSY`.
static LOOKED_AT: AtomicUsize = AtomicUsize::new(0);
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Gives free pages of slabs that are in use back to the system, if they may come to a sixteenth of what is committed: the zone is to grow by
/// an eighth. Once for each growth, so that a program at the end of its memory does not look each time. True if slabs became empty.
fn evict_from_caches(committed: usize) -> bool {
    if committed < EVICT_FROM || LOOKED_AT.swap(committed, Ordering::Relaxed) == committed {
        return false;
    }
    let sparse = || {
        let mut sum = 0;
        registry::try_for_each(|cache| sum += engine::sparse_bytes(cache));
        sum
    };
    let mut came = false;
    registry::try_for_each(|cache| came |= engine::restore_emptied(cache));
    let (found, left) = (sparse(), LEFT.load(Ordering::Relaxed));
    if found.saturating_sub(left) < committed / 16 {
        LEFT.store(left.min(found), Ordering::Relaxed);
        return came;
    }
    registry::try_for_each(|cache| _ = engine::evict_free_pages(cache));
    LEFT.store(sparse(), Ordering::Relaxed);
    came
}

/// Bytes of free objects in stores of all caches, as far as nobody holds the registry lock.
fn held_bytes() -> usize {
    let mut held = 0;
    registry::try_for_each(|cache| held += engine::held_bytes(cache));
    held
}

/// Empties all caches; true if there was something in one.
#[cold]
#[inline(never)]
#[place(cold)]
fn empty_all() -> bool {
    let mut cached = 0;
    // Another thread may hold the registry lock for a moment, or this one may hold it.
    sync::wait_while(|| !registry::try_for_each(|cache| cached += empty(cache)));
    cached > 0
}

/// Brings a cache's free objects home and gives its empty slabs back; how many objects.
#[place(cold)]
fn empty(cache: &'static engine::RawCache) -> usize {
    let cached = engine::usage(cache).cached;
    if cached > 0 {
        engine::drain_cpus(cache);
        engine::reap(cache);
    }
    engine::trim(cache);
    cached
}

/// Calls `each` for every cache, if nobody holds the registry lock: for rounds that engines make on slow paths.
#[ashlar_macros::place(cold)]
pub(crate) fn visit(each: fn(&'static engine::RawCache)) {
    registry::try_for_each(each);
}

/// Empties all caches, and releases the free pages of slabs that stay; how many pages those were.
#[place(background)]
fn drain_everything() -> usize {
    let mut given = 0;
    registry::for_each(|cache| {
        empty(cache);
        given += engine::evict_free_pages(cache);
    });
    pages::drain();
    given / PAGE_SIZE
}

/// Gives everything that is free back to the system now; pages given back.
pub(crate) fn reap_now() -> usize {
    let given = drain_everything() + ZONE.purge(Purge::All).0;
    crate::base::background::settle();
    given
}
