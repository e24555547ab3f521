//! The partially lockless slow paths of December 2010 ([`Slow::Partly`](super::stage::Slow)).
//!
//! The patch of that time changes three fields of a page one by one. These stand for them:
//!
//! | the kernel's page | here | changes |
//! |---|---|---|
//! | `freelist` | the state word | a free's compare-and-swap; an exchange under slab_lock |
//! | `inuse` | the page head's own half word | loads and stores of any thread, so it may be wrong |
//! | frozen | a bit of the state word | the slab_lock's holder |
//! | `PG_locked` | a bit of the page head's shape | compare-and-swap; released by a plain store |
//!
//! A decrement of `inuse` may be lost. The counter is then too high, until an allocation takes the
//! whole freelist and sets it. It may also be too low, because a late decrement overwrites that
//! value. The state word counts the objects exactly and in the same compare-and-swap. The counter
//! decides as in the kernel, but a slab is discarded only if the exact number is 0 too.
//!
//! ## What holds it together
//! * The free that finds an empty freelist in a slab that is not frozen lists the slab, and no
//!   other thread does. Until then the slab is on no list, so no thread can freeze or discard it.
//! * A slab that is on no list is discarded only by the thread that took it off, or by the CPU that
//!   gives it up.
//! * `inuse` is decremented before the free is published. Afterwards another thread may discard
//!   the slab. A thread that goes on then trusts the page head only if it finds the slab on the
//!   list, under list_lock.
//! * slab_lock of a listed slab is released before list_lock, because shrinking takes empty slabs
//!   off the list under list_lock alone.
//!
//! The kernel's patch has none of these. It decrements behind the compare-and-swap, where the page
//! may be another's, and it adds an emptied slab to the list that it is on. The patch says that it
//! is not mature.

use super::words::{Thawed, load, settle, swap, wait};
use crate::base::sync::Ordering;
use crate::base::units::PageIndex;
use crate::pages::head::PageHead;
use crate::slab::partial::{Chain, Freed, Heads, NodeList};
use crate::slab::state::SlabState;

/// Takes slab_lock.
#[place(cold)]
fn lock(head: &PageHead) {
    let mut waited = 0;
    while !head.trylock() {
        wait(&mut waited);
    }
}

/// Decrements `inuse` and returns what is left. A decrement of another CPU between the load and the
/// store is lost.
fn count_down(head: &PageHead, count: u16) -> u16 {
    let left = head.own().wrapping_sub(count);
    head.set_own(left);
    left
}

/// Takes the whole freelist and freezes the slab. The caller holds slab_lock.
fn take(head: &PageHead) -> Chain {
    let objects = head.objects();
    head.set_own(objects);
    let none_left = SlabState::carved_from_fresh(objects).freeze();
    let state = SlabState(head.state.swap(none_left.0, Ordering::AcqRel));
    Chain { head: state.head(), count: state.linked() }
}

/// As [`take`], and takes slab_lock for it.
#[place(cold)]
pub(super) fn take_locked(head: &PageHead) -> Chain {
    lock(head);
    let chain = take(head);
    head.unlock();
    chain
}

/// Takes the whole freelist of the caller's CPU slab. If it is empty, thaws the slab, which is full
/// then.
#[place(cold)]
pub(super) fn take_or_thaw(head: &PageHead) -> Chain {
    lock(head);
    head.set_own(head.objects());
    let state = load(head);
    // One compare-and-swap is the exchange that finds nothing and clears the bit.
    let thawed = state.linked() == 0 && swap(head, state, state.thaw()).is_ok();
    let chain = if thawed { Chain { head: state.head(), count: 0 } } else { take(head) };
    head.unlock();
    chain
}

