//! Layer 4, engines: the strategies behind a cache, a closed set.
//!
//! | module | what it has |
//! |---|---|
//! | [`id`] | [`Engine`]: the names |
//! | [`contract`] | [`Strategy`]: what an engine does, with defaults |
//! | [`object`] | [`Object`]: what its user gives up |
//! | [`spec`], [`policy`] | what a cache is to be, and how it behaves towards its callers |
//! | [`raw_cache`], [`state`] | [`RawCache`]: a cache as engines see it, and what they keep for it |
//! | [`common`], [`tally`] | what several engines do alike |
//! | [`figures`], [`tunables`] | what every engine tells of a cache, and what can be changed |
//! | [`sheaves`] | the default engine |
//! | [`history`] | the other systems of the seeds |
//! | [`debug`] | the engine of debugged caches |
//! | [`route`], [`hardened`] | what options ask for beside every engine |
//! | [`guard`] | samples of objects that lie alone between pages without access |
//! | [`strategies`], [`dispatch`] | the calls of the layers above |
//!
//! ## To add an engine
//! | step | where |
//! |---|---|
//! | a type that implements [`Strategy`]: `alloc`, `free`, `alloc_on`, and whatever its defaults do not suit | a folder of its own |
//! | an arm with an id | `Engine` and `engines!` in `id.rs`; the option, the errors for unknown ids and `tests/engines.rs` follow |
//! | an arm in three `match`es | `each!` and `of_cache!` in `strategies.rs`, `of_route!` |
//! | what it keeps for a cache, if slabs and counters do not do | a field of [`EngineState`], its first state in [`Strategy::open`], its locks in [`EngineState::for_each_lock`] |
//! | pages that objects of several sizes share, if it has such | a [`PageKind`](crate::pages::memmap::PageKind), and an answer in the look-up of addresses |
//! | a chapter | `docs/engines.md` |
//!
//! Slabs come from [`crate::slab`]: geometry, state word, freelists, the partial lists of nodes,
//! and the ways between pages, slabs and objects ([`CacheSlabs`](crate::slab::cache::CacheSlabs)).
//! `toy.rs` is an engine as small as they get, and passes the suite of all engines.
//!
//! ## How calls reach an engine
//! An engine whose caches keep sheaves in their per-CPU slot has its fast path in the entry points.
//! All others leave the slot at the null sheaf and see every call in [`dispatch`]. Where such an
//! engine is the process's, the entry points are shut (their limits are 0): an allocation is two
//! instructions, one look-up of the class, and one `match`; a free is the look-up of the page and
//! that `match`. `tests/fastpath.rs` counts them. An inlined [`crate::KmemCache::alloc`] runs
//! through its section in vain first.
//!
//! ## Lock order
//! drain lock, then CPU lock, then slab_lock or alien lock, then list_lock or barn lock (never
//! both), then pool lock or zone lock, then meta lock.

#[macro_use]
mod strategies;

mod common;
mod contract;
pub(crate) mod debug;
mod dispatch;
mod figures;
#[cfg(feature = "os")]
pub(crate) mod guard;
pub(crate) mod hardened;
pub(crate) mod history;
mod id;
mod object;
mod policy;
mod random;
mod raw_cache;
pub(crate) mod route;
pub(crate) mod sheaves;
mod spec;
mod state;
pub(crate) mod tally;
#[cfg(test)]
mod toy;
mod tunables;

pub(crate) use common::{after_all, defrags_now, process_secret, tunable};
pub(crate) use contract::Strategy;
pub use debug::DebugFlags;
pub(crate) use dispatch::*;
pub(crate) use figures::Validated;
pub use figures::{Counts, Search, Usage};
pub use history::slub::stage::Stage;
pub use id::Engine;
pub(crate) use object::{Object, Objects};
pub(crate) use policy::Policy;
pub(crate) use raw_cache::RawCache;
pub(crate) use spec::{CacheSpec, Merge, Wish};
pub(crate) use state::{EMPTY_STATE, EngineState};
pub use tunables::Tunable;
