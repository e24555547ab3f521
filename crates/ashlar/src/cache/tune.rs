//! Tunables: the properties of a cache that can be changed while it is in use. The names are the
//! kernel's.
//!
//! | tunable | engines | what a change does at once |
//! |---|---|---|
//! | `cpu_partial` | `slub-bulk` | partial slabs of CPUs go to their nodes |
//! | `min_partial` | all but `slab`, `slab24`, `slob` | lowered: empty slabs go back |
//! | `sheaf_capacity` | `ashlar` | all sheaves are emptied; new ones have the new capacity |
//! | `remote_node_defrag_ratio` | `ashlar`, the stages of SLUB | nothing |
//! | `limit`, `batchcount`, `shared` | `slab`, `slab24` | arrays grow or give objects back |
//!
//! No change blocks other threads for longer than a drain. Sheaves and slabs that a thread holds
//! meanwhile are adapted later. A sheaf of the old capacity is emptied instead of entering a barn
//! or a slot (`engine::sheaves::set_sheaf_capacity`), and the new number of empty slabs applies at
//! the next free that empties a slab.
//!
//! Merged caches share their tunables, so a change by any name applies to all.

use super::registry;
use crate::base::error::TuneError;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::engine::history::slab_queues::{self, QueueTunables};
use crate::engine::{self, Policy, RawCache, Tunable, sheaves};

/// Returns the value of a tunable; `None` if the cache's engine does not have it.
#[place(cold)]
pub(crate) fn tunable(raw: &'static RawCache, which: Tunable) -> Option<usize> {
    let queues = || slab_queues::queue_info(raw).tunables;
    which.is_of(raw.engine).then(|| match which {
        Tunable::CpuPartial => engine::tunable(&raw.cpu_partial),
        Tunable::MinPartial => raw.slabs.min_partial(),
        Tunable::SheafCapacity => engine::tunable(&raw.sheaf_capacity),
        Tunable::RemoteNodeDefragRatio => usize::from(raw.defrag_ratio.load(Ordering::Relaxed)) / 10,
        Tunable::Limit => queues().limit,
        Tunable::BatchCount => queues().batchcount,
        Tunable::Shared => queues().shared,
    })
}

/// Changes a tunable, at any time, also while other threads use the cache. Applies to all names of
/// merged caches.
///
/// # Errors
/// See [`TuneError`]: nothing has changed then.
#[place(cold)]
pub(crate) fn set_tunable(raw: &'static RawCache, which: Tunable, value: usize) -> Result<(), TuneError> {
    let _away = crate::percpu::before_drains();
    registry::with_lock(|| set_tunable_locked(raw, which, value))?;
    crate::base::background::settle();
    Ok(())
}

/// As [`set_tunable`], for a caller that holds the registry lock.
///
/// # Errors
/// See [`TuneError`]: nothing has changed then.
#[place(cold)]
pub(crate) fn set_tunable_locked(raw: &'static RawCache, which: Tunable, value: usize) -> Result<(), TuneError> {
    if !which.is_of(raw.engine) {
        return Err(TuneError::Engine(which.engines()));
    }
    let (low, high) = which.range();
    if !(low..=high).contains(&value) {
        return Err(TuneError::Range(which.expected()));
    }
    match which {
        Tunable::CpuPartial => {
            raw.cpu_partial.store(value, Ordering::Relaxed);
            engine::drain_cpus(raw);
        }
        Tunable::MinPartial => set_min_partial(raw, value),
        Tunable::SheafCapacity => set_sheaf_capacity(raw, value),
        Tunable::RemoteNodeDefragRatio => raw.defrag_ratio.store(value as u16 * 10, Ordering::Relaxed),
        Tunable::Limit | Tunable::BatchCount | Tunable::Shared => {
            let mut queues = slab_queues::queue_info(raw).tunables;
            match which {
                Tunable::Limit => {
                    queues.limit = value;
                    queues.batchcount = queues.batchcount.min(value);
                }
                Tunable::BatchCount => queues.batchcount = value,
                _ => queues.shared = value,
            }
            slab_queues::tune(raw, &queues)?;
        }
    }
    Ok(())
}

/// Sets the capacity, and the limit of barns that goes with it.
#[place(cold)]
fn set_sheaf_capacity(raw: &'static RawCache, capacity: usize) {
    let limit = Policy::barn_limit(super::settings::options().barn, capacity, raw.slabs.geometry.stride);
    sheaves::set_sheaf_capacity(raw, capacity, limit);
}

#[place(cold)]
fn set_min_partial(raw: &'static RawCache, value: usize) {
    let store = |cell: &AtomicUsize| cell.swap(value, Ordering::Relaxed);
    let before = store(&raw.slabs.min_partial);
    engine::attach(raw);
    if value < before {
        engine::trim(raw);
    }
}

/// Sets the three tunables of a cache of SLAB together.
///
/// # Errors
/// See [`TuneError`]: nothing has changed then.
#[place(cold)]
pub(crate) fn set_queue_tunables(raw: &'static RawCache, tunables: &QueueTunables) -> Result<(), TuneError> {
    if !raw.engine.has_queues() {
        return Err(TuneError::Engine(Tunable::Limit.engines()));
    }
    let done = slab_queues::tune(raw, tunables);
    crate::base::background::settle();
    done
}
