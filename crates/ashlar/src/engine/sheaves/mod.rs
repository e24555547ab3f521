//! The default engine: per-CPU sheaves, barns, and partial slabs. Source: the kernel's sheaves of
//! 6.18 and 7.0.
//!
//! ```text
//!  CPU:   main sheaf, spare sheaf     critical section, no lock
//!  node:  full and empty sheaves      barn lock, once a sheaf; one barn a CPU, can be robbed
//!         partial slabs               list_lock, once a refill, once a slab
//!         evicted objects             evicted lock, once a sheaf; their pages are released
//!  zone:  pages                       zone lock, once a batch of slabs
//! ```
//!
//! An allocation pops the main sheaf. When the main sheaf is empty, it tries the spare, then a full
//! sheaf of the barn, then a sheaf refilled from slabs.
//!
//! A free pushes onto the main sheaf, whatever slab the object belongs to. When the main sheaf is
//! full, the spare takes its place if it has room; else an empty sheaf does. The full sheaf goes to
//! the barn. If the barn holds enough, or the objects are scattered ([`locality`]), the objects are
//! returned to their slabs instead.
//!
//! Two sheaves a CPU keep a program that allocates and frees around a boundary from thrashing.
//!
//! In caches whose slots are sided ([`Policy::sided`](crate::engine::Policy::sided)), an object
//! allocated on a CPU of the other side is freed to the spare. It goes back to the allocating CPU
//! with the whole sheaf ([`remote_free`]). Where objects share cache lines, allocation skips a
//! spare that is less than half full while there is other memory.
//!
//! Objects of another NUMA node bypass sheaves and are returned to their slab. In a kernel they
//! gather on a far sheaf first, which goes to a barn of their node (`far`).
//!
//! Invariant: a sheaf has one owner at any time, which is a CPU's slot, a barn, the pool, or the
//! thread that holds the [`Sheaf`]. Exchanging a slot's words moves ownership; a [`Sheaf`] cannot
//! be copied.
#![allow(unsafe_code, reason = "takes ownership of sheaves out of slots")]

mod alloc;
pub(crate) mod barn;
mod bulk;
mod drain;
mod evicted;
mod exchange;
#[cfg(not(feature = "os"))]
mod far;
mod free;
mod here;
mod inspect;
mod locality;
pub(crate) mod node;
mod refill;
mod remote_free;
mod sparse;
#[cfg(feature = "os")]
mod validate;

#[cfg(feature = "os")]
pub(crate) use drain::move_sheaves;
pub(crate) use drain::set_sheaf_capacity;
pub(crate) use free::free_remote;
#[cfg(feature = "os")]
pub(crate) use validate::validate;

use crate::base::error::CreateError;
use crate::base::sync::Ordering;
use crate::base::units::{CpuId, NodeId, PageIndex};
use crate::engine::{CacheSpec, Counts, EngineState, Object, Objects, RawCache, Strategy, Usage};
use crate::percpu::area::{PERCPU, null_top};
#[cfg(not(feature = "os"))]
use crate::percpu::remote::Cause;
use crate::percpu::sheaf::Sheaf;
use crate::slab::geometry::Geometry;
use ashlar_macros::place;
use barn::BarnStats;
use here::{barns_of, objects_in_barns};

/// See [`crate::engine::barn_stats`].
pub(crate) fn barn_stats(cache: &'static RawCache) -> BarnStats {
    let mut sum = BarnStats::default();
    barns_of(cache).for_each(|barn| barn.stats().add_to(&mut sum));
    sum
}

/// Returns the number of objects in the sheaves of one CPU. Racy: the CPU may change them
/// meanwhile.
fn cached_on(cpu: CpuId, slot: u16) -> usize {
    let place = PERCPU.slot(cpu, slot);
    // SAFETY: the slot is committed and its two words are readable; volatile because its CPU writes
    // them.
    let tops = unsafe { [place.read_volatile(), place.add(1).read_volatile()] };
    tops.into_iter()
        .filter(|&top| top != null_top())
        .map(|top| {
            // SAFETY: only the info word and the address are read, and sheaf memory is never
            // unmapped. The handle has no destructor, so dropping it does not end the owner's
            // sheaf.
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
    fn free(object: Object) {
        free::free(object);
    }

    fn free_in(object: Object, slab: PageIndex) {
        free::free_in(object, slab);
    }

    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        alloc::alloc_on(cache, node)
    }

    fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
        bulk::alloc_bulk(cache, out)
    }

    fn free_bulk(objects: Objects<'_>) {
        bulk::free_bulk(objects);
    }

    #[place(background)]
    fn trim(cache: &'static RawCache) -> usize {
        cache.state.sheaf_nodes.iter().for_each(|node| _ = sparse::restore_emptied_of(cache, node));
        cache.slabs.trim()
    }

    #[place(cold)]
    fn counts(cache: &'static RawCache) -> Counts {
        let mut sum = Counts::of_lists(&cache.slabs);
        barns_of(cache).for_each(|barn| barn.add_to(&mut sum));
        sum
    }

    #[place(cold)]
    fn usage(cache: &'static RawCache) -> Usage {
        let evicted: usize = cache.state.sheaf_nodes.iter().map(|node| node.evicted.objects()).sum();
        let in_barns = objects_in_barns(cache);
        let on_cpu = |cpu| cache.sheaf_slots().into_iter().map(|slot| cached_on(CpuId(cpu), slot)).sum::<usize>();
        let on_cpus: usize = (0..PERCPU.cpus.load(Ordering::Relaxed)).map(on_cpu).sum();
        Usage::of_slabs(&cache.slabs, evicted + in_barns + on_cpus)
    }

    #[place(background)]
    fn drain_cpus(cache: &'static RawCache) -> bool {
        drain::drain_cpus(cache)
    }

    #[cfg(not(feature = "os"))]
    fn drain_cpu(cache: &'static RawCache, cpu: CpuId, cause: Cause) {
        drain::drain_cpu(cache, cpu, cause);
    }

    #[place(background)]
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

    #[place(background)]
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
