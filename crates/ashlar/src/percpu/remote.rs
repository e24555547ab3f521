//! Drains of other CPUs where sections are plain code, in a kernel: the mode `section`.
//!
//! | step | what it does |
//! |---|---|
//! | 1. raises the stops of all CPUs | sections that begin later leave, and work without sheaves |
//! | 2. [`Platform::fence`](crate::Platform::fence) | waits until none runs that began before |
//! | 3. takes the words of the slots | under the words lock, one slot at a time |
//! | 4. lowers the stops | |
//!
//! No lock is held in step 2, and no CPU waits for a drain. Callers that hold the registry lock
//! while they drain have done steps 1 and 2 before, by [`stop_all`].
//!
//! Where the fence is refused, a drain still empties the CPUs that are dead, and its own. It asks
//! the others, by a bit for each slot, to do it themselves. They do at the next slow path, which is
//! the next call at all: the request keeps their sections away, too. Idle CPUs do it in
//! [`crate::poll`].
//!
//! Lock: the *words lock*, held while the two words of a slot are replaced. No other lock is taken
//! under it.
#![allow(unsafe_code, reason = "takes over raw per-CPU slots")]

use super::area::{AREA_BYTES, PERCPU, SLOT_BYTES, side_order};
use super::cpu::this_cpu;
use super::mode::{Mode, mode};
use super::plain::{take_own, word};
use crate::base::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, SpinLock, section};
use crate::base::units::CpuId;
use crate::pages::meta::META;

/// Words of the requests of one CPU: a bit for each slot of its area.
const WORDS: usize = AREA_BYTES / SLOT_BYTES / 64;

static ONE_AT_A_TIME: SpinLock<()> = SpinLock::new(());
/// The requests, [`WORDS`] for each CPU.
static REQUESTS: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// The number of [`Stopped`] whose fence is done.
static STOPPED: AtomicU32 = AtomicU32::new(0);
/// The function that empties the slots that a CPU was asked for, or 0.
static SERVE: AtomicUsize = AtomicUsize::new(0);

/// Makes the table of requests. Returns false without memory for it.
pub(super) fn start() -> bool {
    let cpus = PERCPU.cpus.load(Ordering::Relaxed) as usize;
    let Some(zeroed) = META.alloc(cpus * WORDS * size_of::<AtomicU64>(), align_of::<AtomicU64>()) else { return false };
    REQUESTS.store(zeroed.as_ptr().cast(), Ordering::Release);
    true
}

/// Registers the function that [`serve`] calls.
pub(crate) fn set_serve(serve: fn(CpuId)) {
    SERVE.store(serve as usize, Ordering::Release);
}

/// Returns the word and the bit of the request for a slot.
fn request(cpu: CpuId, offset: u16) -> (&'static AtomicU64, u64) {
    let slot = usize::from(offset) / SLOT_BYTES;
    // SAFETY: `start` made an array of so many words for each CPU, which is never freed.
    let word = unsafe { &*REQUESTS.load(Ordering::Acquire).add(cpu.0 as usize * WORDS + slot / 64) };
    (word, 1 << (slot % 64))
}

/// Asks a CPU to empty a slot.
fn ask(cpu: CpuId, offset: u16) {
    let (requests, bit) = request(cpu, offset);
    requests.fetch_or(bit, Ordering::SeqCst);
    word(cpu).ask();
}

/// Keeps the requests of a CPU that [`serve`] could not meet.
pub(crate) fn ask_again(cpu: CpuId) {
    word(cpu).ask();
}

/// Returns whether a CPU was asked to empty a slot, and takes the request away.
fn take_request(cpu: CpuId, offset: u16) -> bool {
    let (requests, bit) = request(cpu, offset);
    requests.load(Ordering::Relaxed) & bit != 0 && requests.fetch_and(!bit, Ordering::SeqCst) & bit != 0
}

/// Empties the slots that this CPU was asked for. Called without a lock, on slow paths.
#[inline]
pub(crate) fn serve() {
    let cpu = this_cpu();
    if word(cpu).take_request() {
        serve_now(cpu);
    }
}

#[cold]
#[inline(never)]
fn serve_now(cpu: CpuId) {
    let serve = SERVE.load(Ordering::Acquire);
    if serve != 0 {
        // SAFETY: `set_serve` stored a function of this type, and nothing else is stored.
        let serve: fn(CpuId) =
            unsafe { core::mem::transmute::<*const (), fn(CpuId)>(core::ptr::with_exposed_provenance(serve)) };
        serve(cpu);
    }
}

/// Keeps all sections away while it lives. No section runs.
pub(crate) struct Stopped(());

