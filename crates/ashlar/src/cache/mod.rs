//! Layer 5, caches: creates, names, merges, tunes and destroys each kmem_cache.
//!
//! | module | what it owns |
//! |---|---|
//! | [`settings`] | the options of the process, and those for a cache of a name |
//! | [`args`], [`constructor`] | how a cache is to be made |
//! | [`create`] | from arguments and options to a cache |
//! | [`registry`] | all caches, and the memory of destroyed ones |
//! | [`alias`], [`merge`] | caches of like objects that are one, and their names |
//! | [`info`] | what a cache looks like from outside |
//! | [`hands`] | what a tool may ask of a running process |
//! | [`tune`] | what can be changed at run time |
//! | [`sampling`] | caches while a profile samples them |
//! | [`reaper`] | gives memory back in the background |
//!
//! The handles that programs have are in `faces`.

mod alias;
mod args;
mod constructor;
mod create;
#[cfg(feature = "os")]
pub(crate) mod hands;
pub(crate) mod info;
mod merge;
pub(crate) mod reaper;
pub(crate) mod registry;
#[cfg(feature = "os")]
pub(crate) mod sampling;
pub(crate) mod settings;
pub(crate) mod tune;

pub(crate) use alias::Alias;
pub use args::CacheArgs;
pub use constructor::Constructor;
pub(crate) use create::{check_wishes, create_or_merge, create_raw};
pub use info::{AliasInfo, CacheInfo, for_each_alias, for_each_cache, total_counts, validate};
