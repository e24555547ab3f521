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
//! * [`samples`]: the heap profile of a running process.
//! * [`saved`]: reads what `ashlar info --save` wrote.
//! * [`ps`], [`info`], [`top`], [`pins`], [`export`], [`page`]: the commands that look.
//! * [`hands`]: the commands that change something; [`mail`] carries them to the process.

mod caches;
pub(crate) mod diff;
pub(crate) mod export;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
pub(crate) mod hands;
pub(crate) mod info;
mod mail;
mod memory;
pub(crate) mod page;
mod pages;
pub(crate) mod pins;
mod proc;
pub(crate) mod process;
mod prometheus;
pub(crate) mod ps;
mod report;
mod samples;
mod saved;
mod shares;
mod slabs;
mod snapshot;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod top;

use crate::error::ToolError;
use crate::profile::read::Profile;

/// Returns the heap profile of a process.
pub(crate) fn heap_profile(pid: i32) -> Result<Profile, ToolError> {
    let target = process::Target::open(pid).map_err(|(refusal, name)| refusal.error(pid, &name))?;
    // This says why a process cannot be read.
    target.report().map_err(|refusal| refusal.error(pid, &target.name))?;
    let snapshot = target.snapshot().map_err(|refusal| refusal.error(pid, &target.name))?;
    let none = || {
        ToolError::Usage(format!(
            "PID: {pid} ({}): no heap profile was started there; ASHLAR_OPTIONS=profile=512K starts one with the program",
            target.name
        ))
    };
    let profiles = snapshot.profiles().map_err(|refusal| refusal.error(pid, &target.name))?;
    profiles.into_iter().next().map(|(_, profile)| profile).ok_or_else(none)
}