/// Keeps sections away from the slots of all CPUs, and waits for those that run; `None` if the
/// platform refuses to wait, which it does with interrupts off, or if the mode is another.
#[inline(never)]
pub(crate) fn stop_all() -> Option<Stopped> {
    if mode() != Mode::Section {
        return None;
    }
    let mut running = 0;
    all_cpus().for_each(|cpu| running += u32::from(!word(cpu).stop()));
    // One CPU that runs is this one, and this thread is in no section.
    //
    // Another `Stopped` whose fence is done serves as well. It was alive when its count was read,
    // and kept sections away until then. The stops above keep them away from then on, because they
    // come before that read, and it lowers its own after it has lowered the count.
    let reached = running <= 1
        || STOPPED.load(Ordering::SeqCst) != 0
        || section::platform().is_some_and(|platform| platform.fence());
    if !reached {
        resume_all();
        return None;
    }
    STOPPED.fetch_add(1, Ordering::SeqCst);
    Some(Stopped(()))
}

fn resume_all() {
    all_cpus().for_each(|cpu| word(cpu).resume());
}

impl Drop for Stopped {
    fn drop(&mut self) {
        STOPPED.fetch_sub(1, Ordering::SeqCst);
        resume_all();
    }
}

fn all_cpus() -> impl Iterator<Item = CpuId> {
    (0..PERCPU.cpus.load(Ordering::Relaxed)).map(CpuId)
}

/// Empties a slot that no section accesses, and passes what it held to `take`, without the lock.
/// Other drains may come for the same slot.
fn take_alone(cpu: CpuId, offset: u16, empty: [usize; 2], take: &mut impl FnMut(CpuId, u16, [usize; 2])) {
    let slot = PERCPU.slot(cpu, offset).cast::<[usize; 2]>();
    let empty = side_order(cpu, offset, empty);
    let one_at_a_time = ONE_AT_A_TIME.lock();
    // SAFETY: the slot lies in the committed areas. No section accesses it, and the lock keeps
    // other drains away.
    let words = unsafe { slot.replace(empty) };
    drop(one_at_a_time);
    if words != empty {
        take(cpu, offset, side_order(cpu, offset, words));
    }
}

/// See [`super::drain::drain_words`]. Runs `take` outside of the section.
pub(super) fn drain_words(offsets: &[u16], empty: [usize; 2], take: &mut impl FnMut(CpuId, u16, [usize; 2])) -> bool {
    if let Some(_stopped) = stop_all() {
        for cpu in all_cpus() {
            offsets.iter().for_each(|&offset| take_alone(cpu, offset, empty, take));
        }
        return true;
    }
    let mut all = true;
    for cpu in all_cpus() {
        for &offset in offsets {
            all &= drain_slot(cpu, offset, empty, take) || !ask_if_used(cpu, offset, empty);
        }
    }
    all
}

/// Why a single CPU is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It is this one, which was asked to.
    Asked,
    /// It is dead.
    Dead,
}

/// Empties a slot of one CPU, if there is the cause for it. If it was asked to and cannot at this
/// moment, the request stays.
pub(crate) fn drain_for(
    cause: Cause,
    cpu: CpuId,
    offset: u16,
    empty: [usize; 2],
    mut take: impl FnMut(CpuId, u16, [usize; 2]),
) {
    if (cause == Cause::Dead || take_request(cpu, offset)) && !drain_slot(cpu, offset, empty, &mut take) {
        ask(cpu, offset);
    }
}

/// As [`drain_words`], of one CPU: a dead one, or this one. Returns false if it is neither, or if
/// another drain is at work on this CPU.
fn drain_slot(cpu: CpuId, offset: u16, empty: [usize; 2], take: &mut impl FnMut(CpuId, u16, [usize; 2])) -> bool {
    let dead = word(cpu).stop();
    if dead {
        take_alone(cpu, offset, empty, take);
    }
    word(cpu).resume();
    if dead {
        return true;
    }
    let Some(words) = take_own(cpu, offset, empty) else { return false };
    if words != empty {
        take(cpu, offset, words);
    }
    true
}

/// Asks a CPU to empty a slot. Returns false if the slot seems to be empty.
fn ask_if_used(cpu: CpuId, offset: u16, empty: [usize; 2]) -> bool {
    let slot = PERCPU.slot(cpu, offset);
    // SAFETY: reads words of the committed areas, which their CPU may write at the same time; it
    // does by single stores.
    let words = unsafe { [slot.read_volatile(), slot.add(1).read_volatile()] };
    // In any case, because a section that runs may be about to fill the slot.
    ask(cpu, offset);
    words != side_order(cpu, offset, empty)
}

/// Notes that a CPU does not run any more.
pub(crate) fn set_dead(cpu: CpuId) {
    word(cpu).set_dead();
}

/// Notes that a CPU is about to run.
pub(crate) fn set_online(cpu: CpuId) {
    word(cpu).set_online();
}

/// Returns the CPU of a number that the platform gave; `None` if it has no area, or if there is no
/// platform.
pub(crate) fn cpu_of(number: u32) -> Option<CpuId> {
    (mode() == Mode::Section && number < PERCPU.cpus.load(Ordering::Relaxed)).then_some(CpuId(number))
}
