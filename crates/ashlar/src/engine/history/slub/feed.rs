//! Takes a CPU's next slab.
//!
//! Sources in order: remote frees to the slab the CPU has; one of its partial slabs; one of the
//! node's, with more of them for the CPU's partial slabs; a new slab; then the same of other nodes.
#![allow(unsafe_code, reason = "reads and writes links")]

use super::give_up::{ATTEMPTS, Fed, cpu_partial, give_up, put_cpu_partial, take_cpu_partial};
use super::local::{self, CpuGuard, Words, exchange, interrupts_off, protection, read, switches};
use super::places::NO_SLAB;
use super::slabs;
use super::stage::Switches;
use crate::base::report;
use crate::base::units::{NodeId, PageIndex};
use crate::engine::{RawCache, defrags_now};
use crate::pages::memmap::MEMMAP;
use crate::percpu::area::PERCPU;
use crate::percpu::pages;
use crate::percpu::this_cpu_quick;
use crate::slab::freelist::{read_link, write_link};
use crate::slab::node::Node;
use crate::slab::partial::Chain;
use crate::slab::state::{NO_OBJECT, SlabState};

/// Allocates one object and gives this CPU the rest of its slab; null when out of memory.
#[place(cold)]
pub(super) fn alloc(cache: &'static RawCache) -> *mut u8 {
    let switches = switches(cache);
    local::count_alloc(cache, this_cpu_quick());
    for _ in 0..ATTEMPTS {
        // The words are unavailable while a drain runs, and after an abort; neither lasts.
        let Some(view) = read(cache, cache.state.places.slab) else { continue };
        let [head, base] = view.words;
        if head < usize::from(NO_OBJECT) {
            let object = local::pop(cache, switches.fast, local::pop_by_lock);
            if object != 0 {
                return object as *mut u8;
            }
            // Not empty, but nothing taken: another thread was faster, or the link is corrupt.
            drop_if_corrupt(cache, &view);
            continue;
        }
        // Take the slab from the CPU before reading its freelist: another thread of this CPU could
        // give it up meanwhile.
        if base != 0 && !exchange(cache, cache.state.places.slab, &view, NO_SLAB) {
            continue;
        }
        let node = PERCPU.node_of(view.cpu);
        let fed = if switches.exact {
            next_exact(cache, switches, base, node)
        } else {
            let own = if base == 0 { None } else { refreeze(cache, switches, base) };
            if own.is_none() {
                give_up(cache, switches, [head, base], true);
            }
            own.or_else(|| next_slab(cache, switches, node))
        };
        let Some(fed) = fed else { return core::ptr::null_mut() };
        let Some((object, rest)) = first_of(cache, fed) else { continue };
        let none = Words { words: NO_SLAB, ..view };
        if !exchange(cache, cache.state.places.slab, &none, [usize::from(rest), fed.base]) {
            // Another thread of this CPU has installed a slab, or this thread migrated.
            give_up(cache, switches, [usize::from(rest), fed.base], true);
        }
        return object as *mut u8;
    }
    without_cpu(cache, PERCPU.node_of(this_cpu_quick()))
}

/// Allocates one object from a slab that is given up at once: of `node`, or of another node.
#[place(cold)]
pub(super) fn without_cpu(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    let switches = switches(cache);
    for _ in 0..ATTEMPTS {
        let Some(fed) = of_nodes(cache, switches, node) else { return core::ptr::null_mut() };
        let Some((object, rest)) = first_of(cache, fed) else { continue };
        give_up(cache, switches, [usize::from(rest), fed.base], true);
        return object as *mut u8;
    }
    core::ptr::null_mut()
}

/// Takes the remote frees of a slab that was the CPU's and is the caller's now.
fn refreeze(cache: &'static RawCache, switches: &Switches, base: usize) -> Option<Fed> {
    let page = MEMMAP.page_of(base)?;
    let _guard = interrupts_off(cache, switches);
    let chain = slabs::take_freelist(MEMMAP.head(page), protection(switches));
    (chain.count > 0).then_some(Fed { page, base, head: chain.head })
}

