//! Free to SLUB: to the CPU slab by the fast path, else to the slab of the object.
#![allow(unsafe_code, reason = "links and frees objects")]

use super::chain::chain_of;
use super::give_up::{cpu_partial, put_cpu_partial};
use super::local::{self, CpuGuard, FreedObject, interrupts_off, protection, switches};
use super::partly;
use super::slabs::{self, Protection};
use super::stage::{Fast, Switches};
use crate::base::report;
use crate::base::sync::Ordering;
use crate::base::units::PageIndex;
use crate::engine::{Object, RawCache};
use crate::pages::memmap::{MEMMAP, PageKind};
use crate::percpu;
use crate::percpu::this_cpu_quick;
use crate::slab::freelist::write_link;
use crate::slab::partial::{Chain, Freed};
use crate::slab::state::{NO_OBJECT, SlabState};

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

/// See [`crate::engine::free_in`].
#[inline]
#[place(cold)]
pub(crate) fn free_in(freed: Object, slab: PageIndex) {
    let Object { cache, address: object } = freed;
    let base = MEMMAP.address_of(slab);
    let index = cache.slabs.geometry.index_of(object.wrapping_sub(base));
    let Some(index) = index.filter(|&index| index < MEMMAP.head(slab).objects()) else {
        return report::misaligned(cache.name(), object);
    };
    let link = object + cache.slabs.geometry.link_offset;
    // SAFETY: the object is one of this slab, and the caller gives it up.
    if cache.state.places.switches.fast != Fast::Rseq || !unsafe { local::push_here(cache, base, index, link) } {
        free_rest(cache, FreedObject { page: slab, base, index, link });
    }
}

/// A free that no critical section has handled.
#[cold]
#[inline(never)]
#[place(cold)]
fn free_rest(cache: &'static RawCache, freed: FreedObject) {
    let switches = switches(cache);
    // In a kernel, a CPU that only frees does what it was asked for here.
    #[cfg(not(feature = "os"))]
    percpu::adopt_thread();
    match switches.fast {
        // The first stage: fast and slow path under one hold of the CPU lock.
        Fast::Lock => {
            let mut guard = CpuGuard::take(cache);
            // SAFETY: as in `free_in`.
            if !unsafe { local::push_locked(cache, &mut guard, freed) } {
                free_under_lock(cache, switches, guard, freed);
            }
            return;
        }
        // A critical section was tried before; a thread that was not registered then tries again.
        Fast::Rseq if percpu::by_assembly() && !percpu::adopt_thread() => {}
        // SAFETY: as in `free_in`.
        fast if unsafe { local::push(cache, fast, freed) } => return,
        Fast::Rseq | Fast::Emulated => {}
    }
    if switches.frees_by_lock() {
        free_under_lock(cache, switches, CpuGuard::take(cache), freed);
    } else {
        free_slow(cache, switches, freed);
    }
}

/// Frees to the object's slab where the kernel has interrupts off around slab_lock.
#[inline(always)]
fn free_under_lock(cache: &'static RawCache, switches: &Switches, mut guard: CpuGuard, freed: FreedObject) {
    local::count_free(cache, guard.cpu());
    guard.count_slab_lock(cache);
    let is_first = if switches.fast == Fast::Rseq && percpu::mode() != percpu::Mode::Lock {
        // The lock does not protect the CPU's words here.
        local::is_first_of(cache, guard.cpu(), freed)
    } else {
        guard.has_first(cache, freed)
    };
    let outcome = if is_first { Outcome::Twice } else { free_to_slab(cache, switches, freed) };
    drop(guard);
    finish_free(cache, freed, outcome);
}

/// Frees to the object's slab by a compare-and-swap.
#[place(cold)]
fn free_slow(cache: &'static RawCache, switches: &Switches, freed: FreedObject) {
    let cpu = this_cpu_quick();
    local::count_free(cache, cpu);
    let twice = local::is_first_of(cache, cpu, freed);
    let outcome = if twice { Outcome::Twice } else { free_to_slab(cache, switches, freed) };
    finish_free(cache, freed, outcome);
}

