//! Layer 3, CPU-local sections: each CPU's two sheaves for each cache, and how code gets at them.
//!
//! * [`sheaf`]: a stack of object pointers, handled by the address of its top entry.
//! * [`area`]: where each CPU's slots lie.
//! * `sections`: the critical sections of x86-64, by rseq; `rseq`: finding or making the registration.
//! * [`lock`]: the portable section, a try-lock for each CPU.
//! * `linked`: the sections of engines whose CPUs have a slab each, not sheaves.
//! * [`drain`]: taking the sheaves of all CPUs from one thread.
//! * [`pages`]: free runs of pages that a CPU keeps before the zone.
//!
//! ## Modes
//!
//! | mode | who protects a slot | when |
//! |---|---|---|
//! | rseq | the kernel aborts interrupted sections | x86-64 Linux with rseq and membarrier |
//! | lock | a try-lock for each CPU | everywhere else, or `percpu=lock` |
//! | emulate | nobody: one thread only | `percpu=emulate`, for instruction counts under tools without rseq |
//!
//! Callers see four operations on *this CPU's slot*: [`pop`] and [`push`] of one object, [`read`] of both
//! sheaves, and [`exchange`] of both sheaves if they are still what was read. Any of them may find the slot
//! *unavailable* (a drain is running, the lock is taken, the CPU has no area): then the engine works without
//! sheaves. Nothing here waits.

pub(crate) mod area;
#[cfg(all(feature = "os", target_arch = "x86_64"))]
pub(crate) mod bulk;
pub(crate) mod drain;
#[cfg(all(feature = "os", target_arch = "x86_64"))]
pub(crate) mod linked;
pub(crate) mod lock;
#[cfg(not(ashlar_loom))]
pub(crate) mod pages;
#[cfg(all(feature = "os", target_arch = "x86_64"))]
pub(crate) mod rseq;
#[cfg(all(feature = "os", target_arch = "x86_64"))]
pub(crate) mod sections;
pub(crate) mod sheaf;

use crate::base::sync::{AtomicU8, Ordering};
use crate::base::units::CpuId;
use area::{PERCPU, null_top};
use core::fmt;
use sheaf::Sheaf;

/// How CPU-local sections are protected in this process; see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The allocator has not started.
    Down,
    /// Restartable sequences of the kernel.
    Rseq,
    /// A try-lock for each CPU.
    Lock,
    /// Unprotected, for one thread only: a tool for counting instructions.
    Emulate,
}

#[place(cold)]
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Down => "down",
            Mode::Rseq => "rseq",
            Mode::Lock => "lock",
            Mode::Emulate => "emulate",
        })
    }
}

static MODE: AtomicU8 = AtomicU8::new(0);
/// Test switch: makes the membarrier of drains fail, so that the fallback runs.
pub(crate) static FAIL_FENCE: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

/// The mode in force.
#[inline]
pub(crate) fn mode() -> Mode {
    match MODE.load(Ordering::Relaxed) {
        1 => Mode::Rseq,
        2 => Mode::Lock,
        3 => Mode::Emulate,
        _ => Mode::Down,
    }
}

/// What the boot asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Rseq where it works; a kernel that describes its rseq to the process is believed that sections are aborted.
    Auto,
    /// Rseq where the self-test shows that sections are aborted.
    Tested,
    Lock,
    Emulate,
}

/// Chooses the mode and opens the gate. Called once, when the areas are there.
pub(crate) fn start(wanted: Wanted) {
    let mode = choose(wanted);
    MODE.store(
        match mode {
            Mode::Rseq => 1,
            Mode::Emulate => 3,
            _ => 2,
        },
        Ordering::Relaxed,
    );
    if mode != Mode::Lock {
        let cpus = PERCPU.cpus.load(Ordering::Relaxed);
        PERCPU.gate_open.store(cpus, Ordering::Relaxed);
        PERCPU.gate.store(cpus, Ordering::Release);
    }
}

