//! SLAB: queues of objects in front of slabs, as in the kernel from 1996 to 6.7, in two editions:
//! that of 6.1 is the engine `slab`, that of 2.6.24 the engine `slab24`.
//!
//! ```text
//!  CPU:   array cache: a stack of objects          CPU lock, at every operation
//!  node:  alien caches, one a remote node          alien lock, at every free to that node
//!         shared array                             list_lock, once a batch
//!         full, partial and free slabs             list_lock, once a batch
//!  zone:  pages                                    zone lock, once a slab
//! ```
//!
//! An allocation takes the newest object of its CPU's array. An empty array is refilled by a batch
//! from the shared array, or else from slabs, partial ones first. If there are none, a slab is
//! made.
//!
//! A free puts the object on its CPU's array. If that is at its limit, its oldest batch goes to the
//! shared array, or to slabs if that is full. Objects of another node never go on an array. They
//! gather in the alien cache of that node, twelve at a time; with the option `noaliencache` each is
//! returned on its own. Free slabs stay until a node has more free objects than its `free_limit`.
//! The reaper ([`reap`]) empties unused queues in small steps.
//!
//! A slab has no free links. The indices of its free objects are kept in an array
//! ([`index_array`]); [`layout`] places the array and the colours of slabs. So free objects are
//! never written to, except for the one that holds the array of a slab of small objects. In 2.6.24
//! a slab has a descriptor instead, with a chain of these indices and the number of the node
//! ([`chain`]). A free reads that number where there are several nodes.
//!
//! * [`mod@array`]: array caches. [`here`]: that of a CPU. [`alien`]: alien caches. [`pool`]:
//!   memory of arrays.
//! * [`state`]: tunables, nodes.
//! * [`lists`]: a node's slabs. [`mod@slabs`]: one slab. [`layout`]: geometry. [`grow`]: new slabs.
//! * [`reap`]: the reaper.
//! * this file: the contract of engines.
//!
//! The kernel disables interrupts around all of it. Here the CPU lock takes that part, as in the
//! first stage of SLUB.

mod alien;
mod array;
mod chain;
mod grow;
mod here;
mod index_array;
mod info;
pub(crate) mod layout;
mod lists;
pub(crate) mod pool;
mod reap;
mod record;
pub(crate) mod slabs;
pub(crate) mod state;
mod tune;

pub use info::QueueInfo;
pub(crate) use info::queue_info;
pub(crate) use reap::{round_now, set_walk};
pub(crate) use state::QueueOptions;
pub use state::QueueTunables;
pub(crate) use tune::tune;

use crate::base::error::CreateError;
use crate::base::report;
use crate::base::sync::{Ordering, bump};
use crate::base::units::PAGE_SIZE;
use crate::base::units::{CpuId, LARGEST_CLASS, NodeId, PageIndex};
use crate::engine::{CacheSpec, Counts, EngineState, Object, Objects, RawCache, Strategy, Usage, Wish};
use crate::pages::memmap::{MEMMAP, PageKind};
use crate::percpu;
use crate::percpu::all_cpus;
use crate::percpu::area::PERCPU;
#[cfg(not(feature = "os"))]
use crate::percpu::remote::Cause;
use crate::percpu::this_cpu_quick;
use crate::slab::OrderRule;
use crate::slab::geometry::Geometry;
use array::ArrayCache;
use ashlar_macros::place;
use grow::{from_nodes, take_one};
use here::{Here, count_lock};
use lists::After;
use slabs::Slabs;
use tune::{give_array, queues};

/// Smallest size class of 2.6.24 in bytes, and the one that it does without.
const SMALLEST_CLASS: usize = if PAGE_SIZE == 4096 { 32 } else { 64 };
const NO_CLASS: usize = 96;

/// See [`crate::engine::alloc`]. Not inlined, because every engine behind the entry points would
/// pay for its registers.
#[inline(never)]
#[place(cold)]
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    let here = Here::take();
    if let Some(array) = here.array(cache) {
        count_lock(array);
        let object = array.pop();
        if object != 0 {
            return object as *mut u8;
        }
    }
    alloc_slow(cache, here)
}