/// Takes the CPU lock if a free to another slab begins with it.
fn off_to_free(cache: &'static RawCache, switches: &Switches) -> Option<CpuGuard> {
    if switches.frees_by_lock() { interrupts_off(cache, switches) } else { None }
}

/// The outcome of a free to a slab.
pub(super) enum Outcome {
    Freed(Freed),
    /// The slab was full; it is one of the CPU's partial slabs now.
    Frozen,
    /// The object is the first of a freelist already: a double free.
    Twice,
}

/// Frees one object to its slab.
#[place(cold)]
fn free_to_slab(cache: &'static RawCache, switches: &Switches, freed: FreedObject) -> Outcome {
    let state = SlabState(MEMMAP.head(freed.page).state.load(Ordering::Relaxed));
    if state.head() == freed.index {
        return Outcome::Twice;
    }
    let chain = Chain { head: freed.index, count: 1 };
    // SAFETY: the caller freed the object, so this thread owns it until the chain is published.
    push_chain(cache, switches, freed.page, chain, |prior| unsafe { write_link(freed.link, cache.slabs.secret, prior) })
}

/// Frees a chain to its slab. `link(prior)` makes its last object point to `prior`. In stages with
/// slab_lock the caller holds a CPU lock.
#[place(cold)]
pub(super) fn push_chain(
    cache: &'static RawCache,
    switches: &Switches,
    page: PageIndex,
    chain: Chain,
    link: impl FnMut(u16),
) -> Outcome {
    let node = cache.slabs.node_of(page);
    let min_partial = if switches.keeps_empty { cache.slabs.min_partial() } else { 0 };
    match protection(switches) {
        Protection::Lock { atomic } => {
            Outcome::Freed(slabs::free_chain_locked(node.list(), &MEMMAP, page, chain, atomic, link))
        }
        Protection::Partly => {
            let owner = core::ptr::from_ref(cache) as usize;
            let off = || interrupts_off(cache, switches);
            Outcome::Freed(partly::free(node.list(), &MEMMAP, page, chain, owner, off, link))
        }
        Protection::Lockless if switches.cpu_partial && cpu_partial(cache) > 0 => {
            match slabs::free_chain_freezing(node.list(), &MEMMAP, page, chain, min_partial, link) {
                (_, true) => Outcome::Frozen,
                (freed, false) => Outcome::Freed(freed),
            }
        }
        Protection::Lockless => Outcome::Freed(node.list().push_chain(&MEMMAP, page, chain, min_partial, false, link)),
    }
}

/// Completes a free after all locks are dropped.
#[place(cold)]
pub(super) fn finish_free(cache: &'static RawCache, freed: FreedObject, outcome: Outcome) {
    match outcome {
        Outcome::Freed(Freed::Kept) => {}
        Outcome::Freed(Freed::Discard) => {
            crate::slab::discard::discard_one(cache.slabs.node_of(freed.page), freed.page);
            crate::base::background::settle();
        }
        Outcome::Frozen => put_cpu_partial(cache, freed.page, true),
        Outcome::Freed(Freed::Corrupt) | Outcome::Twice => {
            let object = freed.base + usize::from(freed.index) * cache.slabs.geometry.stride;
            report::double_free(cache.name(), object);
        }
    }
}

/// Frees the rest of a freelist to its slab, which any CPU may own by now.
#[place(cold)]
pub(super) fn give_back(cache: &'static RawCache, switches: &Switches, page: PageIndex, head: u16) {
    if head == NO_OBJECT {
        return;
    }
    let base = MEMMAP.address_of(page);
    let Some((chain, last)) = chain_of(cache, page, head) else { return };
    let guard = off_to_free(cache, switches);
    let outcome = push_chain(cache, switches, page, chain, |prior| {
        // SAFETY: this thread owns the chain until it is published.
        unsafe { write_link(local::link_at(cache, base, last), cache.slabs.secret, prior) };
    });
    drop(guard);
    let first = local::FreedObject::new(cache, page, head, base + usize::from(head) * cache.slabs.geometry.stride);
    finish_free(cache, first, outcome);
}
