//! Several CPUs under a kernel: a [`Platform`] whose CPUs are tokens, and whose threads move
//! between them and are interrupted wherever a kernel may do so.
//!
//! A host thread is a thread of the pretended kernel. It runs only while it holds a CPU's token.
//! Each begin and end of a section that is not inside another is a place where the kernel may act:
//! it may take the CPU away, and give another one later; and it may run an interrupt handler, which
//! allocates and frees in the midst of what it interrupts. Random numbers from a seed decide.
//! Between two such places a thread has no section, so an interrupt in between is the same as one
//! at either end, but for what other CPUs do, and they run at the same time anyway.
#![cfg(not(feature = "os"))]

// Only this part of `common`, because the rest needs the feature `os`.
#[path = "common/process.rs"]
mod common;

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

use ashlar::{ArenaSource, CacheArgs, Engine, KmemCache, NodeId, Platform};
use common::{Rng, check, child, fill, is_parent};

const ARENA: usize = 256 << 20;
const NO_CPU: u32 = u32::MAX;

/// The pretended machine.
struct Machine {
    /// One more than the highest number of a CPU.
    numbers: u32,
    /// The numbers of the CPUs that no thread holds.
    idle: Mutex<Vec<u32>>,
    freed: Condvar,
    /// The thread in a section on each CPU; 0 for none.
    in_section: Vec<AtomicUsize>,
    nodes: u32,
}

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(NO_CPU) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    static CHANCE: RefCell<Option<Rng>> = const { RefCell::new(None) };
    static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) };
}

/// One in this many places has an interrupt, and one a move to another CPU.
const EVERY: usize = 12;

/// Interrupts and moves, counted, so that a run without them does not pass for one with them.
static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);
static MOVES: AtomicUsize = AtomicUsize::new(0);

impl Machine {
    fn new(cpus: &[u32], nodes: u32) -> &'static Machine {
        let numbers = cpus.iter().max().expect("a CPU") + 1;
        Box::leak(Box::new(Machine {
            numbers,
            idle: Mutex::new(cpus.to_vec()),
            freed: Condvar::new(),
            in_section: (0..numbers).map(|_| AtomicUsize::new(0)).collect(),
            nodes,
        }))
    }

    /// Waits for a CPU.
    fn take_cpu(&self) {
        let mut idle = self.idle.lock().expect("no panic under it");
        while idle.is_empty() {
            idle = self.freed.wait(idle).expect("no panic under it");
        }
        let at = below(idle.len());
        CPU.set(idle.swap_remove(at));
    }

    fn give_cpu(&self) {
        self.idle.lock().expect("no panic under it").push(CPU.replace(NO_CPU));
        self.freed.notify_one();
    }

    /// What the kernel may do where interrupts are on.
    fn place(&self) {
        if IN_HANDLER.get() || CHANCE.with_borrow(Option::is_none) {
            return;
        }
        if below(EVERY) == 0 {
            self.interrupt();
        }
        if below(EVERY) == 0 {
            MOVES.fetch_add(1, Ordering::Relaxed);
            self.give_cpu();
            std::thread::yield_now();
            self.take_cpu();
        }
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
}

/// A random number below `n`, of this thread.
fn below(n: usize) -> usize {
    CHANCE.with_borrow_mut(|chance| chance.as_mut().map_or(0, |chance| chance.below(n)))
}

fn me() -> usize {
    CPU.with(|cpu| core::ptr::from_ref(cpu).addr())
}

