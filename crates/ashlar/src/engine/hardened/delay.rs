//! The objects that the options `quarantine` and `random` hold back, for each cache.
//!
//! `quarantine`: a freed object waits in a queue until as many others of its cache were freed.
//! Until then it is not handed out, its bytes are poison, and a write to them is reported when it
//! leaves.
//!
//! `random`: an allocated object is exchanged for one of a few that wait. So the order in which
//! objects are handed out cannot be foretold from that in a slab or in the program.
//!
//! Each place is one word, and every step is one atomic exchange: there is no lock, and the child
//! of a fork has a copy of some moment. A copy may lack an object that another thread was moving.
//! Such an object is lost to the child.
//!
//! Objects that are held back are in use for the engine. [`drain`] returns them.
#![allow(unsafe_code, reason = "fills and reads objects")]

use crate::base::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::base::units::MAX_NODES;
use crate::engine::random::random;
use crate::engine::raw_cache::RawCache;
use crate::engine::route::{has_random, quarantine};
use crate::pages::memmap::MEMMAP;
use crate::pages::meta::meta_slice;
use crate::pages::zone::ZONE;
use crate::percpu::area::{AREA_BYTES, PERCPU, SLOT_BYTES};
use crate::percpu::this_cpu;
use ashlar_macros::place;

/// Most freed objects of a cache that are held back.
pub(crate) const MOST_QUARANTINED: usize = 256;
/// Most bytes of them.
const QUARANTINE_BYTES: usize = 1 << 20;
/// Most objects of a node and a cache that wait to be handed out in another order.
const MOST_SHUFFLED: usize = 32;
/// The same of all nodes together: each of them has two at least.
const ALL_SHUFFLED: usize = 2 * MAX_NODES;
/// Most bytes of them.
const SHUFFLED_BYTES: usize = 64 << 10;

/// What the bytes of a quarantined object are, and the last one.
const POISON: u8 = 0x6b;
const POISON_END: u8 = 0xa5;

/// What is held back for one cache: addresses, and 0 for no object.
struct Held {
    /// Freed objects, as a ring.
    freed: [AtomicUsize; MOST_QUARANTINED],
    /// The number of objects that were freed: the place of the next one.
    next: AtomicUsize,
    /// Objects to be handed out.
    shuffled: [AtomicUsize; ALL_SHUFFLED],
}

impl Held {
    fn new() -> Option<Held> {
        Some(Held {
            freed: [const { AtomicUsize::new(0) }; MOST_QUARANTINED],
            next: AtomicUsize::new(0),
            shuffled: [const { AtomicUsize::new(0) }; ALL_SHUFFLED],
        })
    }
}

/// By the number of the cache's slot. An entry stays when its cache is destroyed, without objects,
/// and serves the next cache of this slot.
#[place(large_bss)]
static HELD: [AtomicPtr<Held>; AREA_BYTES / SLOT_BYTES] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; AREA_BYTES / SLOT_BYTES];

fn entry(cache: &RawCache) -> &'static AtomicPtr<Held> {
    &HELD[usize::from(cache.slot) / SLOT_BYTES]
}

/// Returns what is held back for a cache; `None` if nothing ever was.
#[place(cold)]
fn held(cache: &RawCache) -> Option<&'static Held> {
    // SAFETY: an entry is null, or the address of what `meta_slice` made, which lives for ever.
    unsafe { entry(cache).load(Ordering::Acquire).as_ref() }
}

/// As [`held`], made if there is none. `None` without memory, and for caches without a slot of
/// their own, which share pages below others.
#[place(cold)]
fn held_or_new(cache: &RawCache) -> Option<&'static Held> {
    if cache.slot == 0 {
        return None;
    }
    held(cache).or_else(|| {
        let new = core::ptr::from_ref(&meta_slice(1, Held::new)?[0]).cast_mut();
        // Another thread may have made one meanwhile. Then this one is never used.
        let _ = entry(cache).compare_exchange(core::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
        held(cache)
    })
}

/// Returns the number of objects of a cache that wait on a node to be handed out; 1 for no
/// exchange.
#[place(cold)]
fn shuffled_places(cache: &RawCache) -> usize {
    let most = (ALL_SHUFFLED / ZONE.nodes()).min(MOST_SHUFFLED);
    if has_random() { (SHUFFLED_BYTES / cache.slabs.geometry.stride).clamp(2, most) } else { 1 }
}

/// Returns the number of freed objects of a cache that are held back.
#[place(cold)]
fn quarantine_places(cache: &RawCache) -> usize {
    let most = (QUARANTINE_BYTES / cache.slabs.geometry.stride).max(1);
    quarantine().min(most)
}

