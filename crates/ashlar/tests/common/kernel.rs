//! A machine under a pretended kernel: a [`Platform`] whose CPUs are tokens, and whose threads move
//! between them and are interrupted wherever a kernel may do so.
//!
//! A host thread is a thread of the pretended kernel. It runs only while it holds a CPU's token.
//! Each begin and end of a section that is not inside another is a place where the kernel may act.
//! Between two such places a thread has no section, so an interrupt in between is the same as one
//! at either end, but for what other CPUs do, and they run at the same time anyway.
//!
//! What the kernel does at a place is decided by random numbers from a seed, or by a plan that
//! names one place and one event.
#![allow(dead_code, reason = "each test file uses only some of it")]

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use core::time::Duration;
use std::sync::{Condvar, Mutex, OnceLock};

use super::common::{Rng, check, fill};
use ashlar::{ArenaSource, CacheArgs, KmemCache, PageSource, Platform};

pub(crate) const NO_CPU: u32 = u32::MAX;

/// The pretended machine.
pub(crate) struct Machine {
    /// One more than the highest number of a CPU.
    numbers: u32,
    /// The numbers of the CPUs that no thread holds.
    pub(crate) idle: Mutex<Vec<u32>>,
    freed: Condvar,
    /// The thread in a section on each CPU; 0 for none.
    in_section: Vec<AtomicUsize>,
    /// The sections that have ended on each CPU.
    ended: Vec<AtomicUsize>,
    nodes: u32,
    /// Whether drains may wait for the sections of other CPUs.
    fences: bool,
}

/// What the kernel does at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An interrupt handler allocates and frees.
    Interrupt,
    /// The thread loses its CPU and runs on another.
    Move,
    /// The thread moves, and the CPU that it was on dies.
    Death,
    /// Another thread runs on this CPU, and drains all caches.
    Drain,
}

thread_local! {
    pub(crate) static CPU: Cell<u32> = const { Cell::new(NO_CPU) };
    pub(crate) static DEPTH: Cell<u32> = const { Cell::new(0) };
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    /// The number of the thread that the kernel runs in the midst of this one; 0 for none.
    static OTHER_THREAD: Cell<usize> = const { Cell::new(0) };
    pub(crate) static CHANCE: RefCell<Option<Rng>> = const { RefCell::new(None) };
    pub(crate) static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) };
    /// The place of the event that the plan names, and the event.
    pub(crate) static PLAN: Cell<Option<(usize, Event)>> = const { Cell::new(None) };
    /// The places since the plan was made.
    pub(crate) static PLACES: Cell<usize> = const { Cell::new(0) };
}

/// One in this many places has an interrupt, and one a move to another CPU.
const EVERY: usize = 12;

/// What happened, counted, so that a run without it does not pass for one with it.
pub(crate) static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);
pub(crate) static MOVES: AtomicUsize = AtomicUsize::new(0);
pub(crate) static FENCES: AtomicUsize = AtomicUsize::new(0);
pub(crate) static REFUSED: AtomicUsize = AtomicUsize::new(0);
pub(crate) static DEATHS: AtomicUsize = AtomicUsize::new(0);
/// The machine, if each thread gets a CPU at its first call.
pub(crate) static GIVES: OnceLock<&'static Machine> = OnceLock::new();
/// The time of the machine in milliseconds; 0 if it has no clock.
pub(crate) static CLOCK: AtomicU64 = AtomicU64::new(0);
/// How often a random number was asked for.
pub(crate) static RANDOM: AtomicUsize = AtomicUsize::new(0);
pub(crate) static DRAINS: AtomicUsize = AtomicUsize::new(0);

