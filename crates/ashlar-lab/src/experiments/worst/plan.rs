//! What a process is told and answers, and the run as `--json` writes it.

use serde::{Deserialize, Serialize};

use crate::systems::traits::LESS;

/// The smallest size that has smaller objects beside it.
pub(crate) const SMALLEST: usize = 2 * LESS;

/// What a child is told, as its argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Bytes of the objects.
    pub(crate) sizes: Vec<usize>,
    /// Objects of the fragmented heap, of which every second is freed.
    pub(crate) live: usize,
    /// Calls of each kind with warm caches.
    pub(crate) samples: usize,
    /// Calls of each kind with cold caches.
    pub(crate) cold: usize,
    /// MiB that are read before each of those.
    pub(crate) sweep_mib: usize,
}

/// The distribution of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorstRecord {
    pub(crate) system: String,
    /// `kmalloc`, `kfree`, `kmem_cache_alloc`, `kmem_cache_free`; of a malloc `malloc` and `free`.
    pub(crate) call: String,
    /// Bytes.
    pub(crate) size: usize,
    /// `warm` or `cold`.
    pub(crate) caches: String,
    pub(crate) samples: usize,
    pub(crate) min: u64,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p99_9: u64,
    pub(crate) max: u64,
}

/// A run as `--json` writes it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) cpu_model: String,
    pub(crate) kernel: String,
    pub(crate) tsc_mhz: Option<f64>,
    pub(crate) ashlar_version: String,
    pub(crate) build: String,
    pub(crate) unit: String,
    /// What the clock itself takes at least; part of every figure.
    pub(crate) clock: u64,
    pub(crate) plan: Plan,
    pub(crate) records: Vec<WorstRecord>,
}

/// What a child prints.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) clock: u64,
    pub(crate) records: Vec<WorstRecord>,
}
