//! The lab's tests, which are those of the kernel's test module:
//!
//! | test | what is timed |
//! |---|---|
//! | A, B | one CPU allocates; and frees the same objects |
//! | C | one CPU allocates and frees at once |
//! | D, D-free | all CPUs allocate; and free |
//! | E | all CPUs allocate and free at once |
//! | F-alloc, F | all CPUs but the first allocate; the first frees all of it |
//!
//! Each line has the ticks from the moment the first CPU began to the moment the last one was done,
//! and the operations of all CPUs. Before the passes that are printed, two are not.

use alloc::boxed::Box;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::machine::clock::ticks;
use crate::machine::cpus::{Work, run_on_all};
use crate::machine::interrupts;
use crate::options::Options;
use crate::say;
use crate::systems::{Handle, System};

/// Passes that warm up.
const WARMING: usize = 2;

/// The objects of a CPU.
pub struct Slots(Box<[AtomicPtr<u8>]>);

impl Slots {
    pub fn new(objects: usize) -> Slots {
        Slots((0..objects).map(|_| AtomicPtr::new(core::ptr::null_mut())).collect())
    }
}

/// A phase that CPUs begin together, and when the first began and the last ended.
struct Phase {
    waiting: AtomicUsize,
    start: AtomicU64,
    end: AtomicU64,
}

impl Phase {
    fn new() -> Phase {
        Phase { waiting: AtomicUsize::new(0), start: AtomicU64::new(u64::MAX), end: AtomicU64::new(0) }
    }

    /// Waits for `cpus` CPUs, and then does `body`, timed.
    fn run(&self, cpus: usize, body: impl FnOnce()) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        while self.waiting.load(Ordering::Acquire) < cpus {
            core::hint::spin_loop();
        }
        self.start.fetch_min(ticks(), Ordering::Relaxed);
        body();
        self.end.fetch_max(ticks(), Ordering::Relaxed);
    }

    fn ticks(&self) -> u64 {
        self.end.load(Ordering::Relaxed) - self.start.load(Ordering::Relaxed)
    }
}

/// Allocates an object for each slot, and touches it. False without memory.
#[inline(never)]
fn fill<H: Handle>(handle: H, slots: &Slots) -> bool {
    for slot in &slots.0 {
        let object = black_box(handle.alloc());
        slot.store(object, Ordering::Relaxed);
        if object.is_null() {
            return false;
        }
        // SAFETY: an object of at least one byte, which is this CPU's.
        unsafe { object.write_volatile(22) };
    }
    true
}

/// Touches and frees what `fill` stored, in the same order.
///
/// # Safety
/// `fill` ran on the slots with a handle of this system and size, and this follows.
#[inline(never)]
unsafe fn drain<H: Handle>(handle: H, slots: &Slots) {
    for slot in &slots.0 {
        let object = slot.load(Ordering::Relaxed);
        if object.is_null() {
            break;
        }
        // SAFETY: a live object of at least one byte; each slot is taken once.
        unsafe {
            object.write_volatile(23);
            handle.free(object);
        }
    }
}

/// Allocates and frees at once. False without memory.
#[inline(never)]
fn pairs<H: Handle>(handle: H, count: usize) -> bool {
    for _ in 0..count {
        let object = black_box(handle.alloc());
        if object.is_null() {
            return false;
        }
        // SAFETY: just allocated, of at least one byte, freed once.
        unsafe {
            object.write_volatile(12);
            handle.free(object);
        }
    }
    true
}

/// What is done on each CPU, with its number.
type Body<'a> = dyn Fn(usize) + Sync + 'a;

/// The tests of one pass with two phases, or one: their names, and how many CPUs work in each.
struct Test<'a> {
    names: &'a [(&'static str, usize)],
    /// Does the phase of this number on a CPU. False without memory.
    body: &'a (dyn Fn(usize, usize) -> bool + Sync),
}

/// Runs all tests with objects of `size`.
pub fn of_size<S: System>(system: &S, size: usize, slots: &[Slots], options: &Options) {
    let handle = || system.handle(size);
    let count = options.objects;
    let cpus = slots.len();
    let drained = |slots: &Slots| {
        // SAFETY: in each test `fill` ran on these slots in the phase before, which all CPUs have
        // ended.
        unsafe { drain(handle(), slots) };
        true
    };
    let one: [Test<'_>; 2] = [
        Test {
            names: &[("A", 1), ("B", 1)],
            body: &|_, phase| if phase == 0 { fill(handle(), &slots[0]) } else { drained(&slots[0]) },
        },
        Test { names: &[("C", 1)], body: &|_, _| pairs(handle(), count) },
    ];
    for test in one {
        let on_one = |body: &Body<'_>| {
            interrupts::tick(true);
            body(0);
            interrupts::tick(false);
        };
        measure::<S>(&test, size, 1, options, &on_one);
    }
    if cpus == 1 {
        return;
    }
    let all: [Test<'_>; 3] = [
        Test {
            names: &[("D", cpus), ("D-free", cpus)],
            body: &|cpu, phase| if phase == 0 { fill(handle(), &slots[cpu]) } else { drained(&slots[cpu]) },
        },
        Test { names: &[("E", cpus)], body: &|_, _| pairs(handle(), count) },
        Test {
            names: &[("F-alloc", cpus - 1), ("F", cpus - 1)],
            body: &|cpu, phase| match (cpu, phase) {
                (0, 0) => true,
                (_, 0) => fill(handle(), &slots[cpu]),
                (0, _) => slots[1..].iter().all(drained),
                _ => true,
            },
        },
    ];
    for test in all {
        let on_all = |body: &Body<'_>| run_on_all(&Work(body));
        measure::<S>(&test, size, cpus, options, &on_all);
    }
}

/// Runs the passes of a test by `run`, which calls its argument on each CPU, and prints them.
fn measure<S: System>(test: &Test<'_>, size: usize, cpus: usize, options: &Options, run: &dyn Fn(&Body<'_>)) {
    let start = ticks();
    for pass in 0..WARMING + options.passes {
        let phases = [Phase::new(), Phase::new()];
        let complete = AtomicBool::new(true);
        run(&|cpu| {
            for (number, phase) in phases.iter().enumerate().take(test.names.len()) {
                phase.run(cpus, || {
                    if !(test.body)(cpu, number) {
                        complete.store(false, Ordering::Relaxed);
                    }
                });
            }
            // No CPU goes back to where it halts while another one is timed.
            phases[0].waiting.fetch_add(1, Ordering::AcqRel);
            while phases[0].waiting.load(Ordering::Acquire) < 2 * cpus {
                core::hint::spin_loop();
            }
        });
        if !complete.load(Ordering::Relaxed) {
            say!("full {} {} {size}", S::NAME, test.names[0].0);
            return;
        }
        let late = ticks() - start > options.limit;
        if pass >= WARMING || late {
            for ((name, working), phase) in test.names.iter().zip(&phases) {
                say!("pass {} {name} {size} {cpus} {} {}", S::NAME, working * options.objects, phase.ticks());
            }
        }
        if late {
            return;
        }
    }
}
