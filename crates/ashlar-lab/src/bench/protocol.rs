//! What parent and child say to each other: one JSON object on a line, over the child's stdin and stdout.

use crate::kit::counts::Counts;
use serde::{Deserialize, Serialize};

use super::Group;

/// What the parent asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Comes first, once. Answered by [`Reply::Ready`].
    Setup(Setup),
    /// One measured pass. Answered by [`Reply::Done`].
    Run {
        /// What to measure.
        group: Group,
        /// Object size in bytes; one of those in [`Setup`].
        size: usize,
    },
}

/// What a child must know before it can start its threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Objects for each thread and pass.
    pub(crate) objects: usize,
    /// Threads of the concurrent tests.
    pub(crate) cpus: usize,
    /// All sizes that will be asked for.
    pub(crate) sizes: Vec<usize>,
    /// Objects of each of `holes` that are allocated before anything else; every second is freed.
    pub(crate) fragmented: usize,
    /// Their sizes.
    pub(crate) holes: Vec<usize>,
    /// Those of the sizes whose caches have the largest sheaves there are, where the system has caches.
    pub(crate) large_sheaves: Vec<usize>,
}

/// What the child answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Set up; the text says what only the process itself can know, such as its mode. May be empty.
    Ready(String),
    /// Ticks for each thread of the first and of the second phase; a thread that had no part in a phase has 0.
    Done {
        phase1: Vec<u64>,
        phase2: Vec<u64>,
        /// Of systems that count: for one operation of the pass, allocations and frees together.
        counts: Option<Counts>,
    },
    /// The system could not do it, for instance because it ran out of memory.
    Failed(String),
}