#[cold]
#[inline(never)]
#[place(cold)]
fn alloc_slow(cache: &'static RawCache, here: Here) -> *mut u8 {
    let node = PERCPU.node_of(here.cpu());
    let mut after = After::NOTHING;
    let object = match give_array(cache, &here) {
        Some(array) => {
            bump(&array.alloc_slow);
            queues(cache).node(node).lists.lock().refill(&cache.slabs, array, &mut after);
            array.pop()
        }
        None => take_one(cache, node, &mut after),
    };
    drop(here);
    after.settle(&cache.slabs);
    percpu::adopt_thread();
    reap::tick();
    if object != 0 {
        return object as *mut u8;
    }
    from_nodes(cache, node)
}

/// See [`crate::engine::alloc_on`].
#[place(cold)]
pub(crate) fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    if PERCPU.node_of(this_cpu_quick()) == node {
        // If the thread migrates meanwhile, it gets an object of another node, as when the node has
        // no memory.
        return alloc(cache);
    }
    percpu::adopt_thread();
    let mut after = After::NOTHING;
    let object = take_one(cache, node, &mut after);
    after.settle(&cache.slabs);
    if object != 0 { object as *mut u8 } else { from_nodes(cache, node) }
}

/// See [`crate::engine::free`].
#[place(cold)]
pub(crate) fn free(freed: Object) {
    let Object { cache, address: object } = freed;
    if let Some(page) = MEMMAP.page_of(object) {
        let class = MEMMAP.class_of(page);
        let first = PageIndex(page.0.wrapping_sub(class.back()));
        if class.kind() == PageKind::Slab && MEMMAP.head(first).owner() == core::ptr::from_ref(cache) as usize {
            return free_in(freed, first);
        }
    }
    cache.slabs.report_stranger(object);
}

/// See [`crate::engine::free_in`]. Not inlined, as [`alloc`].
#[inline(never)]
#[place(cold)]
pub(crate) fn free_in(freed: Object, slab: PageIndex) {
    let Object { cache, address: object } = freed;
    let head = MEMMAP.head(slab);
    let offset = object.wrapping_sub(MEMMAP.address_of(slab)).wrapping_sub(head.colour());
    // An offset that wrapped around belongs to no object.
    let index = if offset < cache.slabs.geometry.order.bytes() { cache.slabs.geometry.index_of(offset) } else { None };
    if index.is_none_or(|index| index >= head.objects()) {
        return report::misaligned(cache.name(), object);
    }
    let home = (queues(cache).nodes.len() > 1).then(|| home_of(cache, slab));
    let here = Here::take();
    if let Some(home) = home
        && PERCPU.node_of(here.cpu()) != home
    {
        return free_remote(cache, here, home, object);
    }
    let Some(array) = here.array(cache) else { return free_slow(cache, here, object) };
    count_lock(array);
    if array.top() == object {
        drop(here);
        return report::double_free(cache.name(), object);
    }
    if !array.push(object) {
        free_slow(cache, here, object);
    }
}

/// Returns the node of a slab. Where the slab has a descriptor, that is compared with the page.
#[inline]
fn home_of(cache: &'static RawCache, slab: PageIndex) -> NodeId {
    let home = MEMMAP.head(slab).node();
    if cache.slabs.geometry.array.is_chain() && chain::node(cache.slabs.slab(slab)) != u32::from(home) {
        report::corrupt_freelist(cache.name(), MEMMAP.address_of(slab));
    }
    NodeId(home)
}

#[cold]
#[inline(never)]
#[place(cold)]
fn free_slow(cache: &'static RawCache, here: Here, object: usize) {
    let own = queues(cache).node(PERCPU.node_of(here.cpu()));
    let mut after = After::NOTHING;
    match give_array(cache, &here) {
        Some(array) => {
            if array.room() == 0 {
                bump(&array.free_slow);
                own.lists.lock().flush(&cache.slabs, array, &mut after);
            }
            array.push(object);
        }
        None => own.lists.lock().free_block(&cache.slabs, &[object], &mut after),
    }
    drop(here);
    after.settle(&cache.slabs);
    percpu::adopt_thread();
    reap::tick();
    crate::base::background::settle();
}

/// Frees to another node: into its alien cache, or straight to the slab.
#[cold]
#[inline(never)]
#[place(cold)]
fn free_remote(cache: &'static RawCache, here: Here, home: NodeId, object: usize) {
    let queues = queues(cache);
    let own = queues.node(PERCPU.node_of(here.cpu()));
    let mut after = After::NOTHING;
    let mut twice = false;
    if let Some(array) = give_array(cache, &here) {
        count_lock(array);
    }
    if cache.state.slab.noaliencache {
        queues.node(home).lists.lock().free_block(&cache.slabs, &[object], &mut after);
    } else {
        let mut alien = own.aliens[usize::from(home.0) % own.aliens.len()].lock();
        twice = !alien.free(&cache.slabs, &queues.node(home).lists, object, &mut after);
    }
    drop(here);
    after.settle(&cache.slabs);
    if twice {
        report::double_free(cache.name(), object);
    }
    percpu::adopt_thread();
    reap::tick();
    crate::base::background::settle();
}

