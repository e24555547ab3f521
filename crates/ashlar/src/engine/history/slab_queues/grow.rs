//! New slabs, and the objects that an allocation takes from slabs beside an array.

use super::here::Here;
use super::lists::After;
use super::slabs::{self, Slabs};
use super::tune::queues;
use crate::base::units::{NodeId, PageIndex};
use crate::engine::RawCache;
use crate::pages::memmap::MEMMAP;
use crate::pages::zone::ZONE;
use crate::percpu::area::PERCPU;
use crate::percpu::pages;
use ashlar_macros::place;

/// Bytes of slabs on a node above which a new slab wakes the background thread.
const BYTES_WORTH_REAPING: usize = 1 << 20;

/// Takes one object from the slabs of a node; 0 if they have none.
#[place(cold)]
pub(super) fn take_one(cache: &'static RawCache, node: NodeId, after: &mut After) -> usize {
    let mut object = 0;
    queues(cache).node(node).lists.lock().take(&cache.slabs, 1, |taken| object = taken, after);
    object
}

/// Allocates one object from a new slab of `home`, or of another node; null when out of memory.
#[place(cold)]
pub(super) fn from_nodes(cache: &'static RawCache, home: NodeId) -> *mut u8 {
    let once = || from_first_node(cache, home);
    // Other caches may hold the last free memory.
    let object = once().or_else(|| ZONE.take_after_all(once));
    object.unwrap_or(0) as *mut u8
}

/// Allocates one object from a new slab of `home`, or of the first other node that has memory. Not
/// part of the closure that calls it, because closures are not placed.
#[inline(never)]
#[place(cold)]
fn from_first_node(cache: &'static RawCache, home: NodeId) -> Option<usize> {
    let nodes = queues(cache).nodes.len();
    (0..nodes).find_map(|i| {
        let node = NodeId(((usize::from(home.0) + i) % nodes) as u8);
        let mut after = After::NOTHING;
        let taken = if i == 0 { 0 } else { take_one(cache, node, &mut after) };
        after.settle(&cache.slabs);
        if taken == 0 { grow(cache, node) } else { Some(taken) }
    })
}

/// Makes a slab of `node` and returns one object. If this CPU belongs to that node, its array gets
/// a batch of others.
#[place(cold)]
fn grow(cache: &'static RawCache, node: NodeId) -> Option<usize> {
    if cache.slabs.geometry.array.is_chain() {
        return grow_and_retry(cache, node);
    }
    let page = new_slab(cache, node)?;
    // The thread may have migrated.
    let here = Here::take();
    let array = here.array(cache).filter(|_| PERCPU.node_of(here.cpu()) == node);
    let more = array.map_or(0, |array| array.batchcount().min(array.room()));
    let mut object = 0;
    let mut after = After::NOTHING;
    let take = |taken| {
        if object == 0 {
            object = taken;
        } else if let Some(array) = array {
            array.push(taken);
        }
    };
    queues(cache).node(node).lists.lock().add_slab(&cache.slabs, page, 1 + more, take, &mut after);
    drop(here);
    after.settle(&cache.slabs);
    Some(object)
}

/// As [`grow`] in 2.6.24, which enters the slab, drops list_lock, and refills once more. Other CPUs
/// may take all objects of the slab in between; then it makes another.
#[place(cold)]
fn grow_and_retry(cache: &'static RawCache, node: NodeId) -> Option<usize> {
    let lists = &queues(cache).node(node).lists;
    loop {
        let page = new_slab(cache, node)?;
        let mut after = After::NOTHING;
        lists.lock().add_slab(&cache.slabs, page, 0, |_| (), &mut after);
        // The thread may have migrated, to a CPU whose array has objects.
        let here = Here::take();
        let object = match here.array(cache).filter(|_| PERCPU.node_of(here.cpu()) == node) {
            Some(array) if array.avail() > 0 => array.pop(),
            Some(array) => {
                lists.lock().refill(&cache.slabs, array, &mut after);
                array.pop()
            }
            None => take_one(cache, node, &mut after),
        };
        drop(here);
        after.settle(&cache.slabs);
        if object != 0 {
            return Some(object);
        }
    }
}

/// Makes a slab of `node` that is on no list yet.
#[place(cold)]
fn new_slab(cache: &'static RawCache, node: NodeId) -> Option<PageIndex> {
    let geometry = &cache.slabs.geometry;
    let page = pages::alloc(node, geometry.order)?.first;
    let colour = queues(cache).node(node).lists.lock().next_colour(geometry.colours) * geometry.colour_off;
    let head = MEMMAP.head(page);
    head.init(core::ptr::from_ref(cache) as usize, geometry.max_objects, geometry.order.0, node.0);
    if !slabs::open_slab(&cache.slabs, page, colour) {
        pages::free(page, geometry.order);
        return None;
    }
    let first = cache.slabs.first_object(page);
    for index in 0..usize::from(geometry.max_objects) {
        cache.slabs.carve(first + index * geometry.stride);
    }
    cache.slabs.set_class_words(page, geometry.order, node);
    let entry = &cache.slabs.nodes[usize::from(node.0)];
    let slabs = entry.counters.count_taken(1, usize::from(geometry.max_objects));
    if slabs * geometry.order.bytes() > BYTES_WORTH_REAPING {
        crate::base::background::wake();
    }
    Some(page)
}
