//! Cross-CPU drain: takes the sheaves of all CPUs from one thread.
//!
//! With rseq, a drain first sets the gate to 0, then calls `membarrier`, which aborts every running
//! critical section. A section that starts later compares its CPU number with the gate and leaves
//! for the slow path, which works without sheaves while the gate is shut. So the draining thread
//! has exclusive access to all slots until it opens the gate again. No other thread blocks on a
//! drain.
//!
//! If membarrier is refused (a seccomp filter installed after start-up), the drain moves its thread
//! to each CPU in turn by the affinity mask and empties the slot by an ordinary section. If that is
//! refused too, the drain returns false and its callers leave the cache as it is.
//!
//! In a kernel, see [`remote`](super::remote).
//!
//! Lock: the *drain lock*, taken before CPU, node and zone locks.
#![allow(unsafe_code, reason = "takes over raw per-CPU slots")]

use super::area::{PERCPU, closed, no_sheaves, null_top, side_order};
use super::fence::fence;
use super::sheaf::Sheaf;
use super::{Mode, bias, lock, mode};
use crate::base::sync::{AtomicU32, Ordering, SpinLock, Visit};
use crate::base::units::CpuId;

static DRAIN: SpinLock<()> = SpinLock::new(());

/// Takes every sheaf of the given slots from every CPU and passes it to `take`, with the CPU it was
/// on. Returns false if some CPU could not be reached; its sheaves stay in their slots.
#[place(background)]
pub(crate) fn drain(offsets: &[u16], mut take: impl FnMut(CpuId, u16, Sheaf)) -> bool {
    drain_words(offsets, no_sheaves(), |cpu, offset, tops| take_each(cpu, offset, tops, &mut take))
}

/// As [`drain`], of one CPU and slot, for a cause.
#[cfg(not(feature = "os"))]
pub(crate) fn drain_for(cause: super::remote::Cause, cpu: CpuId, offset: u16, mut take: impl FnMut(CpuId, u16, Sheaf)) {
    super::remote::drain_for(cause, cpu, offset, no_sheaves(), |cpu, offset, tops| {
        take_each(cpu, offset, tops, &mut take);
    });
}

/// Closes a slot: takes its sheaves from every CPU, passes each to `take`, and leaves the slot so
/// that no thread puts a sheaf there. Returns false if some CPU could not be reached, and the slot
/// is still open there.
///
/// A thread that read the slot before finds other words than it read, so its exchange fails. A
/// thread that reads it later finds it unavailable.
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
pub(crate) fn close(offset: u16, mut take: impl FnMut(CpuId, u16, Sheaf)) -> bool {
    drain_words(&[offset], closed(), |cpu, offset, tops| take_each(cpu, offset, tops, &mut take))
}

/// Opens a slot on the CPUs where it is closed.
///
/// Sections do not change a closed slot, and a section that meets one closed and one open word
/// finds at its commit that the words have changed. So the gate need not be shut.
#[cfg(feature = "os")]
#[place(cold)]
#[inline(never)]
pub(crate) fn open(offset: u16) {
    let _one_at_a_time = DRAIN.lock();
    for cpu in super::all_cpus() {
        let _here = (mode() != Mode::Rseq).then(|| lock::CpuGuard::take(cpu));
        let slot = PERCPU.slot(cpu, offset);
        let [main, spare] = no_sheaves();
        // SAFETY: the slot lies in the committed areas. It is written if its words are closed,
        // which no section and no drain changes. Volatile, and the main word last, because sections
        // may access them.
        unsafe {
            if [slot.read_volatile(), slot.add(1).read_volatile()] == closed() {
                slot.add(1).write_volatile(spare);
                slot.write_volatile(main);
            }
        }
    }
}

/// Passes the sheaves of a slot to `take`. A function of its own, because closures are not placed.
#[inline(never)]
#[place(background)]
fn take_each(cpu: CpuId, offset: u16, tops: [usize; 2], take: &mut impl FnMut(CpuId, u16, Sheaf)) {
    for top in tops {
        if top != null_top() {
            // SAFETY: the slot owned this sheaf and no longer refers to it.
            take(cpu, offset, unsafe { Sheaf::from_top(top) });
        }
    }
}

/// Takes the drain lock, for callers that visit all CPUs by their locks in several steps.
pub(crate) fn one_at_a_time() -> crate::base::sync::Guard<'static, ()> {
    DRAIN.lock()
}

/// As [`drain_words`], for slots that are only accessed under the CPU's lock in every mode. Runs
/// `take` under that lock.
pub(crate) fn drain_locked(offsets: &[u16], empty: [usize; 2], mut take: impl FnMut(CpuId, u16, [usize; 2])) {
    let _one_at_a_time = DRAIN.lock();
    take_by_lock(offsets, empty, &mut take);
}

fn take_by_lock(offsets: &[u16], empty: [usize; 2], take: &mut impl FnMut(CpuId, u16, [usize; 2])) {
    for cpu in 0..PERCPU.cpus.load(Ordering::Relaxed) {
        take_of_cpu(CpuId(cpu), offsets, empty, take);
    }
}

/// Empties slots of one CPU that are only accessed under its lock, and runs `take` under it.
pub(crate) fn take_of_cpu(
    cpu: CpuId,
    offsets: &[u16],
    empty: [usize; 2],
    take: &mut impl FnMut(CpuId, u16, [usize; 2]),
) {
    let here = lock::CpuGuard::take(cpu);
    for &offset in offsets {
        take_slot(here.cpu(), offset, empty, take);
    }
}

