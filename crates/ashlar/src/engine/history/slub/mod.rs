//! SLUB from 2007 to 2015: each CPU owns one slab and allocates from that alone.
//!
//! ```text
//!  CPU:   its slab's freelist                 critical section, or the CPU lock
//!         partial slabs (stage of 2015)       critical section
//!  slab:  remote frees                        slab_lock, or one compare-and-swap
//!  node:  partial slabs                       list_lock
//!  zone:  pages                               zone lock, once a slab
//! ```
//!
//! An allocation takes the first object of the CPU slab's freelist. If that is empty, the CPU takes
//! the remote frees of its slab. After that it takes another slab: one of its partial slabs, one of
//! the node's, or a new one. A free goes to the CPU's freelist if the object belongs to the CPU
//! slab, and else to the object's slab, whichever CPU owns it. A full slab that no CPU owns is on
//! no list; the first free to it puts it on one.
//!
//! The stages ([`Stage`]) are switches of this one engine. It shares the slab with the default
//! engine: state word, freelist, geometry, partial list, and the functions of [`crate::slab`]
//! around them. As in the kernel, a new slab is linked from end to end at once, so every slab here
//! is wholly carved.
//!
//! * [`stage`]: the switches. [`local`]: this CPU's words and its lock. [`slabs`]: changes of slab
//!   words.
//! * [`feed`]: sources of the CPU's next slab, and giving one up. [`bulk`]: whole freelists.
//! * this file: the contract of engines.
//!
//! If a CPU's words are unavailable, an allocation opens a slab for one object and gives it up
//! again. That is so while a drain runs, on a CPU without an area, and while the lock of the mode
//! `lock` is taken.
#![allow(unsafe_code, reason = "links and frees objects")]

mod bulk;
mod feed;
mod local;
pub(crate) mod places;
pub(crate) mod slabs;
pub(crate) mod stage;

use crate::base::error::CreateError;
use crate::base::report;
use crate::base::sync::Ordering;
use crate::base::units::{NodeId, PageIndex};
use crate::engine::{CacheSpec, Counts, EngineState, RawCache, Strategy, Usage};
use crate::pages::memmap::{MEMMAP, PageKind};
use crate::percpu::this_cpu_quick;
use crate::percpu::{self, drain};
use crate::slab::OrderRule;
use crate::slab::freelist::{read_link, write_link};
use crate::slab::geometry::Geometry;
use crate::slab::node::Node;
use crate::slab::partial::{Chain, Freed};
use crate::slab::state::{NO_OBJECT, SlabState};
use ashlar_macros::place;
use local::{CpuGuard, FreedObject};
use places::{NO_PARTIAL, NO_SLAB, Places};
use slabs::Protection;
use stage::{Fast, Slow, Stage, Switches};

/// Returns the switches of a cache's stage.
#[inline]
fn switches(cache: &RawCache) -> &Switches {
    &cache.state.places.switches
}

fn protection(switches: &Switches) -> Protection {
    match switches.slow {
        Slow::Lockless => Protection::Lockless,
        Slow::SlabLock => Protection::Lock { atomic: true },
        Slow::SlabLockPlainUnlock => Protection::Lock { atomic: false },
    }
}

/// Returns the node entry of a slab.
fn node_of(cache: &'static RawCache, page: PageIndex) -> &'static Node {
    cache.slabs.node_of(page)
}

/// Takes the CPU lock unless the stage needs none. It stands for disabled interrupts around the
/// kernel's slab_lock.
fn interrupts_off(cache: &RawCache, switches: &Switches) -> Option<CpuGuard> {
    (!switches.lockless()).then(|| {
        let guard = CpuGuard::take(cache);
        guard.count_slab_lock(cache);
        guard
    })
}

/// See [`crate::engine::alloc`].
#[inline(always)]
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    let object = local::pop(cache, cache.state.places.switches.fast);
    if object == 0 { alloc_slow(cache) } else { object as *mut u8 }
}

#[cold]
#[inline(never)]
#[place(cold)]
fn alloc_slow(cache: &'static RawCache) -> *mut u8 {
    percpu::adopt_thread();
    let object = feed::alloc(cache);
    // Other caches may hold the last free memory.
    if object.is_null() { crate::engine::after_all(|| feed::alloc(cache)) } else { object }
}

/// See [`crate::engine::alloc_on`].
pub(crate) fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
    percpu::adopt_thread();
    let object = feed::without_cpu(cache, node);
    if object.is_null() { crate::engine::after_all(|| feed::without_cpu(cache, node)) } else { object }
}

