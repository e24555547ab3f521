//! One measured process of `ashlar simulate`: it measures on two CPUs, with one engine, what the
//! model needs to know.
//!
//! Two threads, each pinned to a CPU, go through the same list of steps ([`Cpu::script`]). Where
//! one CPU works alone the other sleeps, so that it disturbs nothing: a barrier of the standard
//! library parts the passes of a step, and one that spins starts what both do at once. What CPU 0
//! measured counts.

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Barrier;
use std::time::Instant;

use ashlar::{Counts, LockProbe};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::experiments::simulate::plan::measured::{Answer, Measured, Plan, Polled};
use crate::kit::error::LabError;
use crate::kit::measure::{SpinBarrier, allowed_cpus, pin, ticks};
use crate::kit::output;
use crate::kit::statistics::median;

/// Passes of a step that are not counted.
const WARMING: usize = 2;
/// Passes of a step: at least so many more, and as many as begin within [`STEP`].
const PASSES: usize = 5;
const STEP: Duration = Duration::from_millis(12);
/// How long the observer looks, for each size.
const OBSERVED: Duration = Duration::from_millis(40);
/// Ticks between two looks: so many at least, and at most twice as many.
const PAUSE: u64 = 700;
/// Looks of a poller at the lock between two at whether it is done.
const LOOKS: usize = 64;
/// Pauses of a holder between two takings.
const PAUSE_OF_HOLDER: usize = 4;
/// Objects of a turn in which one CPU frees what the other allocated.
const HANDED_OVER: usize = 250;

/// Entry of the hidden command.
pub(crate) fn main(plan: &str) -> Result<(), LabError> {
    let bad = |error: serde_json::Error| LabError::Usage(format!("simulate-child: `{plan}` is no plan: {error}"));
    let plan: Plan = serde_json::from_str(plan).map_err(bad)?;
    let cpus = allowed_cpus();
    let [first, second, ..] = cpus[..] else {
        return Err(LabError::Failed("simulate-child: expected two CPUs".to_owned()));
    };
    let shared = Shared::new(plan.objects);
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(second);
            serve(1, &shared, &plan);
        });
        pin(first);
        serve(0, &shared, &plan)
    });
    let text = serde_json::to_string(&answer).map_err(|error| LabError::Failed(error.to_string()))?;
    output::print(&(text + "\n"))
}

/// All steps of one thread.
fn serve(me: usize, shared: &Shared, plan: &Plan) -> Answer {
    let sizes = plan.sizes.iter().map(|&size| Cpu { me, shared, size }.script(plan.seed)).collect();
    let polled = Polled { one_line: shared.polled(me, 0), apart: shared.polled(me, APART) };
    Answer { sizes, polled, line: shared.line(me) }
}

/// What both threads see.
struct Shared {
    /// Parts the passes; who waits sleeps.
    step: Barrier,
    /// Starts what both do at the same time.
    start: SpinBarrier,
    /// The objects of each CPU.
    objects: [Box<[AtomicPtr<u8>]>; 2],
    /// Whether one more pass follows, as CPU 0 decides.
    more: AtomicBool,
    /// What the observer is to look at.
    watch: AtomicUsize,
    /// Looks, those that found list_lock held, and those that found the zone lock held: at
    /// allocations, at frees.
    looks: [[AtomicUsize; 3]; 2],
    /// Whose turn it is.
    turn: AtomicUsize,
    /// A lock's word, and behind it the lines of what it guards.
    guarded: Guarded,
}

/// Words of four lines: the first is a lock. Two lines belong together, because processors fetch
/// pairs.
#[repr(align(128))]
struct Guarded([AtomicUsize; 32]);

/// Words between a lock and what it guards, where the two are apart.
const APART: usize = 16;
/// Words that a holder changes, as one that takes an entry off a list does.
const CHANGED: usize = 3;

/// Values of `watch`; between them are the two halves of a pass.
const ALLOCATIONS: usize = 0;
const FREES: usize = 1;
const NOTHING: usize = 2;
const LEAVE: usize = 3;

impl Shared {
    fn new(objects: usize) -> Self {
        let slots = || (0..objects).map(|_| AtomicPtr::new(core::ptr::dangling_mut())).collect();
        Self {
            step: Barrier::new(2),
            start: SpinBarrier::new(2, false),
            objects: [slots(), slots()],
            more: AtomicBool::new(false),
            watch: AtomicUsize::new(NOTHING),
            looks: Default::default(),
            turn: AtomicUsize::new(0),
            guarded: Guarded(Default::default()),
        }
    }

