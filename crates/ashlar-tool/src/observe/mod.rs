//! `ashlar ps`, `info`, `diff` and `top` look at processes that run on ashlar; `tune`, `shrink`,
//! `reap` and `validate` ask them for something.
//!
//! A process on ashlar has a window, which says where its counters lie (`ashlar::window`). The
//! tool finds it in `/proc/PID/maps` and reads the counters from `/proc/PID/mem`. The process does
//! nothing meanwhile, so a stopped one is read as well. What is read is not trusted: every count
//! is bounded, and so is all that is read of one process.
//!
//! * [`process`]: finds processes and their windows. [`memory`]: bounded reads.
//! * [`caches`], [`slabs`], [`pages`]: walk the structures of the allocator.
//! * [`report`]: the figures. [`text`], [`prometheus`], [`diff`]: what is printed of them.
//! * [`ps`], [`info`], [`top`]: the commands that look.
//! * [`hands`]: the commands that change something; [`mail`] carries them to the process.

mod caches;
pub(crate) mod diff;
pub(crate) mod hands;
pub(crate) mod info;
mod mail;
mod memory;
mod pages;
mod proc;
mod process;
mod prometheus;
pub(crate) mod ps;
mod report;
mod slabs;
mod snapshot;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod top;