#[cfg(all(feature = "os", target_arch = "x86_64"))]
fn choose(wanted: Wanted) -> Mode {
    rseq::use_own_area();
    match wanted {
        Wanted::Lock => Mode::Lock,
        Wanted::Emulate => {
            rseq::emulate();
            Mode::Emulate
        }
        Wanted::Auto | Wanted::Tested => {
            let believed = wanted == Wanted::Auto && rseq::is_described();
            if rseq::init(wanted == Wanted::Tested) && rseq::register_fence() && (believed || rseq::self_test()) {
                Mode::Rseq
            } else {
                Mode::Lock
            }
        }
    }
}
#[cfg(not(all(feature = "os", target_arch = "x86_64")))]
fn choose(_wanted: Wanted) -> Mode {
    Mode::Lock
}

/// This CPU's slot of a cache, as of one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) cpu: CpuId,
    /// Top of the main sheaf; the null sheaf's when there is none.
    pub(crate) main: usize,
    /// Top of the spare sheaf; the null sheaf's when there is none.
    pub(crate) spare: usize,
}

impl View {
    fn of(cpu: CpuId, offset: u16, words: [usize; 2]) -> View {
        let [main, spare] = area::side_order(cpu, offset, words);
        View { cpu, main, spare }
    }
}

/// Address of CPU 0's slot at `offset`: what the critical sections take.
#[inline(always)]
pub(crate) fn slot0(offset: u16) -> usize {
    PERCPU.base.load(Ordering::Relaxed) + usize::from(offset)
}

/// Attempts at the slot before an operation does without it; each failure means that another thread on this
/// CPU made progress.
pub(crate) const ATTEMPTS: usize = 8;

/// True for the top of an empty sheaf that the view's owner may look at.
#[inline]
pub(crate) fn is_empty(top: usize) -> bool {
    #[expect(unsafe_code, reason = "looks at a sheaf")]
    // SAFETY: tops point to a word of a sheaf; sheaves are never unmapped, so the worst a stale top can give
    // is a stale answer, and every use of the answer is checked by the exchange that follows.
    let word = unsafe { (top as *const usize).read_volatile() };
    word == 0
}

/// True for the top of a full sheaf, and for the null sheaf.
#[inline]
pub(crate) fn is_full(top: usize) -> bool {
    #[expect(unsafe_code, reason = "looks at a sheaf")]
    // SAFETY: the word before a top is one of the same sheaf; sheaves are never unmapped. Somebody else may write to it: then the answer is stale,
    // and the exchange that follows fails.
    let before = unsafe { (top as *const usize).sub(1).read_volatile() };
    before & sheaf::FULL_BIT != 0
}

/// True for the top of a sheaf that is at least half full.
#[inline]
pub(crate) fn has_half(top: usize) -> bool {
    if top == area::null_top() {
        return false;
    }
    #[expect(unsafe_code, reason = "looks at a sheaf")]
    // SAFETY: tops point into sheaves, which are never unmapped; only the address and the info word are looked at. The
    // handle is no owner: it has no destructor.
    let sheaf = unsafe { Sheaf::from_top(top) };
    2 * sheaf.len() >= sheaf.capacity()
}

/// Takes the top object of this CPU's main sheaf; 0 when it is empty or the slot is unavailable.
#[inline]
pub(crate) fn pop(offset: u16) -> usize {
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    if mode() != Mode::Lock {
        let pop = if area::is_sided(offset) { sections::pop_sided } else { sections::pop };
        return pop(slot0(offset), sections::rseq_offset());
    }
    with_main(offset, |sheaf| sheaf.pop().unwrap_or(0)).unwrap_or(0)
}

/// Puts an object on this CPU's main sheaf; false when it is full or the slot is unavailable.
#[inline]
pub(crate) fn push(offset: u16, object: usize) -> bool {
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    if mode() != Mode::Lock {
        let push = if area::is_sided(offset) { sections::push_sided } else { sections::push };
        return push(slot0(offset), sections::rseq_offset(), object);
    }
    with_main(offset, |sheaf| sheaf.push(object)).unwrap_or(false)
}

