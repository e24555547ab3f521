//! Partial slabs, and every change of a slab's state that involves them.
//!
//! ## Slab states
//!
//! | state | freelist or uncarved objects | on the partial list | changes |
//! |---|---|---|---|
//! | full | none | no | a free makes it partial under list_lock, or empty without a lock |
//! | partial | some | yes | frees push without a lock; refill takes all under list_lock |
//! | empty | all | if kept | the free that empties it keeps or discards it, under list_lock |
//! | frozen | any | no | frees are counted; nothing is taken: quarantine of a corrupt slab |
//!
//! Invariant, for slabs that are not frozen: whenever list_lock is free, a slab is listed exactly
//! if it is partial, or empty and kept.
//!
//! So a change between full and not full happens under list_lock, and so does a change to empty of
//! a slab that was not full. One exception needs no lock: a chain that frees all objects of a full
//! slab at once. That slab is on no list, so no other thread can reach it. All other frees are one
//! compare-and-swap without a lock. The number of objects in use is in the same word, so it never
//! lags behind the freelist.
//!
//! ## list_lock
//! One per partial list: each node of a cache has one or more (see [`super::node`]), and a slab
//! always stands on the same one. Protects the list links, `listed` and the count. Taken after the
//! drain lock, and never together with another list_lock or a barn lock. The zone lock is not taken
//! under it. Objects are not touched under it: refill only takes whole freelists, and walks them
//! after it has dropped the lock.

use core::ops::{Deref, DerefMut};

use crate::base::sync::{Guard, Hint, Ordering, SpinLock};
use crate::base::units::PageIndex;
use crate::pages::head::PageHead;
use crate::slab::state::{NO_OBJECT, SlabState};
use ashlar_macros::place;

/// Finds head entries: the memmap, or a small array in models.
pub(crate) trait Heads {
    fn head(&self, page: PageIndex) -> &PageHead;
}

/// A chain of free objects of one slab, already linked or to be linked by its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    /// Index of the first object.
    pub(crate) head: u16,
    pub(crate) count: u16,
}

/// The result of a free for the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// The slab stays.
    Kept,
    /// The slab is empty and on no list. The caller owns its pages and must return them.
    Discard,
    /// More objects were freed than are in use, so one was freed twice. The slab is unchanged.
    Corrupt,
}

/// The objects that refill took from one slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) page: PageIndex,
    /// Its whole freelist.
    pub(crate) chain: Chain,
    /// Objects `first_fresh..first_fresh + fresh`, which were carved by this refill.
    pub(crate) first_fresh: u16,
    pub(crate) fresh: u16,
}

impl Taken {
    /// No slab.
    pub(crate) const NOTHING: Taken =
        Taken { page: PageIndex::NONE, chain: Chain { head: NO_OBJECT, count: 0 }, first_fresh: 0, fresh: 0 };
}

/// The partial list, protected by list_lock.
#[derive(Debug)]
pub(crate) struct Partial {
    head: PageIndex,
    tail: PageIndex,
    /// Number of slabs on the list.
    pub(crate) count: usize,
    /// Calls of [`NodeList::take`] by other CPUs since the last one by the list's own CPU.
    calls_of_others: u32,
}

/// The CPU that takes from a partial list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    /// The one whose list it is. It takes from all slabs.
    Own,
    /// Another one. It takes only from slabs that are free to a good part, or from all if the
    /// list's own CPU has not taken from it for so many calls that it seems to be idle.
    Other,
    /// Another one, which has found no memory elsewhere. It takes from all slabs.
    Last,
}

/// Calls of other CPUs without one of the list's own CPU after which that CPU counts as idle.
const IDLE_CALLS: u32 = 4;
/// A slab is for all CPUs if at least one in this many of its objects is free.
const SHARE_FOR_ALL: u16 = 4;
/// Slabs that another CPU passes over under one lock.
const SCANNED: usize = 16;

/// A partial list of a node, with its list_lock. Aligned so that two CPUs do not share a cache
/// line.
#[repr(align(64))]
pub(crate) struct NodeList {
    lock: SpinLock<Partial>,
    /// The number of slabs on the list when its lock was last released.
    count: Hint,
}

/// A partial list whose list_lock this thread holds. Dropping it releases the lock.
pub(crate) struct Locked<'a> {
    hint: &'a Hint,
    partial: Guard<'a, Partial>,
}

