//! A CPU's words of a cache: its CPU slab, its partial slabs, its counters; and the CPU lock.
//!
//! A cache claims four 16-byte places in the per-CPU areas ([`Places`](super::places::Places)):
//!
//! | place | word 0 | word 1 |
//! |---|---|---|
//! | slab | index of the first free object, or [`NO_OBJECT`] | address of the CPU slab, or 0 |
//! | partial | page of the first partial slab + 1, or 0 | free objects in them (estimate); tag |
//! | entries | allocations beyond the fast path | frees beyond it |
//! | locks | CPU locks taken for this cache | slab_locks taken under them |
//!
//! The first two places belong to the thread inside a critical section of the CPU, or to the holder
//! of the CPU lock. The stage decides which; in the mode `lock` it is always the lock. The counters
//! are raised without either.
//!
//! ## The CPU lock
//! It stands for disabled interrupts in the kernel. It is the lock of the mode `lock`, but here
//! holders may block on it, and take slab_lock and list_lock under it. Fork takes it for all CPUs,
//! and so finds no slab_lock held.
#![allow(unsafe_code, reason = "raw per-CPU memory")]

use super::slabs::Protection;
use super::stage::{Fast, Slow, Switches};
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
/// Returns a word of a place as an atomic, for counters and racy reads.
pub(super) fn word(cpu: CpuId, place: u16, at: usize) -> &'static AtomicUsize {
    // SAFETY: places lie in the committed areas, which stay for ever. Words are aligned, and every
    // other writer uses single stores.
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

/// A CPU lock, held.
pub(super) struct CpuGuard(lock::CpuGuard);

impl CpuGuard {
    /// Takes the lock of this CPU, for `cache`.
    #[inline]
    pub(super) fn take(cache: &RawCache) -> CpuGuard {
        let guard = lock::CpuGuard::take_here();
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

    /// Returns both words of a place of this CPU, which belong to the holder of the lock.
    #[inline]
    pub(super) fn words(&mut self, place: u16) -> &mut [usize; 2] {
        // SAFETY: the place lies in the committed areas; the lock makes this thread the only one
        // that uses it.
        unsafe { &mut *PERCPU.slot(self.cpu(), place).cast::<[usize; 2]>() }
    }
}

/// Returns the switches of a cache's stage.
#[inline]
pub(super) fn switches(cache: &RawCache) -> &Switches {
    &cache.state.places.switches
}

pub(super) fn protection(switches: &Switches) -> Protection {
    match switches.slow {
        Slow::Lockless => Protection::Lockless,
        Slow::SlabLock => Protection::Lock { atomic: true },
        Slow::SlabLockPlainUnlock => Protection::Lock { atomic: false },
        Slow::Partly => Protection::Partly,
    }
}

/// Takes the CPU lock unless the stage needs none. It stands for disabled interrupts around the
/// kernel's slab_lock.
#[place(cold)]
pub(super) fn interrupts_off(cache: &RawCache, switches: &Switches) -> Option<CpuGuard> {
    (!switches.lockless()).then(|| {
        let guard = CpuGuard::take(cache);
        guard.count_slab_lock(cache);
        guard
    })
}

/// Both words of a place of one CPU, read at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    pub(super) cpu: CpuId,
    pub(super) words: [usize; 2],
}

/// True if the CPU lock protects the words of `cache` in every mode, not only in the mode `lock`.
#[inline]
fn by_lock(cache: &RawCache) -> bool {
    switches(cache).fast != Fast::Rseq
}

/// Reads this CPU's words at `place`; `None` while they are unavailable.
#[place(cold)]
pub(super) fn read(cache: &RawCache, place: u16) -> Option<Words> {
    if by_lock(cache) {
        let mut guard = CpuGuard::take(cache);
        return Some(Words { cpu: guard.cpu(), words: *guard.words(place) });
    }
    percpu::read_any(place).map(|view| Words { cpu: view.cpu, words: [view.main, view.spare] })
}

/// Stores `new` as this CPU's words at `place` if they are still `old` and the thread has not
/// migrated.
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

/// True if the slab at `base` is the CPU slab of this thread's CPU. Racy.
#[inline]
pub(super) fn is_cpu_slab(cache: &RawCache, base: usize) -> bool {
    word(this_cpu_quick(), cache.state.places.slab, 1).load(Ordering::Relaxed) == base
}

/// True if an object being freed is the first of the freelist of `cpu`, this thread's CPU. It is
/// the one double free that is nearly free to detect. The two words are read one after the other,
/// so a match is confirmed by a read of both at one moment.
#[inline]
pub(super) fn is_first_of(cache: &RawCache, cpu: CpuId, freed: FreedObject) -> bool {
    let place = cache.state.places.slab;
    let seen = [word(cpu, place, 0).load(Ordering::Relaxed), word(cpu, place, 1).load(Ordering::Relaxed)];
    seen == [usize::from(freed.index), freed.base] && read(cache, place).is_some_and(|view| view.words == seen)
}

/// The place of an object being freed.
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

