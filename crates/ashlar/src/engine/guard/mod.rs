//! Guard sampling: about one of N allocations, or one in N milliseconds, lies alone on a page
//! between pages that nothing may touch. The kernel's KFENCE and GWP-ASan do the same.
//!
//! ```text
//!  | no access | object 0 | no access | object 1 | no access | …
//! ```
//!
//! Objects lie at the end of their page and at its start by turns. The rest of the page holds a
//! pattern, which is checked when the object is freed. Then the page allows no access until the
//! pool needs it again: pages are used in the order in which they became free. A program that reads
//! or writes beside an object, or uses one that it has freed, gets SIGSEGV, and
//! [`base::os::fault`](crate::base::os) leads it here.
//!
//! # Which allocations
//! With `guard=N` each call counts on its CPU ([`is_due`]). With `guard=Nms` none does: the first
//! one after a [`gate`] was opened is a sample, and shuts it. Size classes have paths for both (the
//! module `guarded` of the layer of sizes), to which calls are diverted as for a heap profile. A
//! cache of the program has the route of hardened caches ([`Route`](super::route::Route)), where
//! each of its calls counts, or looks at the gate. While a profile runs, the counts are the
//! profile's, and chance decides.
//!
//! # Lock
//! The *guard lock* protects the list of free pages. Under it an object ends its life, so that who
//! holds it may read the pages of live ones. It is a leaf. Nothing happens under it that can block,
//! and the handler of the signal does not take it.
#![allow(unsafe_code, reason = "fills and checks the pages of objects")]

mod fault;
mod gate;
mod pool;
mod report;
mod slot;

use core::ptr::NonNull;

use super::RawCache;
use super::route::{self, Guarding, inits_on_alloc};
use crate::base::os::{self, fault as signals};
use crate::base::sync::{AtomicU32, Ordering, SpinLock, Visit};
use crate::base::units::PAGE_SIZE;
use crate::pages::zone::ZONE;
use ashlar_macros::place;
pub(crate) use gate::{
    MOST_INTERVAL, MOST_MS, is_due, is_due_now, is_on, is_open, is_timed, open_in_time, pass_by, restart_counts,
};
use pool::{CANARIES, PAGE, POOL, changed, close_beside, number_at, page_at, page_bytes, page_of};
use slot::{OBJECTS, SLOTS, State};

/// The largest object.
pub(crate) const MOST_BYTES: usize = PAGE_SIZE;

/// The objects that were handed out: odd and even ones lie at different ends.
static TURN: AtomicU32 = AtomicU32::new(0);
#[place(large_bss)]
static FREE: SpinLock<Free> = SpinLock::new(Free { queue: [0; OBJECTS], first: 0, count: 0 });

/// The pages without an object, in the order in which they became free.
struct Free {
    queue: [u8; OBJECTS],
    first: usize,
    count: usize,
}

#[place(cold)]
impl Free {
    fn pop(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        let number = self.queue[self.first];
        self.first = (self.first + 1) % OBJECTS;
        Some(usize::from(number))
    }

    fn push(&mut self, number: usize) {
        self.queue[(self.first + self.count) % OBJECTS] = number as u8;
        self.count += 1;
    }
}

/// Starts sampling, if the option says so. Called by start-up before the first cache is made.
#[place(cold)]
pub(crate) fn start(guarding: Guarding) {
    if guarding == Guarding::Off {
        return;
    }
    let page = ZONE.source().map_or(PAGE_SIZE, |source| source.page_size()).max(PAGE_SIZE);
    let Some(pool) = os::map_without_access((2 * OBJECTS + 1) * page) else {
        return crate::base::report::warn(format_args!("option `guard`: no addresses for its pool"));
    };
    {
        let mut free = FREE.lock();
        (0..OBJECTS).for_each(|number| free.push(number));
    }
    PAGE.store(page, Ordering::Relaxed);
    POOL.store(pool.as_ptr() as usize, Ordering::Release);
    if !signals::handle(fault::on_fault) {
        return crate::base::report::warn(format_args!("option `guard`: the system refuses a handler of SIGSEGV"));
    }
    gate::start(guarding);
    route::watch(route::Watcher::Guard, true);
}

