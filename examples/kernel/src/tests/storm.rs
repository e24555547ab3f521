//! Work at random: all CPUs allocate, free, and hand objects to one another, and timer interrupts
//! do the same in their midst. Every object is filled with a pattern of its own, which is checked
//! before it is freed.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spin::Mutex;
use x86_64::instructions::interrupts::without_interrupts;

use crate::machine::clock::{Watch, ticks};
use crate::machine::cpus::{Work, run_on_all};
use crate::machine::{interrupts, memory};
use crate::options::Options;
use crate::say;
use crate::systems::{Handle, System};

/// Objects that a CPU holds outside of interrupts, and in them.
const HELD: usize = 256;
const HELD_IN_INTERRUPTS: usize = 32;
/// Objects that wait for a CPU, at most.
const MAIL: usize = 64;
/// Steps between two looks at the clock.
const LOOK: usize = 512;

/// An object and what it is filled with.
struct Object {
    at: *mut u8,
    size: usize,
    stamp: u64,
}

// SAFETY: an object belongs to the CPU that has this.
unsafe impl Send for Object {}

impl Object {
    fn words(&self) -> impl Iterator<Item = (*mut u64, u64)> {
        let (at, stamp) = (self.at.cast::<u64>(), self.stamp);
        (0..self.size / 8).map(move |word| (at.wrapping_add(word), stamp.wrapping_mul(word as u64 | 1)))
    }

    fn fill(&self) {
        // SAFETY: the words of an object that this CPU has.
        self.words().for_each(|(at, value)| unsafe { at.write_volatile(value) });
    }

    fn is_whole(&self) -> bool {
        // SAFETY: as in `fill`.
        self.words().all(|(at, value)| unsafe { at.read_volatile() } == value)
    }
}

/// Numbers that look random, by the method that is called xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 32) as usize * end) >> 32
    }
}

/// What one CPU does outside of interrupts, or in them.
struct Player {
    held: Vec<Option<Object>>,
    random: Random,
}

impl Player {
    fn new(held: usize, seed: u64) -> Player {
        Player { held: (0..held).map(|_| None).collect(), random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) }
    }
}

/// What a CPU has: its players, its mail, and a map on the global allocator.
struct Place {
    outside: Mutex<Player>,
    inside: Mutex<Player>,
    mail: Mutex<Vec<Object>>,
    map: Mutex<BTreeMap<usize, Vec<usize>>>,
}

/// What was counted.
#[derive(Default)]
struct Counted {
    allocated: AtomicU64,
    in_interrupts: AtomicU64,
    elsewhere: AtomicU64,
    local: AtomicU64,
    refused: AtomicU64,
    damaged: AtomicU64,
}

fn add(to: &AtomicU64) {
    to.fetch_add(1, Ordering::Relaxed);
}

struct Storm<'a, S> {
    system: &'a S,
    sizes: &'a [usize],
    /// The node of each CPU.
    nodes: &'a [u32],
    places: Vec<Place>,
    counted: Counted,
}

