//! Checks of whole slabs and of frees, and the walk over a cache (the kernel's
//! `validate_slab_cache`).
//!
//! The caller of every function but [`validate`] holds list_lock of the slab's node.
#![allow(unsafe_code, reason = "reads and writes the end of slabs")]

use super::flags::DebugFlags;
use super::object::{Mark, POISON_INUSE, Slot, load, set_state, state_of};
use super::report;
use crate::base::units::{MAX_OBJECTS_PER_SLAB, Order, PageIndex};
use crate::engine::{RawCache, Validated};
use crate::pages::memmap::{MEMMAP, PageKind};
use crate::slab::partial::Partial;
use crate::slab::state::{NO_OBJECT, SlabState};
use ashlar_macros::place;

/// Returns the bytes of a slab behind its last object.
#[place(cold)]
fn end_of(cache: &RawCache, page: PageIndex) -> core::ops::Range<usize> {
    let (start, head) = (MEMMAP.address_of(page), MEMMAP.head(page));
    start + usize::from(head.objects()) * cache.slabs.geometry.stride..start + Order(head.order()).bytes()
}

/// Fills the bytes behind the last object of a new slab, if the cache is poisoned.
#[place(cold)]
pub(super) fn fill_end(cache: &RawCache, page: PageIndex) {
    if state_of(cache).flags().has(DebugFlags::POISON) {
        let end = end_of(cache, page);
        // SAFETY: the bytes lie in the slab, behind its last object, so they are in no object.
        unsafe { core::ptr::write_bytes(end.start as *mut u8, POISON_INUSE, end.len()) };
    }
}

/// Checks what belongs to no object of a slab (the kernel's `check_slab` and `slab_pad_check`).
#[place(cold)]
pub(super) fn check_slab(cache: &'static RawCache, page: PageIndex) -> bool {
    let (debug, head, state) = (state_of(cache), MEMMAP.head(page), load(page));
    let most = cache.slabs.geometry.objects(Order(head.order()));
    if head.objects() > most || state.inuse() > head.objects() {
        report::slab(cache, debug, format_args!("inuse {} > max {}", state.inuse(), head.objects().min(most)));
        return false;
    }
    if !debug.flags().has(DebugFlags::POISON) {
        return true;
    }
    // SAFETY: as in `fill_end`; whatever a stray write left there is a byte.
    let wrong = |&at: &usize| unsafe { core::ptr::read_volatile(at as *const u8) } != POISON_INUSE;
    let end = end_of(cache, page);
    let Some(first) = end.clone().find(wrong) else { return true };
    report::slab(
        cache,
        debug,
        format_args!("Padding overwritten. {first:#x}-{:#x} @offset={}", end.end - 1, first - MEMMAP.address_of(page)),
    );
    fill_end(cache, page);
    report::fixed(cache, debug, format_args!("Restoring slab padding {first:#x}-{:#x}={POISON_INUSE:#x}", end.end - 1));
    false
}

/// Checks that an address is an object in use of the slab, which is one of `cache`. Returns the
/// object and its index, or reports and returns `None` (`free_consistency_checks`).
#[place(cold)]
pub(super) fn check_free(cache: &'static RawCache, page: PageIndex, address: usize) -> Option<(Slot, u16)> {
    let debug = state_of(cache);
    let Ok((_, index)) = cache.slabs.locate(address) else {
        report::slab(cache, debug, format_args!("Invalid object pointer {address:#x}"));
        return None;
    };
    let slot = Slot::new(cache, debug, page, index);
    if slot.mark() == Mark::Free {
        report::object(&slot, "Object already free");
        return None;
    }
    if debug.flags().has(DebugFlags::CONSISTENCY_CHECKS) && !check_slab(cache, page) {
        return None;
    }
    slot.check(true).then_some((slot, index))
}

/// Reports a free to `cache` of an address that is none of its objects.
#[cold]
#[place(cold)]
pub(super) fn report_other(cache: &'static RawCache, address: usize) {
    let debug = state_of(cache);
    match owner_of(address) {
        Some(owner) => report::slab(
            cache,
            debug,
            format_args!("Wrong slab cache. {} but object {address:#x} is from {}", cache.name(), owner.name()),
        ),
        None => report::slab(cache, debug, format_args!("Attempt to free object({address:#x}) outside of slab")),
    }
    report::fixed(cache, debug, format_args!("Object at {address:#x} not freed"));
}

/// Returns the cache in whose slab an address lies.
#[place(cold)]
fn owner_of(address: usize) -> Option<&'static RawCache> {
    let page = MEMMAP.page_of(address)?;
    let class = MEMMAP.class_of(page);
    let first = PageIndex(page.0.wrapping_sub(class.back()));
    let is_slab = class.kind() == PageKind::Slab;
    // SAFETY: the owner field of a slab page's head is the address of its cache, which is never
    // unmapped.
    is_slab.then(|| unsafe { &*(MEMMAP.head(first).owner() as *const RawCache) })
}

