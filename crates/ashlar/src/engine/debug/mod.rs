//! The engine of debugged caches: the kernel's `slub_debug` in user space.
//!
//! A cache with debug flags has this engine, whatever engine the process has. It keeps nothing in
//! front of slabs, so every allocation and every free comes here, takes the list_lock of a node,
//! and checks and fills one object under it. All other caches pay nothing.
//!
//! | module | what it has |
//! |---|---|
//! | [`flags`] | [`DebugFlags`]: the letters of `slub_debug` |
//! | [`layout`] | where red zones, links, tracks and padding lie |
//! | [`object`] | reads and writes the bytes of an object and of what lies around it |
//! | [`track`] | who allocated and freed an object |
//! | [`check`] | the checks of one object |
//! | [`state`] | what is kept for a cache beside its slabs |
//! | [`slabs`] | the checks of slabs and frees, and the walk over all slabs of a cache |
//! | [`traces`](Trace) | the call stacks of all objects of a cache |
//! | [`report`] | what is printed |
//! | [`failures`] | allocations that fail on purpose |
//!
//! ## Slabs
//! A slab has all its objects linked from the start. It stands on the partial list of its node, or
//! on the list of full slabs, which only this engine has: so that a walk finds every slab. A slab
//! that fails a check when an object is to be allocated is on neither any more: it is frozen, and
//! its objects count as in use (the kernel's "Marking all objects used").
//!
//! Lock: list_lock of the slab's node. The lock of the list of full slabs is taken under it.
//! Reports are written under both, but no backtrace is made there: the unwinder may take locks.
//!
//! Source: mm/slub.c of Linux 6.18, from `set_track` to `validate_slab_cache`. The link and the
//! mark of an object lie outside of it here. A red zone or a poison that is wrong is reported in
//! an allocation or a free of every cache that has them; the kernel also wants `F` for that.

mod check;
pub(crate) mod failures;
mod flags;
mod layout;
mod object;
mod report;
mod slabs;
pub(crate) mod state;
#[cfg(feature = "os")]
mod traces;
pub(crate) mod track;

pub use flags::DebugFlags;
pub(crate) use slabs::validate;
#[cfg(feature = "os")]
pub use traces::Trace;
#[cfg(feature = "os")]
pub(crate) use traces::for_each as for_each_trace;

use super::{Object, RawCache, Strategy, Wish};
use crate::base::error::CreateError;
use crate::base::sync::Ordering;
use crate::base::units::{NodeId, PageIndex};
use crate::engine::{CacheSpec, Counts, EngineState};
use crate::pages::memmap::MEMMAP;
use crate::pages::meta::meta_slice;
use crate::percpu::area::PERCPU;
use crate::percpu::{adopt_thread, pages, this_cpu};
use crate::slab::discard::discard;
use crate::slab::geometry::Geometry;
use crate::slab::partial::{NodeList, Partial};
use crate::slab::state::{NO_OBJECT, SlabState};
use ashlar_macros::place;
use object::{Event, Mark, Slot, load, set_state, state_of};
use state::DebugState;
use track::Track;

/// Returns the flags of a cache; none for a cache of another engine.
pub(crate) fn flags_of(cache: &RawCache) -> DebugFlags {
    if cache.engine == super::Engine::Debug { state_of(cache).flags() } else { DebugFlags::NONE }
}

/// Gives a cache other flags, at any time: those that say what an operation checks, prints or
/// refuses. The others decide where objects lie and what their memory holds. Returns the flags that
/// it had.
///
/// # Errors
/// What cannot be changed.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn set_flags(cache: &RawCache, flags: DebugFlags) -> Result<DebugFlags, &'static str> {
    if cache.engine != super::Engine::Debug {
        return Err("debug: expected a cache that is debugged: ASHLAR_DEBUG says so when the program starts");
    }
    if flags.has(DebugFlags::FAILSLAB) && !failures::are_set() {
        return Err("debug: A: expected a process with ASHLAR_FAILSLAB, which says how often");
    }
    let state = state_of(cache);
    // The caller holds the registry lock, so nothing else changes the flags.
    let before = state.flags();
    if DebugFlags::METADATA.without(flags) != DebugFlags::METADATA.without(before) {
        return Err("debug: Z, P and U are fixed when the cache is made: give the same as it has");
    }
    state.flags.store(flags.bits(), Ordering::Relaxed);
    Ok(before)
}

#[derive(Clone, Copy)]
pub(crate) struct Debug;

