//! The workload `startup`: what a library costs a program that does nothing.
//!
//! Time is that of `echo`, from before the process is made to after it is gone: `echo` allocates a
//! little, while `true` never would, and the allocator would not even start. The kernel counts the
//! memory of the process that starts another as the other's (`ru_maxrss`), and that is more than
//! `echo` has; so memory is what `cat` reads of itself in `/proc/self/smaps_rollup`.

use std::process::Command;
use std::time::Instant;

use crate::experiments::programs::child::process::{self, Usage};
use crate::experiments::programs::plan::systems::System;
use crate::kit::memory::kib_line;

/// The name of the workload.
pub(crate) const NAME: &str = "startup";
pub(crate) const WHAT: &str = "`echo`, at least 200 times";
/// Fewest starts of each system, over all rounds.
pub(crate) const RUNS: usize = 200;

/// One start.
pub(crate) fn run(system: &System) -> Result<Usage, String> {
    let mut command = Command::new("echo");
    system.prepare(&mut command);
    command.arg("started").stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let start = Instant::now();
    let child = command.spawn().map_err(|error| format!("cannot start `echo`: {error}"))?;
    let usage = process::wait(child, start)?;
    Ok(Usage { peak_rss_kib: resident(system)?, ..usage })
}

/// An error unless the library is mapped into such a process.
pub(crate) fn check(system: &System) -> Result<(), String> {
    let Some(library) = &system.preload else { return Ok(()) };
    let mut command = Command::new("cat");
    system.prepare(&mut command);
    command.arg("/proc/self/maps");
    let (_, maps) = process::run(command)?;
    let file = library.canonicalize().unwrap_or_else(|_| library.clone());
    if maps.contains(&*file.to_string_lossy()) {
        Ok(())
    } else {
        Err(format!("the preload has no effect: {} is not mapped", file.display()))
    }
}

fn resident(system: &System) -> Result<u64, String> {
    let mut command = Command::new("cat");
    system.prepare(&mut command);
    command.arg("/proc/self/smaps_rollup");
    let (_, text) = process::run(command)?;
    kib_line(&text, "Rss:").ok_or_else(|| "`cat /proc/self/smaps_rollup` shows no resident memory".to_owned())
}
