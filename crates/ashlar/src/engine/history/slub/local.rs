//! This CPU's words of a cache: its CPU slab, its partial slabs, its counters; and the CPU's lock.
//!
//! A cache claims four 16-byte places in the per-CPU areas ([`Places`]):
//!
//! | place | word 0 | word 1 |
//! |---|---|---|
//! | slab | index of the first free object, [`NO_OBJECT`] for none | address of the CPU slab, 0 for none |
//! | partial | page of the first partial slab + 1, 0 for none | free objects in them, roughly; a tag above |
//! | entries | allocations beyond the fast path | frees beyond it |
//! | locks | times that the CPU's lock was taken for this cache | slab_locks taken under it |
//!
//! The first two belong to whoever is inside a critical section of the CPU, or holds the CPU's lock: the stage says
//! which of the two; in the mode `lock` it is the lock for all. The counters are added to without either.
//!
//! ## The CPU's lock
//! What disabling interrupts is in the kernel. It is the lock of the mode `lock`; here holders may wait for it, and take
//! slab_lock and list_lock under it. Fork takes it for all CPUs, and so finds no slab_lock held.
#![allow(unsafe_code, reason = "raw per-CPU memory")]

use super::stage::Fast;
use crate::base::sync::{AtomicUsize, Ordering, bump};
use crate::base::units::{CpuId, PageIndex};
use crate::engine::{Counts, RawCache};
use crate::pages::memmap::MEMMAP;
use crate::percpu::all_cpus;
use crate::percpu::area::PERCPU;
use crate::percpu::this_cpu_quick;
use crate::percpu::{self, lock};
use crate::slab::freelist::{key, read_link, write_link};
use crate::slab::state::NO_OBJECT;

#[place(cold)]
/// A word of a place, as an atomic: for counters and racy looks.
pub(super) fn word(cpu: CpuId, place: u16, at: usize) -> &'static AtomicUsize {
    // SAFETY: places lie in the committed areas, which stay for ever; words are aligned, and whoever else writes them
    // does so with single stores.
    unsafe { &*PERCPU.slot(cpu, place).add(at).cast::<AtomicUsize>() }
}

/// Counts an allocation that goes beyond the fast path.
#[inline]
pub(super) fn count_alloc(cache: &RawCache, cpu: CpuId) {
    bump(word(cpu, cache.state.places.entries, 0));
}

/// Counts a free that goes beyond the fast path.
#[inline]
pub(super) fn count_free(cache: &RawCache, cpu: CpuId) {
    bump(word(cpu, cache.state.places.entries, 1));
}

/// Adds the counters of all CPUs to `sum`.
#[place(cold)]
pub(super) fn add_counts(cache: &RawCache, sum: &mut Counts) {
    let places = cache.state.places;
    for cpu in all_cpus() {
        let read = |place, at| word(cpu, place, at).load(Ordering::Relaxed) as u64;
        sum.alloc_slow += read(places.entries, 0);
        sum.free_slow += read(places.entries, 1);
        sum.cpu_locks += read(places.locks, 0);
        sum.slab_locks += read(places.locks, 1);
    }
}

/// The lock of one CPU, held.
pub(super) struct CpuGuard(lock::CpuGuard);

impl CpuGuard {
    /// Takes the lock of this CPU, for `cache`.
    #[inline]
    pub(super) fn take(cache: &RawCache) -> CpuGuard {
        let guard = lock::CpuGuard::take(this_cpu_quick());
        bump(word(guard.cpu(), cache.state.places.locks, 0));
        CpuGuard(guard)
    }

    #[inline]
    pub(super) fn cpu(&self) -> CpuId {
        self.0.cpu()
    }

    /// True if the object is the first of this CPU's freelist.
    pub(super) fn has_first(&mut self, cache: &RawCache, freed: FreedObject) -> bool {
        *self.words(cache.state.places.slab) == [usize::from(freed.index), freed.base]
    }

    /// Counts a slab_lock that is taken under this lock.
    pub(super) fn count_slab_lock(&self, cache: &RawCache) {
        bump(word(self.cpu(), cache.state.places.locks, 1));
    }

    /// Both words of a place of this CPU, ours as long as the lock.
    #[inline]
    fn words(&mut self, place: u16) -> &mut [usize; 2] {
        // SAFETY: the place lies in the committed areas; the lock makes this thread the only one that uses it.
        unsafe { &mut *PERCPU.slot(self.cpu(), place).cast::<[usize; 2]>() }
    }
}

/// Both words of a place of this CPU as of one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    pub(super) cpu: CpuId,
    pub(super) words: [usize; 2],
}

/// True where the CPU's lock, not a critical section, protects the words of `cache` in every mode.
#[inline]
fn by_lock(cache: &RawCache) -> bool {
    super::switches(cache).fast != Fast::Rseq
}

/// This CPU's words at `place`; `None` while they are unavailable.
#[place(cold)]
pub(super) fn read(cache: &RawCache, place: u16) -> Option<Words> {
    if by_lock(cache) {
        let mut guard = CpuGuard::take(cache);
        return Some(Words { cpu: guard.cpu(), words: *guard.words(place) });
    }
    percpu::read(place).map(|view| Words { cpu: view.cpu, words: [view.main, view.spare] })
}