impl Machine {
    pub(crate) fn new(cpus: &[u32], nodes: u32, fences: bool) -> &'static Machine {
        let numbers = cpus.iter().max().expect("a CPU") + 1;
        let zeros = || (0..numbers).map(|_| AtomicUsize::new(0)).collect();
        Box::leak(Box::new(Machine {
            numbers,
            idle: Mutex::new(cpus.to_vec()),
            freed: Condvar::new(),
            in_section: zeros(),
            ended: zeros(),
            nodes,
            fences,
        }))
    }

    /// Waits for a CPU.
    pub(crate) fn take_cpu(&self) {
        let mut idle = self.idle.lock().expect("no panic under it");
        while idle.is_empty() {
            idle = self.freed.wait(idle).expect("no panic under it");
        }
        let at = below(idle.len());
        CPU.set(idle.swap_remove(at));
    }

    pub(crate) fn give_cpu(&self) {
        self.give(CPU.replace(NO_CPU));
    }

    fn give(&self, cpu: u32) {
        self.idle.lock().expect("no panic under it").push(cpu);
        self.freed.notify_one();
    }

    /// What the kernel may do where interrupts are on.
    fn place(&self) {
        if IN_HANDLER.get() || OTHER_THREAD.get() != 0 {
            return;
        }
        let place = PLACES.replace(PLACES.get() + 1);
        if let Some((at, event)) = PLAN.get()
            && at == place
        {
            self.happen(event);
        }
        if CHANCE.with_borrow(Option::is_none) {
            return;
        }
        if below(EVERY) == 0 {
            self.happen(Event::Interrupt);
        }
        if below(EVERY) == 0 {
            self.happen(Event::Move);
        }
    }

    fn happen(&self, event: Event) {
        match event {
            Event::Interrupt => self.interrupt(),
            Event::Move => {
                let moves = MOVES.fetch_add(1, Ordering::Relaxed);
                self.give_cpu();
                // On a loaded host each time would cost a slice of the host's scheduler.
                if moves.is_multiple_of(64) {
                    std::thread::yield_now();
                }
                self.take_cpu();
            }
            Event::Death => {
                let before = CPU.get();
                self.take_cpu();
                self.by_another_thread(|| lose(before));
                self.give(before);
            }
            Event::Drain => {
                DRAINS.fetch_add(1, Ordering::Relaxed);
                self.by_another_thread(|| _ = ashlar::reap());
            }
        }
    }

    /// Runs `f` as another thread that the kernel lets run on this CPU.
    fn by_another_thread(&self, f: impl FnOnce()) {
        let stack = 0u64;
        OTHER_THREAD.set(&raw const stack as usize);
        f();
        OTHER_THREAD.set(0);
    }

    /// Runs the handler, with interrupts off.
    fn interrupt(&self) {
        let Some(mut handler) = HANDLER.with_borrow_mut(Option::take) else { return };
        INTERRUPTS.fetch_add(1, Ordering::Relaxed);
        IN_HANDLER.set(true);
        handler.run();
        IN_HANDLER.set(false);
        HANDLER.set(Some(handler));
    }

    /// Whether no thread is in a section.
    pub(crate) fn is_quiet(&self) -> bool {
        DEPTH.get() == 0 && self.in_section.iter().all(|cpu| cpu.load(Ordering::Relaxed) == 0)
    }

    /// Runs a thread that takes CPUs away from the others, and brings them back, until `end`.
    pub(crate) fn take_cpus_away(&self, end: &AtomicUsize) {
        while end.load(Ordering::Relaxed) == 0 {
            self.take_cpu();
            let lost = CPU.get();
            self.take_cpu();
            lose(lost);
            self.give(lost);
            self.give_cpu();
            // The others run meanwhile.
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Has each CPU do what it was asked for. The calling thread has one, and no other thread runs.
    pub(crate) fn poll_everywhere(&self) {
        let all: Vec<u32> = self.idle.lock().expect("no panic").clone();
        let own = CPU.get();
        for cpu in all.into_iter().chain([own]) {
            CPU.set(cpu);
            ashlar::poll();
        }
    }
}

/// Gives a thread that has no CPU one until its end, on a machine that does so.
fn begin() {
    struct Taken(&'static Machine);
    impl Drop for Taken {
        fn drop(&mut self) {
            self.0.give_cpu();
        }
    }
    thread_local! {
        static TAKEN: RefCell<Option<Taken>> = const { RefCell::new(None) };
    }
    if CPU.get() == NO_CPU
        && let Some(machine) = GIVES.get()
    {
        machine.take_cpu();
        TAKEN.set(Some(Taken(machine)));
    }
}

/// A CPU that the caller holds, but does not run on, dies and comes back.
fn lose(cpu: u32) {
    assert_ne!(cpu, CPU.get());
    DEATHS.fetch_add(1, Ordering::Relaxed);
    assert!(ashlar::cpu_dead(cpu));
    ashlar::for_each_cache(|cache| assert!(cache.usage.live <= cache.usage.objects, "{}", cache.name()));
    assert!(ashlar::cpu_online(cpu));
}

/// A random number below `n`, of this thread.
fn below(n: usize) -> usize {
    CHANCE.with_borrow_mut(|chance| chance.as_mut().map_or(0, |chance| chance.below(n)))
}

fn me() -> usize {
    let other = OTHER_THREAD.get();
    if other != 0 { other } else { CPU.with(|cpu| core::ptr::from_ref(cpu).addr()) }
}

// SAFETY: a thread has its CPU's token for itself, and gives it up only outside of sections. The
// address of a thread-local variable is a multiple of 4, and no other thread's. `fence` returns
// true only when it has seen each CPU outside of sections, or a section end there.
unsafe impl Platform for Machine {
    fn cpus(&self) -> u32 {
        self.numbers
    }
    fn this_cpu(&self) -> u32 {
        begin();
        let cpu = CPU.get();
        assert_ne!(cpu, NO_CPU, "a thread runs without a CPU");
        cpu
    }
    fn this_thread(&self) -> usize {
        me()
    }
    fn enter(&self) -> u32 {
        if DEPTH.get() == 0 {
            begin();
            self.place();
            let before = self.in_section[CPU.get() as usize].swap(me(), Ordering::Acquire);
            assert_eq!(before, 0, "two sections on a CPU");
        }
        DEPTH.set(DEPTH.get() + 1);
        CPU.get()
    }
    unsafe fn leave(&self) {
        DEPTH.set(DEPTH.get().checked_sub(1).expect("a section"));
        if DEPTH.get() == 0 {
            let cpu = CPU.get() as usize;
            self.ended[cpu].fetch_add(1, Ordering::Release);
            let before = self.in_section[cpu].swap(0, Ordering::Release);
            assert_eq!(before, me(), "the section is of another thread");
            self.place();
        }
    }
    fn fence(&self) -> bool {
        if !self.fences || DEPTH.get() > 0 || IN_HANDLER.get() {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        FENCES.fetch_add(1, Ordering::Relaxed);
        self.place();
        fence(Ordering::SeqCst);
        for (section, ended) in self.in_section.iter().zip(&self.ended) {
            let before = ended.load(Ordering::Acquire);
            while section.load(Ordering::Acquire) != 0 && ended.load(Ordering::Acquire) == before {
                std::thread::yield_now();
                self.place();
            }
        }
        fence(Ordering::SeqCst);
        self.place();
        true
    }
    fn nodes(&self) -> u32 {
        self.nodes
    }
    fn node_of_cpu(&self, cpu: u32) -> u32 {
        cpu % self.nodes
    }
    fn relax(&self) {
        assert!(!(DEPTH.get() > 0 && IN_HANDLER.get() && self.in_section.len() == 1), "one CPU waits for itself");
        std::thread::yield_now();
    }
    fn print(&self, line: &str) {
        eprint!("{line}");
    }
    fn clock_ms(&self) -> Option<u64> {
        Some(CLOCK.load(Ordering::Relaxed)).filter(|&now| now != 0)
    }
    fn random(&self) -> Option<u64> {
        RANDOM.fetch_add(1, Ordering::Relaxed);
        Some(0x9D5C_3A17_66E1_0F2B)
    }
}

/// An object in use: its address and size, and its number, which its bytes are filled by.
pub(crate) struct Live(NonNull<u8>, usize, u64, From);

#[derive(Clone, Copy)]
enum From {
    Cache(&'static KmemCache),
    Kmalloc,
}

/// Objects and what is done with them, by a thread or by its handler.
pub(crate) struct Handler {
    pub(crate) rng: Rng,
    pub(crate) live: Vec<Live>,
    caches: Vec<&'static KmemCache>,
    most: usize,
}

/// Objects that go from one CPU to another.
pub(crate) static PASSED: Mutex<Vec<Live>> = Mutex::new(Vec::new());
// SAFETY: an object is memory with one owner.
unsafe impl Send for Live {}

impl Handler {
    pub(crate) fn new(seed: u64, caches: &[&'static KmemCache], most: usize) -> Handler {
        Handler { rng: Rng::new(seed), live: Vec::with_capacity(most + 8), caches: caches.to_vec(), most }
    }

    /// Allocates, frees and checks a few objects.
    pub(crate) fn run(&mut self) {
        for _ in 0..1 + self.rng.below(4) {
            if self.live.len() < self.most && self.rng.below(5) < 3 {
                self.allocate();
            } else if !self.live.is_empty() {
                let object = self.live.swap_remove(self.rng.below(self.live.len()));
                self.part_with(object);
            }
        }
    }

    fn allocate(&mut self) {
        let number = self.rng.next();
        let (at, size, from) = match self.rng.below(self.caches.len() + 1) {
            0 => {
                let most = if self.rng.below(30) == 0 { 20_000 } else { 500 };
                let size = 1 + self.rng.below(most);
                (NonNull::new(ashlar::kmalloc(size)), size, From::Kmalloc)
            }
            at => (self.caches[at - 1].alloc(), 72, From::Cache(self.caches[at - 1])),
        };
        let at = at.expect("the arena is large");
        // SAFETY: memory that was just allocated.
        unsafe { fill(at.as_ptr(), size, number) };
        self.live.push(Live(at, size, number, from));
    }

    /// Frees an object, or gives it to another thread and frees one of another. The list has no
    /// place in a handler: its lock may be held by what the handler interrupts.
    fn part_with(&mut self, object: Live) {
        let mut object = object;
        if !IN_HANDLER.get() && self.rng.below(3) == 0 {
            let mut passed = PASSED.lock().expect("no panic under it");
            passed.push(object);
            let at = self.rng.below(passed.len());
            object = passed.swap_remove(at);
        }
        free(object);
    }
}

/// Checks an object and frees it.
pub(crate) fn free(Live(at, size, number, from): Live) {
    // SAFETY: live, with `size` bytes, and freed once.
    unsafe {
        check(at.as_ptr(), size, size, number);
        match from {
            From::Cache(cache) => cache.free(at),
            From::Kmalloc => ashlar::kfree(at.as_ptr()),
        }
    }
}

/// Starts the allocator on a machine with `bytes` bytes of memory. The caller's thread has a CPU
/// then.
pub(crate) fn start(machine: &'static Machine, bytes: usize) {
    let memory = NonNull::new(vec![0u8; bytes].leak().as_mut_ptr()).expect("not null");
    // SAFETY: leaked, zeroed memory with no other user.
    start_on(machine, Box::leak(Box::new(unsafe { ArenaSource::new(memory, bytes) })));
}

/// As [`start`], on a page source.
pub(crate) fn start_on(machine: &'static Machine, source: &'static dyn PageSource) {
    machine.take_cpu();
    assert_eq!(ashlar::start_on_cpus(source, machine), Ok(true));
    assert!(ashlar::start_on_cpus(source, machine).is_err(), "a second start");
    assert_eq!(ashlar::mode(), ashlar::Mode::Section);
    assert!(RANDOM.load(Ordering::Relaxed) > 0, "the keys of free links are not random");
}

/// Makes a cache for the rest of the process.
pub(crate) fn cache(name: &str) -> &'static KmemCache {
    let cache = KmemCache::create(name, 72, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
    Box::leak(Box::new(cache))
}

/// Asserts that no cache has an object in use. Then empties all caches, and asserts that no slab is
/// left.
pub(crate) fn nothing_is_lost(machine: &Machine) {
    ashlar::for_each_cache(|cache| assert_eq!(cache.usage.live, 0, "{}", cache.name()));
    ashlar::reap();
    // Without fences the other CPUs have been asked only now.
    machine.poll_everywhere();
    ashlar::reap();
    ashlar::for_each_cache(|c| assert_eq!((c.usage.live, c.usage.slabs), (0, 0), "{} keeps something", c.name()));
    assert!(machine.is_quiet());
}