impl Deref for Locked<'_> {
    type Target = Partial;
    #[inline]
    fn deref(&self) -> &Partial {
        &self.partial
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Partial {
        &mut self.partial
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.hint.set(self.partial.count);
    }
}

#[cfg(all(feature = "os", not(ashlar_loom)))]
impl NodeList {
    /// Where a reader outside of the process finds the figures.
    pub(crate) const LAYOUT: crate::base::window::ListAt = {
        const LOCK: usize = core::mem::offset_of!(NodeList, lock);
        crate::base::window::ListAt {
            bytes: size_of::<NodeList>() as u32,
            taken: (LOCK + SpinLock::<Partial>::TAKEN) as u32,
            waited: (LOCK + SpinLock::<Partial>::WAITED) as u32,
            count: (LOCK + SpinLock::<Partial>::VALUE + core::mem::offset_of!(Partial, count)) as u32,
        }
    };
}

impl NodeList {
    #[cfg(not(ashlar_loom))]
    pub(crate) fn new() -> Self {
        // Hidden from the compiler, which would copy an empty list from constants, and those lie
        // apart from what every program has resident.
        let none = core::hint::black_box(PageIndex::NONE);
        NodeList { lock: SpinLock::new(Partial { head: none, tail: none, ..Partial::EMPTY }), count: Hint::new(0) }
    }

    #[cfg(ashlar_loom)]
    pub(crate) fn new() -> Self {
        NodeList { lock: SpinLock::new(Partial::EMPTY), count: Hint::new(0) }
    }

