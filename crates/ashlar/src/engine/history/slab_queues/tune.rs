//! Makes, resizes and retires arrays: when a CPU first needs one, when a tunable changes, when the
//! cache ends.

use super::array::ArrayCache;
use super::here::Here;
use super::lists::After;
use super::state::new_shared;
use super::state::{QueueTunables, Queues};
use crate::base::error::TuneError;
use crate::engine::RawCache;
use crate::percpu::all_cpus;
use crate::percpu::area::PERCPU;
use crate::percpu::drain;
use ashlar_macros::place;

/// The queues of a cache of this engine.
#[inline]
pub(super) fn queues(cache: &RawCache) -> &'static Queues {
    &cache.state.slab.queues[0]
}

/// See [`crate::engine::close`]. No slab and no object is left.
#[place(cold)]
pub(crate) fn close(cache: &'static RawCache) {
    for cpu in all_cpus() {
        let here = Here::of(cpu);
        if let Some(array) = here.array(cache) {
            here.set_array(cache, None);
            array.retire();
        }
    }
    for node in queues(cache).nodes {
        if let Some(shared) = node.lists.lock().shared.take() {
            shared.retire();
        }
    }
    PERCPU.release_slot(cache.state.slab.place);
}

/// Returns this CPU's array; makes one if there is none yet. `None` when out of memory.
#[place(cold)]
pub(super) fn give_array(cache: &'static RawCache, here: &Here) -> Option<&'static ArrayCache> {
    if let Some(array) = here.array(cache) {
        return Some(array);
    }
    let tunables = queues(cache).tunables();
    let array = ArrayCache::new(tunables.limit, tunables.batchcount)?;
    here.set_array(cache, Some(array));
    Some(array)
}

/// Sets the tunables of a cache. Objects beyond the new limits are returned to their slabs.
#[place(cold)]
pub(crate) fn tune(cache: &'static RawCache, tunables: &QueueTunables) -> Result<(), TuneError> {
    tunables.check()?;
    let _one_at_a_time = drain::one_at_a_time();
    let queues = queues(cache);
    // Allocate first, so that a failure changes nothing.
    let mut shared = [None; crate::base::units::MAX_NODES];
    let mut had = true;
    for place in &mut shared[..queues.nodes.len()] {
        match new_shared(tunables) {
            Some(array) => *place = array,
            None => had = false,
        }
    }
    if !had {
        shared.into_iter().flatten().for_each(ArrayCache::retire);
        return Err(TuneError::OutOfMemory);
    }
    queues.set(tunables);
    let mut after = After::NOTHING;
    for (id, new) in shared[..queues.nodes.len()].iter().enumerate() {
        queues.tune_node(id, &cache.slabs.geometry);
        let old = queues.nodes[id].lists.lock().replace_shared(&cache.slabs, *new, &mut after);
        if let Some(old) = old {
            old.retire();
        }
    }
    for cpu in all_cpus() {
        tune_cpu(cache, &Here::of(cpu), tunables, &mut after);
    }
    after.settle(&cache.slabs);
    Ok(())
}

/// Sets the limit of a CPU's array, or replaces it by a larger one. An array that cannot be
/// replaced keeps its capacity as limit.
#[place(cold)]
fn tune_cpu(cache: &'static RawCache, here: &Here, tunables: &QueueTunables, after: &mut After) {
    let Some(array) = here.array(cache) else { return };
    let node = queues(cache).node(PERCPU.node_of(here.cpu()));
    if array.capacity() < tunables.limit
        && let Some(larger) = ArrayCache::new(tunables.limit, tunables.batchcount)
    {
        larger.take_over(array);
        here.set_array(cache, Some(larger));
        array.retire();
        return;
    }
    let limit = tunables.limit.min(array.capacity());
    node.lists.lock().drain(&cache.slabs, array, array.avail().saturating_sub(limit), after);
    array.tune(limit, tunables.batchcount.min(limit));
}
