//! What parent and child say to each other: one JSON object on a line, over the child's stdin and
//! stdout.

use serde::{Deserialize, Serialize};

use crate::experiments::kernel_tests::args::Test;
use crate::kit::counts::Counts;
use crate::systems::traits::Setup;

/// What is measured in one pass. A and B are the two halves of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Group {
    AllocFree,
    Pairs,
    Concurrent,
    ConcurrentPairs,
    Remote,
}

impl Group {
    pub(crate) const ALL: [Self; 5] =
        [Self::AllocFree, Self::Pairs, Self::Concurrent, Self::ConcurrentPairs, Self::Remote];

    /// Threads that take part when the run is for `cpus` CPUs. A remote free needs a second
    /// one.
    pub(crate) fn threads(self, cpus: usize) -> usize {
        match self {
            Self::AllocFree | Self::Pairs => 1,
            Self::Concurrent | Self::ConcurrentPairs => cpus,
            Self::Remote => cpus.max(2),
        }
    }

    /// The pass that measures `test`.
    pub(crate) fn of(test: Test) -> Self {
        match test {
            Test::A | Test::B => Self::AllocFree,
            Test::C => Self::Pairs,
            Test::D => Self::Concurrent,
            Test::E => Self::ConcurrentPairs,
            Test::F => Self::Remote,
        }
    }
}

/// What the parent asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Comes first, once. Answered by [`Reply::Ready`].
    Setup {
        setup: Setup,
        /// Size of an object that is allocated and freed before the threads start; one of those in
        /// the set-up.
        start: Option<usize>,
    },
    /// One measured pass. Answered by [`Reply::Done`].
    Run {
        /// What to measure.
        group: Group,
        /// Object size in bytes; one of those in [`Setup`].
        size: usize,
        /// Whether passes that warm up come before the measured one.
        warm: bool,
    },
    /// What only the process itself can know, such as its mode. Answered by [`Reply::Note`]. The
    /// answer may use the allocator, so before a first pass it is not asked.
    Note,
}

/// What the child answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Set up.
    Ready,
    /// May be empty.
    Note(String),
    /// Ticks for each thread of the first and of the second phase; a thread that had no part in a
    /// phase has 0.
    Done {
        phase1: Vec<u64>,
        phase2: Vec<u64>,
        /// Of systems that count: for one operation of the pass, allocations and frees together.
        counts: Option<Counts>,
        /// Of [`Group::AllocFree`]: resident KiB beyond the start of the process, with all objects
        /// allocated and with all freed.
        resident: Option<[i64; 2]>,
    },
    /// The system could not do it, for instance because it ran out of memory.
    Failed(String),
}
