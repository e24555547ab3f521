//! What a process is told, and what it measures.

use serde::{Deserialize, Serialize};

/// What a child is told, as its argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Bytes of the objects.
    pub(crate) sizes: Vec<usize>,
    /// Objects of a CPU and pass.
    pub(crate) objects: usize,
    /// Where the observer's pauses begin.
    pub(crate) seed: u64,
}

/// What was measured of one kind of operation, for one operation. Times are in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Operation {
    /// On one CPU, while the others are idle.
    pub(crate) alone: f64,
    /// The same, measured again when everything else was.
    pub(crate) alone_again: f64,
    /// On both CPUs at once.
    pub(crate) both: f64,
    /// On both CPUs, by turns.
    pub(crate) by_turns: f64,
    /// By turns of the same length, but always the same CPU's.
    pub(crate) by_turns_alone: f64,
    /// list_locks taken.
    pub(crate) list_locks: f64,
    /// Mean time that list_lock was held.
    pub(crate) list_hold: f64,
    /// Zone locks taken.
    pub(crate) zone_locks: f64,
    /// Mean time that the zone lock was held.
    pub(crate) zone_hold: f64,
    /// Locks of all other kinds taken; no two CPUs meet there.
    pub(crate) other_locks: f64,
}

/// What was measured for one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) size: usize,
    pub(crate) alloc: Operation,
    pub(crate) free: Operation,
    /// Ticks of one free of an object that the other CPU allocated, a few hundred at a time.
    pub(crate) remote_free: f64,
    /// The same, thousands at a time, whose lines have left the caches: test F.
    pub(crate) remote_free_cold: f64,
    /// The same, measured again when everything else was.
    pub(crate) remote_free_test: f64,
}

/// What a CPU that polls a lock's word costs the holder at one taking, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Polled {
    /// The holder writes to the line of the word.
    pub(crate) one_line: f64,
    /// The holder writes to another line.
    pub(crate) apart: f64,
}

/// What a child prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Ticks until a line that one CPU wrote is the other's.
    pub(crate) line: f64,
    /// Ticks that one poller of a lock's word adds to a taking.
    pub(crate) polled: Polled,
    pub(crate) sizes: Vec<Measured>,
}
