//! The reaper: the work of each tick, and of [`crate::reap`].
//!
//! Ticks come from the background thread, or without it from the program's calls (see
//! [`crate::base::background`]), and in a kernel from `crate::poll`. A program without the thread
//! that frees much and then sleeps makes no more calls, so [`trim`] bounds its free resident memory
//! at any time.
//!
//! Barns return to slabs the sheaves that they did not need since the last visit. If no barn of any
//! cache was used, the program is idle. Then the sheaves of all CPUs are drained, too, and all free
//! memory is returned to the system. Free pages of a busy program are returned after the decay
//! time.
//!
//! [`before_growth`] also empties barns. The zone calls it before it takes fresh memory.

#[cfg(not(feature = "os"))]
mod cpus;
mod growth;
#[cfg(feature = "os")]
mod trim;

#[cfg(not(feature = "os"))]
pub(crate) use cpus::{cpu_dead, cpu_online, poll, serve};
use growth::empty;
pub(crate) use growth::{after_fork_in_child, before_growth};
#[cfg(feature = "os")]
pub(crate) use trim::trim;

use super::registry;
use crate::base::background::TICK_MS;
use crate::base::sync::{AtomicU32, Ordering};
use crate::base::units::PAGE_SIZE;
use crate::engine;
use crate::pages::zone::{Purge, ZONE};
use crate::percpu::pages;

/// The ticks between two visits of barns: half a second.
const BARN_TICKS: u32 = 2;

/// Whether any barn was in use at the last visit. Ticks between two visits use it.
static IN_USE: AtomicU32 = AtomicU32::new(0);
/// Whether an idle program has been drained already.
static DRAINED: AtomicU32 = AtomicU32::new(0);
/// The number of consecutive ticks that returned no memory.
static FRUITLESS: AtomicU32 = AtomicU32::new(0);

/// Does the work of one tick. Returns true if more is left.
#[cfg(feature = "os")]
#[place(background)]
pub(crate) fn tick() -> bool {
    advance(1)
}

/// Does the work of a tick, with which the clock moves by `ticks`.
#[place(background)]
fn advance(ticks: u32) -> bool {
    let before = ZONE.tick.fetch_add(ticks, Ordering::Relaxed);
    let now = before.wrapping_add(ticks);
    let mut given = 0;
    if before / BARN_TICKS != now / BARN_TICKS {
        let mut in_use = false;
        for_each(|cache| in_use |= engine::reap(cache));
        IN_USE.store(u32::from(in_use), Ordering::Relaxed);
        if in_use {
            DRAINED.store(0, Ordering::Relaxed);
        } else if DRAINED.swap(1, Ordering::Relaxed) == 0 {
            given += drain_everything();
            given += ZONE.purge(Purge::All).0;
        }
    }
    let decay = (crate::cache::settings::options().decay_ms / TICK_MS).max(1);
    // Pages are returned after one to two of these times.
    let (old, left) = ZONE.purge(Purge::Before(now.saturating_sub(decay.div_ceil(2))));
    given += old;
    let fruitless = if given > 0 { 0 } else { FRUITLESS.load(Ordering::Relaxed) + 1 };
    // Pages that stay through a whole decay time cannot be returned: they are parts of larger
    // system pages, or belong to an arena.
    let more = IN_USE.load(Ordering::Relaxed) != 0 || (left > 0 && fruitless <= decay + BARN_TICKS);
    // The next thread counts from 0.
    FRUITLESS.store(if more { fruitless } else { 0 }, Ordering::Relaxed);
    more
}

/// Calls `each` for every cache. Interrupts of a kernel are off for one cache at a time.
#[place(background)]
fn for_each(each: impl FnMut(&'static engine::RawCache)) {
    #[cfg(feature = "os")]
    registry::for_each(each);
    #[cfg(not(feature = "os"))]
    registry::for_each_alone(true, each);
}

/// Calls `each` for every cache, if no thread holds the registry lock. Engines use it on slow
/// paths.
#[ashlar_macros::place(cold)]
pub(crate) fn visit(each: fn(&'static engine::RawCache)) {
    registry::try_for_each(each);
}

/// Empties all caches, and releases the free pages of slabs that stay. Returns the number of these
/// pages.
#[place(background)]
fn drain_everything() -> usize {
    let mut given = 0;
    let _away = crate::percpu::before_drains();
    for_each(|cache| {
        empty(cache);
        given += engine::evict_free_pages(cache);
    });
    pages::drain();
    given / PAGE_SIZE
}

/// Returns all free memory to the system now. Returns the number of pages.
pub(crate) fn reap_now() -> usize {
    let given = drain_everything() + ZONE.purge(Purge::All).0;
    crate::base::background::settle();
    given
}
