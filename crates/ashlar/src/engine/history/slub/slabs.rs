//! State changes of slabs that CPUs own, under the two ways to protect a slab word.
//!
//! A CPU slab and each partial slab of a CPU is *frozen*: it is on no list, and only its CPU takes
//! objects from it. Other CPUs push their frees onto its freelist. This adds one state to those of
//! [`crate::slab::partial`]:
//!
//! | state | freelist | on the partial list | who may change it |
//! |---|---|---|---|
//! | frozen by a CPU | remote frees | no | frees push; its CPU takes all of it, or thaws the slab |
//!
//! ## slab_lock
//! One per slab: the top bit of its state word, set by one atomic instruction. The holder computes
//! the new word and stores it without the bit, which releases the lock. The early stages release it
//! by a second atomic instruction.
//!
//! Order: CPU lock, slab_lock, list_lock. A thread waits for slab_lock only while it holds a CPU
//! lock. Fork takes all CPU locks, so it finds no slab_lock held. A holder of list_lock may only
//! try slab_lock.
//!
//! In lockless stages the same changes are compare-and-swaps, and list_lock is taken before the
//! swap. The stage between the two has a module of its own ([`partly`]).

use super::partly;
pub(crate) use super::words::Thawed;
use super::words::{load, settle, swap, wait};
use crate::base::sync::{Ordering, section};
use crate::base::units::PageIndex;
use crate::pages::head::PageHead;
use crate::slab::partial::{Chain, Freed, Heads, NodeList};
use crate::slab::state::{NO_OBJECT, SLAB_LOCK, SlabState};

/// How slab words are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    Lockless,
    /// slab_lock; released by an atomic instruction if `atomic`.
    Lock {
        atomic: bool,
    },
    /// Frees by compare-and-swap, all else under slab_lock: see [`partly`].
    Partly,
}

/// Takes slab_lock and returns the word without the bit. Uses a compare-and-swap, so that a waiter
/// does not write to the line.
#[place(cold)]
fn slab_lock(head: &PageHead) -> SlabState {
    let mut waited = 0u32;
    loop {
        if let Some(state) = slab_trylock(head) {
            return state;
        }
        wait(&mut waited);
    }
}