/// Takes the first object of a freelist that the caller owns; also returns the index of the next.
/// `None`, after a report, if the link is corrupt; the slab then stays frozen for ever.
#[place(cold)]
pub(super) fn first_of(cache: &'static RawCache, fed: Fed) -> Option<(usize, u16)> {
    let objects = MEMMAP.head(fed.page).objects();
    if fed.head >= objects {
        report::corrupt_freelist(cache.name(), fed.base);
        return None;
    }
    // SAFETY: this thread took the freelist off its slab, so it owns the objects.
    match unsafe { read_link(local::link_at(cache, fed.base, fed.head), cache.slabs.secret, objects) } {
        Ok(next) => Some((fed.base + usize::from(fed.head) * cache.slabs.geometry.stride, next)),
        Err(bad) => {
            report::corrupt_link(cache.name(), bad.at);
            None
        }
    }
}

/// Takes the CPU slab off its CPU for ever if the first link of its freelist is corrupt.
#[cold]
#[place(cold)]
fn drop_if_corrupt(cache: &'static RawCache, view: &Words) {
    let [head, base] = view.words;
    let Some(page) = MEMMAP.page_of(base) else { return };
    let objects = MEMMAP.head(page).objects();
    let at = local::link_at(cache, base, head as u16);
    // SAFETY: a link in slab memory, which is never unmapped; the value is only checked.
    let is_bad = || head >= usize::from(objects) || unsafe { read_link(at, cache.slabs.secret, objects) }.is_err();
    let place = cache.state.places.slab;
    if !is_bad() || !exchange(cache, place, view, NO_SLAB) {
        return;
    }
    // Another thread of this CPU may have owned the object during the first check. Now this thread
    // owns the freelist.
    if is_bad() {
        report::corrupt_link(cache.name(), at);
    } else if !exchange(cache, place, &Words { words: NO_SLAB, ..*view }, view.words) {
        give_up(cache, switches(cache), view.words, true);
    }
}

/// Takes a slab with free objects for a CPU of `node`, frozen for the caller.
#[place(cold)]
fn next_slab(cache: &'static RawCache, switches: &Switches, node: NodeId) -> Option<Fed> {
    if switches.cpu_partial
        && let Some(fed) = take_cpu_partial(cache, switches)
    {
        return Some(fed);
    }
    of_nodes(cache, switches, node)
}

/// Takes a slab with free objects, frozen for the caller: of `node`, or of another node.
#[place(cold)]
fn of_nodes(cache: &'static RawCache, switches: &Switches, node: NodeId) -> Option<Fed> {
    if switches.exact {
        return next_exact(cache, switches, 0, node);
    }
    of_lists(cache, switches, node).or_else(|| not_of_lists(cache, switches, node))
}

/// Takes a slab from the partial list of `node`, or from those of other nodes if the cache searches
/// them first.
#[place(cold)]
pub(super) fn of_lists(cache: &'static RawCache, switches: &Switches, node: NodeId) -> Option<Fed> {
    let nodes = cache.slabs.nodes.len();
    let home = usize::from(node.0) % nodes;
    let own = from_partial(cache, switches, &cache.slabs.nodes[home]);
    if own.is_some() || nodes == 1 || !defrags_now(cache) {
        return own;
    }
    let others = (1..nodes).map(|next| &cache.slabs.nodes[(home + next) % nodes]);
    let mut others = others.filter(|node| node.has_to_spare(cache.slabs.min_partial()));
    others.find_map(|node| from_partial(cache, switches, node))
}

/// Makes a slab of `node`, or takes or makes one of another node.
#[place(cold)]
pub(super) fn not_of_lists(cache: &'static RawCache, switches: &Switches, node: NodeId) -> Option<Fed> {
    let nodes = cache.slabs.nodes.len();
    let home = usize::from(node.0) % nodes;
    (0..nodes).find_map(|i| {
        let id = (home + i) % nodes;
        let listed = if i == 0 {
            None
        } else {
            with_lock(cache, switches, || from_partial(cache, switches, &cache.slabs.nodes[id]))
        };
        listed.or_else(|| new_slab(cache, switches, NodeId(id as u8)))
    })
}

