//! The biased CPU lock (see `percpu::bias`), in the abstract: a section takes the lock by a plain
//! store, a thread from outside by stops, fence and compare-and-swap.
//!
//! As in [`super::stop`], this is a second statement of the protocol, because loom cannot run the
//! section's assembly and the fence's system call. An abort flag behind a lock replaces the kernel:
//! the fence sets it, arming clears it, and a commit reads it and stores under that lock.
//!
//! | section | from outside |
//! |---|---|
//! | a. arm | 1. add one to the stops |
//! | b. read the stops, leave if there are any | 2. fence |
//! | c. read the word, leave if it is held | 3. take the word by compare-and-swap |
//! | d. commit by one store to the word, unless aborted | 4. take one from the stops |
//!
//! Both give the lock back by a plain store. What they do while they hold it is a load and a store,
//! of which one is lost if two threads hold it at once.
//!
//! Not modelled: several threads on one CPU, which abort each other, and the ways to do without
//! membarrier. The tests also show that the stops, the fence and the order of steps 3 and 4 are
//! needed.

use std::sync::Arc;

use super::{explore, race};
use crate::base::sync::{AtomicU32, Ordering, SpinLock};

/// The part of the protocol that is left out, to show that it is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    Stops,
    Fence,
    /// The stops are taken back before the word is held.
    LateStart,
}

struct Cpu {
    /// The number of the holder; 0 if the lock is free.
    word: AtomicU32,
    stops: AtomicU32,
    /// Whether the running section was interrupted.
    aborted: SpinLock<bool>,
    without: Without,
    /// What holders raise by a load and a store.
    guarded: AtomicU32,
}

impl Cpu {
    fn new(without: Without) -> Arc<Cpu> {
        Arc::new(Cpu {
            word: AtomicU32::new(0),
            stops: AtomicU32::new(0),
            aborted: SpinLock::new(false),
            without,
            guarded: AtomicU32::new(0),
        })
    }

    /// Returns whether the section took the lock.
    fn take_by_section(&self, me: u32) -> bool {
        *self.aborted.lock() = false;
        if self.stops.load(Ordering::Acquire) != 0 || self.word.load(Ordering::Acquire) != 0 {
            return false;
        }
        let aborted = self.aborted.lock();
        if *aborted {
            return false;
        }
        self.word.store(me, Ordering::Release);
        true
    }

    /// Returns whether the lock was free. The code waits until it is.
    fn take_from_outside(&self, me: u32) -> bool {
        if self.without != Without::Stops {
            self.stops.fetch_add(1, Ordering::SeqCst);
        }
        if self.without != Without::Fence {
            *self.aborted.lock() = true;
        }
        if self.without == Without::LateStart {
            self.stops.fetch_sub(1, Ordering::Release);
        }
        let taken = self.word.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if matches!(self.without, Without::Nothing | Without::Fence) {
            self.stops.fetch_sub(1, Ordering::Release);
        }
        taken
    }

    /// Raises what the lock guards, and gives the lock back. Returns 1.
    fn use_and_give_back(&self) -> u32 {
        self.guarded.store(self.guarded.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.word.store(0, Ordering::Release);
        1
    }

    fn by_section(&self, me: u32) -> u32 {
        if self.take_by_section(me) { self.use_and_give_back() } else { 0 }
    }

    fn from_outside(&self, me: u32) -> u32 {
        if self.take_from_outside(me) { self.use_and_give_back() } else { 0 }
    }
}

/// Two sections in turn on the CPU, against one thread from outside, or two.
fn model(without: Without, outsiders: u32) {
    explore(move || {
        let cpu = Cpu::new(without);
        let (one, other) = (cpu.clone(), cpu.clone());
        let (a, b, c) = race(
            move || one.by_section(1) + one.by_section(1),
            move || if outsiders > 1 { other.from_outside(2) } else { 0 },
            || cpu.from_outside(3),
        );
        assert_eq!(cpu.guarded.load(Ordering::Relaxed), a + b + c, "two threads held the lock");
        assert_eq!(cpu.word.load(Ordering::Relaxed), 0);
        assert_eq!(cpu.stops.load(Ordering::Relaxed), 0);
        // The lock is free and the CPU is not stopped, so the next section takes it.
        assert_eq!(cpu.by_section(1), 1);
    });
}

#[test]
fn a_section_and_a_thread_from_outside_never_both_hold_the_lock() {
    model(Without::Nothing, 1);
}

#[test]
fn a_section_and_two_threads_from_outside_never_hold_the_lock_together() {
    model(Without::Nothing, 2);
}

#[test]
#[should_panic = "two threads held the lock"]
fn without_stops_a_section_that_begins_late_would_take_a_held_lock() {
    model(Without::Stops, 1);
}

#[test]
#[should_panic = "two threads held the lock"]
fn without_fence_a_section_that_had_passed_would_take_a_held_lock() {
    model(Without::Fence, 1);
}

#[test]
#[should_panic = "two threads held the lock"]
fn stops_that_end_before_the_lock_is_held_would_let_a_section_in() {
    model(Without::LateStart, 1);
}