/// Frees a chain to a slab that is not the CPU slab. `owner` is the address of the cache.
/// `interrupts_off` takes the CPU lock. `link(prior)` makes the chain's last object point to
/// `prior`.
#[place(cold)]
pub(crate) fn free<Guard>(
    list: &NodeList,
    heads: &impl Heads,
    page: PageIndex,
    chain: Chain,
    owner: usize,
    interrupts_off: impl FnOnce() -> Guard,
    mut link: impl FnMut(u16),
) -> Freed {
    let head = heads.head(page);
    let node = head.node();
    let mut state = load(head);
    let mut left = 1;
    if !state.frozen() {
        left = count_down(head, chain.count);
    }
    loop {
        if state.inuse() < chain.count {
            return Freed::Corrupt;
        }
        link(state.head());
        match swap(head, state, state.pushed(chain.head, chain.count)) {
            Ok(()) => break,
            Err(now) => state = now,
        }
    }
    let was_full = state.linked() == 0;
    if state.frozen() || (left != 0 && !was_full) {
        return Freed::Kept;
    }
    let _guard = interrupts_off();
    if was_full {
        // The slab is on no list, and this thread is the only one that lists it.
        lock(head);
        let mut list = list.lock();
        list.push_back(heads, page);
        // Other threads may have freed all the rest meanwhile.
        let emptied = head.own() == 0 && load(head).inuse() == 0;
        if emptied {
            list.unlink(heads, page);
        }
        head.unlock();
        return if emptied { Freed::Discard } else { Freed::Kept };
    }
    let mut list = list.lock();
    // The slab may be a CPU's, wait to be listed, or be another cache's pages by now. If it is
    // listed and of this cache, it is on this list, and stays there while list_lock is held.
    if !(head.is_listed_for(owner, node) && head.trylock()) {
        return Freed::Kept;
    }
    let emptied = load(head).inuse() == 0;
    if emptied {
        list.unlink(heads, page);
    }
    head.unlock();
    if emptied { Freed::Discard } else { Freed::Kept }
}

/// Takes a slab off the partial list for a CPU, frozen, with its freelist. The caller holds a CPU
/// lock.
#[place(cold)]
pub(super) fn freeze(list: &NodeList, heads: &impl Heads) -> Option<(PageIndex, Chain)> {
    let mut list = list.lock();
    let mut page = list.first();
    while page != PageIndex::NONE {
        let head = heads.head(page);
        if head.trylock() {
            list.unlink(heads, page);
            drop(list);
            let chain = take(head);
            head.unlock();
            return Some((page, chain));
        }
        page = head.next();
    }
    None
}

/// Thaws the caller's CPU slab and frees the rest of its freelist, one compare-and-swap for each
/// object. `next` reads the link of an object, and `link` writes it. The caller holds a CPU lock.
#[place(cold)]
pub(crate) fn thaw(
    list: &NodeList,
    heads: &impl Heads,
    page: PageIndex,
    chain: Chain,
    min_partial: usize,
    next: impl Fn(u16) -> u16,
    mut link: impl FnMut(u16, u16),
) -> Thawed {
    let head = heads.head(page);
    lock(head);
    let mut state = load(head);
    if state.linked() == 0 {
        // Corrects the results of racy updates.
        head.set_own(head.objects());
    }
    let mut object = chain.head;
    for _ in 0..chain.count {
        if object >= head.objects() {
            // A write to a free object changed its link meanwhile. The rest stays in use.
            break;
        }
        let after = next(object);
        loop {
            link(object, state.head());
            let pushed = state.pushed(object, 1);
            match swap(head, state, pushed) {
                Ok(()) => break state = pushed,
                Err(now) => state = now,
            }
        }
        count_down(head, 1);
        object = after;
    }
    while let Err(now) = swap(head, state, state.thaw()) {
        state = now;
    }
    let mut thawed = Thawed::Kept;
    if state.linked() > 0 {
        let mut list = list.lock();
        let empty = head.own() == 0 && state.inuse() == 0;
        thawed = settle(&mut list, heads, page, empty, chain.count > 0, min_partial);
        head.unlock();
    } else {
        head.unlock();
    }
    thawed
}
