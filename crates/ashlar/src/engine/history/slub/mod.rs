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
//! * [`exact`]: allocations of 2010. [`partly`]: slabs of which only frees need no lock. [`words`]:
//!   what that shares with [`slabs`].
//! * [`feed`]: sources of the CPU's next slab. [`give_up`]: slabs that a CPU gives up.
//!   [`mod@free`]: frees. [`bulk`]: whole freelists. [`chain`]: freelists that a thread owns.
//! * this file: the contract of engines.
//!
//! If a CPU's words are unavailable, an allocation opens a slab for one object and gives it up
//! again. That is so while a drain runs, on a CPU without an area, and while the lock of the mode
//! `lock` is taken.

mod bulk;
mod chain;
mod exact;
mod feed;
mod free;
mod give_up;
mod local;
pub(crate) mod partly;
pub(crate) mod places;
pub(crate) mod slabs;
pub(crate) mod stage;
pub(crate) mod words;

use crate::base::error::CreateError;
#[cfg(not(feature = "os"))]
use crate::base::units::CpuId;
use crate::base::units::{NodeId, PageIndex};
use crate::engine::{CacheSpec, Counts, EngineState, Object, Objects, RawCache, Strategy, Usage};
#[cfg(not(feature = "os"))]
use crate::percpu::remote::{self, Cause};
use crate::percpu::{self, drain};
use crate::slab::OrderRule;
use crate::slab::geometry::Geometry;
use ashlar_macros::place;
use free::{free, free_in};
use local::switches;
use places::{NO_PARTIAL, NO_SLAB, Places};
use stage::{Fast, Stage};

/// See [`crate::engine::alloc`].
#[inline(always)]
pub(crate) fn alloc(cache: &'static RawCache) -> *mut u8 {
    let object = local::pop(cache, cache.state.places.switches.fast, pop_by_lock);
    if object == 0 { alloc_slow(cache) } else { object as *mut u8 }
}

/// Takes an object where no critical section does it.
#[inline(never)]
#[place(cold)]
fn pop_by_lock(cache: &'static RawCache, fast: Fast) -> usize {
    if fast == Fast::Lock && switches(cache).exact { exact::alloc(cache) } else { local::pop_by_lock(cache, fast) }
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
            free_bulk(Objects { cache, addresses: &out[..got] });
            return false;
        }
        out[got] = object as usize;
        got += 1;
    }
    true
}

/// See [`crate::engine::free_bulk`].
pub(crate) fn free_bulk(objects: Objects<'_>) {
    if switches(objects.cache).bulk {
        bulk::free(objects);
    } else {
        objects.for_each(free);
    }
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

    fn free_bulk(objects: Objects<'_>) {
        free_bulk(objects);
    }

    fn drain_cpus(cache: &'static RawCache) -> bool {
        let switches = switches(cache);
        let places = cache.state.places;
        if switches.fast != Fast::Rseq {
            // `drain_locked` holds the lock of the CPU that these words belong to, so slab_lock
            // needs no other.
            drain::drain_locked(&[places.slab], NO_SLAB, |_, _, words| {
                give_up::give_up(cache, switches, words, false);
            });
            return true;
        }
        let lock = !matches!(percpu::mode(), percpu::Mode::Lock | percpu::Mode::Emulate);
        let mut all = drain::drain_words(&[places.slab], NO_SLAB, |_, _, words| {
            give_up::give_up(cache, switches, words, lock);
        });
        if switches.cpu_partial {
            all &= drain::drain_words(&[places.partial], NO_PARTIAL, |_, _, words| {
                give_up::give_up_partial(cache, words);
            });
        }
        all
    }

    #[cfg(not(feature = "os"))]
    fn drain_cpu(cache: &'static RawCache, cpu: CpuId, cause: Cause) {
        let (switches, places) = (switches(cache), cache.state.places);
        if switches.fast != Fast::Rseq {
            drain::take_of_cpu(cpu, &[places.slab], NO_SLAB, &mut |_, _, words| {
                give_up::give_up(cache, switches, words, false);
            });
            return;
        }
        remote::drain_for(cause, cpu, places.slab, NO_SLAB, |_, _, words| {
            give_up::give_up(cache, switches, words, true);
        });
        if switches.cpu_partial {
            remote::drain_for(cause, cpu, places.partial, NO_PARTIAL, |_, _, words| {
                give_up::give_up_partial(cache, words);
            });
        }
    }

    fn usage(cache: &'static RawCache) -> Usage {
        Usage::of_slabs(&cache.slabs, percpu::all_cpus().map(|cpu| give_up::free_on(cache, cpu)).sum())
    }

    fn close(cache: &'static RawCache) {
        cache.state.places.give_back();
    }

    fn counts(cache: &'static RawCache) -> Counts {
        let mut sum = Counts::of_lists(&cache.slabs);
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

    fn min_partial(self, by_size: usize, stride: usize) -> usize {
        self.0.min_partial(by_size, stride)
    }

    fn cpu_partial(self, stride: usize) -> usize {
        if self.0 == Stage::Bulk { stage::cpu_partial(stride) } else { 0 }
    }

    fn order_rule(self, rule: OrderRule) -> OrderRule {
        self.0.order_rule(rule)
    }
}