/// Returns the track of a call of the cache, before it takes a lock. The track has a backtrace if
/// it will be kept or printed.
#[place(cold)]
fn track_for(cache: &RawCache) -> Track {
    let flags = state_of(cache).flags();
    Track::here(flags.has(DebugFlags::STORE_USER) || flags.has(DebugFlags::TRACE))
}

/// As [`crate::engine::alloc_sized`].
#[place(cold)]
#[inline(never)]
pub(crate) fn alloc_sized(cache: &'static RawCache, size: usize) -> *mut u8 {
    adopt_thread();
    alloc_for(cache, PERCPU.node_of(this_cpu()), size)
}

/// Returns an object for a request of `size` bytes, or null.
#[place(cold)]
#[inline(never)]
fn alloc_for(cache: &'static RawCache, node: NodeId, size: usize) -> *mut u8 {
    if state_of(cache).flags().has(DebugFlags::FAILSLAB) && failures::is_due(size) {
        return core::ptr::null_mut();
    }
    state_of(cache).allocs.fetch_add(1, Ordering::Relaxed);
    let track = track_for(cache);
    let before = state_of(cache).errors();
    let mut object = alloc_of_nodes(cache, node, size, &track);
    if object.is_null() {
        object = super::after_all(|| alloc_of_nodes(cache, node, size, &track));
    }
    report::end_of_operation(cache, before);
    object
}

/// As [`alloc_for`], from the node and, if that has no memory, from the others.
#[place(cold)]
fn alloc_of_nodes(cache: &'static RawCache, node: NodeId, size: usize, track: &Track) -> *mut u8 {
    let nodes = cache.slabs.nodes.len();
    let home = usize::from(node.0) % nodes;
    let found = (0..nodes).find_map(|next| {
        let node = NodeId(((home + next) % nodes) as u8);
        alloc_of_node(cache, node, size, track)
    });
    found.map_or(core::ptr::null_mut(), |object| object as *mut u8)
}

#[place(cold)]
fn alloc_of_node(cache: &'static RawCache, node: NodeId, size: usize, track: &Track) -> Option<usize> {
    let list = cache.slabs.nodes[usize::from(node.0)].list();
    loop {
        {
            let mut partial = list.lock();
            while partial.first() != PageIndex::NONE {
                let page = partial.first();
                if let Some(object) = take_first(cache, &mut partial, page, size, track) {
                    return Some(object);
                }
            }
        }
        let page = open_slab(cache, node)?;
        let objects = MEMMAP.head(page).objects();
        let mut partial = list.lock();
        set_state(page, SlabState::carved_from_fresh(objects).pushed(0, objects));
        partial.push_back(&MEMMAP, page);
    }
}

/// Takes the first object of a partial slab. If the slab fails a check, it is retired, and there is
/// no object.
#[place(cold)]
fn take_first(
    cache: &'static RawCache,
    partial: &mut Partial,
    page: PageIndex,
    size: usize,
    track: &Track,
) -> Option<usize> {
    let (state, debug) = (load(page), state_of(cache));
    let objects = MEMMAP.head(page).objects();
    if state.head() == NO_OBJECT {
        // A check has cleared its freelist.
        partial.unlink(&MEMMAP, page);
        full_list(debug, page).lock().push_front(&MEMMAP, page);
        return None;
    }
    let slot = Slot::new(cache, debug, page, state.head().min(objects - 1));
    if state.head() >= objects {
        report::slab(cache, debug, format_args!("Freelist pointer {:#x} invalid", state.head()));
    } else if (!debug.flags().has(DebugFlags::CONSISTENCY_CHECKS) || slabs::check_slab(cache, page))
        && slot.check_before_alloc()
    {
        let next = slot.checked_link();
        let state = state.popped(next);
        set_state(page, state);
        if state.inuse() == objects || next == NO_OBJECT {
            partial.unlink(&MEMMAP, page);
            full_list(debug, page).lock().push_front(&MEMMAP, page);
        }
        slot.set_track(Event::Alloc, track);
        slot.set_mark(Mark::Live(size));
        slot.init(Some(size));
        if debug.flags().has(DebugFlags::TRACE) {
            report::trace(&slot, Event::Alloc, track);
        }
        return Some(slot.at);
    }
    partial.unlink(&MEMMAP, page);
    set_state(page, SlabState::carved_from_fresh(objects).freeze());
    report::fixed(cache, debug, format_args!("Marking all objects used"));
    None
}

