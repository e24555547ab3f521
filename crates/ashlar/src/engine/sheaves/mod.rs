//! The default engine: sheaves, barns, partial slabs.
//!
//! ```text
//!  CPU slot:  main sheaf, spare sheaf          critical sections, no lock
//!  node:      barns of full and empty sheaves  barn lock, once a sheaf; one barn a CPU, others are robbed
//!             partial slabs                    list_lock, once a refill, once a slab
//!             evicted objects                   evicted lock, once a sheaf of them; free, but their pages went back to the system
//!  zone:      pages                            zone lock, once a batch of slabs
//! ```
//!
//! An allocation pops the main sheaf. When it is empty the spare takes its place, then a full sheaf of the
//! barn, then a sheaf refilled from slabs. A free pushes, whatever slab the object is from; when the main
//! sheaf is full the spare takes its place, then an empty sheaf, and the full one goes to the barn, or, when
//! the barn holds enough, or the objects lie scattered (`locality`), its objects to their slabs. Two sheaves a CPU
//! are what keeps a program that allocates and frees around a boundary from thrashing. Source: the kernel's sheaves of
//! 6.18 and 7.0.
//!
//! What malloc gave another CPU is freed to the spare (see [`crate::malloc::entry`]), and goes back by sheaves (`remote_free`). For objects that
//! share cache lines a spare that is less than half full is passed over while there is memory.
//!
//! Objects of another NUMA node are not put on sheaves: they go straight to their slab.
//!
//! A sheaf has one owner at any time: a CPU's slot, a barn, the pool, or the thread that holds the [`Sheaf`].
#![allow(unsafe_code, reason = "takes ownership of sheaves out of slots")]

mod alloc;
pub(crate) mod barn;
mod bulk;
mod drain;
mod evicted;
mod exchange;
mod free;
mod here;
mod locality;
pub(crate) mod node;
mod refill;
mod remote_free;
mod sparse;

pub(crate) use drain::set_sheaf_capacity;
pub(crate) use free::free_remote;

use crate::base::error::CreateError;
use crate::base::sync::Ordering;
use crate::base::units::CpuId;
use crate::base::units::NodeId;
use crate::engine::{CacheSpec, Counts, EngineState, RawCache, Strategy, Usage};
use crate::percpu::area::{PERCPU, null_top};
use crate::percpu::sheaf::Sheaf;
use crate::slab::geometry::Geometry;
use barn::{Barn, BarnStats};
use here::barns_of;

/// See [`crate::engine::barn_stats`].
pub(crate) fn barn_stats(cache: &'static RawCache) -> BarnStats {
    let mut sum = BarnStats::default();
    barns_of(cache).for_each(|barn| barn.stats().add_to(&mut sum));
    sum
}

/// Objects in the sheaves of one CPU; a racy look.
fn cached_on(cpu: CpuId, slot: u16) -> usize {
    let place = PERCPU.slot(cpu, slot);
    // SAFETY: reads the two words of a committed slot.
    let tops = unsafe { [place.read_volatile(), place.add(1).read_volatile()] };
    tops.into_iter()
        .filter(|&top| top != null_top())
        .map(|top| {
            // SAFETY: only the info word and the address are read, of sheaf memory that is never unmapped; the
            // handle is forgotten as it has no destructor.
            let sheaf = unsafe { Sheaf::from_top(top) };
            sheaf.len().min(sheaf.capacity())
        })
        .sum()
}

/// The engine.
#[derive(Clone, Copy)]
pub(crate) struct Sheaves;

impl Strategy for Sheaves {
    #[inline(always)]
    fn alloc(cache: &'static RawCache) -> *mut u8 {
        alloc::alloc(cache)
    }

    #[inline(always)]
    fn free(cache: &'static RawCache, object: usize) {
        free::free(cache, object);
    }

    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        alloc::alloc_on(cache, node)
    }

    fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
        bulk::alloc_bulk(cache, out)
    }

    fn free_bulk(cache: &'static RawCache, objects: &[usize]) {
        bulk::free_bulk(cache, objects);
    }

    fn trim(cache: &'static RawCache) -> usize {
        cache.state.sheaf_nodes.iter().for_each(|node| _ = sparse::restore_emptied_of(cache, node));
        cache.slabs.trim()
    }

    fn counts(cache: &'static RawCache) -> Counts {
        let mut sum = Counts { list_locks: cache.slabs.list_locks_taken(), ..Counts::default() };
        barns_of(cache).for_each(|barn| barn.add_to(&mut sum));
        sum
    }

    fn usage(cache: &'static RawCache) -> Usage {
        let evicted: usize = cache.state.sheaf_nodes.iter().map(|node| node.evicted.objects()).sum();
        let in_barns: usize = barns_of(cache).map(Barn::full_objects).sum();
        let on_cpus: usize =
            (0..PERCPU.cpus.load(Ordering::Relaxed)).map(|cpu| cached_on(CpuId(cpu), cache.slot)).sum();
        Usage::of_slabs(&cache.slabs, evicted + in_barns + on_cpus)
    }

    fn drain_cpus(cache: &'static RawCache) -> bool {
        drain::drain_cpus(cache)
    }

    fn reap(cache: &'static RawCache) -> bool {
        drain::reap(cache)
    }

    fn held_bytes(cache: &'static RawCache) -> usize {
        drain::held_bytes(cache)
    }

    fn release_held(cache: &'static RawCache) {
        drain::release_held(cache);
    }

    fn sparse_bytes(cache: &'static RawCache) -> usize {
        sparse::sparse_bytes(cache)
    }

    fn evict_free_pages(cache: &'static RawCache) -> usize {
        sparse::evict_free_pages(cache)
    }

    fn restore_emptied(cache: &'static RawCache) -> bool {
        sparse::restore_emptied(cache)
    }

    fn open(self, state: &mut EngineState, _spec: &CacheSpec<'_>, _geometry: &mut Geometry) -> Result<(), CreateError> {
        state.open_nodes()?;
        node::open(&mut state.sheaf_nodes, state.nodes).ok_or(CreateError::OutOfMemory)
    }
}
