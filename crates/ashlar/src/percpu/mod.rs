//! Layer 2, CPU-local sections: each CPU's two sheaves for each cache, and the sections that access
//! them.
//!
//! * [`sheaf`]: a stack of object pointers, handled by the address of its top entry.
//! * [`area`]: the layout of each CPU's slots.
//! * `sections`: the critical sections by rseq, for x86-64 and aarch64.
//! * `rseq`: finds or makes a thread's rseq registration.
//! * [`lock`]: the portable section, a try-lock for each CPU.
//! * `plain`: sections as plain code, in a kernel; [`cpu_word`] and `remote` drain them.
//! * `bias`: the same lock, taken on its own CPU by a plain store.
//! * [`drain`]: takes the sheaves of all CPUs from one thread.
//! * [`pages`]: per-CPU lists of free page runs, in front of the zone.
//!
//! ## Modes
//!
//! | mode | what protects a slot | when |
//! |---|---|---|
//! | rseq | the kernel aborts interrupted sections | x86-64 and aarch64 Linux with rseq and membarrier |
//! | section | nothing else runs on the CPU | in a kernel, by its [`Platform`](crate::Platform) |
//! | lock | a try-lock for each CPU | everywhere else, or `percpu=lock` |
//! | emulate | nothing: one thread only | `percpu=emulate`, to count instructions without rseq |
//!
//! Callers have four operations on *this CPU's slot*: [`pop`] and [`push`] of one object, [`read`]
//! of both sheaves, and [`exchange`] of both sheaves if they have not changed since the read.
//!
//! Each operation may find the slot *unavailable*: a drain is running, the lock is taken, the slot
//! is closed, or the CPU has no area. Then the engine works without sheaves. No operation blocks.

pub(crate) mod area;
mod bias;
mod cpu;
#[cfg(not(feature = "os"))]
pub(crate) mod cpu_word;
pub(crate) mod drain;
mod fence;
pub(crate) mod lock;
mod mode;
#[cfg(not(ashlar_loom))]
pub(crate) mod pages;
#[cfg(not(feature = "os"))]
pub(crate) mod plain;
#[cfg(not(feature = "os"))]
pub(crate) mod remote;
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) mod rseq;
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) mod sections;
pub(crate) mod sheaf;

use crate::base::sync::Ordering;
use crate::base::units::CpuId;
use area::{PERCPU, null_top};
pub(crate) use bias::Irq;
pub(crate) use cpu::{this_cpu, this_cpu_quick};
pub(crate) use fence::FAIL_FENCE;
pub use mode::Mode;
pub(crate) use mode::mode;
use sheaf::Sheaf;

/// The mode that start-up asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Rseq where it works. Skips the self-test if the kernel describes its rseq area, because such
    /// a kernel aborts sections.
    Auto,
    /// Rseq if the self-test shows that sections are aborted.
    Tested,
    Lock,
    Emulate,
}

/// Chooses the mode and opens the gate. Called once, after the areas are mapped. Returns false
/// without memory for what the mode needs.
pub(crate) fn start(wanted: Wanted, irq: Irq) -> bool {
    let mode = choose(wanted);
    #[cfg(not(feature = "os"))]
    if mode == Mode::Section && !remote::start() {
        return false;
    }
    mode::set(mode);
    bias::choose(irq);
    if mode != Mode::Lock {
        let cpus = PERCPU.cpus.load(Ordering::Relaxed);
        PERCPU.gate_open.store(cpus, Ordering::Relaxed);
        PERCPU.gate.store(cpus, Ordering::Release);
    }
    true
}

#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
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
#[cfg(not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn choose(wanted: Wanted) -> Mode {
    let _ = wanted;
    #[cfg(not(feature = "os"))]
    if crate::base::sync::section::platform().is_some() {
        return Mode::Section;
    }
    Mode::Lock
}

/// This CPU's slot of a cache, as of one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) cpu: CpuId,
    /// Top of the main sheaf, or of the null sheaf if there is none.
    pub(crate) main: usize,
    /// Top of the spare sheaf, or of the null sheaf if there is none.
    pub(crate) spare: usize,
}

impl View {
    fn of(cpu: CpuId, offset: u16, words: [usize; 2]) -> View {
        let [main, spare] = area::side_order(cpu, offset, words);
        View { cpu, main, spare }
    }
}

