//! The reaper: what is done each tick, and what [`crate::reap`] does at once.
//!
//! Ticks come from the background thread, or from the program's calls where there is no such thread
//! (see [`crate::base::background`]). A program without it that frees much and then sleeps makes no
//! more calls, so there [`trim`] bounds what is free and resident at any time.
//!
//! Barns give back to slabs what they held without need since the last look. When no barn of any
//! cache is in use, the program is idle: then the sheaves of all CPUs are drained too and
//! everything free goes back to the system. Free pages of a busy program go back when their block
//! has seen no free for the decay time.
//!
//! [`before_growth`] is the other way out of barns: the zone calls it before it takes fresh memory.

mod growth;
#[cfg(feature = "os")]
mod trim;

use growth::empty;
pub(crate) use growth::{after_fork_in_child, before_growth};

use super::registry;
#[cfg(feature = "os")]
use crate::base::background::{Job, TICK_MS};
#[cfg(feature = "os")]
use crate::base::sync::{AtomicU32, Ordering};
use crate::base::units::PAGE_SIZE;
use crate::engine;
use crate::pages::zone::{Purge, ZONE};
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

/// Calls `each` for every cache, if no thread holds the registry lock: for rounds that engines make
/// on slow paths.
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
