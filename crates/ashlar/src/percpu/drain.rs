//! Cross-CPU drain: taking the sheaves of all CPUs, from one thread.
//!
//! With rseq: the gate is set to 0 (the stop flag), then `membarrier` aborts every critical section that is
//! running. A section that starts from now on compares its CPU number with the gate first and
//! leaves for the slow path, which does without sheaves while the gate is shut. So the drainer has all slots to
//! itself until it opens the gate again. Nobody waits for a drain.
//!
//! Where membarrier is refused (a seccomp filter that came after the start), the drainer visits each CPU in
//! turn by its affinity mask and takes the slot there by an ordinary section. Where that is refused too, the
//! drain says so, and callers leave the cache as it is.
//!
//! Lock: the *drain lock*, outermost: node and zone locks are taken under it.
#![allow(unsafe_code, reason = "takes over raw per-CPU slots")]

use super::area::{PERCPU, no_sheaves, null_top, side_order};
use super::sheaf::Sheaf;
use super::{Mode, lock, mode};
use crate::base::sync::{AtomicU32, Ordering, SpinLock, Visit};
use crate::base::units::CpuId;

static DRAIN: SpinLock<()> = SpinLock::new(());

/// Takes every sheaf of the given slots from every CPU and hands it to `take`, with the CPU that had it.
/// False when some CPU could not be reached: its sheaves stay where they are.
#[place(background)]
pub(crate) fn drain(offsets: &[u16], mut take: impl FnMut(CpuId, u16, Sheaf)) -> bool {
    drain_words(offsets, no_sheaves(), |cpu, offset, tops| take_each(cpu, offset, tops, &mut take))
}

/// Hands the sheaves of a slot to `take`. Not part of the closure that calls it, because closures are not placed.
#[inline(never)]
#[place(background)]
fn take_each(cpu: CpuId, offset: u16, tops: [usize; 2], take: &mut impl FnMut(CpuId, u16, Sheaf)) {
    for top in tops {
        if top != null_top() {
            // SAFETY: the slot held this sheaf and refers to it no more.
            take(cpu, offset, unsafe { Sheaf::from_top(top) });
        }
    }
}

/// The drain lock, for whoever visits all CPUs by their locks in several steps.
pub(crate) fn one_at_a_time() -> crate::base::sync::Guard<'static, ()> {
    DRAIN.lock()
}

/// As [`drain_words`], for slots that are only touched under the CPU's lock, whatever the mode; `take` runs under it.
pub(crate) fn drain_locked(offsets: &[u16], empty: [usize; 2], mut take: impl FnMut(CpuId, u16, [usize; 2])) {
    let _one_at_a_time = DRAIN.lock();
    take_by_lock(offsets, empty, &mut take);
}

fn take_by_lock(offsets: &[u16], empty: [usize; 2], take: &mut impl FnMut(CpuId, u16, [usize; 2])) {
    for cpu in 0..PERCPU.cpus.load(Ordering::Relaxed) {
        let here = lock::CpuGuard::take(CpuId(cpu));
        for &offset in offsets {
            take_slot(here.cpu(), offset, empty, take);
        }
    }
}

/// Puts `empty` in place of the two words of the given slots on every CPU, and hands what was there to `take`, which may
/// run under the CPU's lock. False when some CPU could not be reached.
pub(crate) fn drain_words(offsets: &[u16], empty: [usize; 2], mut take: impl FnMut(CpuId, u16, [usize; 2])) -> bool {
    let _one_at_a_time = DRAIN.lock();
    let cpus = PERCPU.cpus.load(Ordering::Relaxed);
    match mode() {
        Mode::Down => true,
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

/// How many callers keep the gate shut; see [`hold_gate`]. Changed under the drain lock.
static HOLDS: AtomicU32 = AtomicU32::new(0);

/// Opens the gate after a drain. The caller holds the drain lock.
fn open_gate() {
    if HOLDS.load(Ordering::Relaxed) == 0 {
        PERCPU.gate.store(PERCPU.gate_open.load(Ordering::Relaxed), Ordering::SeqCst);
    }
}

/// Sets below which CPU sections run, and returns what it was: for tests. Not while a drain keeps
/// the gate shut.
pub(crate) fn limit_gate(cpus: u32) -> u32 {
    let _no_drain = DRAIN.lock();
    let before = PERCPU.gate_open.swap(cpus, Ordering::Relaxed);
    open_gate();
    before
}

/// Keeps sections that begin from now on from running, in all threads, until [`release_gate`].
#[cfg(all(feature = "os", target_arch = "x86_64"))]
pub(crate) fn hold_gate() {
    let _no_drain = DRAIN.lock();
    HOLDS.store(HOLDS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    PERCPU.gate.store(0, Ordering::SeqCst);
}

/// Undoes one [`hold_gate`].
#[cfg(all(feature = "os", target_arch = "x86_64"))]
pub(crate) fn release_gate() {
    let _no_drain = DRAIN.lock();
    HOLDS.store(HOLDS.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    open_gate();
}

/// In the child of a fork no other thread holds the gate.
pub(crate) fn after_fork_in_child() {
    if HOLDS.swap(0, Ordering::Relaxed) != 0 {
        open_gate();
    }
}

/// Empties a slot that nobody else can touch.
fn take_slot(cpu: CpuId, offset: u16, empty: [usize; 2], take: &mut impl FnMut(CpuId, u16, [usize; 2])) {
    let slot = PERCPU.slot(cpu, offset);
    let empty = side_order(cpu, offset, empty);
    // SAFETY: the slot lies in the committed areas, and the caller has it to itself (CPU lock, or all sections
    // stopped); volatile because the sections are assembly.
    let words = unsafe {
        let words = [slot.read_volatile(), slot.add(1).read_volatile()];
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

#[cfg(all(feature = "os", target_arch = "x86_64"))]
fn fence() -> bool {
    !super::FAIL_FENCE.load(Ordering::Relaxed) && super::rseq::fence()
}
#[cfg(not(all(feature = "os", target_arch = "x86_64")))]
fn fence() -> bool {
    false
}

/// The fallback without membarrier; see the module.
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
        // A CPU with nothing in these slots need not be visited. The look is racy, as any drain is
        // against threads that go on allocating.
        // SAFETY: reads words of the committed areas.
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
            // Another thread on this CPU may change the slot between the look and the exchange; look again.
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
        (0..PERCPU.cpus.load(Ordering::Relaxed)).for_each(|cpu| visit(lock::lock_word(CpuId(cpu))));
    }
}