/// Returns every CPU that has an area.
pub(crate) fn all_cpus() -> impl Iterator<Item = CpuId> {
    (0..PERCPU.cpus.load(Ordering::Relaxed)).map(CpuId)
}

/// Returns the address of CPU 0's slot at `offset`, which the critical sections take.
#[inline(always)]
pub(crate) fn slot0(offset: u16) -> usize {
    PERCPU.base.load(Ordering::Relaxed) + usize::from(offset)
}

/// Attempts at the slot before an operation does without it. Each failed attempt means that another
/// thread on this CPU made progress.
pub(crate) const ATTEMPTS: usize = 8;

/// Returns true for the top of an empty sheaf. The answer may be stale.
#[inline]
pub(crate) fn is_empty(top: usize) -> bool {
    #[expect(unsafe_code, reason = "reads a sheaf")]
    // SAFETY: a top points to a word of a sheaf, and sheaves are never unmapped. A stale top gives
    // a stale answer, and the exchange that follows then fails.
    let word = unsafe { (top as *const usize).read_volatile() };
    word == 0
}

/// Returns true for the top of a full sheaf, and for the null sheaf.
#[inline]
pub(crate) fn is_full(top: usize) -> bool {
    #[expect(unsafe_code, reason = "reads a sheaf")]
    // SAFETY: the word before a top belongs to the same sheaf, and sheaves are never unmapped.
    // Another CPU may write it; then the answer is stale and the exchange that follows fails.
    let before = unsafe { (top as *const usize).sub(1).read_volatile() };
    before & sheaf::FULL_BIT != 0
}

/// Returns true for the top of a sheaf that is at least half full.
#[inline]
pub(crate) fn has_half(top: usize) -> bool {
    if top == area::null_top() {
        return false;
    }
    #[expect(unsafe_code, reason = "reads a sheaf")]
    // SAFETY: a top points into a sheaf, and sheaves are never unmapped. Only the address and the
    // info word are read. The handle does not own the sheaf, and it has no destructor.
    let sheaf = unsafe { Sheaf::from_top(top) };
    2 * sheaf.len() >= sheaf.capacity()
}

/// Takes the top object of this CPU's main sheaf. Returns 0 if the sheaf is empty or the slot is
/// unavailable.
#[inline]
pub(crate) fn pop(offset: u16) -> usize {
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if mode() != Mode::Lock {
        let pop = if area::is_sided(offset) { sections::pop_sided } else { sections::pop };
        return pop(slot0(offset), sections::rseq_offset());
    }
    with_main(offset, |sheaf| sheaf.pop().unwrap_or(0)).unwrap_or(0)
}

/// Puts an object on this CPU's main sheaf. Returns false if it is full or the slot is unavailable.
#[inline]
pub(crate) fn push(offset: u16, object: usize) -> bool {
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if mode() != Mode::Lock {
        let push = if area::is_sided(offset) { sections::push_sided } else { sections::push };
        return push(slot0(offset), sections::rseq_offset(), object);
    }
    with_main(offset, |sheaf| sheaf.push(object)).unwrap_or(false)
}