/// Returns an object of `take` or one of those that wait; null if there is none.
#[place(cold)]
pub(super) fn take_random(cache: &'static RawCache, take: fn(&'static RawCache) -> *mut u8) -> *mut u8 {
    let places = shuffled_places(cache);
    let waiting = if places > 1 { held_or_new(cache) } else { None };
    let Some(waiting) = waiting else { return take(cache) };
    // Objects of each node wait apart, so that a CPU is handed those of its own.
    let node = usize::from(PERCPU.node_of(this_cpu()).0);
    let shuffled = &waiting.shuffled[node * places..][..places];
    // At the start the places are filled.
    for place in shuffled {
        if place.load(Ordering::Relaxed) == 0 {
            let object = take(cache);
            if object.is_null() {
                break;
            }
            // The thread has moved, or its node has no memory left.
            if !is_of_node(object, node) {
                return object;
            }
            if place.compare_exchange(0, object as usize, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                return object;
            }
        }
    }
    let first = random(places);
    // All places have an object, unless other threads are taking them or memory has ended.
    for next in 0..places {
        let object = shuffled[(first + next) % places].swap(0, Ordering::AcqRel);
        if object != 0 {
            return object as *mut u8;
        }
    }
    take(cache)
}

/// Whether an object lies in memory of a node.
#[place(cold)]
fn is_of_node(object: *mut u8, node: usize) -> bool {
    ZONE.nodes() == 1 || MEMMAP.page_of(object as usize).is_some_and(|page| usize::from(ZONE.node_of(page).0) == node)
}

/// What becomes of an object that is freed.
pub(super) enum Put {
    /// It waits; this one, which was freed earlier, leaves instead; 0 for none.
    Waits(usize),
    /// Nothing is held back for the cache.
    Not,
}

/// Holds back an object in use that is freed. The caller has filled it.
#[place(cold)]
pub(super) fn put(cache: &'static RawCache, object: usize) -> Put {
    let places = quarantine_places(cache);
    let ring = if places > 0 { held_or_new(cache) } else { None };
    let Some(ring) = ring else { return Put::Not };
    let place = if has_random() { random(places) } else { ring.next.fetch_add(1, Ordering::Relaxed) % places };
    Put::Waits(ring.freed[place].swap(object, Ordering::AcqRel))
}

/// Whether an object waits in the quarantine of its cache.
#[place(cold)]
pub(super) fn is_quarantined(cache: &RawCache, object: usize) -> bool {
    held(cache).is_some_and(|held| held.freed.iter().any(|place| place.load(Ordering::Relaxed) == object))
}

/// Returns the number of objects of a cache that are held back.
#[place(cold)]
pub(super) fn count(cache: &RawCache) -> usize {
    held(cache).map_or(0, |held| {
        let places = held.freed.iter().chain(&held.shuffled);
        places.filter(|place| place.load(Ordering::Relaxed) != 0).count()
    })
}

/// Takes all objects that are held back for a cache, and calls `freed` and `unused` for each.
/// Returns whether there were some.
#[place(cold)]
pub(super) fn drain(cache: &RawCache, mut freed: impl FnMut(usize), mut unused: impl FnMut(usize)) -> bool {
    let Some(held) = held(cache) else { return false };
    let mut any = false;
    let mut all = |places: &[AtomicUsize], each: &mut dyn FnMut(usize)| {
        for place in places {
            let object = if place.load(Ordering::Relaxed) == 0 { 0 } else { place.swap(0, Ordering::AcqRel) };
            if object != 0 {
                any = true;
                each(object);
            }
        }
    };
    all(&held.freed, &mut freed);
    all(&held.shuffled, &mut unused);
    any
}

/// Fills a freed object with poison.
///
/// # Safety
/// The object at `address` has `bytes` bytes, at least one, and the caller owns it.
#[place(cold)]
pub(super) unsafe fn poison(address: usize, bytes: usize) {
    // SAFETY: passed on.
    unsafe {
        (address as *mut u8).write_bytes(POISON, bytes);
        ((address + bytes - 1) as *mut u8).write(POISON_END);
    }
}

/// Returns the offset of the first byte of a quarantined object that was written to.
///
/// # Safety
/// The object at `address` has `bytes` bytes, and was filled by [`poison`], or by zeros.
#[place(cold)]
pub(super) unsafe fn overwritten(address: usize, bytes: usize, zeros: bool) -> Option<usize> {
    let expected = |at| match (zeros, at + 1 == bytes) {
        (true, _) => 0,
        (false, true) => POISON_END,
        (false, false) => POISON,
    };
    // A program that writes to freed memory may do so at this moment.
    // SAFETY: passed on.
    let byte_at = |at: usize| unsafe { ((address + at) as *const u8).read_volatile() };
    // Objects are aligned to words. The last word has the other poison.
    let word = usize::from_ne_bytes([expected(0); size_of::<usize>()]);
    let words = (bytes - 1) / size_of::<usize>();
    // SAFETY: passed on.
    let word_at = |at: usize| unsafe { (address as *const usize).add(at).read_volatile() };
    let intact = (0..words).take_while(|&at| word_at(at) == word).count();
    (intact * size_of::<usize>()..bytes).find(|&at| byte_at(at) != expected(at))
}
