//! The engines of history: every other system that the experiments measured, each in a folder with
//! the same contract ([`crate::engine`]).
//!
//! | folder | engines | system |
//! |---|---|---|
//! | [`slub`] | `slub` to `slub-bulk` | SLUB with CPU slabs, 2007 to 2015, in eight stages |
//! | [`slab_queues`] | `slab`, `slab24` | SLAB of 6.1 and of 2.6.24: queues before slabs |
//! | [`slob`] | `slob` | SLOB: objects of all sizes side by side, under one lock |
//! | [`slob_pools`] | `slob-seg`, `slob-cache` | SLOB's successors: pages of one size of objects |

pub(crate) mod slab_queues;
pub(crate) mod slob;
pub(crate) mod slob_pools;
pub(crate) mod slub;