/// Takes up to `out.len()` objects off this CPU's main sheaf. Returns their number, 0 if the slot
/// is unavailable.
#[inline]
pub(crate) fn pop_batch(offset: u16, out: &mut [usize]) -> usize {
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if mode() != Mode::Lock {
        if area::is_sided(offset) {
            // Bulk calls are rare on sided slots, so one object at a time is enough.
            let objects = core::iter::repeat_with(|| pop(offset)).take_while(|&object| object != 0);
            return out.iter_mut().zip(objects).map(|(one, object)| *one = object).count();
        }
        return sections::bulk::pop_batch(slot0(offset), sections::rseq_offset(), out);
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

/// Puts the first of `objects` on this CPU's main sheaf. Returns how many fitted, 0 if the slot is
/// unavailable.
#[inline]
pub(crate) fn push_batch(offset: u16, objects: &[usize]) -> usize {
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if mode() != Mode::Lock {
        if area::is_sided(offset) {
            return objects.iter().take_while(|&&object| push(offset, object)).count();
        }
        return sections::bulk::push_batch(slot0(offset), sections::rseq_offset(), objects);
    }
    // Push in reverse, so that the first lies on top, as the section leaves them.
    with_main(offset, |sheaf| {
        let fit = &objects[..objects.len().min(sheaf.free())];
        fit.iter().rev().take_while(|&&object| sheaf.push(object)).count()
    })
    .unwrap_or(0)
}

/// Runs `f` on this CPU's slot at `offset`, in a section of the kernel below, or under the portable
/// lock; `None` if the slot is unavailable.
#[inline]
pub(crate) fn with_slot<R>(offset: u16, f: impl FnOnce(CpuId, &mut [usize; 2]) -> R) -> Option<R> {
    #[cfg(not(feature = "os"))]
    if mode() == Mode::Section {
        return plain::with_slot(offset, f);
    }
    let cpu = lock::this_cpu();
    lock::with_slot(cpu, offset, |slot| f(cpu, slot))
}

/// Whether critical sections in assembly protect the slots.
#[inline]
pub(crate) fn by_assembly() -> bool {
    cfg!(feature = "os") && mode() != Mode::Lock
}

/// Keeps other CPUs' sections away from here on, so that drains under the returned value do not
/// have to wait for them with a lock held. Only the mode `section` needs that.
#[inline]
pub(crate) fn before_drains() -> impl Sized {
    #[cfg(not(feature = "os"))]
    return remote::stop_all();
}

/// Runs `f` on the main sheaf under the portable lock. The null sheaf is both empty and full, so it
/// may be passed to `f`.
#[inline]
fn with_main<R>(offset: u16, f: impl FnOnce(&mut Sheaf) -> R) -> Option<R> {
    with_slot(offset, |cpu, slot| {
        let [main, spare] = area::side_order(cpu, offset, *slot);
        #[expect(unsafe_code, reason = "owns the slot's sheaf while it holds the lock")]
        // SAFETY: the slot's main word is the top of a sheaf that the slot owns. The CPU lock makes
        // this thread its owner until the top is stored back below.
        let mut sheaf = unsafe { Sheaf::from_top(main) };
        let result = f(&mut sheaf);
        *slot = area::side_order(cpu, offset, [sheaf.into_top(), spare]);
        result
    })
}

/// Reads this CPU's slot as of one moment; `None` if it is unavailable.
#[inline(never)]
pub(crate) fn read(offset: u16) -> Option<View> {
    read_any(offset).filter(|view| view.main != area::closed()[0])
}

/// As [`read`], of a slot that is never closed, because its words are no sheaves.
#[inline]
pub(crate) fn read_any(offset: u16) -> Option<View> {
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if mode() != Mode::Lock {
        let (cpu, words) = sections::read(slot0(offset))?;
        return Some(View::of(CpuId(cpu), offset, words));
    }
    with_slot(offset, |cpu, slot| View::of(cpu, offset, *slot))
}

/// Makes `main` and `spare` this CPU's sheaves if the slot still matches `view` and the thread
/// still runs on that CPU. On true, the caller owns the sheaves of the view that are not in the new
/// pair.
#[inline]
pub(crate) fn exchange(offset: u16, view: &View, main: usize, spare: usize) -> bool {
    let old = area::side_order(view.cpu, offset, [view.main, view.spare]);
    let new = area::side_order(view.cpu, offset, [main, spare]);
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if mode() != Mode::Lock {
        return sections::exchange(slot0(offset), view.cpu.0, old, new);
    }
    #[cfg(not(feature = "os"))]
    if mode() == Mode::Section {
        let exchanged = plain::with_slot(offset, |cpu, slot| {
            let same = cpu == view.cpu && *slot == old;
            if same {
                *slot = new;
            }
            same
        });
        return exchanged.unwrap_or(false);
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

/// Registers the thread with rseq if the allocator registers threads itself; in a kernel, does what
/// other CPUs asked this one for. Called on slow paths, without a lock.
/// Returns true if it registered the thread just now, so the caller may retry the fast path.
#[inline]
pub(crate) fn adopt_thread() -> bool {
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if mode() == Mode::Rseq {
        return rseq::register_thread();
    }
    #[cfg(not(feature = "os"))]
    if mode() == Mode::Section {
        remote::serve();
    }
    false
}

/// Turns the top address of a slot into an owned sheaf; `None` for the null sheaf.
///
/// # Safety
/// The caller owns the sheaf: it has just exchanged it out of a slot.
#[expect(unsafe_code, reason = "turns an address into its owner")]
pub(crate) unsafe fn owned(top: usize) -> Option<Sheaf> {
    if top == null_top() {
        return None;
    }
    // SAFETY: the caller owns the sheaf, by the contract of this function.
    Some(unsafe { Sheaf::from_top(top) })
}
