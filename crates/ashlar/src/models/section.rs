//! Drains of sections that are plain code (see `percpu::remote`): the real
//! [`CpuWord`](crate::percpu::cpu_word::CpuWord), with one CPU and one slot.
//!
//! | drain | section |
//! |---|---|
//! | 1. raise the stops | a. interrupts off |
//! | 2. fence, unless the CPU is dead | b. read the word, leave unless it is 0 |
//! | 3. read the slot, take its sheaf | c. read the slot |
//! | 4. lower the stops | d. store to the slot; interrupts on |
//!
//! A lock stands for "interrupts off". Sections hold it, and the fence takes it and gives it back,
//! because that is what a platform promises: it waits until the CPU is outside of a section, what
//! the CPU stored before is seen afterwards, and what the drain stored before is seen by the CPU.
//! The accesses to the slot are relaxed. Two drains exclude each other in step 3.
//!
//! The tests also show that each part is needed.

use core::sync::atomic::{AtomicUsize as PlainUsize, Ordering as Plain};
use std::sync::Arc;

use super::{explore, race};
use crate::base::sync::{AtomicU32, Ordering, SpinLock};
use crate::percpu::cpu_word::CpuWord;

/// No sheaf: the null sheaf.
const NULL: u32 = 0;
/// The sheaf in the slot at the start.
const FIRST: u32 = 1;
/// The sheaf that the section installs.
const SECOND: u32 = 2;

/// The part of the protocol that is left out, to show that it is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    Stops,
    Fence,
    /// The stops are lowered before the slot is written.
    LateResume,
    /// Whether the CPU is dead is read before the stops are raised.
    OneWord,
    /// The CPU is asked before it is written what for.
    RequestFirst,
}

struct Cpu {
    word: CpuWord,
    /// Held while interrupts are off on the CPU.
    interrupts: SpinLock<()>,
    /// The drain lock.
    drain: SpinLock<()>,
    /// Drains whose fence is done.
    stopped: AtomicU32,
    /// The main sheaf.
    slot: AtomicU32,
    /// 1 if the CPU is asked to empty the slot.
    requested: AtomicU32,
    without: Without,
    /// How often each sheaf was taken out of the slot.
    owners: [PlainUsize; 3],
}

impl Cpu {
    fn new(without: Without) -> Arc<Cpu> {
        Arc::new(Cpu {
            word: CpuWord::new(),
            interrupts: SpinLock::new(()),
            drain: SpinLock::new(()),
            stopped: AtomicU32::new(0),
            slot: AtomicU32::new(FIRST),
            requested: AtomicU32::new(0),
            without,
            owners: Default::default(),
        })
    }

    /// Stores `new` in the slot and owns the old sheaf. Returns false and changes nothing if the
    /// slot is not open.
    fn section(&self, new: u32) -> bool {
        let interrupts = self.interrupts.lock();
        let open = self.word.is_open();
        let mut old = NULL;
        if open {
            old = self.slot.load(Ordering::Relaxed);
            self.slot.store(new, Ordering::Relaxed);
        }
        drop(interrupts);
        self.own(old);
        open
    }

    fn drain(&self) {
        let mut dead = false;
        if self.without == Without::OneWord {
            dead = self.word.stop();
            self.word.resume();
        }
        if self.without != Without::Stops {
            dead |= self.word.stop();
        }
        let other = self.stopped.load(Ordering::SeqCst) != 0;
        if !dead && !other && self.without != Without::Fence {
            drop(self.interrupts.lock());
        }
        self.stopped.fetch_add(1, Ordering::SeqCst);
        let one_at_a_time = self.drain.lock();
        let main = self.slot.load(Ordering::Relaxed);
        if self.without == Without::LateResume {
            self.word.resume();
        }
        if main != NULL {
            self.slot.store(NULL, Ordering::Relaxed);
        }
        drop(one_at_a_time);
        self.stopped.fetch_sub(1, Ordering::SeqCst);
        if !matches!(self.without, Without::Stops | Without::LateResume) {
            self.word.resume();
        }
        self.own(main);
    }

    fn own(&self, sheaf: u32) {
        if sheaf != NULL {
            let before = self.owners[sheaf as usize].fetch_add(1, Plain::Relaxed);
            assert_eq!(before, 0, "sheaf {sheaf} has two owners");
        }
    }