/// Makes `new` this CPU's words at `place` if they are still `old` and the thread is still there.
#[place(cold)]
pub(super) fn exchange(cache: &RawCache, place: u16, old: &Words, new: [usize; 2]) -> bool {
    if by_lock(cache) {
        let mut guard = CpuGuard::take(cache);
        let words = guard.words(place);
        if guard_is_elsewhere(old.cpu, words, place) || *words != old.words {
            return false;
        }
        *words = new;
        return true;
    }
    let view = percpu::View { cpu: old.cpu, main: old.words[0], spare: old.words[1] };
    percpu::exchange(place, &view, new[0], new[1])
}

/// True if `words` are not those of `cpu`.
fn guard_is_elsewhere(cpu: CpuId, words: &[usize; 2], place: u16) -> bool {
    core::ptr::from_ref(words) != PERCPU.slot(cpu, place).cast::<[usize; 2]>()
}

/// True if the slab at `base` is the CPU slab where this thread runs, as of a moment that may be over.
#[inline]
pub(super) fn is_cpu_slab(cache: &RawCache, base: usize) -> bool {
    word(this_cpu_quick(), cache.state.places.slab, 1).load(Ordering::Relaxed) == base
}

/// True if an object that is to be freed is the first of the freelist of `cpu`, this thread's: the one case of a second
/// free that costs next to nothing to see. What a look at both words finds one after the other is believed only if a
/// look as of one moment agrees.
#[inline]
pub(super) fn is_first_of(cache: &RawCache, cpu: CpuId, freed: FreedObject) -> bool {
    let place = cache.state.places.slab;
    let seen = [word(cpu, place, 0).load(Ordering::Relaxed), word(cpu, place, 1).load(Ordering::Relaxed)];
    seen == [usize::from(freed.index), freed.base] && read(cache, place).is_some_and(|view| view.words == seen)
}

/// Where an object lies that is to be freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreedObject {
    pub(super) page: PageIndex,
    /// Address of the slab.
    pub(super) base: usize,
    pub(super) index: u16,
    /// Address of the object's link.
    pub(super) link: usize,
}

impl FreedObject {
    #[inline]
    pub(super) fn new(cache: &RawCache, page: PageIndex, index: u16, object: usize) -> FreedObject {
        FreedObject { page, base: MEMMAP.address_of(page), index, link: object + cache.slabs.geometry.link_offset }
    }
}

/// Address of the link of object `index` of the slab at `base`.
#[inline]
pub(super) fn link_at(cache: &RawCache, base: usize, index: u16) -> usize {
    base + usize::from(index) * cache.slabs.geometry.stride + cache.slabs.geometry.link_offset
}

/// Takes the first object off the list in `words`; 0 when there is none or its link is corrupt.
#[inline]
#[place(cold)]
fn pop_of(cache: &RawCache, words: &mut [usize; 2]) -> usize {
    let [head, base] = *words;
    if head >= usize::from(NO_OBJECT) {
        return 0;
    }
    // SAFETY: the words are ours, so `head` is a free object of our slab, whose link is ours to read.
    let next = unsafe { read_link(link_at(cache, base, head as u16), cache.slabs.secret, NO_OBJECT) };
    let Ok(next) = next else { return 0 };
    words[0] = usize::from(next);
    base + head * cache.slabs.geometry.stride
}

/// Takes an object off this CPU's freelist; 0 when that is not to be had at once.
#[inline(always)]
pub(super) fn pop(cache: &RawCache, fast: Fast) -> usize {
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    if fast == Fast::Rseq && percpu::mode() != percpu::Mode::Lock {
        let shape = percpu::linked::Shape {
            secret: cache.slabs.secret,
            stride: cache.slabs.geometry.stride,
            link_offset: cache.slabs.geometry.link_offset,
        };
        return percpu::linked::pop(percpu::slot0(cache.state.places.slab), percpu::sections::rseq_offset(), shape);
    }
    pop_by_lock(cache, fast)
}

#[inline(never)]
#[place(cold)]
fn pop_by_lock(cache: &RawCache, fast: Fast) -> usize {
    let place = cache.state.places.slab;
    match fast {
        Fast::Lock => pop_of(cache, CpuGuard::take(cache).words(place)),
        Fast::Emulated => pop_emulated(cache, place),
        Fast::Rseq => lock::with_slot(lock::this_cpu(), place, |words| pop_of(cache, words)).unwrap_or(0),
    }
}