/// See [`crate::engine::free`].
#[place(cold)]
pub(crate) fn free(cache: &'static RawCache, object: usize) {
    if let Some(page) = MEMMAP.page_of(object) {
        let class = MEMMAP.class_of(page);
        let first = PageIndex(page.0.wrapping_sub(class.back()));
        if class.kind() == PageKind::Slab && MEMMAP.head(first).owner() == core::ptr::from_ref(cache) as usize {
            return free_in(cache, first, object);
        }
    }
    report::not_of_cache(cache.name(), object);
}

/// See [`crate::engine::free_in`].
#[inline]
#[place(cold)]
pub(crate) fn free_in(cache: &'static RawCache, slab: PageIndex, object: usize) {
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
    if switches.fast == Fast::Lock {
        return free_interrupts_off(cache, switches, freed);
    }
    // A critical section was tried before; a thread that was not registered then tries again.
    let again = percpu::adopt_thread() || switches.fast == Fast::Emulated || percpu::mode() == percpu::Mode::Lock;
    // SAFETY: as in `free_in`.
    if again && unsafe { local::push(cache, switches.fast, freed) } {
        return;
    }
    free_slow(cache, switches, freed);
}

/// Frees as the first stage does: fast and slow path under one hold of the CPU lock.
#[place(cold)]
fn free_interrupts_off(cache: &'static RawCache, switches: &Switches, freed: FreedObject) {
    let mut guard = CpuGuard::take(cache);
    // SAFETY: as in `free_in`.
    if unsafe { local::push_locked(cache, &mut guard, freed) } {
        return;
    }
    local::count_free(cache, guard.cpu());
    guard.count_slab_lock(cache);
    let outcome = if guard.has_first(cache, freed) { Outcome::Twice } else { free_to_slab(cache, switches, freed) };
    drop(guard);
    finish_free(cache, freed, outcome);
}

#[place(cold)]
fn free_slow(cache: &'static RawCache, switches: &Switches, freed: FreedObject) {
    let cpu = this_cpu_quick();
    local::count_free(cache, cpu);
    if local::is_first_of(cache, cpu, freed) {
        return finish_free(cache, freed, Outcome::Twice);
    }
    let guard = interrupts_off(cache, switches);
    let outcome = free_to_slab(cache, switches, freed);
    drop(guard);
    finish_free(cache, freed, outcome);
}

/// The outcome of a free to a slab.
enum Outcome {
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
fn push_chain(
    cache: &'static RawCache,
    switches: &Switches,
    page: PageIndex,
    chain: Chain,
    link: impl FnMut(u16),
) -> Outcome {
    let node = node_of(cache, page);
    let min_partial = if switches.keeps_empty { cache.slabs.min_partial() } else { 0 };
    match protection(switches) {
        Protection::Lock { atomic } => {
            Outcome::Freed(slabs::free_chain_locked(&node.list, &MEMMAP, page, chain, atomic, link))
        }
        Protection::Lockless if switches.cpu_partial && feed::cpu_partial(cache) > 0 => {
            match slabs::free_chain_freezing(&node.list, &MEMMAP, page, chain, min_partial, link) {
                (_, true) => Outcome::Frozen,
                (freed, false) => Outcome::Freed(freed),
            }
        }
        Protection::Lockless => Outcome::Freed(node.list.push_chain(&MEMMAP, page, chain, min_partial, false, link)),
    }
}

/// Completes a free after all locks are dropped.
#[place(cold)]
fn finish_free(cache: &'static RawCache, freed: FreedObject, outcome: Outcome) {
    match outcome {
        Outcome::Freed(Freed::Kept) => {}
        Outcome::Freed(Freed::Discard) => {
            crate::slab::discard::discard_one(node_of(cache, freed.page), freed.page);
            crate::base::background::settle();
        }
        Outcome::Frozen => feed::put_cpu_partial(cache, freed.page),
        Outcome::Freed(Freed::Corrupt) | Outcome::Twice => {
            let object = freed.base + usize::from(freed.index) * cache.slabs.geometry.stride;
            report::double_free(cache.name(), object);
        }
    }
}

/// See [`crate::engine::alloc_bulk`].
#[place(cold)]
pub(crate) fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
    let mut got = 0;
    while got < out.len() {
        if switches(cache).bulk {
            got += bulk::take_local(cache, &mut out[got..]);
            if got == out.len() {
                break;
            }
        }
        let object = alloc(cache);
        if object.is_null() {
            free_bulk(cache, &out[..got]);
            return false;
        }
        out[got] = object as usize;
        got += 1;
    }
    true
}