#[place(cold)]
fn full_list(debug: &'static DebugState, page: PageIndex) -> &'static NodeList {
    &debug.full[usize::from(MEMMAP.head(page).node()) % debug.full.len()]
}

/// Makes a run of pages a slab with all objects free and linked. It counts as full and frozen until
/// the caller lists it, so that nothing is freed to it.
#[place(cold)]
#[inline(never)]
fn open_slab(cache: &'static RawCache, node: NodeId) -> Option<PageIndex> {
    let (geometry, debug) = (&cache.slabs.geometry, state_of(cache));
    let (mut order, entry) = (geometry.order, &cache.slabs.nodes[usize::from(node.0)]);
    let run = pages::alloc(node, order).or_else(|| {
        order = geometry.min_order;
        pages::alloc(node, order)
    })?;
    let page = run.first;
    let objects = cache.slabs.open_slab(page, order, node, |all| SlabState::carved_from_fresh(all).freeze());
    MEMMAP.head(page).set_colour(geometry.colour_off);
    for index in 0..objects {
        let slot = Slot::new(cache, debug, page, index);
        slot.init(None);
        slot.init_padding();
        slot.set_mark(Mark::Free);
        slot.set_link(if index + 1 < objects { index + 1 } else { NO_OBJECT });
        cache.slabs.carve(slot.at);
    }
    slabs::fill_end(cache, page);
    if order != geometry.order {
        entry.counters.count_fallback(1);
    }
    entry.counters.count_taken(1, usize::from(objects));
    Some(page)
}

/// Frees an object that lies in a slab of its cache.
#[place(cold)]
#[inline(never)]
fn free_to(cache: &'static RawCache, page: PageIndex, address: usize, track: &Track) {
    let debug = state_of(cache);
    debug.frees.fetch_add(1, Ordering::Relaxed);
    let node = cache.slabs.node_of(page);
    let mut partial = node.list().lock();
    let Some((slot, index)) = slabs::check_free(cache, page, address) else {
        drop(partial);
        return report::fixed(cache, debug, format_args!("Object at {address:#x} not freed"));
    };
    slot.set_track(Event::Free, track);
    if debug.flags().has(DebugFlags::TRACE) {
        report::trace(&slot, Event::Free, track);
    }
    slot.init(None);
    slot.set_mark(Mark::Free);
    let state = load(page);
    slot.set_link(state.head());
    let freed = state.pushed(index, 1);
    set_state(page, freed);
    if state.frozen() {
        return;
    }
    if state.head() == NO_OBJECT {
        full_list(debug, page).lock().unlink(&MEMMAP, page);
        partial.push_front(&MEMMAP, page);
    }
    if freed.inuse() == 0 && partial.count > cache.slabs.min_partial() {
        partial.unlink(&MEMMAP, page);
        drop(partial);
        discard(node, &[page]);
    }
}

/// Notes that the object at `address` is used for `size` bytes from now on, as many as it has at
/// most. Bytes that are given up become part of the red zone.
#[place(cold)]
#[inline(never)]
pub(crate) fn note_size(cache: &'static RawCache, address: usize, size: usize) {
    let Ok((page, index)) = cache.slabs.locate(address) else { return };
    let _lock = cache.slabs.node_of(page).list().lock();
    let slot = Slot::new(cache, state_of(cache), page, index);
    if matches!(slot.mark(), Mark::Live(_)) {
        slot.set_mark(Mark::Live(size));
        slot.renew_red_zone(size);
    }
}

/// Returns the bytes that were asked for of a live object; those of every object otherwise.
#[place(cold)]
#[inline(never)]
pub(crate) fn size_of(cache: &'static RawCache, address: usize) -> usize {
    let Ok((page, index)) = cache.slabs.locate(address) else { return cache.object_size() };
    Slot::new(cache, state_of(cache), page, index).requested()
}

/// Returns whether the object at `address`, which is the start of one of `cache`, is free.
#[place(cold)]
#[inline(never)]
pub(crate) fn is_free(cache: &'static RawCache, address: usize) -> bool {
    let Ok((page, index)) = cache.slabs.locate(address) else { return false };
    Slot::new(cache, state_of(cache), page, index).mark() == Mark::Free
}

/// What is known of an object of a debugged cache.
pub(crate) struct Known {
    pub(crate) is_free: bool,
    /// Who allocated it and who freed it, with the flag `U`.
    tracks: [Option<Track>; 2],
}

impl Known {
    /// Prints who allocated and who freed the object.
    #[place(cold)]
    #[inline(never)]
    pub(crate) fn print_tracks(&self) {
        for (track, what) in self.tracks.iter().zip(["Allocated:", "Freed:"]) {
            if let Some(track) = track {
                report::track(what, track);
            }
        }
    }
}

/// Returns what is known of the object of `cache` that starts at `address`.
#[place(cold)]
#[inline(never)]
pub(crate) fn known(cache: &'static RawCache, address: usize) -> Option<Known> {
    let (page, index) = cache.slabs.locate(address).ok()?;
    let _lock = cache.slabs.node_of(page).list().lock();
    let slot = Slot::new(cache, state_of(cache), page, index);
    Some(Known {
        is_free: slot.mark() == Mark::Free,
        tracks: [Event::Alloc, Event::Free].map(|event| slot.track(event)),
    })
}

/// Reports that `function` was called with an object of `cache` that is free already, and who freed
/// it.
#[cold]
#[place(cold)]
#[inline(never)]
pub(crate) fn report_freed_twice(function: &str, address: usize, cache: &'static RawCache) {
    crate::base::report::warn(format_args!(
        "{function}({address:#x}): object of cache {} is free already",
        cache.name()
    ));
    let before = state_of(cache).errors();
    if let Ok((page, index)) = cache.slabs.locate(address) {
        let _lock = cache.slabs.node_of(page).list().lock();
        report::object(&Slot::new(cache, state_of(cache), page, index), "Object already free");
    }
    report::fixed(cache, state_of(cache), format_args!("Object at {address:#x} not freed"));
    report::end_of_operation(cache, before);
}

/// Reports the objects of a cache that are in use when it is to be destroyed (the kernel's
/// `list_slab_objects`). The cache stays, so the program goes on in any case.
#[cold]
#[place(cold)]
#[inline(never)]
pub(crate) fn report_remaining(cache: &'static RawCache) {
    report::bug(cache, state_of(cache), format_args!("Objects remaining on __kmem_cache_shutdown()"));
    slabs::for_each_live(cache, |slot| report::remaining(&slot));
    report::fixed(cache, state_of(cache), format_args!("Cache not destroyed"));
}

impl Strategy for Debug {
    #[place(cold)]
    #[inline(never)]
    fn alloc(cache: &'static RawCache) -> *mut u8 {
        alloc_sized(cache, cache.object_size())
    }

    #[place(cold)]
    #[inline(never)]
    fn alloc_on(cache: &'static RawCache, node: NodeId) -> *mut u8 {
        adopt_thread();
        alloc_for(cache, node, cache.object_size())
    }

    #[place(cold)]
    #[inline(never)]
    fn free(object: Object) {
        adopt_thread();
        let Object { cache, address } = object;
        let before = state_of(cache).errors();
        match cache.slabs.slab_at(address) {
            Some(page) => {
                let track = track_for(cache);
                free_to(cache, page, address, &track);
            }
            None => slabs::report_other(cache, address),
        }
        report::end_of_operation(cache, before);
        crate::base::background::settle();
    }

    #[place(cold)]
    #[inline(never)]
    fn open(self, state: &mut EngineState, spec: &CacheSpec<'_>, _: &mut Geometry) -> Result<(), CreateError> {
        state.open_nodes()?;
        let debug = match state.debug {
            Some(earlier) => earlier,
            None => &meta_slice(1, DebugState::new).ok_or(CreateError::OutOfMemory)?[0],
        };
        state.debug = Some(debug);
        debug.flags.store(spec.debug.bits(), Ordering::Relaxed);
        debug.sized.store(spec.policy.by_address || spec.policy.tracked, Ordering::Relaxed);
        debug.errors.store(0, Ordering::Relaxed);
        debug.allocs.store(0, Ordering::Relaxed);
        debug.frees.store(0, Ordering::Relaxed);
        Ok(())
    }

    #[place(cold)]
    #[inline(never)]
    fn counts(cache: &'static RawCache) -> Counts {
        let debug = state_of(cache);
        Counts {
            alloc_slow: debug.allocs.load(Ordering::Relaxed),
            free_slow: debug.frees.load(Ordering::Relaxed),
            ..Counts::of_lists(&cache.slabs)
        }
    }

    fn wants_size(self) -> bool {
        true
    }

    fn merges(self) -> bool {
        false
    }

    #[place(cold)]
    #[inline(never)]
    fn lay_out(self, geometry: Geometry, wish: Wish) -> Option<Geometry> {
        layout::lay_out(geometry, wish)
    }
}
