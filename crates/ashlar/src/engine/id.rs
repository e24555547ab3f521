//! [`Engine`]: the names of the engines.
//!
//! An engine is chosen in two places. `ASHLAR_OPTIONS=engine=ID` sets that of the process, used by
//! the caches of this library and by every cache that does not choose. [`crate::CacheArgs::engine`]
//! sets that of one cache.

use super::history::slub::stage::Stage;

/// The allocation strategy of a cache, from a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// SLUB with sheaves and barns: the default.
    Sheaves,
    /// SLUB with CPU slabs, in a stage of its history.
    Slub(Stage),
    /// SLAB of Linux 6.1: queues of objects in front of slabs.
    Slab,
    /// SLAB of Linux 2.6.24: a descriptor for each slab, with a chain of its free objects.
    Slab24,
    /// SLOB: objects of all sizes share single pages, under one lock, for small memory. An object
    /// of such a cache must be freed to its cache. A free by address alone cannot take it, because
    /// nothing records the cache.
    Slob,
    /// SLOB's first successor: pages of one object size, one list for each power of two and node,
    /// constant time.
    SlobSeg,
    /// SLOB's second successor: each cache has its own lists; caches with objects alike share them.
    SlobCache,
    /// Objects that are checked, with red zones, poison and tracks: the engine of every cache with
    /// debug flags ([`DebugFlags`](crate::DebugFlags)). Where it is chosen by name, caches without
    /// flags have those of the kernel's `slub_debug`.
    Debug,
    /// The smallest engine: see `toy.rs`.
    #[cfg(test)]
    Toy,
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
    Engine::Slub(Stage::Y2010) => "slub-2010",
    Engine::Slub(Stage::Y2010Partly) => "slub-2010-ll",
    Engine::Slub(Stage::Lockless) => "slub-ll",
    Engine::Slub(Stage::Bulk) => "slub-bulk",
    Engine::Slab => "slab",
    Engine::Slab24 => "slab24",
    Engine::Slob => "slob",
    Engine::SlobSeg => "slob-seg",
    Engine::SlobCache => "slob-cache",
    Engine::Debug => "debug",
}

#[cfg(feature = "os")]
impl Engine {
    /// The byte that stands for each engine in a cache, in the order of [`Engine::ALL`], for a
    /// reader outside of the process.
    #[expect(unsafe_code, reason = "reads the byte that the compiler chose")]
    pub(crate) const BYTES: [u8; crate::base::window::ENGINES] = {
        let mut bytes = [u8::MAX; crate::base::window::ENGINES];
        let mut at = 0;
        while at < Self::ALL.len() {
            // SAFETY: the type has the size of a byte, which `transmute` checks, and no padding:
            // both of its levels of variants are told apart by that byte.
            bytes[at] = unsafe { core::mem::transmute::<Engine, u8>(Self::ALL[at]) };
            at += 1;
        }
        bytes
    };
}

impl Engine {
    /// Returns the name used in options and in the lab.
    pub fn id(self) -> &'static str {
        let at = Self::ALL.iter().position(|engine| *engine == self);
        at.map_or("?", |at| Self::NAMES[at])
    }

    /// Returns the engine with this id.
    #[ashlar_macros::place(cold)]
    pub fn from_id(id: &str) -> Option<Engine> {
        Self::NAMES.iter().position(|name| *name == id).map(|at| Self::ALL[at])
    }

    /// Whether its caches keep sheaves in their per-CPU slot, so that the entry points serve them.
    /// The slots of all other engines stay at the null sheaf, and [`alloc`](super::alloc) and
    /// [`free`](super::free) take every call.
    pub(crate) const fn has_sheaves(self) -> bool {
        matches!(self, Engine::Sheaves)
    }

    /// Whether it is an edition of SLAB, whose caches have queues.
    pub(crate) const fn has_queues(self) -> bool {
        matches!(self, Engine::Slab | Engine::Slab24)
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