/// See [`crate::engine::free_bulk`].
pub(crate) fn free_bulk(cache: &'static RawCache, objects: &[usize]) {
    if switches(cache).bulk {
        bulk::free(cache, objects);
    } else {
        objects.iter().for_each(|&object| free(cache, object));
    }
}

/// Follows a freelist from `head` on and calls `each` for every index. Returns the index of the
/// last object. Returns `None` if the list is longer than the slab, or if a link does not decode.
#[place(cold)]
fn walk(cache: &RawCache, base: usize, head: u16, limit: u16, mut each: impl FnMut(u16)) -> Option<u16> {
    let (mut at, mut last) = (head, NO_OBJECT);
    for _ in 0..=limit {
        if at == NO_OBJECT {
            return Some(last);
        }
        if at >= limit {
            return None;
        }
        each(at);
        last = at;
        // SAFETY: `at` is below the slab's number of objects, so its link is readable; its value is
        // checked.
        at = unsafe { read_link(local::link_at(cache, base, at), cache.slabs.secret, limit) }.ok()?;
    }
    None
}

/// The engine, in one of its stages.
#[derive(Clone, Copy)]
pub(crate) struct Slub(pub(crate) Stage);

#[place(cold)]
impl Strategy for Slub {
    #[inline(always)]
    fn alloc(cache: &'static RawCache) -> *mut u8 {
        alloc(cache)
    }

    #[inline(always)]
    fn free(cache: &'static RawCache, object: usize) {
        free(cache, object);
    }

    #[inline(always)]
    fn free_in(cache: &'static RawCache, slab: PageIndex, object: usize) {
        free_in(cache, slab, object);
    }

    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        alloc_on(cache, node)
    }

    fn alloc_bulk(cache: &'static RawCache, out: &mut [usize]) -> bool {
        alloc_bulk(cache, out)
    }

    fn free_bulk(cache: &'static RawCache, objects: &[usize]) {
        free_bulk(cache, objects);
    }

    fn drain_cpus(cache: &'static RawCache) -> bool {
        let switches = switches(cache);
        let places = cache.state.places;
        if switches.fast != Fast::Rseq {
            // `drain_locked` holds the lock of the CPU that these words belong to, so slab_lock
            // needs no other.
            drain::drain_locked(&[places.slab], NO_SLAB, |_, _, words| {
                feed::give_up(cache, switches, words, false);
            });
            return true;
        }
        let give_up = !matches!(percpu::mode(), percpu::Mode::Lock | percpu::Mode::Emulate);
        let mut all = drain::drain_words(&[places.slab], NO_SLAB, |_, _, words| {
            feed::give_up(cache, switches, words, give_up);
        });
        if switches.cpu_partial {
            all &= drain::drain_words(&[places.partial], NO_PARTIAL, |_, _, words| {
                feed::give_up_partial(cache, switches, words);
            });
        }
        all
    }

    fn usage(cache: &'static RawCache) -> Usage {
        Usage::of_slabs(&cache.slabs, percpu::all_cpus().map(|cpu| feed::free_on(cache, cpu)).sum())
    }

    fn close(cache: &'static RawCache) {
        cache.state.places.give_back();
    }

    fn counts(cache: &'static RawCache) -> Counts {
        let mut sum = Counts { list_locks: cache.slabs.list_locks_taken(), ..Counts::default() };
        local::add_counts(cache, &mut sum);
        sum
    }

    fn open(self, state: &mut EngineState, _spec: &CacheSpec<'_>, _geometry: &mut Geometry) -> Result<(), CreateError> {
        state.open_nodes_and_page_lists()?;
        state.places = Places::claim(self.0).ok_or(CreateError::TooManyCaches)?;
        Ok(())
    }

    fn max_class(self) -> usize {
        self.0.max_class()
    }

    fn min_partial(self, by_size: usize) -> usize {
        self.0.min_partial(by_size)
    }

    fn cpu_partial(self, stride: usize) -> usize {
        if self.0 == Stage::Bulk { stage::cpu_partial(stride) } else { 0 }
    }

    fn order_rule(self, rule: OrderRule) -> OrderRule {
        self.0.order_rule(rule)
    }
}