impl<S: System> Storm<'_, S> {
    fn free(&self, object: Object) {
        if !object.is_whole() {
            add(&self.counted.damaged);
        }
        // SAFETY: from a handle of this size, and nothing else has it.
        unsafe { self.system.handle(object.size).free(object.at) };
    }

    fn allocate(&self, cpu: usize, random: &mut Random) -> Option<Object> {
        let size = self.sizes[random.below(self.sizes.len())];
        let object = Object { at: self.system.handle(size).alloc(), size, stamp: random.next() };
        if object.at.is_null() {
            add(&self.counted.refused);
            return None;
        }
        object.fill();
        add(&self.counted.allocated);
        if memory::node_of(object.at.addr()).is_some_and(|node| u32::from(node) == self.nodes[cpu]) {
            add(&self.counted.local);
        }
        Some(object)
    }

    /// Frees an object and allocates one in its place, or hands it over, or takes one that was
    /// handed over.
    fn step(&self, cpu: usize, player: &mut Player) {
        let slot = player.random.below(player.held.len());
        match (player.held[slot].take(), player.random.below(4)) {
            (Some(object), 0) => {
                let to = player.random.below(self.places.len());
                // The room was made before, so nothing allocates under the lock.
                let refused = without_interrupts(|| {
                    let mut mail = self.places[to].mail.lock();
                    if mail.len() < MAIL {
                        mail.push(object);
                        None
                    } else {
                        Some(object)
                    }
                });
                if let Some(object) = refused {
                    self.free(object);
                }
            }
            (Some(object), _) => self.free(object),
            (None, 0) => {
                let taken = without_interrupts(|| self.places[cpu].mail.lock().pop());
                if let Some(object) = taken {
                    add(&self.counted.elsewhere);
                    self.free(object);
                }
            }
            (None, _) => player.held[slot] = self.allocate(cpu, &mut player.random),
        }
    }

    /// Inserts a list into the CPU's map, or takes one out and checks it.
    fn collect(&self, cpu: usize, random: &mut Random) {
        let mut map = self.places[cpu].map.lock();
        let key = random.below(128);
        match map.remove(&key) {
            Some(list) => {
                if !list.iter().all(|&value| value == key) {
                    add(&self.counted.damaged);
                }
            }
            None => {
                map.insert(key, vec![key; 1 + random.below(64)]);
            }
        }
    }
}

/// Runs the storm for as long as the options say. Returns whether every object was whole.
pub fn run<S: System>(system: &S, options: &Options, nodes: &[u32]) -> bool {
    let place = |cpu: usize| Place {
        outside: Mutex::new(Player::new(HELD, options.seed + 2 * cpu as u64)),
        inside: Mutex::new(Player::new(HELD_IN_INTERRUPTS, options.seed + 2 * cpu as u64 + 1)),
        mail: Mutex::new(Vec::with_capacity(MAIL)),
        map: Mutex::new(BTreeMap::new()),
    };
    let places = (0..nodes.len()).map(place).collect();
    let storm = Storm { system, sizes: &options.sizes, nodes, places, counted: Counted::default() };
    let over = AtomicBool::new(false);
    let in_interrupt = |cpu: usize| {
        // Nothing else takes this lock while interrupts come.
        let mut player = storm.places[cpu].inside.lock();
        for _ in 0..4 {
            storm.step(cpu, &mut player);
            add(&storm.counted.in_interrupts);
        }
    };
    let outside = |cpu: usize| {
        let mut watch = Watch::new();
        let mut player = storm.places[cpu].outside.lock();
        while !over.load(Ordering::Relaxed) {
            for _ in 0..LOOK {
                storm.step(cpu, &mut player);
                if S::GLOBAL && player.random.below(16) == 0 {
                    storm.collect(cpu, &mut player.random);
                }
            }
            if cpu == 0 && (options.seconds == 0 || watch.seconds() > options.seconds) {
                over.store(true, Ordering::Relaxed);
            }
        }
    };
    let handler = Work(&in_interrupt);
    let before = interrupts::TIMERS.load(Ordering::Relaxed);
    let start = ticks();
    // SAFETY: set to nothing below, and then all CPUs run something else, with their timers on.
    unsafe { interrupts::on_timer(Some(&handler)) };
    run_on_all(&Work(&outside));
    // SAFETY: there is no work.
    unsafe { interrupts::on_timer(None) };
    let took = ticks() - start;
    // Each CPU frees what it has.
    run_on_all(&Work(&|cpu| {
        let place = &storm.places[cpu];
        place.map.lock().clear();
        for player in [&place.outside, &place.inside] {
            player.lock().held.iter_mut().filter_map(Option::take).for_each(|object| storm.free(object));
        }
        let mail = core::mem::take(&mut *place.mail.lock());
        mail.into_iter().for_each(|object| storm.free(object));
    }));
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    let counted = &storm.counted;
    let damaged = count(&counted.damaged);
    say!(
        "storm {} allocated={} elsewhere={} interrupts={} in_interrupts={} local={} refused={} damaged={damaged} ticks={took}",
        S::NAME,
        count(&counted.allocated),
        count(&counted.elsewhere),
        interrupts::TIMERS.load(Ordering::Relaxed) - before,
        count(&counted.in_interrupts),
        count(&counted.local),
        count(&counted.refused),
    );
    damaged == 0
}
