//! What parent and child say to each other: one JSON object on a line, over the child's stdin and stdout.

use crate::kit::counts::Counts;
use crate::systems::traits::Setup;
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
