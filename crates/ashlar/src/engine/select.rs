//! The names of the engines, and what a choice means for the layers above: a table, no mechanism.
//!
//! Two choices exist. `ASHLAR_OPTIONS=engine=ID` is that of the process: kmalloc's and malloc's caches, and every
//! cache that does not choose, use it. [`crate::CacheArgs::engine`] is that of one cache.

use super::history::slub::Stage;
use super::history::slub::stage::cpu_partial;
use crate::slab::OrderRule;

/// The strategy of a cache. Closed: `engine/mod.rs` says what an arm more takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// SLUB with sheaves and barns: the default.
    Sheaves,
    /// SLUB with CPU slabs, in a stage of its history.
    Slub(Stage),
    /// SLAB: queues of objects in front of slabs.
    Slab,
    /// SLOB: objects of all sizes side by side in single pages, under one lock, for small memory. An object of a cache
    /// of this engine says nothing of itself: it must go back to its cache, [`crate::kfree`] cannot take it.
    Slob,
    /// SLOB's first successor: pages of one size of objects, one list for each power of two and node, in constant time.
    SlobSeg,
    /// Its second: each cache has lists of its own; caches with objects alike share them.
    SlobCache,
}

/// Lists the engines with their ids.
macro_rules! engines {
    ($($engine:expr => $id:literal),* $(,)?) => {
        impl Engine {
            /// Every engine, the default first.
            pub const ALL: &'static [Engine] = &[$($engine),*];
            const NAMES: &'static [&'static str] = &[$($id),*];
            /// What the option `engine` expects.
            pub const EXPECTED: &'static str = concat!("engine= and one of the ids", $(" ", $id),*);
        }
    };
}

engines! {
    Engine::Sheaves => "ashlar",
    Engine::Slub(Stage::Plain) => "slub",
    Engine::Slub(Stage::Emulated) => "slub-emu",
    Engine::Slub(Stage::Plus) => "slub+",
    Engine::Slub(Stage::PlusOrder) => "slub-o",
    Engine::Slub(Stage::Lockless) => "slub-ll",
    Engine::Slub(Stage::Bulk) => "slub-bulk",
    Engine::Slab => "slab",
    Engine::Slob => "slob",
    Engine::SlobSeg => "slob-seg",
    Engine::SlobCache => "slob-cache",
}

impl Engine {
    /// The name in options and in the lab.
    pub fn id(self) -> &'static str {
        let at = Self::ALL.iter().position(|engine| *engine == self);
        at.map_or("?", |at| Self::NAMES[at])
    }

    /// The engine with this id.
    #[place(cold)]
    pub fn from_id(id: &str) -> Option<Engine> {
        Self::NAMES.iter().position(|name| *name == id).map(|at| Self::ALL[at])
    }

    /// Whether its caches keep sheaves in their per-CPU slot, so that the entry points serve them. The slots of all
    /// others stay at the null sheaf, and [`super::alloc`] and [`super::free`] see every call.
    pub(crate) const fn has_sheaves(self) -> bool {
        matches!(self, Engine::Sheaves)
    }

    /// The largest kmalloc size that has a cache; larger ones are runs of pages.
    pub(crate) const fn kmalloc_max_cache(self) -> usize {
        match self {
            Engine::Sheaves => crate::base::units::LARGEST_KMALLOC_CLASS,
            Engine::Slub(stage) => stage.kmalloc_max_cache(),
            Engine::Slab => 2 * crate::base::units::PAGE_SIZE,
            Engine::Slob => super::history::slob::KMALLOC_MAX,
            // A page and more is runs of pages, which need no list.
            Engine::SlobSeg | Engine::SlobCache => crate::base::units::PAGE_SIZE,
        }
    }

    /// Whether kmalloc has a class of this size with it.
    pub(crate) const fn has_class(self, size: usize) -> bool {
        !matches!(self, Engine::SlobSeg) || size.is_power_of_two()
    }

    /// Whether caches of objects alike are merged into one. The others arrange for themselves which caches share pages.
    pub(crate) const fn merges(self) -> bool {
        matches!(self, Engine::Sheaves | Engine::Slub(_) | Engine::Slab)
    }

    /// Whether it gives an object of kmalloc the size that was asked for, whatever its class.
    pub(crate) const fn wants_size(self) -> bool {
        matches!(self, Engine::Slob)
    }

    /// Bytes that kmalloc sets aside for `size` bytes, where `class` is the size of its class.
    pub(crate) const fn kmalloc_roundup(self, size: usize, class: usize) -> usize {
        match self {
            Engine::Slob => super::history::slob::roundup(size),
            Engine::SlobSeg if !class.is_power_of_two() => class.next_power_of_two(),
            _ => class,
        }
    }

    /// Empty slabs that a node keeps by default, where `by_size` is the kernel's rule of today.
    pub(crate) const fn min_partial(self, by_size: usize) -> usize {
        match self {
            // SLAB has a limit of free objects instead.
            Engine::Sheaves | Engine::Slab => by_size,
            Engine::Slub(stage) => stage.min_partial(by_size),
            Engine::Slob => 0,
            Engine::SlobSeg | Engine::SlobCache => super::history::slob_pools::KEPT,
        }
    }

    /// Free objects that a CPU's partial slabs may have by default, for objects of `stride` bytes; 0 where CPUs have none.
    pub(crate) const fn cpu_partial(self, stride: usize) -> usize {
        match self {
            Engine::Slub(Stage::Bulk) => cpu_partial(stride),
            _ => 0,
        }
    }

    /// The order rule of its caches, where `rule` is that of the process.
    pub(crate) const fn order_rule(self, rule: OrderRule) -> OrderRule {
        match self {
            Engine::Sheaves | Engine::Slob | Engine::SlobSeg => rule,
            // Single pages, as SLOB's, unless somebody wants others.
            Engine::SlobCache => OrderRule {
                max_order: if rule.max_order == OrderRule::DEFAULT.max_order { rule.min_order } else { rule.max_order },
                ..rule
            },
            Engine::Slub(stage) => stage.order_rule(rule),
            Engine::Slab => super::history::slab_queues::layout::order_rule(rule),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_back_to_their_engine() {
        for &engine in Engine::ALL {
            assert_eq!(Engine::from_id(engine.id()), Some(engine));
            assert!(Engine::EXPECTED.contains(engine.id()));
        }
        assert_eq!(Engine::from_id("slabs"), None);
        assert_eq!(Engine::ALL[0], Engine::Sheaves);
    }
}