/// Returns an object of `size` bytes at a multiple of `align`, which is at most a page, as one of
/// `cache`. `None` if the pool is full, or the handler of SIGSEGV cannot be the first one.
#[place(cold)]
#[inline(never)]
pub(crate) fn alloc(cache: &'static RawCache, size: usize, align: usize) -> Option<NonNull<u8>> {
    if size > MOST_BYTES || align > MOST_BYTES || !signals::stay_first() {
        return None;
    }
    // An object of no bytes lies on the page as well.
    let size = size.max(1);
    let number = FREE.lock().pop()?;
    let (page, bytes) = (page_of(number), page_bytes());
    // SAFETY: a page of the pool, which is without an object.
    if !unsafe { os::set_access(page, bytes, true) } {
        FREE.lock().push(number);
        return None;
    }
    let at_start = TURN.fetch_add(1, Ordering::Relaxed) % 2 == 1;
    let start = if at_start { page } else { (page + bytes - size) & !(align.max(1) - 1) };
    for at in (page..page + bytes).step_by(8) {
        // SAFETY: the page is writable, and this thread alone has it.
        unsafe { (at as *mut u64).write(CANARIES) };
    }
    if inits_on_alloc() {
        // SAFETY: as above.
        unsafe { (start as *mut u8).write_bytes(0, size) };
    }
    if let Some(construct) = cache.slabs.ctor {
        // SAFETY: the memory has the size and the alignment of the cache's objects.
        unsafe { construct(start as *mut u8) };
    }
    SLOTS[number].allocate(cache, start, size);
    NonNull::new(start as *mut u8)
}

/// Whether an address lies in the pool.
#[place(cold)]
#[inline(never)]
pub(crate) fn contains(address: usize) -> bool {
    page_at(address).is_some()
}

/// Returns the bytes of the live object that starts at `address`.
#[place(cold)]
#[inline(never)]
pub(crate) fn size_of(address: usize) -> Option<usize> {
    let slot = &SLOTS[number_at(address)?];
    (slot.is(State::Live) && slot.start() == address).then(|| slot.bytes())
}

/// Frees the object that starts at `address`. Returns false if none is live there.
#[place(cold)]
#[inline(never)]
pub(crate) fn free(address: usize) -> bool {
    let Some(number) = number_at(address).filter(|_| size_of(address).is_some()) else { return false };
    let slot = &SLOTS[number];
    let is_first = {
        // While the lock is held, pages of live objects stay readable.
        let _held = FREE.lock();
        slot.end_life()
    };
    if !is_first {
        return false;
    }
    slot.record_free();
    if let Some(changed) = changed(number) {
        report::corruption(number, &changed);
        report::end();
    }
    close_beside(number);
    // SAFETY: the program has given up the only object on the page.
    unsafe { os::set_access(page_of(number), page_bytes(), false) };
    FREE.lock().push(number);
    true
}

/// Frees an object for a function of `cache`. Reports one that is not the cache's.
#[place(cold)]
#[inline(never)]
pub(crate) fn free_of(cache: &'static RawCache, address: usize) {
    let slot = number_at(address).map(|number| &SLOTS[number]);
    if let Some(slot) = slot.filter(|slot| size_of(address).is_some() && !slot.is_of(cache)) {
        return crate::base::report::of_other_cache(cache.name(), address, slot.name().as_str());
    }
    if !free(address) {
        report::invalid_free("kmem_cache_free", address);
    }
}

/// Checks the bytes beside the live objects of a cache, and reports those that were overwritten.
/// Returns the number of these objects.
#[place(cold)]
pub(crate) fn validate(cache: &RawCache) -> usize {
    let mut errors = 0;
    for (number, slot) in SLOTS.iter().enumerate() {
        let found = {
            // While the lock is held, pages of live objects stay readable.
            let _held = FREE.lock();
            if slot.is(State::Live) && slot.is_of(cache) { changed(number) } else { None }
        };
        if let Some(changed) = found {
            report::corruption(number, &changed);
            errors += 1;
        }
    }
    errors
}

/// Reports that `function` was called with an address of the pool at which no live object starts.
/// Returns false if the address lies elsewhere.
#[cold]
#[place(cold)]
#[inline(never)]
pub(crate) fn report_stray(function: &str, address: usize) -> bool {
    let is_ours = contains(address);
    if is_ours {
        report::invalid_free(function, address);
    }
    is_ours
}

/// Prints what is known of an address of the pool. Returns false if it lies elsewhere.
#[place(cold)]
pub(crate) fn describe(address: usize) -> bool {
    let is_ours = contains(address);
    if is_ours {
        report::describe(address);
    }
    is_ours
}

/// Returns the number of live objects of a cache.
#[place(cold)]
pub(crate) fn live_of(cache: &RawCache) -> usize {
    if is_on() { SLOTS.iter().filter(|slot| slot.is(State::Live) && slot.is_of(cache)).count() } else { 0 }
}

/// Visits the guard lock, for a fork.
#[place(background)]
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    visit(FREE.word());
}
