//! The reaper: the work of each tick, and of [`crate::reap`].
//!
//! Ticks come from the background thread, or without it from the program's calls (see
//! [`crate::base::background`]). A program without the thread that frees much and then sleeps makes
//! no more calls, so [`trim`] bounds its free resident memory at any time.
//!
//! Barns return to slabs the sheaves that they did not need since the last visit. If no barn of any
//! cache was used, the program is idle. Then the sheaves of all CPUs are drained, too, and all free
//! memory is returned to the system. Free pages of a busy program are returned after the decay
//! time.
//!
//! [`before_growth`] also empties barns. The zone calls it before it takes fresh memory.

mod growth;
#[cfg(feature = "os")]
mod trim;

use growth::empty;
pub(crate) use growth::{after_fork_in_child, before_growth};
#[cfg(feature = "os")]
pub(crate) use trim::trim;

use super::registry;
#[cfg(feature = "os")]
use crate::base::background::TICK_MS;
#[cfg(feature = "os")]
use crate::base::sync::{AtomicU32, Ordering};
use crate::base::units::PAGE_SIZE;
use crate::engine;
use crate::pages::zone::{Purge, ZONE};
use crate::percpu::pages;

/// The ticks between two visits of barns: half a second.
#[cfg(feature = "os")]
const BARN_TICKS: u32 = 2;

/// Whether any barn was in use at the last visit. Ticks between two visits use it.
#[cfg(feature = "os")]
static IN_USE: AtomicU32 = AtomicU32::new(0);
/// Whether an idle program has been drained already.
#[cfg(feature = "os")]
static DRAINED: AtomicU32 = AtomicU32::new(0);
/// The number of consecutive ticks that returned no memory.
#[cfg(feature = "os")]
static FRUITLESS: AtomicU32 = AtomicU32::new(0);

/// Does the work of one tick. Returns true if more is left.
#[cfg(feature = "os")]
#[place(background)]
pub(crate) fn tick() -> bool {
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
    registry::for_each(|cache| {
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
