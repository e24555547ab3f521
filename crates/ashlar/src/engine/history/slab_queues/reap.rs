//! The reaper of SLAB: returns unused objects of queues to slabs, in small steps.
//!
//! The kernel visits each CPU every two seconds by a timer. Here there are two drivers. The
//! background thread checks every half second while it runs. Slow paths check the clock once in
//! [`ENTRIES`] entries and run the round of their own CPU if it is due. So a program busy in one
//! cache reaps its idle caches without a thread of ours, and a sleeping program has the thread.
//! In a kernel without a clock, every [`ENTRIES`] entries of slow paths are a round.
//!
//! A round does for each cache what the kernel's does:
//!
//! * A CPU's array not used since the last round loses a fifth of its limit, or half of what is
//!   left.
//! * One alien cache of the node is drained.
//! * Every second round of a node, its shared array is treated like a CPU's. If no allocation
//!   needed a free slab meanwhile, a fifth of the free slabs that the node may keep are given back.
//!
//! Locks: the CPU lock, alien lock and list_lock of the array or node at hand.
#![allow(unsafe_code, reason = "turns the stored walk back into a function")]

use super::array::ArrayCache;
use super::here::Here;
use super::lists::{After, Lists};
use super::state::Node;
use super::tune::queues;
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::base::units::CpuId;
use crate::engine::RawCache;
use crate::percpu::all_cpus;
use crate::percpu::area::PERCPU;
use crate::percpu::this_cpu_quick;

/// Entries of slow paths, of all caches, between two checks of the clock.
pub(super) const ENTRIES: u32 = 256;
/// Milliseconds between two rounds of a CPU, and of a node.
const CPU_MS: u32 = 2000;
const NODE_MS: u32 = 4000;
/// CPUs with a due time of their own; further CPUs share.
const TIMES: usize = 64;

