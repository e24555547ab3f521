//! `ashlar ps`, `info`, `diff` and `top`: looks at processes that run on ashlar.
//!
//! A process on ashlar has a window, which says where its counters lie (`ashlar::window`). The
//! tool finds it in `/proc/PID/maps` and reads the counters from `/proc/PID/mem`. The process does
//! nothing meanwhile, so a stopped one is read as well. What is read is not trusted: every count
//! is bounded, and so is all that is read of one process.
//!
//! * [`process`]: finds processes and their windows. [`memory`]: bounded reads.
//! * [`caches`], [`slabs`], [`pages`]: walk the structures of the allocator.
//! * [`report`]: the figures. [`text`], [`prometheus`], [`diff`]: what is printed of them.
//! * [`ps`], [`info`], [`top`]: the commands.

mod caches;
pub(crate) mod diff;
pub(crate) mod info;
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