// SAFETY: a thread has its CPU's token for itself, and gives it up only outside of sections. The
// address of a thread-local variable is a multiple of 4, and no other thread's.
unsafe impl Platform for Machine {
    fn cpus(&self) -> u32 {
        self.numbers
    }
    fn this_cpu(&self) -> u32 {
        let cpu = CPU.get();
        assert_ne!(cpu, NO_CPU, "a thread runs without a CPU");
        cpu
    }
    fn this_thread(&self) -> usize {
        me()
    }
    fn enter(&self) {
        if DEPTH.get() == 0 {
            self.place();
            let before = self.in_section[CPU.get() as usize].swap(me(), Ordering::Acquire);
            assert_eq!(before, 0, "two sections on a CPU");
        }
        DEPTH.set(DEPTH.get() + 1);
    }
    unsafe fn leave(&self) {
        DEPTH.set(DEPTH.get().checked_sub(1).expect("a section"));
        if DEPTH.get() == 0 {
            let before = self.in_section[CPU.get() as usize].swap(0, Ordering::Release);
            assert_eq!(before, me(), "the section is of another thread");
            self.place();
        }
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
}

/// An object in use: its address and size, and its number, which its bytes are filled by.
struct Live(NonNull<u8>, usize, u64, From);

#[derive(Clone, Copy)]
enum From {
    Cache(&'static KmemCache),
    Kmalloc,
}

/// Objects and what is done with them, by a thread or by its handler.
struct Handler {
    rng: Rng,
    live: Vec<Live>,
    caches: Vec<&'static KmemCache>,
    most: usize,
}

/// Objects that go from one CPU to another.
static PASSED: Mutex<Vec<Live>> = Mutex::new(Vec::new());
// SAFETY: an object is memory with one owner.
unsafe impl Send for Live {}

impl Handler {
    fn new(seed: u64, caches: &[&'static KmemCache], most: usize) -> Handler {
        Handler { rng: Rng::new(seed), live: Vec::with_capacity(most + 8), caches: caches.to_vec(), most }
    }

    /// Allocates, frees and checks a few objects.
    fn run(&mut self) {
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

fn free(Live(at, size, number, from): Live) {
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
fn start(machine: &'static Machine, bytes: usize) {
    let memory = NonNull::new(vec![0u8; bytes].leak().as_mut_ptr()).expect("not null");
    // SAFETY: leaked, zeroed memory with no other user.
    let source = Box::leak(Box::new(unsafe { ArenaSource::new(memory, bytes) }));
    machine.take_cpu();
    assert_eq!(ashlar::start_on_cpus(source, machine), Ok(true));
    assert!(ashlar::start_on_cpus(source, machine).is_err(), "a second start");
}

/// Starts the allocator on a machine, and runs `threads` on it. In the end nothing is lost.
fn run(machine: &'static Machine, engine: &str, threads: u64, steps: usize, seed: u64) {
    // The threads of this process allocate by the allocator of the host, not by ours.
    ashlar::configure(&format!("engine={engine}")).expect("before the start");
    start(machine, ARENA);
    let cache = |name: &str| -> &'static KmemCache {
        let cache = KmemCache::create(name, 72, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        Box::leak(Box::new(cache))
    };
    let caches = [cache("one"), cache("other")];
    assert_eq!(caches[0].engine().id(), engine);
    machine.give_cpu();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                CHANCE.set(Some(Rng::new(seed * 1000 + thread)));
                machine.take_cpu();
                HANDLER.set(Some(Handler::new(seed * 7777 + thread, &caches, 20)));
                let mut own = Handler::new(seed * 99 + thread, &caches, 200);
                for step in 0..steps {
                    own.run();
                    // Drains go on beside all that.
                    match own.rng.below(400) {
                        0 => _ = caches[step % 2].shrink(),
                        1 if thread == 0 => _ = ashlar::reap(),
                        _ => {}
                    }
                }
                own.live.into_iter().for_each(free);
                let handler = HANDLER.with_borrow_mut(Option::take).expect("no handler runs");
                handler.live.into_iter().for_each(free);
                CHANCE.set(None);
                machine.give_cpu();
            });
        }
    });
    machine.take_cpu();
    PASSED.lock().expect("no panic").drain(..).for_each(free);
    for cache in caches {
        assert_eq!(cache.info().usage.live, 0, "{}", cache.name());
    }
    ashlar::reap();
    ashlar::for_each_cache(|c| assert_eq!((c.usage.live, c.usage.slabs), (0, 0), "{} keeps something", c.name()));
    let (interrupts, moves) = (INTERRUPTS.load(Ordering::Relaxed), MOVES.load(Ordering::Relaxed));
    assert!(interrupts > steps / 4 && moves > steps / 4, "{interrupts} interrupts, {moves} moves");
    assert!(DEPTH.get() == 0 && machine.in_section.iter().all(|cpu| cpu.load(Ordering::Relaxed) == 0));
}

/// The machines: numbers of CPUs, which may have holes, and the number of nodes.
const MACHINES: [(&str, &[u32], u32); 4] = [
    ("one CPU", &[0], 1),
    ("three CPUs", &[0, 1, 2], 1),
    ("numbers with holes", &[0, 3, 4, 9], 1),
    ("four nodes", &[0, 1, 2, 3, 4, 5, 6, 7], 4),
];

#[test]
fn threads_that_move_and_interrupts_lose_nothing() {
    let test = "threads_that_move_and_interrupts_lose_nothing";
    for engine in Engine::ALL.iter().map(|engine| engine.id()) {
        for (machine, cpus, nodes) in MACHINES {
            let seeds: u64 = std::env::var("ASHLAR_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number"));
            for seed in 1..=seeds {
                let outcome = child(test, &format!("{engine}, {machine}, seed {seed}"), &[], || {
                    run(Machine::new(cpus, nodes), engine, 4, 1500, seed);
                });
                let Some(outcome) = outcome else { continue };
                assert!(outcome.status.success(), "{engine}, {machine}, seed {seed}: {outcome:?}");
                outcome.succeeded();
            }
        }
    }
}