/// Calls `then` under the CPU lock if the stage takes it as the kernel does; else without.
fn with_lock<R>(cache: &'static RawCache, switches: &Switches, then: impl FnOnce() -> R) -> R {
    let _guard = switches.exact.then(|| CpuGuard::take(cache));
    then()
}

/// Takes remote frees of the slab at `base`, or thaws it and takes a slab from a partial list. The
/// caller has taken the slab off its CPU, if it gives one. The caller holds a CPU lock.
#[place(cold)]
pub(super) fn refill(
    cache: &'static RawCache,
    switches: &Switches,
    base: usize,
    node: NodeId,
    guard: &CpuGuard,
) -> Option<Fed> {
    if base != 0
        && let Some(page) = MEMMAP.page_of(base)
    {
        guard.count_slab_lock(cache);
        let chain = slabs::take_or_thaw(MEMMAP.head(page), protection(switches));
        if chain.count > 0 {
            return Some(Fed { page, base, head: chain.head });
        }
    }
    let fed = of_lists(cache, switches, node);
    if fed.is_some() {
        guard.count_slab_lock(cache);
    }
    fed
}

/// Takes the next slab for a CPU of `node`, whose slab at `base` is used up and taken off it; 0 for
/// none.
#[place(cold)]
fn next_exact(cache: &'static RawCache, switches: &Switches, base: usize, node: NodeId) -> Option<Fed> {
    let guard = CpuGuard::take(cache);
    let fed = refill(cache, switches, base, node, &guard);
    drop(guard);
    fed.or_else(|| not_of_lists(cache, switches, node))
}

/// Takes a slab of the node's partial list, which is looked at without its lock first, as in
/// `get_partial_node`. More of them become the CPU's partial slabs, until all together have more
/// than half of the free objects that it may hold.
#[place(cold)]
fn from_partial(cache: &'static RawCache, switches: &Switches, node: &Node) -> Option<Fed> {
    if node.list().count() == 0 {
        return None;
    }
    let fed = |(page, chain): (PageIndex, Chain)| Fed { page, base: MEMMAP.address_of(page), head: chain.head };
    if !switches.cpu_partial {
        return slabs::freeze_partial(node.list(), &MEMMAP, protection(switches)).map(fed);
    }
    let (page, chain, mut other) = slabs::freeze_several(node.list(), &MEMMAP, cpu_partial(cache) / 2)?;
    while other != PageIndex::NONE {
        let next = MEMMAP.head(other).next();
        put_cpu_partial(cache, other, false);
        other = next;
    }
    Some(fed((page, chain)))
}

/// Makes a new slab, linked from end to end.
#[place(cold)]
fn new_slab(cache: &'static RawCache, switches: &Switches, node: NodeId) -> Option<Fed> {
    let geometry = &cache.slabs.geometry;
    let entry = &cache.slabs.nodes[usize::from(node.0)];
    let mut order = geometry.order;
    let mut run = pages::alloc(node, order);
    if run.is_none() && order != geometry.min_order {
        order = geometry.min_order;
        run = pages::alloc(node, order);
        entry.counters.count_fallback(usize::from(run.is_some()));
    }
    let page = run?.first;
    let all_carved = |objects| SlabState::carved_from_fresh(objects).freeze();
    let objects = cache.slabs.open_slab(page, order, node, all_carved);
    let base = MEMMAP.address_of(page);
    for index in 0..objects {
        cache.slabs.carve(base + usize::from(index) * geometry.stride);
        let next = if index + 1 < objects { index + 1 } else { NO_OBJECT };
        // SAFETY: the slab is fresh and not published.
        unsafe { write_link(local::link_at(cache, base, index), cache.slabs.secret, next) };
    }
    entry.counters.count_taken(1, usize::from(objects));
    if switches.exact {
        with_lock(cache, switches, || slabs::lock_new(MEMMAP.head(page), protection(switches)));
    }
    Some(Fed { page, base, head: 0 })
}