    /// Ticks of one handover of a line.
    fn line(&self, me: usize) -> f64 {
        const ROUNDS: usize = 20_000;
        self.turn.store(0, Ordering::Relaxed);
        self.step.wait();
        self.start.wait();
        let start = ticks();
        for _ in 0..ROUNDS {
            self.await_turn(me);
            self.turn.store(1 - me, Ordering::Release);
        }
        // Each round is a handover to the other CPU and one back.
        (ticks() - start) as f64 / (2 * ROUNDS) as f64
    }

    /// Ticks that a poller adds to a taking of a lock whose holder changes words `distance` words
    /// behind it: CPU 0 takes the lock, and CPU 1 polls it or sleeps. Medians of several blocks.
    fn polled(&self, me: usize, distance: usize) -> f64 {
        const BLOCKS: usize = 15;
        const ROUNDS: usize = 1000;
        let lock = &self.guarded.0[0];
        let takings = || {
            let start = ticks();
            for _ in 0..ROUNDS {
                while lock.swap(1, Ordering::Acquire) != 0 {}
                for word in &self.guarded.0[1 + distance..=CHANGED + distance] {
                    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                }
                lock.store(0, Ordering::Release);
                // The next taking comes when the poller has seen this one.
                (0..PAUSE_OF_HOLDER).for_each(|_| core::hint::spin_loop());
            }
            (ticks() - start) as f64 / ROUNDS as f64
        };
        let (mut alone, mut polled) = (Vec::new(), Vec::new());
        for _ in 0..BLOCKS {
            self.step.wait();
            self.watch.store(NOTHING, Ordering::Relaxed);
            if me == 0 {
                alone.push(takings());
            }
            self.start.wait();
            if me == 0 {
                polled.push(takings());
                self.watch.store(LEAVE, Ordering::Relaxed);
            }
            while me == 1 && self.watch.load(Ordering::Relaxed) != LEAVE {
                for _ in 0..LOOKS {
                    black_box(lock.load(Ordering::Relaxed));
                    core::hint::spin_loop();
                }
            }
        }
        if me == 0 { (median(&polled) - median(&alone)).max(0.0) } else { 0.0 }
    }

    fn await_turn(&self, me: usize) {
        let mut looks = 0u32;
        while self.turn.load(Ordering::Acquire) != me {
            core::hint::spin_loop();
            looks = looks.wrapping_add(1);
            // The other thread's CPU may be running another process.
            if looks.is_multiple_of(10_000) {
                std::thread::yield_now();
            }
        }
    }

    /// CPU 0 decides whether both go on.
    fn go_on(&self, me: usize, more: bool) -> bool {
        if me == 0 {
            self.more.store(more, Ordering::Relaxed);
        }
        self.step.wait();
        let more = self.more.load(Ordering::Relaxed);
        // No thread decides again before both have read.
        self.step.wait();
        more
    }
}

/// One of the two threads, at one size.
#[derive(Clone, Copy)]
struct Cpu<'a> {
    me: usize,
    shared: &'a Shared,
    size: usize,
}

