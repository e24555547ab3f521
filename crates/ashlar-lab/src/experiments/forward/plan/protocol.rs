//! What the command and its processes say to each other: one JSON object on a line, over stdin and
//! stdout of the process.

use serde::{Deserialize, Serialize};

use crate::experiments::forward::plan::tally::Tally;
use crate::kit::counts::Counts;

/// What the command asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Comes first, once. Answered by [`Reply::Ready`].
    Setup(Setup),
    /// So many packets. Answered by [`Reply::Done`].
    Run {
        packets: usize,
        /// Compare every packet that goes out with what came in.
        checks: bool,
    },
    /// Give everything back. Answered by [`Reply::Ended`].
    End,
}

/// What a process must know before it starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Over veth pairs between network namespaces; else in memory.
    pub(crate) veth: bool,
    /// Most heads of a bulk free; absent: one by one.
    pub(crate) bulk: Option<usize>,
    /// The cache of heads gets the tunables of the mail.
    pub(crate) tuned: bool,
    /// Sent packets are freed on another CPU.
    pub(crate) other_cpu: bool,
    /// Bytes of a frame.
    pub(crate) size: usize,
    pub(crate) routes: usize,
    pub(crate) flows: usize,
    /// Bad frames of thousand.
    pub(crate) bad: usize,
    /// Objects of other users.
    pub(crate) others: usize,
}

/// What a process answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Set up.
    Ready {
        /// What only the process itself can know about the system. May be empty.
        note: String,
        /// Whether heads share slabs with the objects of others, where that is known.
        merged: Option<bool>,
    },
    Done {
        nanoseconds: u64,
        tally: Tally,
        /// For one packet.
        counts: Option<Counts>,
    },
    /// Everything is given back.
    Ended,
    /// It could not be done.
    Failed(String),
}