/// Calls a function for every cache, unless another thread is walking the caches. The layer above
/// provides it.
pub(crate) type Walk = fn(fn(&'static RawCache));

/// A [`Walk`], or 0 before start-up has set it.
static WALK: AtomicUsize = AtomicUsize::new(0);

static SEEN: AtomicU32 = AtomicU32::new(0);
static NEXT: [AtomicU32; TIMES] = [const { AtomicU32::new(0) }; TIMES];

/// Milliseconds of a monotonic clock; wraps around.
#[cfg(feature = "os")]
fn now() -> u32 {
    crate::base::os::now_ms() as u32
}
/// The platform's clock, or one that advances by rounds only.
#[cfg(not(feature = "os"))]
fn now() -> u32 {
    crate::base::sync::section::now_ms()
        .unwrap_or_else(|| (SEEN.load(Ordering::Relaxed) / ENTRIES).wrapping_mul(CPU_MS))
}

/// Returns the due time after `next`, if `next` has come; 0 is always due.
fn after(next: u32, now: u32, period: u32) -> Option<u32> {
    (next == 0 || now.wrapping_sub(next) <= u32::MAX / 2).then(|| now.wrapping_add(period).max(1))
}

/// True, once, if the time in `next` has come. Two threads that ask at once may both get true.
fn due(next: &AtomicU32, now: u32) -> bool {
    let then = after(next.load(Ordering::Relaxed), now, CPU_MS);
    if let Some(then) = then {
        next.store(then, Ordering::Relaxed);
    }
    then.is_some()
}

/// Counts an entry of a slow path. The caller holds no lock.
#[inline]
pub(super) fn tick() {
    let seen = SEEN.load(Ordering::Relaxed).wrapping_add(1);
    SEEN.store(seen, Ordering::Relaxed);
    if seen.is_multiple_of(ENTRIES) {
        tick_now();
    }
}

#[cold]
#[place(cold)]
fn tick_now() {
    let walk = WALK.load(Ordering::Relaxed);
    if walk == 0 || !due(&NEXT[this_cpu_quick().0 as usize % TIMES], now()) {
        return;
    }
    // SAFETY: `set_walk` stored a `Walk`, and nothing else is ever stored.
    let walk: Walk = unsafe { core::mem::transmute::<*const (), Walk>(core::ptr::with_exposed_provenance(walk)) };
    walk(|cache| {
        if cache.engine.has_queues() {
            round_here(cache);
        }
    });
}

/// Runs the due round of this CPU.
#[inline(never)]
#[place(cold)]
fn round_here(cache: &'static RawCache) {
    round(cache, this_cpu_quick(), now());
}

/// Registers the walk over all caches.
pub(crate) fn set_walk(walk: Walk) {
    WALK.store(walk as usize, Ordering::Relaxed);
}

/// See [`crate::engine::reap`]. Runs the rounds that are due. `entries` is the number of times that
/// its CPU locks were taken; a cache is in use if it grew since the last call.
#[place(cold)]
pub(super) fn reap(cache: &'static RawCache, entries: u32) -> bool {
    let used = cache.looked.swap(entries, Ordering::Relaxed) != entries;
    let now = now();
    for cpu in all_cpus() {
        let here = Here::of(cpu);
        let is_due = here.array(cache).is_some_and(|array| due(&array.next_reap, now));
        drop(here);
        if is_due {
            round(cache, cpu, now);
        }
    }
    used
}

/// Runs a round of every CPU and node for one cache, due or not.
#[place(cold)]
pub(crate) fn round_now(cache: &'static RawCache) {
    for node in queues(cache).nodes {
        node.lists.lock().next_reap = 0;
    }
    for cpu in all_cpus() {
        round(cache, cpu, 0);
    }
}

/// Runs one round of a CPU for one cache.
#[place(cold)]
fn round(cache: &'static RawCache, cpu: CpuId, now: u32) {
    let id = usize::from(PERCPU.node_of(cpu).0);
    let nodes = queues(cache).nodes;
    let node = &nodes[id % nodes.len()];
    let mut after = After::NOTHING;
    let here = Here::of(cpu);
    if let Some(array) = here.array(cache) {
        drain_unused(cache, &mut node.lists.lock(), array, &mut after);
    }
    drop(here);
    send_home(cache, id, nodes, &mut after);
    let mut lists = node.lists.lock();
    if let Some(then) = self::after(lists.next_reap, now, NODE_MS) {
        lists.next_reap = then;
        reap_node(cache, &mut lists, &mut after);
    }
    drop(lists);
    after.settle(&cache.slabs);
}

/// Drains an array that was not used since the last round: a fifth of its limit, at most half of
/// its objects.
#[place(cold)]
fn drain_unused(cache: &RawCache, lists: &mut Lists, array: &ArrayCache, after: &mut After) {
    if array.untouch() {
        return;
    }
    let (avail, fifth) = (array.avail(), array.limit().div_ceil(5));
    let count = if fifth > avail { avail.div_ceil(2) } else { fifth };
    lists.drain(&cache.slabs, array, count, after);
    lists.reaped += count as u64;
}

/// Drains one alien cache of a node, in turn.
#[place(cold)]
fn send_home(cache: &RawCache, id: usize, nodes: &[Node], after: &mut After) {
    let node = &nodes[id % nodes.len()];
    if node.aliens.is_empty() {
        return;
    }
    let mut lists = node.lists.lock();
    let home = lists.next_alien % nodes.len();
    lists.next_alien = home + 1;
    drop(lists);
    node.aliens[home].lock().drain(&cache.slabs, &nodes[home].lists, after);
}

/// Reaps the shared array and the free slabs of a node.
#[place(cold)]
fn reap_node(cache: &RawCache, lists: &mut Lists, after: &mut After) {
    if let Some(shared) = lists.shared {
        drain_unused(cache, lists, shared, after);
    }
    if core::mem::take(&mut lists.free_touched) {
        return;
    }
    let objects = usize::from(cache.slabs.geometry.max_objects);
    let slabs = lists.free_limit.div_ceil(5 * objects);
    lists.drop_free(&cache.slabs, slabs, after);
}