/// See [`crate::engine::alloc_bulk`]. Takes runs of objects under one CPU lock while the array has
/// them.
#[place(cold)]
pub(crate) fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
    let mut got = 0;
    while got < out.len() {
        let here = Here::take();
        if let Some(array) = here.array(cache) {
            count_lock(array);
            while got < out.len() {
                let object = array.pop();
                if object == 0 {
                    break;
                }
                out[got] = object;
                got += 1;
            }
        }
        if got == out.len() {
            break;
        }
        let object = alloc_slow(cache, here);
        if object.is_null() {
            SlabQueues::free_bulk(Objects { cache, addresses: &out[..got] });
            return false;
        }
        out[got] = object as usize;
        got += 1;
    }
    true
}

/// Returns the objects of alien caches and shared arrays to their slabs.
#[place(cold)]
fn drain_nodes(cache: &'static RawCache) {
    let nodes = queues(cache).nodes;
    for node in nodes {
        for (home, alien) in node.aliens.iter().enumerate() {
            let mut after = After::NOTHING;
            alien.lock().drain(&cache.slabs, &nodes[home].lists, &mut after);
            after.settle(&cache.slabs);
        }
    }
    for node in nodes {
        let mut after = After::NOTHING;
        let mut lists = node.lists.lock();
        if let Some(shared) = lists.shared {
            lists.drain(&cache.slabs, shared, usize::MAX, &mut after);
        }
        drop(lists);
        after.settle(&cache.slabs);
    }
}

/// Returns the objects of a CPU's array to their slabs.
#[place(cold)]
fn drain_array(cache: &'static RawCache, cpu: CpuId) {
    let mut after = After::NOTHING;
    let here = Here::of(cpu);
    if let Some(array) = here.array(cache) {
        let own = queues(cache).node(PERCPU.node_of(cpu));
        own.lists.lock().drain(&cache.slabs, array, usize::MAX, &mut after);
    }
    drop(here);
    after.settle(&cache.slabs);
}

/// The kernel whose SLAB it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edition {
    /// Linux 2.6.24, the engine `slab24`.
    V2_6_24,
    /// Linux 6.1, the engine `slab`.
    V6_1,
}

/// The engine.
#[derive(Clone, Copy)]
pub(crate) struct SlabQueues(pub(crate) Edition);

#[place(cold)]
impl Strategy for SlabQueues {
    #[inline(always)]
    fn alloc(cache: &'static RawCache) -> *mut u8 {
        alloc(cache)
    }

    #[inline(always)]
    fn free(object: Object) {
        free(object);
    }