/// Replaces the two words of the given slots by `empty` on every CPU, and passes the old words to
/// `take`, which may run under the CPU's lock. Returns false if some CPU could not be reached.
pub(crate) fn drain_words(offsets: &[u16], empty: [usize; 2], mut take: impl FnMut(CpuId, u16, [usize; 2])) -> bool {
    #[cfg(not(feature = "os"))]
    if mode() == Mode::Section {
        return super::remote::drain_words(offsets, empty, &mut take);
    }
    let _one_at_a_time = DRAIN.lock();
    let cpus = PERCPU.cpus.load(Ordering::Relaxed);
    match mode() {
        Mode::Down => true,
        // Done above, without the lock.
        #[cfg(not(feature = "os"))]
        Mode::Section => false,
        Mode::Lock | Mode::Emulate => {
            take_by_lock(offsets, empty, &mut take);
            true
        }
        Mode::Rseq => {
            PERCPU.gate.store(0, Ordering::SeqCst);
            let stopped = fence();
            if stopped {
                for cpu in 0..cpus {
                    for &offset in offsets {
                        take_slot(CpuId(cpu), offset, empty, &mut take);
                    }
                }
            }
            open_gate();
            stopped || visit_each_cpu(cpus, offsets, empty, &mut take)
        }
    }
}

/// Number of callers that keep the gate shut (see [`hold_gate`]). Changed under the drain lock.
static HOLDS: AtomicU32 = AtomicU32::new(0);

/// Opens the gate after a drain. The caller holds the drain lock.
fn open_gate() {
    if HOLDS.load(Ordering::Relaxed) == 0 {
        PERCPU.gate.store(PERCPU.gate_open.load(Ordering::Relaxed), Ordering::SeqCst);
    }
}

/// Limits sections to CPUs below `cpus`, and returns the old limit. For tests. The drain lock keeps
/// this out of a running drain.
pub(crate) fn limit_gate(cpus: u32) -> u32 {
    let _no_drain = DRAIN.lock();
    let before = PERCPU.gate_open.swap(cpus, Ordering::Relaxed);
    open_gate();
    before
}

/// Keeps all threads from running new sections until [`release_gate`].
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn hold_gate() {
    let _no_drain = DRAIN.lock();
    HOLDS.store(HOLDS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    PERCPU.gate.store(0, Ordering::SeqCst);
}

/// Undoes one [`hold_gate`].
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn release_gate() {
    let _no_drain = DRAIN.lock();
    HOLDS.store(HOLDS.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    open_gate();
}

/// Opens the gate in the child of a fork, where no thread holds it any more.
pub(crate) fn after_fork_in_child() {
    if HOLDS.swap(0, Ordering::Relaxed) != 0 {
        open_gate();
    }
    bias::after_fork_in_child();
}

/// Empties a slot that the caller has exclusive access to.
fn take_slot(cpu: CpuId, offset: u16, empty: [usize; 2], take: &mut impl FnMut(CpuId, u16, [usize; 2])) {
    let slot = PERCPU.slot(cpu, offset);
    let empty = side_order(cpu, offset, empty);
    // SAFETY: the slot lies in the committed areas. The caller has exclusive access: it holds the
    // CPU lock, or it has stopped all sections. The accesses are volatile because the sections are
    // assembly.
    let words = unsafe {
        let words = [slot.read_volatile(), slot.add(1).read_volatile()];
        if words == closed() {
            return;
        }
        for (i, (old, new)) in words.into_iter().zip(empty).enumerate() {
            if old != new {
                slot.add(i).write_volatile(new);
            }
        }
        words
    };
    if words != empty {
        take(cpu, offset, side_order(cpu, offset, words));
    }
}

/// Empties the slots without membarrier; see the head of the module.
#[cfg(feature = "os")]
fn visit_each_cpu(
    cpus: u32,
    offsets: &[u16],
    empty: [usize; 2],
    take: &mut impl FnMut(CpuId, u16, [usize; 2]),
) -> bool {
    let mut all = true;
    let mut home = None;
    for cpu in 0..cpus {
        // Skip a CPU whose slots are empty. The check races with threads that go on allocating
        // there, as every drain does. SAFETY: reads words of the committed areas.
        let idle = offsets.iter().all(|&o| unsafe {
            let slot = PERCPU.slot(CpuId(cpu), o);
            [slot.read_volatile(), slot.add(1).read_volatile()] == side_order(CpuId(cpu), o, empty)
        });
        if idle {
            continue;
        }
        let Some(old) = crate::base::os::pin_to(cpu) else {
            all = false;
            continue;
        };
        home.get_or_insert(old);
        for &offset in offsets {
            // Retry if another thread on this CPU changes the slot between the read and the
            // exchange.
            let emptied = (0..1000).find_map(|_| {
                let view = super::read(offset)?;
                (view.cpu.0 == cpu && super::exchange(offset, &view, empty[0], empty[1])).then_some(view)
            });
            match emptied {
                Some(view) => take(CpuId(cpu), offset, [view.main, view.spare]),
                None => all = false,
            }
        }
    }
    if let Some(mask) = home {
        crate::base::os::unpin(&mask);
    }
    all
}
#[cfg(not(feature = "os"))]
fn visit_each_cpu(
    _cpus: u32,
    _offsets: &[u16],
    _empty: [usize; 2],
    _take: &mut impl FnMut(CpuId, u16, [usize; 2]),
) -> bool {
    false
}

/// Visits the drain lock and, where they are in use, every CPU's lock, for a fork.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    visit(DRAIN.word());
    if lock::in_use() {
        let _stopped = bias::stop_all();
        (0..PERCPU.cpus.load(Ordering::Relaxed)).for_each(|cpu| visit(lock::lock_word(CpuId(cpu))));
    }
}