    /// Checks that every sheaf that was ever in the slot is still there or has an owner, but not
    /// both.
    fn audit(&self, installed: bool) {
        let left = self.slot.load(Ordering::Relaxed);
        for sheaf in [FIRST, SECOND] {
            let owners = self.owners[sheaf as usize].load(Plain::Relaxed) + usize::from(left == sheaf);
            let there = sheaf == FIRST || installed;
            assert_eq!(owners, usize::from(there), "sheaf {sheaf} is lost or doubled");
        }
    }

    /// Asks the CPU to empty the slot.
    fn ask(&self) {
        if self.without == Without::RequestFirst {
            self.word.ask();
            self.requested.store(1, Ordering::SeqCst);
        } else {
            self.requested.fetch_or(1, Ordering::SeqCst);
            self.word.ask();
        }
    }

    /// What the CPU does on a slow path. Another drain keeps it from its slot at most for a moment.
    fn serve(&self) {
        if self.word.take_request() && self.requested.fetch_and(0, Ordering::SeqCst) != 0 && !self.section(NULL) {
            self.ask();
        }
    }
}

/// A section that installs a sheaf and one that only takes, against one drain or two.
fn model(without: Without, drains: usize) {
    explore(move || {
        let cpu = Cpu::new(without);
        let (one, two) = (cpu.clone(), cpu.clone());
        let sections = move || {
            let installed = one.section(SECOND);
            one.section(NULL);
            installed
        };
        let second = move || {
            if drains > 1 {
                two.drain();
            }
        };
        let (installed, (), ()) = race(sections, second, || cpu.drain());
        cpu.audit(installed);
        assert!(cpu.word.is_open());
    });
}

#[test]
fn a_drain_and_a_plain_section_never_own_the_same_sheaf_and_lose_none() {
    model(Without::Nothing, 1);
}

#[test]
fn two_drains_that_share_a_fence_and_a_plain_section_lose_no_sheaf() {
    model(Without::Nothing, 2);
}

#[test]
#[should_panic = "sheaf"]
fn without_stops_a_plain_section_that_begins_late_would_break_a_drain() {
    model(Without::Stops, 1);
}

#[test]
#[should_panic = "sheaf"]
fn without_fence_a_plain_section_that_had_begun_would_break_a_drain() {
    model(Without::Fence, 1);
}

#[test]
#[should_panic = "sheaf"]
fn stops_that_end_before_the_slot_is_written_would_break_a_drain() {
    model(Without::LateResume, 1);
}

/// A CPU that runs, dies and comes back, against a drain that does not wait for it while it is
/// dead.
fn model_of_death(without: Without) {
    explore(move || {
        let cpu = Cpu::new(without);
        let one = cpu.clone();
        let life = move || {
            let installed = one.section(SECOND);
            one.word.set_dead();
            one.word.set_online();
            one.section(NULL);
            installed
        };
        let (installed, (), ()) = race(life, || (), || cpu.drain());
        cpu.audit(installed);
    });
}

#[test]
fn a_cpu_that_dies_and_comes_back_amid_a_drain_loses_no_sheaf() {
    model_of_death(Without::Nothing);
}

#[test]
#[should_panic = "sheaf"]
fn a_drain_that_sees_the_death_before_it_raises_the_stops_would_meet_a_section() {
    model_of_death(Without::OneWord);
}

/// Two drains that cannot wait, and a CPU on its slow path.
fn model_of_requests(without: Without) {
    explore(move || {
        let cpu = Cpu::new(without);
        let (one, two) = (cpu.clone(), cpu.clone());
        let ((), (), installed) = race(
            move || one.ask(),
            move || two.ask(),
            || {
                let installed = cpu.section(SECOND);
                cpu.serve();
                installed
            },
        );
        cpu.audit(installed);
        assert!(
            cpu.requested.load(Ordering::Relaxed) == 0 || !cpu.word.is_open(),
            "a request that the CPU never finds"
        );
        cpu.serve();
        assert!(cpu.word.is_open() && cpu.slot.load(Ordering::Relaxed) == NULL, "a request is lost");
    });
}

#[test]
fn a_request_is_met_now_or_at_the_next_slow_path() {
    model_of_requests(Without::Nothing);
}

#[test]
#[should_panic = "never finds"]
fn a_request_written_after_the_cpu_is_asked_would_be_lost() {
    model_of_requests(Without::RequestFirst);
}