/// The memory of a CPU's node serves it, and a request for another node gets that node's.
#[test]
fn cpus_take_memory_of_their_node() {
    let outcome = child("cpus_take_memory_of_their_node", "nodes", &[], || {
        let machine = Machine::new(&[2], 4);
        start(machine, ARENA);
        assert_eq!(ashlar::nodes(), 4);
        let cache = KmemCache::create("local", 100, &CacheArgs::DEFAULT).expect("a cache");
        for _ in 0..200 {
            let object = cache.alloc().expect("memory");
            assert_eq!(ashlar::node_of(object.as_ptr()), Some(NodeId(2)));
        }
        let far = ashlar::kmalloc_on(100, NodeId(1));
        assert_eq!(ashlar::node_of(far), Some(NodeId(1)));
    });
    if let Some(outcome) = outcome {
        outcome.succeeded();
    }
}

/// What is wrong is reported by the platform, and ends the program.
#[test]
fn reports_go_to_the_platform() {
    let outcome = child("reports_go_to_the_platform", "report", &[], || {
        let machine = Machine::new(&[0], 1);
        start(machine, ARENA);
        let object = ashlar::kmalloc(64);
        // SAFETY: violated on purpose; the second free is what is tested.
        unsafe {
            ashlar::kfree(object);
            ashlar::kfree(object);
        }
        ashlar::reap();
    });
    if is_parent() {
        let outcome = outcome.expect("the parent");
        assert!(!outcome.status.success());
        assert!(outcome.stderr.contains("ashlar: cache kmalloc-64: object"), "{}", outcome.stderr);
    }
}

/// Prints what of a heap programs cannot have, for docs/kernel.md: objects of a page, and of 64
/// bytes, that fit in heaps of several sizes.
#[test]
fn most_of_a_heap_is_for_objects() {
    let test = "most_of_a_heap_is_for_objects";
    for (mib, cpus) in [(1, 1), (4, 8), (64, 8), (4096, 8)] {
        for size in [4096, 64] {
            // Objects of 64 bytes in 4 GiB would need that much memory of the host.
            if size == 64 && mib > 64 {
                continue;
            }
            let outcome = child(test, &format!("{mib} MiB, {size}"), &[], || {
                let machine = Machine::new(&[0, 1, 2, 3, 4, 5, 6, 7][..cpus], 1);
                let bytes = mib << 20;
                start(machine, bytes);
                let count = core::iter::repeat_with(|| ashlar::kmalloc(size)).take_while(|p| !p.is_null()).count();
                common::tell("part", 1000 * count * size / bytes);
            });
            let Some(outcome) = outcome.map(common::Child::succeeded) else { continue };
            let thousandths: usize = outcome.told("part").parse().expect("a number");
            println!("{mib} MiB, {cpus} CPU(s), objects of {size} bytes: {}.{} %", thousandths / 10, thousandths % 10);
            assert!(thousandths >= if mib < 16 { 500 } else { 750 }, "{mib} MiB, {size}: {thousandths}");
        }
    }
}