    #[inline(always)]
    fn free_in(object: Object, slab: PageIndex) {
        free_in(object, slab);
    }

    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        alloc_on(cache, node)
    }

    fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
        alloc_bulk(cache, out)
    }

    /// Arrays of CPUs, alien caches, and shared arrays.
    fn drain_cpus(cache: &'static RawCache) -> bool {
        all_cpus().for_each(|cpu| drain_array(cache, cpu));
        drain_nodes(cache);
        true
    }

    #[cfg(not(feature = "os"))]
    fn drain_cpu(cache: &'static RawCache, cpu: CpuId, _cause: Cause) {
        drain_array(cache, cpu);
    }

    /// Free slabs go, however few there are.
    fn trim(cache: &'static RawCache) -> usize {
        let mut left = 0;
        for (id, node) in queues(cache).nodes.iter().enumerate() {
            let mut after = After::NOTHING;
            node.lists.lock().drop_free(&cache.slabs, usize::MAX, &mut after);
            after.settle(&cache.slabs);
            left += cache.slabs.nodes[id].counters.slabs();
        }
        left
    }

    fn usage(cache: &'static RawCache) -> Usage {
        let mut usage = Usage::default();
        let mut free = 0;
        for (id, node) in queues(cache).nodes.iter().enumerate() {
            usage.cached += node.aliens.iter().map(|alien| alien.lock().avail()).sum::<usize>();
            let lists = node.lists.lock();
            usage.partial += lists.partial.count;
            usage.cached += lists.shared.map_or(0, ArrayCache::avail);
            free += lists.free_objects;
            drop(lists);
            usage.slabs += cache.slabs.nodes[id].counters.slabs();
            usage.objects += cache.slabs.nodes[id].counters.objects();
        }
        for cpu in all_cpus() {
            let here = Here::of(cpu);
            usage.cached += here.array(cache).map_or(0, ArrayCache::avail);
        }
        usage.live = usage.objects.saturating_sub(free).saturating_sub(usage.cached);
        usage.bytes = usage.slabs * cache.slabs.geometry.order.bytes();
        usage
    }

    /// Shared arrays, alien caches, and free slabs.
    #[inline(never)]
    fn held_bytes(cache: &'static RawCache) -> usize {
        let objects = |node: &state::Node| {
            let aliens: usize = node.aliens.iter().map(|alien| alien.lock().avail()).sum();
            let lists = node.lists.lock();
            let slabs = lists.free.count * usize::from(cache.slabs.geometry.max_objects);
            aliens + lists.shared.map_or(0, ArrayCache::avail) + slabs
        };
        queues(cache).nodes.iter().map(objects).sum::<usize>() * cache.slabs.geometry.stride
    }

    fn release_held(cache: &'static RawCache) {
        drain_nodes(cache);
        Self::trim(cache);
    }

    /// An array may be replaced at any time, so each is read under its CPU lock.
    fn counts(cache: &'static RawCache) -> Counts {
        let mut sum = Counts::default();
        for node in queues(cache).nodes {
            sum.list_locks += node.lists.taken() as u64;
            sum.lock_waits += node.lists.waited() as u64;
            sum.alien_locks += node.aliens.iter().map(|alien| alien.taken() as u64).sum::<u64>();
        }
        for cpu in all_cpus() {
            let here = Here::of(cpu);
            let Some(array) = here.array(cache) else { continue };
            sum.alloc_slow += array.alloc_slow.load(Ordering::Relaxed) as u64;
            sum.free_slow += array.free_slow.load(Ordering::Relaxed) as u64;
            sum.cpu_locks += array.locks.load(Ordering::Relaxed) as u64;
        }
        sum
    }

    fn list_lock_held(cache: &'static RawCache) -> bool {
        queues(cache).nodes.iter().any(|node| node.lists.is_held())
    }

    fn reap(cache: &'static RawCache) -> bool {
        reap::reap(cache, Self::counts(cache).cpu_locks as u32)
    }

    fn close(cache: &'static RawCache) {
        tune::close(cache);
    }

    fn open(self, state: &mut EngineState, spec: &CacheSpec<'_>, geometry: &mut Geometry) -> Result<(), CreateError> {
        state.open_nodes_and_page_lists()?;
        state.slab.open(geometry, &spec.queues)
    }

    fn max_class(self) -> usize {
        match self.0 {
            Edition::V2_6_24 => LARGEST_CLASS,
            Edition::V6_1 if 2 * PAGE_SIZE < LARGEST_CLASS => 2 * PAGE_SIZE,
            Edition::V6_1 => LARGEST_CLASS,
        }
    }

    /// 2.6.24 has none below 32 bytes, or 64 with larger pages than 4 KiB, and none of 96 on
    /// processors whose cache lines have 64.
    fn has_class(self, size: usize) -> bool {
        self.0 == Edition::V6_1 || (size >= SMALLEST_CLASS && size != NO_CLASS)
    }

    fn round_up(self, _size: usize, class: usize) -> usize {
        match class {
            _ if self.has_class(class) => class,
            NO_CLASS => 128,
            _ => SMALLEST_CLASS,
        }
    }

    // SLAB merges caches since 3.18.
    fn merges(self) -> bool {
        self.0 == Edition::V6_1
    }

    fn order_rule(self, rule: OrderRule) -> OrderRule {
        layout::order_rule(rule)
    }

    // Indices of free objects are kept in an array.
    fn links_objects(self) -> bool {
        false
    }

    fn lay_out(self, geometry: Geometry, wish: Wish) -> Option<Geometry> {
        match self.0 {
            Edition::V2_6_24 => layout::with_chain(geometry, wish.rule),
            Edition::V6_1 => layout::with_index_array(geometry, wish.constructed, wish.rule),
        }
    }
}