    /// Takes list_lock.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked { hint: &self.count, partial: self.lock.lock() }
    }

    /// Returns the number of slabs on the list, without its lock: what it was a moment ago, as the
    /// kernel reads `nr_partial`. Who sees no slab wrongly makes a new one.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.get()
    }

    /// Returns list_lock itself: for its figures, for forks, and for engines that never ask
    /// [`Self::count`], which stays behind.
    pub(crate) fn raw(&self) -> &SpinLock<Partial> {
        &self.lock
    }

    /// Frees a chain to its slab.
    ///
    /// `link(prior)` writes the chain's links, the last one to `prior`. It is called before each
    /// attempt to publish them. If `reset` allows it, a slab that the chain empties becomes fresh
    /// instead, and `link` is not called.
    // Where it is not inlined, an engine of history calls it.
    #[place(cold)]
    pub(crate) fn push_chain(
        &self,
        heads: &impl Heads,
        page: PageIndex,
        chain: Chain,
        min_partial: usize,
        reset: bool,
        mut link: impl FnMut(u16),
    ) -> Freed {
        let head = heads.head(page);
        let objects = head.objects();
        let mut guard = None;
        let mut state = SlabState(head.state.load(Ordering::Acquire));
        loop {
            if state.inuse() < chain.count {
                return Freed::Corrupt;
            }
            let empties = state.inuse() == chain.count;
            let was_full = state.inuse() == objects;
            if empties != was_full && !state.frozen() && guard.is_none() {
                guard = Some(self.lock());
                state = SlabState(head.state.load(Ordering::Acquire));
                continue;
            }
            let new = if empties && reset && !state.frozen() {
                state.reset()
            } else {
                link(state.head());
                state.pushed(chain.head, chain.count)
            };
            match head.state.compare_exchange_weak(state.0, new.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {}
                Err(now) => {
                    state = SlabState(now);
                    continue;
                }
            }
            if state.frozen() {
                return Freed::Kept;
            }
            return match (was_full, empties) {
                (true, true) => Freed::Discard,
                (true, false) => {
                    if let Some(list) = &mut guard {
                        list.push_back(heads, page);
                    }
                    Freed::Kept
                }
                (false, true) => match &mut guard {
                    Some(list) if head.listed() && list.count > min_partial => {
                        list.unlink(heads, page);
                        Freed::Discard
                    }
                    _ => Freed::Kept,
                },
                (false, false) => Freed::Kept,
            };
        }
    }

    /// Frees a chain that is already linked and ends in [`NO_OBJECT`]: the surplus of a refill.
    ///
    /// `relink(prior)` makes the chain's last object point to `prior`. It is called only if that
    /// object does not point there already. The first attempt usually finds an empty freelist and
    /// does not touch the chain.
    pub(crate) fn give_back(
        &self,
        heads: &impl Heads,
        page: PageIndex,
        chain: Chain,
        min_partial: usize,
        reset: bool,
        mut relink: impl FnMut(u16),
    ) -> Freed {
        let mut end = NO_OBJECT;
        self.push_chain(heads, page, chain, min_partial, reset, |prior| {
            if prior != end {
                relink(prior);
                end = prior;
            }
        })
    }

    /// Takes objects of partial slabs into `out`, at least `need` if the list has them and `taker`
    /// may take them. Returns the number of slabs and of objects. It takes whole freelists, so
    /// there may be more than `need` objects.
    pub(crate) fn take(&self, heads: &impl Heads, taker: Taker, need: usize, out: &mut [Taken]) -> (usize, usize) {
        let mut list = self.lock();
        let mut all = true;
        match taker {
            Taker::Own => list.calls_of_others = 0,
            Taker::Other => {
                list.calls_of_others = list.calls_of_others.saturating_add(1);
                all = list.calls_of_others > IDLE_CALLS;
            }
            Taker::Last => {}
        }
        let (mut page, mut slabs, mut total, mut scanned) = (list.head, 0, 0, 0);
        while total < need && slabs < out.len() && page != PageIndex::NONE && scanned < SCANNED {
            let head = heads.head(page);
            let next = head.next();
            if all || is_for_all(head) {
                let taken = take_from(head, page, need - total);
                total += usize::from(taken.chain.count) + usize::from(taken.fresh);
                out[slabs] = taken;
                slabs += 1;
                if is_full(head) {
                    list.unlink(heads, page);
                }
            } else {
                scanned += 1;
            }
            page = next;
        }
        (slabs, total)
    }

    /// Takes the freelists of slabs that are `sparse` into `out`, but carves nothing. Returns the
    /// number of slabs. Scans at most `left` slabs and counts `left` down. Each call scans a
    /// limited number and moves them to the end of the list.
    pub(crate) fn take_sparse(
        &self,
        heads: &impl Heads,
        left: &mut usize,
        sparse: impl Fn(&PageHead) -> bool,
        out: &mut [Taken],
    ) -> usize {
        /// Slabs scanned under one lock.
        const LOOKS: usize = 256;
        let mut list = self.lock();
        let (mut page, mut slabs) = (list.head, 0);
        let enough = left.saturating_sub(LOOKS);
        while page != PageIndex::NONE && slabs < out.len() && *left > enough {
            *left -= 1;
            let head = heads.head(page);
            let next = head.next();
            if sparse(head) {
                out[slabs] = take_from(head, page, 0);
                slabs += 1;
                if is_full(head) {
                    list.unlink(heads, page);
                }
            }
            page = next;
        }
        if page == PageIndex::NONE {
            *left = 0;
        } else {
            list.rotate_to_front(heads, page);
        }
        slabs
    }

    /// Puts a new, partly carved slab at the front of the list.
    pub(crate) fn add_new(&self, heads: &impl Heads, page: PageIndex) {
        self.lock().push_front(heads, page);
    }

    /// Takes up to `out.len()` empty slabs off the list, and returns their number.
    pub(crate) fn take_empty(&self, heads: &impl Heads, out: &mut [PageIndex]) -> usize {
        let mut list = self.lock();
        let mut page = list.head;
        let mut taken = 0;
        while page != PageIndex::NONE && taken < out.len() {
            let head = heads.head(page);
            let next = head.next();
            if SlabState(head.state.load(Ordering::Acquire)).inuse() == 0 {
                list.unlink(heads, page);
                out[taken] = page;
                taken += 1;
            }
            page = next;
        }
        taken
    }

    /// Quarantines a slab whose freelist is corrupt: takes it off the list and freezes it, so
    /// refill never takes from it again.
    #[cold]
    #[inline(never)]
    #[place(cold)]
    pub(crate) fn quarantine(&self, heads: &impl Heads, page: PageIndex) {
        let mut list = self.lock();
        let head = heads.head(page);
        let mut state = SlabState(head.state.load(Ordering::Acquire));
        while let Err(now) = head.state.compare_exchange(state.0, state.freeze().0, Ordering::AcqRel, Ordering::Acquire)
        {
            state = SlabState(now);
        }
        if head.listed() {
            list.unlink(heads, page);
        }
    }
}

