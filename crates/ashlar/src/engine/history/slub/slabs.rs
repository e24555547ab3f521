//! Changes of slabs that belong to CPUs: frozen slabs, and the two ways to protect a slab word.
//!
//! A CPU's slab, and each of its partial slabs, is *frozen*: on no list, and nobody but its CPU takes objects from it;
//! frees of other CPUs are pushed on its freelist. Beside the states of [`crate::slab::partial`] there is so
//!
//! | state | freelist | on the partial list | who may change it |
//! |---|---|---|---|
//! | frozen by a CPU | what others freed | no | frees push; its CPU takes all of it, or thaws the slab |
//!
//! ## slab_lock
//! One a slab: the top bit of its state word, set by one atomic instruction. Its holder computes the new word alone and
//! stores it without the bit, which is the release (the stages before that was done release by a second atomic instruction).
//! Order: the lock of a CPU (which is held wherever slab_lock is waited for, so that fork, which takes all of those,
//! finds none held), slab_lock, list_lock. Who holds list_lock may only try slab_lock.
//! Where slabs are lockless the same changes are compare-and-swaps, and list_lock is taken before the swap.

use crate::base::sync::Ordering;
use crate::base::units::PageIndex;
use crate::pages::head::PageHead;
use crate::slab::partial::{Chain, Freed, Heads, NodeList, Partial};
use crate::slab::state::{NO_OBJECT, SLAB_LOCK, SlabState};

/// How slab words are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    Lockless,
    /// slab_lock; released by an atomic instruction if `atomic`.
    Lock {
        atomic: bool,
    },
}

/// What becomes of a slab that its CPU gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thawed {
    Kept,
    /// It is empty and its node has enough of those: the caller gives its pages back.
    Discard,
}

fn load(head: &PageHead) -> SlabState {
    SlabState(head.state.load(Ordering::Acquire))
}

fn swap(head: &PageHead, old: SlabState, new: SlabState) -> Result<(), SlabState> {
    let swapped = head.state.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire);
    swapped.map(|_| ()).map_err(SlabState)
}

/// Takes slab_lock; the word as it is without the bit. A compare-and-swap, so that who waits does not write.
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

#[cfg(not(ashlar_loom))]
fn wait(waited: &mut u32) {
    *waited = waited.saturating_add(1);
    crate::base::sync::relax(*waited);
}
#[cfg(ashlar_loom)]
fn wait(_waited: &mut u32) {
    loom::thread::yield_now();
}

/// Takes slab_lock if it is free.
fn slab_trylock(head: &PageHead) -> Option<SlabState> {
    let state = head.state.load(Ordering::Relaxed);
    let free = state & SLAB_LOCK == 0;
    let taken =
        free && head.state.compare_exchange(state, state | SLAB_LOCK, Ordering::Acquire, Ordering::Relaxed).is_ok();
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
}

/// Takes the whole freelist of a slab that is frozen for the caller's CPU. With slab_lock the caller holds a CPU lock.
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
    }
}

/// Frees a chain to a slab that is not the caller's CPU's, by slab_lock; the caller holds a CPU lock. `link(prior)` makes
/// the chain's last object point to `prior`. A slab that becomes empty is always discarded.
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

/// Frees a chain to a slab as [`NodeList::push_chain`] does, but freezes a full one for the caller's CPU instead of putting
/// it on the list, also when the chain is all of it: true in the second place. The caller then owns the slab as one of its
/// CPU's partial slabs.
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

/// Takes a slab off the partial list, frozen; its freelist too, if `take`, else it is only shown. The first slab, or, with
/// slab_lock, the first that nobody has locked.
#[place(cold)]
pub(crate) fn freeze_partial(
    list: &NodeList,
    heads: &impl Heads,
    protection: Protection,
    take: bool,
) -> Option<(PageIndex, Chain)> {
    let after = |state: SlabState| if take { state.taken(0).freeze() } else { state.freeze() };
    let mut list = list.lock();
    let mut page = list.first();
    while page != PageIndex::NONE {
        let head = heads.head(page);
        match protection {
            Protection::Lockless => {
                let mut state = load(head);
                loop {
                    match swap(head, state, after(state)) {
                        Ok(()) => {
                            list.unlink(heads, page);
                            return Some((page, Chain { head: state.head(), count: state.linked() }));
                        }
                        Err(now) => state = now,
                    }
                }
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

/// Finds a place for a slab that is not frozen any more and has free objects.
#[place(cold)]
fn settle(
    list: &mut Partial,
    heads: &impl Heads,
    page: PageIndex,
    state: SlabState,
    hot: bool,
    min_partial: usize,
) -> Thawed {
    if state.inuse() == 0 {
        // An empty one comes behind those with objects, so that they are filled first.
        if list.count >= min_partial {
            return Thawed::Discard;
        }
        list.push_back(heads, page);
    } else if hot {
        list.push_front(heads, page);
    } else {
        list.push_back(heads, page);
    }
    Thawed::Kept
}

/// Gives up a slab that is frozen for the caller's CPU, with the rest of the CPU's freelist (a count of 0 for none;
/// `link(prior)` makes its last object point to `prior`). With slab_lock the caller holds a CPU lock. It goes to the end of the partial
/// list if only other CPUs freed to it, else to the front, where its hot objects are used first.
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
        Protection::Lockless => {
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
                return settle(&mut list, heads, page, new, chain.count > 0, min_partial);
            }
        }
        Protection::Lock { atomic } => {
            let state = slab_lock(head);
            if chain.count > 0 {
                link(state.head());
            }
            let new = after(state);
            let mut outcome = Thawed::Kept;
            if new.linked() > 0 {
                outcome = settle(&mut list.lock(), heads, page, new, chain.count > 0, min_partial);
            }
            slab_unlock(head, new, atomic);
            outcome
        }
    }
}