impl Cpu<'_> {
    /// All steps for one size. The result of CPU 1 is of no use.
    fn script(self, seed: u64) -> Measured {
        let mut found = Measured { size: self.size, ..Measured::default() };
        [found.alloc.alone, found.free.alone] = self.repeat(|| self.alone());
        self.count(&mut found);
        self.observe(seed, &mut found);
        let whole = self.whole();
        let chunk = match found.alloc.list_locks + found.alloc.zone_locks {
            rare if rare * whole as f64 <= 2.0 => whole / 2,
            locks => (1.0 / locks) as usize,
        };
        // Both threads cut alike: CPU 0 tells.
        if self.me == 0 {
            self.shared.watch.store(chunk.clamp(1, whole), Ordering::Relaxed);
        }
        self.shared.step.wait();
        let chunk = self.shared.watch.load(Ordering::Relaxed);
        [found.alloc.by_turns_alone, found.free.by_turns_alone] = self.repeat(|| self.turns_alone(chunk));
        [found.alloc.by_turns, found.free.by_turns] = self.repeat(|| self.turns(chunk));
        [found.alloc.both, found.free.both] = self.repeat(|| self.both());
        [_, found.remote_free] = self.repeat(|| self.handed_over(HANDED_OVER.min(whole)));
        [_, found.remote_free_cold] = self.repeat(|| self.handed_over(whole));
        [_, found.remote_free_test] = self.repeat(|| self.handed_over(whole));
        [found.alloc.alone_again, found.free.alone_again] = self.repeat(|| self.alone());
        found
    }

    /// Passes of one step; medians of the ticks of both halves, for one object.
    fn repeat(&self, once: impl Fn() -> [u64; 2]) -> [f64; 2] {
        let (mut halves, start) = ([Vec::new(), Vec::new()], Instant::now());
        loop {
            self.shared.step.wait();
            let ticks = once();
            for (half, ticks) in halves.iter_mut().zip(ticks) {
                half.push(ticks as f64 / self.whole() as f64);
            }
            let few = halves[0].len() < WARMING + PASSES;
            if !self.shared.go_on(self.me, few || start.elapsed() < STEP) {
                return halves.map(|half| median(&half[WARMING..]));
            }
        }
    }

    /// Objects of a CPU and pass.
    fn whole(&self) -> usize {
        self.shared.objects[0].len()
    }

    fn slots(&self, of: usize) -> &[AtomicPtr<u8>] {
        &self.shared.objects[of]
    }

    /// Fills slots with objects and writes a byte of each; ticks of all of it.
    fn fill(&self, slots: &[AtomicPtr<u8>]) -> u64 {
        let size = black_box(self.size);
        let start = ticks();
        for slot in slots {
            let object = ashlar::kmalloc(size);
            assert!(!object.is_null(), "an allocation of {size} bytes failed");
            // SAFETY: fresh, of at least one byte, and this thread's.
            unsafe { object.write_volatile(22) };
            slot.store(object, Ordering::Relaxed);
        }
        ticks() - start
    }

    /// Writes a byte of each object in the slots and frees it; ticks of all of it.
    fn drain(&self, slots: &[AtomicPtr<u8>]) -> u64 {
        let start = ticks();
        for slot in slots {
            let object = slot.load(Ordering::Relaxed);
            // SAFETY: `fill` put a live object into this slot, before something that ordered it
            // before this: the program, a barrier, or a turn. Each fill is followed by one drain,
            // so it is freed once.
            unsafe {
                object.write_volatile(23);
                ashlar::kfree(object);
            }
        }
        ticks() - start
    }

    /// Test A and B, on CPU 0; the other one sleeps at the next barrier.
    fn alone(&self) -> [u64; 2] {
        if self.me == 1 {
            return [0, 0];
        }
        [self.fill(self.slots(0)), self.drain(self.slots(0))]
    }

    /// Locks for an operation.
    fn count(&self, found: &mut Measured) {
        const COUNTED: usize = 3;
        if self.me == 1 {
            return;
        }
        let mut sums = [[0u64; 3]; 2];
        for _ in 0..COUNTED {
            let before = counts();
            self.fill(self.slots(0));
            let between = counts();
            self.drain(self.slots(0));
            let after = counts();
            for kind in 0..3 {
                sums[ALLOCATIONS][kind] += between[kind].wrapping_sub(before[kind]);
                sums[FREES][kind] += after[kind].wrapping_sub(between[kind]);
            }
        }
        for (operation, sum) in [&mut found.alloc, &mut found.free].into_iter().zip(sums) {
            let of_one = |kind: usize| sum[kind] as f64 / (COUNTED * self.whole()) as f64;
            (operation.list_locks, operation.zone_locks, operation.other_locks) = (of_one(0), of_one(1), of_one(2));
        }
    }

    /// CPU 0 works and CPU 1 looks at its locks now and then.
    fn observe(&self, seed: u64, found: &mut Measured) {
        let shared = self.shared;
        shared.looks.iter().flatten().for_each(|looks| looks.store(0, Ordering::Relaxed));
        shared.watch.store(NOTHING, Ordering::Relaxed);
        shared.step.wait();
        if self.me == 1 {
            self.look(seed);
            shared.step.wait();
            return;
        }
        let (mut spent, mut passes, start) = ([0u64; 2], 0, Instant::now());
        while passes < PASSES || start.elapsed() < OBSERVED {
            shared.watch.store(ALLOCATIONS, Ordering::Relaxed);
            spent[ALLOCATIONS] += self.fill(self.slots(0));
            shared.watch.store(FREES, Ordering::Relaxed);
            spent[FREES] += self.drain(self.slots(0));
            shared.watch.store(NOTHING, Ordering::Relaxed);
            passes += 1;
        }
        shared.watch.store(LEAVE, Ordering::Relaxed);
        // The word is put to other uses: the observer has left by then.
        shared.step.wait();
        let operations = (passes * self.whole()) as f64;
        for (half, operation) in [&mut found.alloc, &mut found.free].into_iter().enumerate() {
            let [looks, list, zone] = shared.looks[half].each_ref().map(|looks| looks.load(Ordering::Relaxed) as f64);
            let hold = |seen: f64, locks: f64| {
                let taken = locks * operations;
                if taken > 0.0 && looks > 0.0 { seen / looks * spent[half] as f64 / taken } else { 0.0 }
            };
            operation.list_hold = hold(list, operation.list_locks);
            operation.zone_hold = hold(zone, operation.zone_locks);
        }
    }

    /// The observer.
    fn look(&self, seed: u64) {
        let (shared, mut numbers) = (self.shared, Pcg64Mcg::seed_from_u64(seed ^ self.size as u64));
        let probe = LockProbe::new(self.size);
        loop {
            // Pauses of one length could keep step with what is looked at.
            let until = ticks() + PAUSE + numbers.random_range(0..PAUSE);
            while ticks() < until {
                core::hint::spin_loop();
            }
            let half = shared.watch.load(Ordering::Relaxed);
            if half == LEAVE {
                return;
            }
            let seen = probe.map(|probe| probe.look()).unwrap_or_default();
            if half == NOTHING || shared.watch.load(Ordering::Relaxed) != half {
                continue;
            }
            for (count, seen) in shared.looks[half].iter().zip([true, seen.list, seen.zone]) {
                count.store(count.load(Ordering::Relaxed) + usize::from(seen), Ordering::Relaxed);
            }
        }
    }

    /// CPU 0 works in chunks; the other waits for a turn that comes when all are done.
    fn turns_alone(&self, chunk: usize) -> [u64; 2] {
        let shared = self.shared;
        if self.me == 1 {
            shared.await_turn(1);
            shared.turn.store(0, Ordering::Relaxed);
            return [0, 0];
        }
        let filled = self.slots(0).chunks(chunk).map(|chunk| self.fill(chunk)).sum();
        let drained = self.slots(0).chunks(chunk).map(|chunk| self.drain(chunk)).sum();
        shared.turn.store(1, Ordering::Release);
        [filled, drained]
    }

    /// Both work in chunks, by turns: what is more than alone is what lines cost that moved.
    fn turns(&self, chunk: usize) -> [u64; 2] {
        let (shared, slots) = (self.shared, self.slots(self.me));
        let in_turn = |work: &dyn Fn(&[AtomicPtr<u8>]) -> u64| {
            let mut spent = 0;
            for part in slots.chunks(chunk) {
                shared.await_turn(self.me);
                spent += work(part);
                shared.turn.store(1 - self.me, Ordering::Release);
            }
            spent
        };
        [in_turn(&|part| self.fill(part)), in_turn(&|part| self.drain(part))]
    }

    /// Test D, and its frees.
    fn both(&self) -> [u64; 2] {
        self.shared.start.wait();
        let filled = self.fill(self.slots(self.me));
        self.shared.start.wait();
        let drained = self.drain(self.slots(self.me));
        self.shared.start.wait();
        [filled, drained]
    }

    /// CPU 1 allocates and CPU 0 frees, by turns of `chunk` objects: with all at once, test F.
    fn handed_over(&self, chunk: usize) -> [u64; 2] {
        let shared = self.shared;
        // CPU 1 begins.
        if self.me == 0 {
            shared.turn.store(1, Ordering::Relaxed);
        }
        shared.start.wait();
        let mut spent = [0, 0];
        for part in self.slots(1).chunks(chunk) {
            shared.await_turn(self.me);
            if self.me == 1 {
                spent[ALLOCATIONS] += self.fill(part);
            } else {
                spent[FREES] += self.drain(part);
            }
            shared.turn.store(1 - self.me, Ordering::Release);
        }
        if self.me == 0 {
            shared.turn.store(0, Ordering::Relaxed);
        }
        spent
    }
}

/// list_locks, zone locks, and all others taken so far.
fn counts() -> [u64; 3] {
    let counts: Counts = ashlar::total_counts();
    [counts.list_locks, counts.zone_locks, counts.locks() - counts.list_locks - counts.zone_locks]
}