/// Whether all CPUs may take from a partial slab.
fn is_for_all(head: &PageHead) -> bool {
    let free = head.objects() - SlabState(head.state.load(Ordering::Acquire)).inuse();
    free >= head.objects().div_ceil(SHARE_FOR_ALL)
}

fn is_full(head: &PageHead) -> bool {
    SlabState(head.state.load(Ordering::Acquire)).inuse() == head.objects()
}

/// Takes the whole freelist of a listed slab and carves objects up to `need` in all. The caller
/// holds list_lock.
fn take_from(head: &PageHead, page: PageIndex, need: usize) -> Taken {
    let objects = head.objects();
    let mut state = SlabState(head.state.load(Ordering::Acquire));
    loop {
        let linked = state.linked();
        let room = objects - state.carved();
        let fresh = need.saturating_sub(usize::from(linked)).min(usize::from(room)) as u16;
        let new = state.taken(fresh);
        // Only frees compete with this under list_lock. They push to the freelist, so a failure
        // means there is more to take.
        match head.state.compare_exchange_weak(state.0, new.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                return Taken {
                    page,
                    chain: Chain { head: state.head(), count: linked },
                    first_fresh: state.carved(),
                    fresh,
                };
            }
            Err(now) => state = SlabState(now),
        }
    }
}

impl Partial {
    /// The empty list.
    pub(crate) const EMPTY: Partial =
        Partial { head: PageIndex::NONE, tail: PageIndex::NONE, count: 0, calls_of_others: 0 };

    /// Makes the listed slab `page` the first, and moves the slabs before it to the end, in their
    /// order.
    pub(crate) fn rotate_to_front(&mut self, heads: &impl Heads, page: PageIndex) {
        let last = heads.head(page).prev();
        if last == PageIndex::NONE {
            return;
        }
        heads.head(self.tail).set_next(self.head);
        heads.head(self.head).set_prev(self.tail);
        heads.head(last).set_next(PageIndex::NONE);
        heads.head(page).set_prev(PageIndex::NONE);
        (self.head, self.tail) = (page, last);
    }

    /// Returns the first slab of the list.
    pub(crate) fn first(&self) -> PageIndex {
        self.head
    }

    /// Returns the last slab of the list.
    pub(crate) fn last(&self) -> PageIndex {
        self.tail
    }

    pub(crate) fn push_back(&mut self, heads: &impl Heads, page: PageIndex) {
        let head = heads.head(page);
        head.set_next(PageIndex::NONE);
        head.set_prev(self.tail);
        if self.tail == PageIndex::NONE {
            self.head = page;
        } else {
            heads.head(self.tail).set_next(page);
        }
        self.tail = page;
        head.set_listed(true);
        self.count += 1;
    }

    pub(crate) fn push_front(&mut self, heads: &impl Heads, page: PageIndex) {
        let head = heads.head(page);
        head.set_prev(PageIndex::NONE);
        head.set_next(self.head);
        if self.head == PageIndex::NONE {
            self.tail = page;
        } else {
            heads.head(self.head).set_prev(page);
        }
        self.head = page;
        head.set_listed(true);
        self.count += 1;
    }

    pub(crate) fn unlink(&mut self, heads: &impl Heads, page: PageIndex) {
        let head = heads.head(page);
        let (next, prev) = (head.next(), head.prev());
        if prev == PageIndex::NONE {
            self.head = next;
        } else {
            heads.head(prev).set_next(next);
        }
        if next == PageIndex::NONE {
            self.tail = prev;
        } else {
            heads.head(next).set_prev(prev);
        }
        head.set_listed(false);
        self.count -= 1;
    }

    /// Sorts the list with the fullest slabs first, as the kernel's shrink does. Objects gather in
    /// these, and the others drain. There is a bucket for each number of free objects up to
    /// `PROMOTE`; slabs with more free objects stay behind them in their order.
    pub(crate) fn promote_fullest(&mut self, heads: &impl Heads) {
        const PROMOTE: u16 = 32;
        for free in (1..=PROMOTE).rev() {
            let mut page = self.head;
            let mut left = self.count;
            while page != PageIndex::NONE && left > 0 {
                let head = heads.head(page);
                let next = head.next();
                let state = SlabState(head.state.load(Ordering::Acquire));
                if head.objects() - state.inuse() == free {
                    self.unlink(heads, page);
                    self.push_front(heads, page);
                }
                page = next;
                left -= 1;
            }
        }
    }
}