/// Which objects of a slab are free, a bit for each.
struct FreeMap([u64; MAX_OBJECTS_PER_SLAB.div_ceil(64)]);

impl FreeMap {
    const fn has(&self, index: u16) -> bool {
        self.0[index as usize / 64] & 1 << (index % 64) != 0
    }

    /// Enters an object. Returns whether it is new.
    fn enter(&mut self, index: u16) -> bool {
        let new = !self.has(index);
        self.0[usize::from(index) / 64] |= 1 << (index % 64);
        new
    }
}

/// Walks along the freelist of a slab and corrects what disagrees with it: the kernel's
/// `on_freelist`. `None` if it could not be walked, and the slab's objects all count as in use.
#[place(cold)]
fn walk_freelist(cache: &'static RawCache, page: PageIndex, map: &mut FreeMap) -> Option<()> {
    let (debug, head) = (state_of(cache), MEMMAP.head(page));
    let (state, objects) = (load(page), head.objects());
    let mut next = state.head();
    let mut count = 0;
    let mut before: Option<Slot> = None;
    while next != NO_OBJECT {
        let valid = next < objects && map.enter(next);
        match (valid, before) {
            (true, _) => count += 1,
            // A chain that comes back to an object.
            (false, Some(before)) => {
                report::object(&before, "Freechain corrupt");
                before.set_link(NO_OBJECT);
                break;
            }
            (false, None) => {
                report::slab(cache, debug, format_args!("Freepointer corrupt"));
                set_state(page, SlabState::carved_from_fresh(objects));
                report::fixed(cache, debug, format_args!("Freelist cleared"));
                return None;
            }
        }
        let slot = Slot::new(cache, debug, page, next);
        next = slot.checked_link();
        before = Some(slot);
    }
    if state.inuse() != objects - count {
        report::slab(
            cache,
            debug,
            format_args!("Wrong object count. Counter is {} but counted were {}", state.inuse(), objects - count),
        );
        set_state(page, SlabState::carved_from_fresh(objects).pushed(state.head(), count));
        report::fixed(cache, debug, format_args!("Object count adjusted"));
    }
    Some(())
}

/// Checks a slab, its freelist and all its objects.
#[place(cold)]
fn validate_slab(cache: &'static RawCache, page: PageIndex) {
    let mut map = FreeMap([0; MAX_OBJECTS_PER_SLAB.div_ceil(64)]);
    if !check_slab(cache, page) || walk_freelist(cache, page, &mut map).is_none() {
        return;
    }
    let first = Slot::new(cache, state_of(cache), page, 0);
    for index in 0..MEMMAP.head(page).objects() {
        first.with_index(index).check(!map.has(index));
    }
}

#[place(cold)]
fn validate_list(cache: &'static RawCache, list: &Partial, seen: &mut Validated) {
    let debug = state_of(cache);
    let mut page = list.first();
    while page != PageIndex::NONE {
        let before = debug.errors();
        validate_slab(cache, page);
        seen.slabs += 1;
        seen.objects += u64::from(MEMMAP.head(page).objects());
        if debug.errors() != before {
            seen.corrupt += 1;
            seen.first_corrupt = seen.first_corrupt.or(Some(MEMMAP.address_of(page)));
        }
        page = MEMMAP.head(page).next();
    }
}

/// Calls `each` for every object in use, under list_lock of its node.
#[place(cold)]
pub(super) fn for_each_live(cache: &'static RawCache, each: impl Fn(Slot)) {
    for_each_object(cache, &mut |slot| {
        if matches!(slot.mark(), Mark::Live(_)) {
            each(slot);
        }
    });
}

/// Calls `each` for every object, in use or free, under list_lock of its node.
#[place(cold)]
#[inline(never)]
pub(super) fn for_each_object(cache: &'static RawCache, each: &mut dyn FnMut(Slot)) {
    let debug = state_of(cache);
    let mut look = |list: &Partial| {
        let mut page = list.first();
        while page != PageIndex::NONE {
            let (first, objects) = (Slot::new(cache, debug, page, 0), MEMMAP.head(page).objects());
            (0..objects).for_each(|index| each(first.with_index(index)));
            page = MEMMAP.head(page).next();
        }
    };
    for (node, full) in cache.slabs.nodes.iter().zip(debug.full) {
        let partial = node.list().lock();
        look(&partial);
        look(&full.lock());
    }
}

/// Checks every slab of a debugged cache. Returns the number of defects and repairs that were
/// reported, which the kernel's tests call errors, and what was checked. The program goes on: who
/// asks wants an answer.
#[place(cold)]
#[inline(never)]
pub(crate) fn validate(cache: &'static RawCache) -> (usize, Validated) {
    let debug = state_of(cache);
    let before = debug.errors();
    let mut seen = Validated::default();
    for (node, full) in cache.slabs.nodes.iter().zip(debug.full) {
        let partial = node.list().lock();
        validate_list(cache, &partial, &mut seen);
        validate_list(cache, &full.lock(), &mut seen);
    }
    if debug.errors() != before {
        report::found();
    }
    (debug.errors() - before, seen)
}
