//! The tunables of caches: names, ranges, and the engines that have them. The cache layer applies a
//! change.

use super::history::slub::stage::Stage;
use super::id::Engine;
use crate::percpu::sheaf::MAX_SHEAF_CAPACITY;

/// A value of a cache that can be changed at any time: [`crate::KmemCache::set_tunable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tunable {
    /// Free objects that the partial slabs of one CPU may hold; 0 for no such slabs.
    CpuPartial,
    /// Empty slabs that each node keeps.
    MinPartial,
    /// Objects in a sheaf; 0 for no sheaves.
    SheafCapacity,
    /// Percentage of cases in which partial slabs of other nodes are tried before a new slab is
    /// made. With 0, the default (the kernel's is 100), they are used only if the own node has no
    /// memory, so that objects stay local.
    RemoteNodeDefragRatio,
    /// Objects in the array of one CPU. Setting it below `batchcount` lowers that too.
    Limit,
    /// Objects that move between an array and its node at a time, at most `limit`.
    BatchCount,
    /// Batches in the array that the CPUs of a node share; at most 65536 objects in all.
    Shared,
}

/// Most objects in a CPU's array, of SLAB.
pub(super) const MAX_LIMIT: usize = 8192;
/// Largest shared factor, of SLAB.
pub(super) const MAX_SHARED: usize = 64;
/// Largest number of slabs or objects.
const MOST: usize = 1 << 20;

impl Tunable {
    /// All tunables.
    pub const ALL: [Tunable; 7] = [
        Tunable::CpuPartial,
        Tunable::MinPartial,
        Tunable::SheafCapacity,
        Tunable::RemoteNodeDefragRatio,
        Tunable::Limit,
        Tunable::BatchCount,
        Tunable::Shared,
    ];

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Tunable::CpuPartial => "cpu_partial",
            Tunable::MinPartial => "min_partial",
            Tunable::SheafCapacity => "sheaf_capacity",
            Tunable::RemoteNodeDefragRatio => "remote_node_defrag_ratio",
            Tunable::Limit => "limit",
            Tunable::BatchCount => "batchcount",
            Tunable::Shared => "shared",
        }
    }

    /// The tunable with this name.
    #[place(cold)]
    pub fn from_name(name: &str) -> Option<Tunable> {
        Self::ALL.into_iter().find(|tunable| tunable.name() == name)
    }

    /// Name and allowed values, for error messages.
    pub const fn expected(self) -> &'static str {
        match self {
            Tunable::CpuPartial => "cpu_partial: expected 0 to 1048576 (objects)",
            Tunable::MinPartial => "min_partial: expected 0 to 1048576 (slabs)",
            Tunable::SheafCapacity => "sheaf_capacity: expected 0 to 254 (objects)",
            Tunable::RemoteNodeDefragRatio => "remote_node_defrag_ratio: expected 0 to 100 (percent)",
            Tunable::Limit => "limit: expected 1 to 8192 (objects)",
            Tunable::BatchCount => "batchcount: expected 1 to limit (objects)",
            Tunable::Shared => "shared: expected 0 to 64 (batches), and at most 65536 objects",
        }
    }

    /// Name and engines that have it, for error messages.
    pub(crate) const fn engines(self) -> &'static str {
        match self {
            Tunable::CpuPartial => "cpu_partial: expected a cache of the engine slub-bulk",
            Tunable::MinPartial => "min_partial: expected a cache of another engine than slab, slab24 and slob",
            Tunable::SheafCapacity => "sheaf_capacity: expected a cache of the engine ashlar",
            Tunable::RemoteNodeDefragRatio => {
                "remote_node_defrag_ratio: expected a cache of the engine ashlar or of a stage of SLUB"
            }
            Tunable::Limit | Tunable::BatchCount | Tunable::Shared => {
                "limit, batchcount and shared: expected a cache of the engine slab or slab24"
            }
        }
    }

    /// Smallest and largest value.
    pub const fn range(self) -> (usize, usize) {
        match self {
            Tunable::CpuPartial | Tunable::MinPartial => (0, MOST),
            Tunable::SheafCapacity => (0, MAX_SHEAF_CAPACITY),
            Tunable::RemoteNodeDefragRatio => (0, 100),
            Tunable::Limit | Tunable::BatchCount => (1, MAX_LIMIT),
            Tunable::Shared => (0, MAX_SHARED),
        }
    }

    /// Whether caches of this engine have it.
    pub const fn is_of(self, engine: Engine) -> bool {
        match self {
            Tunable::CpuPartial => matches!(engine, Engine::Slub(Stage::Bulk)),
            Tunable::MinPartial => !matches!(engine, Engine::Slab | Engine::Slab24 | Engine::Slob),
            Tunable::SheafCapacity => matches!(engine, Engine::Sheaves),
            Tunable::RemoteNodeDefragRatio => matches!(engine, Engine::Sheaves | Engine::Slub(_)),
            Tunable::Limit | Tunable::BatchCount | Tunable::Shared => engine.has_queues(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    #[test]
    fn names_ranges_and_words_agree() {
        for which in Tunable::ALL {
            assert_eq!(Tunable::from_name(which.name()), Some(which));
            let (low, high) = which.range();
            let words = which.expected();
            assert!(words.starts_with(&format!("{}: expected {low} to ", which.name())), "{words}");
            assert!(words.contains(&format!(" {high} ")) || which == Tunable::BatchCount, "{words}");
            assert!(which.engines().contains(which.name()));
            assert!(Engine::ALL.iter().any(|&engine| which.is_of(engine)));
            assert!(!Engine::ALL.iter().all(|&engine| which.is_of(engine)));
        }
        assert_eq!(Tunable::from_name("order"), None);
    }
}
