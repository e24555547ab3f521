//! The stop protocol of a drain (see `percpu::drain`), in the abstract: gate, fence, take, open.
//!
//! This is a second statement of the protocol, not the code itself, because loom cannot run the
//! sections' assembly and the fence's system call. The model has the order of steps in common with
//! the code:
//!
//! | drain | section |
//! |---|---|
//! | 1. shut the gate | a. arm |
//! | 2. fence | b. read the gate, leave if it is shut |
//! | 3. read the slot, take its sheaf | c. read the slot |
//! | 4. open the gate | d. commit by one store to the slot, or restart if aborted |
//!
//! An abort flag behind a lock replaces the kernel. The fence sets the flag, and arming clears it.
//! A commit reads it and stores under the lock, because the kernel never stops a thread between its
//! decision that the thread was not interrupted and the thread's next instruction. The model is
//! weaker than the kernel, which stops an aborted section at once: here the section reads on until
//! its commit is refused. Loads inside the section are acquire loads, as every load of x86-64 is.
//!
//! Not modelled: several threads on one CPU (they interrupt each other, and the kernel aborts them
//! alike), the fallback that visits each CPU, and the objects inside the sheaves.
//!
//! The tests also show that each part is needed. Without the gate, the fence, or the order of the
//! opening, the model must fail.

use core::sync::atomic::{AtomicUsize as PlainUsize, Ordering as Plain};
use std::sync::Arc;

use super::{explore, race};
use crate::base::sync::{AtomicU32, Ordering, SpinLock};

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
    Gate,
    Fence,
    /// The gate opens before the slot is written.
    LateOpening,
}

struct Cpu {
    /// 1 while the gate is open.
    gate: AtomicU32,
    /// The main sheaf.
    slot: AtomicU32,
    /// Whether the running section was interrupted.
    aborted: SpinLock<bool>,
    without: Without,
    /// How often each sheaf was taken out of the slot.
    owners: [PlainUsize; 3],
}

impl Cpu {
    fn new(without: Without) -> Arc<Cpu> {
        Arc::new(Cpu {
            gate: AtomicU32::new(1),
            slot: AtomicU32::new(FIRST),
            aborted: SpinLock::new(false),
            without,
            owners: Default::default(),
        })
    }

    /// Stores `new` in the slot and owns the old sheaf. Returns false and changes nothing if the
    /// gate is shut.
    fn section(&self, new: u32) -> bool {
        loop {
            *self.aborted.lock() = false;
            if self.without != Without::Gate && self.gate.load(Ordering::Acquire) == 0 {
                return false;
            }
            let old = self.slot.load(Ordering::Acquire);
            let aborted = self.aborted.lock();
            if *aborted {
                continue;
            }
            self.slot.store(new, Ordering::Release);
            drop(aborted);
            self.own(old);
            return true;
        }
    }

    fn drain(&self) {
        self.gate.store(0, Ordering::SeqCst);
        if self.without != Without::Fence {
            *self.aborted.lock() = true;
        }
        let main = self.slot.load(Ordering::Relaxed);
        if self.without == Without::LateOpening {
            self.gate.store(1, Ordering::SeqCst);
        }
        if main != NULL {
            self.slot.store(NULL, Ordering::Relaxed);
        }
        self.gate.store(1, Ordering::SeqCst);
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
}

/// A section that installs a sheaf and one that only takes, against a drain.
fn model(without: Without) {
    explore(move || {
        let cpu = Cpu::new(without);
        let one = cpu.clone();
        let sections = move || {
            let installed = one.section(SECOND);
            one.section(NULL);
            installed
        };
        let (installed, (), ()) = race(sections, || (), || cpu.drain());
        cpu.audit(installed);
    });
}

#[test]
fn a_drain_and_a_section_never_own_the_same_sheaf_and_lose_none() {
    model(Without::Nothing);
}

#[test]
fn two_drains_in_turn_and_a_section_never_own_the_same_sheaf_and_lose_none() {
    explore(|| {
        let cpu = Cpu::new(Without::Nothing);
        let one = cpu.clone();
        let (installed, (), ()) = race(
            move || one.section(SECOND),
            || (),
            || {
                cpu.drain();
                cpu.drain();
            },
        );
        cpu.audit(installed);
    });
}

#[test]
#[should_panic = "sheaf"]
fn sections_that_do_not_look_at_the_gate_would_break_a_drain() {
    model(Without::Gate);
}

#[test]
#[should_panic = "sheaf"]
fn a_drain_without_fence_would_be_broken_by_a_section_that_passed_the_gate() {
    model(Without::Fence);
}

#[test]
#[should_panic = "sheaf"]
fn a_gate_that_opens_before_the_slot_is_written_would_break_a_drain() {
    model(Without::LateOpening);
}