/// Takes the first object off the freelist in `words`; 0 if it is empty or the link is corrupt.
#[inline]
#[place(cold)]
fn pop_of(cache: &RawCache, words: &mut [usize; 2]) -> usize {
    let [head, base] = *words;
    if head >= usize::from(NO_OBJECT) {
        return 0;
    }
    // SAFETY: the words are ours, so `head` is a free object of our slab, whose link is ours to
    // read.
    let next = unsafe { read_link(link_at(cache, base, head as u16), cache.slabs.secret, NO_OBJECT) };
    let Ok(next) = next else { return 0 };
    words[0] = usize::from(next);
    base + head * cache.slabs.geometry.stride
}

/// Takes an object off this CPU's freelist; 0 if the fast path cannot. Calls `by_lock` where no
/// critical section does it.
#[inline(always)]
pub(super) fn pop(cache: &'static RawCache, fast: Fast, by_lock: fn(&'static RawCache, Fast) -> usize) -> usize {
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if fast == Fast::Rseq && percpu::mode() != percpu::Mode::Lock {
        let shape = percpu::sections::link::Shape {
            secret: cache.slabs.secret,
            stride: cache.slabs.geometry.stride,
            link_offset: cache.slabs.geometry.link_offset,
        };
        return percpu::sections::linked::pop(
            percpu::slot0(cache.state.places.slab),
            percpu::sections::rseq_offset(),
            shape,
        );
    }
    by_lock(cache, fast)
}

/// As [`pop`], where no critical section does it.
#[inline(always)]
pub(super) fn pop_by_lock(cache: &'static RawCache, fast: Fast) -> usize {
    let place = cache.state.places.slab;
    match fast {
        Fast::Lock => pop_of(cache, CpuGuard::take(cache).words(place)),
        Fast::Emulated => pop_emulated(cache, place),
        Fast::Rseq => percpu::with_slot(place, |_, words| pop_of(cache, words)).unwrap_or(0),
    }
}

/// As [`pop`], under a CPU lock that the caller keeps.
#[place(cold)]
pub(super) fn pop_locked(cache: &RawCache, guard: &mut CpuGuard) -> usize {
    pop_of(cache, guard.words(cache.state.places.slab))
}

/// The kernel's fast path where `cmpxchg_local` disables interrupts itself. The freelist is read
/// and followed without protection, and the lock is taken for the exchange only. The link is
/// compared too, in place of the kernel's transaction number, because the freelist may have
/// returned to the same head with another successor.
#[inline(always)]
fn pop_emulated(cache: &RawCache, place: u16) -> usize {
    loop {
        let cpu = this_cpu_quick();
        let (head, base) = (word(cpu, place, 0).load(Ordering::Relaxed), word(cpu, place, 1).load(Ordering::Relaxed));
        if head >= usize::from(NO_OBJECT) || base == 0 {
            return 0;
        }
        let at = link_at(cache, base, head as u16);
        // SAFETY: links lie in slab memory, which is never unmapped. Another thread may own the
        // object by now; the comparison under the lock then fails and the value is not used.
        let link = unsafe { (at as *const u64).read_volatile() };
        let next = link ^ key(cache.slabs.secret, at);
        let mut guard = CpuGuard::take(cache);
        let same_cpu = guard.cpu() == cpu;
        let words = guard.words(place);
        // SAFETY: while the words match, the object is free, and the holder of the lock may read
        // its link.
        if same_cpu && *words == [head, base] && unsafe { (at as *const u64).read_volatile() } == link {
            if next > u64::from(NO_OBJECT) {
                return 0;
            }
            words[0] = next as usize;
            return base + head * cache.slabs.geometry.stride;
        }
    }
}

/// Pushes an object onto the freelist in `words` if it belongs to that slab and is not the first
/// there already.
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

/// Pushes an object onto this CPU's freelist. False if it belongs to another slab or seems to be
/// free already.
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

/// As [`push`], in a critical section. False also if the build or the mode has none.
///
/// # Safety
/// The object number `index` of the slab at `base`, with its link at `link`, is the caller's to
/// free.
#[inline(always)]
pub(super) unsafe fn push_here(cache: &RawCache, base: usize, index: u16, link: usize) -> bool {
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if percpu::mode() != percpu::Mode::Lock {
        let freed = percpu::sections::link::Freed { slab: base, index, link, key: key(cache.slabs.secret, link) };
        let slot = percpu::slot0(cache.state.places.slab);
        // SAFETY: passed on.
        return unsafe { percpu::sections::linked::push(slot, percpu::sections::rseq_offset(), freed) };
    }
    let _ = (cache, base, index, link);
    false
}

/// As [`push`], where a critical section does not do it.
///
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
        // In any other mode the critical section was tried already.
        Fast::Rseq if percpu::by_assembly() => false,
        Fast::Rseq => {
            // SAFETY: passed on.
            percpu::with_slot(place, |_, words| unsafe { push_of(cache, words, freed) }).unwrap_or(false)
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

/// As [`push`], under a CPU lock that the caller keeps: for the stage that locks whole operations.
///
/// # Safety
/// As for [`push`].
#[inline]
pub(super) unsafe fn push_locked(cache: &RawCache, guard: &mut CpuGuard, freed: FreedObject) -> bool {
    // SAFETY: passed on.
    unsafe { push_of(cache, guard.words(cache.state.places.slab), freed) }
}