/// Takes slab_lock if it is free.
fn slab_trylock(head: &PageHead) -> Option<SlabState> {
    section::enter();
    let state = head.state.load(Ordering::Relaxed);
    let free = state & SLAB_LOCK == 0;
    let taken =
        free && head.state.compare_exchange(state, state | SLAB_LOCK, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if !taken {
        section::leave();
    }
    taken.then_some(SlabState(state))
}

/// Stores the new word and releases slab_lock.
#[place(cold)]
fn slab_unlock(head: &PageHead, new: SlabState, atomic: bool) {
    let new = new.unlocked().0;
    if atomic {
        head.state.store(new | SLAB_LOCK, Ordering::Relaxed);
        head.state.fetch_and(!SLAB_LOCK, Ordering::Release);
    } else {
        head.state.store(new, Ordering::Release);
    }
    section::leave();
}

/// Takes the whole freelist of a slab frozen for the caller's CPU. With slab_lock the caller holds
/// a CPU lock.
#[place(cold)]
pub(crate) fn take_freelist(head: &PageHead, protection: Protection) -> Chain {
    match protection {
        Protection::Lockless => {
            let mut state = load(head);
            while state.linked() > 0 {
                match swap(head, state, state.taken(0)) {
                    Ok(()) => return Chain { head: state.head(), count: state.linked() },
                    Err(now) => state = now,
                }
            }
            Chain { head: NO_OBJECT, count: 0 }
        }
        Protection::Lock { atomic } => {
            let state = slab_lock(head);
            let chain = Chain { head: state.head(), count: state.linked() };
            slab_unlock(head, if chain.count > 0 { state.taken(0) } else { state }, atomic);
            chain
        }
        Protection::Partly => partly::take_locked(head),
    }
}

/// Takes the whole freelist of a slab frozen for the caller's CPU. If it is empty, thaws the slab
/// instead, which is full then: as the kernel under one slab_lock. With slab_lock the caller holds
/// a CPU lock.
#[place(cold)]
pub(crate) fn take_or_thaw(head: &PageHead, protection: Protection) -> Chain {
    let after = |state: SlabState| if state.linked() > 0 { state.taken(0) } else { state.thaw() };
    let state = match protection {
        Protection::Lockless => {
            let mut state = load(head);
            while let Err(now) = swap(head, state, after(state)) {
                state = now;
            }
            state
        }
        Protection::Lock { atomic } => {
            let state = slab_lock(head);
            slab_unlock(head, after(state), atomic);
            state
        }
        Protection::Partly => return partly::take_or_thaw(head),
    };
    Chain { head: state.head(), count: state.linked() }
}

/// Takes and releases slab_lock of a new slab, which is frozen and has an empty freelist, as the
/// kernel does before a CPU takes its objects.
#[place(cold)]
pub(crate) fn lock_new(head: &PageHead, protection: Protection) {
    match protection {
        Protection::Lockless => {}
        Protection::Lock { atomic } => {
            let state = slab_lock(head);
            slab_unlock(head, state, atomic);
        }
        Protection::Partly => {
            partly::take_locked(head);
        }
    }
}

/// Frees a chain, under slab_lock, to a slab that is not the CPU slab. The caller holds a CPU lock.
/// `link(prior)` makes the chain's last object point to `prior`. A slab that becomes empty is
/// always discarded.
#[place(cold)]
pub(crate) fn free_chain_locked(
    list: &NodeList,
    heads: &impl Heads,
    page: PageIndex,
    chain: Chain,
    atomic: bool,
    link: impl FnOnce(u16),
) -> Freed {
    let head = heads.head(page);
    let state = slab_lock(head);
    if state.inuse() < chain.count {
        slab_unlock(head, state, atomic);
        return Freed::Corrupt;
    }
    link(state.head());
    let new = state.pushed(chain.head, chain.count);
    let was_full = state.linked() == 0;
    let mut outcome = Freed::Kept;
    if !state.frozen() {
        if new.inuse() == 0 {
            outcome = Freed::Discard;
            if !was_full {
                list.lock().unlink(heads, page);
            }
        } else if was_full {
            list.lock().push_back(heads, page);
        }
    }
    slab_unlock(head, new, atomic);
    outcome
}

/// Frees a chain to a slab as [`NodeList::push_chain`] does, but freezes a full slab for the
/// caller's CPU instead of listing it, even if the chain is all of its objects. The second value is
/// true if it did; the slab is then one of the CPU's partial slabs, owned by the caller.
#[place(cold)]
pub(crate) fn free_chain_freezing(
    list: &NodeList,
    heads: &impl Heads,
    page: PageIndex,
    chain: Chain,
    min_partial: usize,
    mut link: impl FnMut(u16),
) -> (Freed, bool) {
    let head = heads.head(page);
    let mut state = load(head);
    while state.linked() == 0 && !state.frozen() && state.inuse() >= chain.count {
        link(state.head());
        match swap(head, state, state.pushed(chain.head, chain.count).freeze()) {
            Ok(()) => return (Freed::Kept, true),
            Err(now) => state = now,
        }
    }
    (list.push_chain(heads, page, chain, min_partial, false, link), false)
}

/// Takes a slab off the partial list, frozen, with its freelist. With slab_lock, slabs that another
/// thread has locked are skipped.
#[place(cold)]
pub(crate) fn freeze_partial(
    list: &NodeList,
    heads: &impl Heads,
    protection: Protection,
) -> Option<(PageIndex, Chain)> {
    if protection == Protection::Partly {
        return partly::freeze(list, heads);
    }
    let after = |state: SlabState| state.taken(0).freeze();
    let mut list = list.lock();
    let mut page = list.first();
    while page != PageIndex::NONE {
        let head = heads.head(page);
        match protection {
            Protection::Lockless | Protection::Partly => {
                let chain = acquire(head, after);
                list.unlink(heads, page);
                return Some((page, chain));
            }
            Protection::Lock { atomic } => {
                if let Some(state) = slab_trylock(head) {
                    list.unlink(heads, page);
                    slab_unlock(head, after(state), atomic);
                    return Some((page, Chain { head: state.head(), count: state.linked() }));
                }
            }
        }
        page = head.next();
    }
    None
}

/// Changes a listed slab to what `after` says, and returns the freelist that it had. The caller
/// holds list_lock.
fn acquire(head: &PageHead, after: impl Fn(SlabState) -> SlabState) -> Chain {
    let mut state = load(head);
    while let Err(now) = swap(head, state, after(state)) {
        state = now;
    }
    Chain { head: state.head(), count: state.linked() }
}

/// Takes slabs off the partial list, frozen, under one list_lock. The first comes with its
/// freelist. The others keep theirs and are linked by `next`; the last result is the first of them.
/// Goes on until all have more than `enough` free objects, the first one's included.
#[place(cold)]
pub(crate) fn freeze_several(
    list: &NodeList,
    heads: &impl Heads,
    enough: usize,
) -> Option<(PageIndex, Chain, PageIndex)> {
    let mut list = list.lock();
    let page = list.first();
    if page == PageIndex::NONE {
        return None;
    }
    let chain = acquire(heads.head(page), |state| state.taken(0).freeze());
    list.unlink(heads, page);
    let (mut available, mut others, mut last) = (usize::from(chain.count), PageIndex::NONE, PageIndex::NONE);
    while available <= enough && list.first() != PageIndex::NONE {
        let other = list.first();
        let head = heads.head(other);
        available += usize::from(acquire(head, SlabState::freeze).count);
        list.unlink(heads, other);
        head.set_next(PageIndex::NONE);
        if last == PageIndex::NONE {
            others = other;
        } else {
            heads.head(last).set_next(other);
        }
        last = other;
    }
    Some((page, chain, others))
}

/// Thaws slabs that a CPU held as partial ones and that the caller owns, under one list_lock, and
/// lists them at the end. `first` leads to the others by `next`. Stops at the first that is not of
/// this list. Returns that one, and the first of those to be discarded, which are linked by `next`.
#[place(cold)]
pub(crate) fn thaw_several(
    list: &NodeList,
    heads: &impl Heads,
    first: PageIndex,
    of_list: impl Fn(PageIndex) -> bool,
    min_partial: usize,
) -> (PageIndex, PageIndex) {
    let (mut page, mut discards) = (first, PageIndex::NONE);
    let mut list = list.lock();
    while page != PageIndex::NONE && of_list(page) {
        let head = heads.head(page);
        let next = head.next();
        let mut state = load(head);
        while let Err(now) = swap(head, state, state.thaw()) {
            state = now;
        }
        // The free that froze it left an object, and only its CPU takes any.
        if state.linked() > 0
            && settle(&mut list, heads, page, state.inuse() == 0, false, min_partial) == Thawed::Discard
        {
            head.set_next(discards);
            discards = page;
        }
        page = next;
    }
    (page, discards)
}

/// Thaws a slab frozen for the caller's CPU and frees the rest of the CPU's freelist to it. A chain
/// of count 0 stands for no rest; `link(prior)` makes its last object point to `prior`. With
/// slab_lock the caller holds a CPU lock.
///
/// The slab goes to the front of the partial list, where its hot objects are used first. It goes to
/// the end if only other CPUs freed to it.
#[place(cold)]
pub(crate) fn thaw(
    list: &NodeList,
    heads: &impl Heads,
    page: PageIndex,
    chain: Chain,
    min_partial: usize,
    protection: Protection,
    mut link: impl FnMut(u16),
) -> Thawed {
    let head = heads.head(page);
    let after = |state: SlabState| {
        if chain.count > 0 { state.pushed(chain.head, chain.count).thaw() } else { state.thaw() }
    };
    match protection {
        // `partly::thaw` frees the rest object by object, so callers call that.
        Protection::Lockless | Protection::Partly => {
            let mut state = load(head);
            let mut guard = None;
            loop {
                if chain.count > 0 {
                    link(state.head());
                }
                let new = after(state);
                if new.linked() > 0 && guard.is_none() {
                    guard = Some(list.lock());
                }
                if let Err(now) = swap(head, state, new) {
                    state = now;
                    continue;
                }
                let Some(mut list) = guard.filter(|_| new.linked() > 0) else { return Thawed::Kept };
                return settle(&mut list, heads, page, new.inuse() == 0, chain.count > 0, min_partial);
            }
        }
        Protection::Lock { atomic } => {
            let state = slab_lock(head);
            if chain.count > 0 {
                link(state.head());
            }
            let new = after(state);
            if new.linked() == 0 {
                slab_unlock(head, new, atomic);
                return Thawed::Kept;
            }
            // Released before list_lock: an empty slab on the list may be taken off it and
            // discarded under list_lock alone.
            let mut list = list.lock();
            let outcome = settle(&mut list, heads, page, new.inuse() == 0, chain.count > 0, min_partial);
            slab_unlock(head, new, atomic);
            outcome
        }
    }
}