/// The kernel's fast path where `cmpxchg_local` disables interrupts itself: the freelist is read and followed without
/// protection, and the lock is taken for the exchange alone. In place of the kernel's transaction number the link is
/// compared too: the list may have come back to the same head with another successor.
#[place(cold)]
fn pop_emulated(cache: &RawCache, place: u16) -> usize {
    loop {
        let cpu = this_cpu_quick();
        let (head, base) = (word(cpu, place, 0).load(Ordering::Relaxed), word(cpu, place, 1).load(Ordering::Relaxed));
        if head >= usize::from(NO_OBJECT) || base == 0 {
            return 0;
        }
        let at = link_at(cache, base, head as u16);
        // SAFETY: links lie in slab memory, which is never unmapped. The object may be somebody else's by now; then the
        // value is not used, since the comparison under the lock fails.
        let link = unsafe { (at as *const u64).read_volatile() };
        let next = link ^ key(cache.slabs.secret, at);
        let mut guard = CpuGuard::take(cache);
        let same_cpu = guard.cpu() == cpu;
        let words = guard.words(place);
        // SAFETY: while the words say so, the object is free and its link ours to read.
        if same_cpu && *words == [head, base] && unsafe { (at as *const u64).read_volatile() } == link {
            if next > u64::from(NO_OBJECT) {
                return 0;
            }
            words[0] = next as usize;
            return base + head * cache.slabs.geometry.stride;
        }
    }
}

/// Puts an object on the list in `words` if it is one of that slab, and not the first there already.
///
/// # Safety
/// The object is the caller's to free, and `freed` describes it.
#[inline]
#[place(cold)]
unsafe fn push_of(cache: &RawCache, words: &mut [usize; 2], freed: FreedObject) -> bool {
    if words[1] != freed.base || words[0] == usize::from(freed.index) {
        return false;
    }
    // SAFETY: the object is the caller's by its promise; the list's head is an index.
    unsafe { write_link(freed.link, cache.slabs.secret, words[0] as u16) };
    words[0] = usize::from(freed.index);
    true
}

/// Puts an object on this CPU's freelist; false when it is of another slab or looks free already.
///
/// # Safety
/// The object is the caller's to free, and `freed` describes it.
#[inline(always)]
pub(super) unsafe fn push(cache: &RawCache, fast: Fast, freed: FreedObject) -> bool {
    // SAFETY: passed on.
    unsafe {
        if fast == Fast::Rseq && push_here(cache, freed.base, freed.index, freed.link) {
            return true;
        }
        push_by_lock(cache, fast, freed)
    }
}

/// As [`push`], by a critical section: false also where there are none.
///
/// # Safety
/// The object number `index` of the slab at `base`, with its link at `link`, is the caller's to free.
#[inline(always)]
pub(super) unsafe fn push_here(cache: &RawCache, base: usize, index: u16, link: usize) -> bool {
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    if percpu::mode() != percpu::Mode::Lock {
        let freed = percpu::linked::Freed { slab: base, index, link, key: key(cache.slabs.secret, link) };
        let slot = percpu::slot0(cache.state.places.slab);
        // SAFETY: passed on.
        return unsafe { percpu::linked::push(slot, percpu::sections::rseq_offset(), freed) };
    }
    let _ = (cache, base, index, link);
    false
}

/// # Safety
/// As for [`push`].
#[inline(never)]
#[place(cold)]
unsafe fn push_by_lock(cache: &RawCache, fast: Fast, freed: FreedObject) -> bool {
    let place = cache.state.places.slab;
    match fast {
        // SAFETY: passed on.
        Fast::Lock => unsafe { push_of(cache, CpuGuard::take(cache).words(place), freed) },
        // SAFETY: passed on.
        Fast::Emulated => unsafe { push_emulated(cache, place, freed) },
        // In any other mode a critical section was all there is.
        Fast::Rseq if percpu::mode() != percpu::Mode::Lock => false,
        Fast::Rseq => {
            // SAFETY: passed on.
            lock::with_slot(lock::this_cpu(), place, |words| unsafe { push_of(cache, words, freed) }).unwrap_or(false)
        }
    }
}

/// As [`pop_emulated`]: the link is written before the lock is taken.
///
/// # Safety
/// As for [`push`].
#[place(cold)]
unsafe fn push_emulated(cache: &RawCache, place: u16, freed: FreedObject) -> bool {
    loop {
        let cpu = this_cpu_quick();
        let (head, base) = (word(cpu, place, 0).load(Ordering::Relaxed), word(cpu, place, 1).load(Ordering::Relaxed));
        if base != freed.base || head == usize::from(freed.index) {
            return false;
        }
        // SAFETY: the object is the caller's by its promise.
        unsafe { write_link(freed.link, cache.slabs.secret, head as u16) };
        let mut guard = CpuGuard::take(cache);
        let same_cpu = guard.cpu() == cpu;
        let words = guard.words(place);
        if same_cpu && *words == [head, base] {
            words[0] = usize::from(freed.index);
            return true;
        }
    }
}

/// Under the CPU's lock, which the caller goes on holding: as [`push`] of the stage that locks all of its operations.
///
/// # Safety
/// As for [`push`].
#[inline]
pub(super) unsafe fn push_locked(cache: &RawCache, guard: &mut CpuGuard, freed: FreedObject) -> bool {
    // SAFETY: passed on.
    unsafe { push_of(cache, guard.words(cache.state.places.slab), freed) }
}