/// Takes up to `out.len()` objects off this CPU's main sheaf; how many (0 also when unavailable).
#[inline]
pub(crate) fn pop_batch(offset: u16, out: &mut [usize]) -> usize {
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    if mode() != Mode::Lock {
        if area::is_sided(offset) {
            // Bulks are rare for malloc's caches: one object at a time will do.
            let objects = core::iter::repeat_with(|| pop(offset)).take_while(|&object| object != 0);
            return out.iter_mut().zip(objects).map(|(one, object)| *one = object).count();
        }
        return bulk::pop_batch(slot0(offset), sections::rseq_offset(), out);
    }
    with_main(offset, |sheaf| {
        let mut n = 0;
        while n < out.len()
            && let Some(object) = sheaf.pop()
        {
            out[n] = object;
            n += 1;
        }
        n
    })
    .unwrap_or(0)
}

/// Puts the first of `objects` on this CPU's main sheaf; how many fitted (0 also when unavailable).
#[inline]
pub(crate) fn push_batch(offset: u16, objects: &[usize]) -> usize {
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    if mode() != Mode::Lock {
        if area::is_sided(offset) {
            return objects.iter().take_while(|&&object| push(offset, object)).count();
        }
        return bulk::push_batch(slot0(offset), sections::rseq_offset(), objects);
    }
    // The first one on top, as the section puts them.
    with_main(offset, |sheaf| {
        let fit = &objects[..objects.len().min(sheaf.free())];
        fit.iter().rev().take_while(|&&object| sheaf.push(object)).count()
    })
    .unwrap_or(0)
}

/// Runs `f` on the main sheaf under the portable lock. The null sheaf pops nothing and takes nothing.
#[inline]
fn with_main<R>(offset: u16, f: impl FnOnce(&mut Sheaf) -> R) -> Option<R> {
    let cpu = lock::this_cpu();
    lock::with_slot(cpu, offset, |slot| {
        let [main, spare] = area::side_order(cpu, offset, *slot);
        #[expect(unsafe_code, reason = "adopts the slot's sheaf for the length of the lock")]
        // SAFETY: the slot's main word is the top of a sheaf that belongs to this slot; the lock makes this
        // thread its owner until the top is stored back below.
        let mut sheaf = unsafe { Sheaf::from_top(main) };
        let result = f(&mut sheaf);
        *slot = area::side_order(cpu, offset, [sheaf.into_top(), spare]);
        result
    })
}

/// This CPU's slot at this moment; `None` when it is unavailable.
#[inline]
pub(crate) fn read(offset: u16) -> Option<View> {
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    if mode() != Mode::Lock {
        let (cpu, words) = sections::read(slot0(offset))?;
        return Some(View::of(CpuId(cpu), offset, words));
    }
    let cpu = lock::this_cpu();
    lock::with_slot(cpu, offset, |slot| View::of(cpu, offset, *slot))
}

/// Makes `main` and `spare` this CPU's sheaves if they are still what `view` says and the thread still runs
/// there. On true the caller owns the sheaves of the view that are not in the new pair.
#[inline]
pub(crate) fn exchange(offset: u16, view: &View, main: usize, spare: usize) -> bool {
    let old = area::side_order(view.cpu, offset, [view.main, view.spare]);
    let new = area::side_order(view.cpu, offset, [main, spare]);
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    if mode() != Mode::Lock {
        return sections::exchange(slot0(offset), view.cpu.0, old, new);
    }
    lock::with_slot(view.cpu, offset, |slot| {
        if *slot != old {
            return false;
        }
        *slot = new;
        true
    })
    .unwrap_or(false)
}

/// The CPU that this thread runs on, for choosing a node; always below the reserved areas.
#[inline]
pub(crate) fn this_cpu() -> CpuId {
    lock::this_cpu()
}

/// Called on slow paths: registers the thread with rseq where that is our business. True if it just did, so
/// that the fast path is worth another try.
#[inline]
pub(crate) fn adopt_thread() -> bool {
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    if mode() == Mode::Rseq {
        return rseq::register_thread();
    }
    false
}

/// The sheaf that a top address of a slot stands for, `None` for the null sheaf.
///
/// # Safety
/// The caller owns the sheaf: it has just exchanged it out of a slot.
#[expect(unsafe_code, reason = "turns an address into its owner")]
pub(crate) unsafe fn owned(top: usize) -> Option<Sheaf> {
    if top == null_top() {
        return None;
    }
    // SAFETY: by the caller's promise.
    Some(unsafe { Sheaf::from_top(top) })
}
