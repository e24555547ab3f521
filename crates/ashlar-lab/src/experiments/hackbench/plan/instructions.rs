//! The instructions of hackbench, counted by valgrind, for machines that do not count them.
//!
//! Each system runs twice under valgrind, with all loops and with one. The difference has the
//! messages alone: neither the start of the program nor that of its heap. It is exact but for what
//! waiters do; valgrind runs one thread at a time. Instructions of the kernel are not counted.

use std::process::{Command, Stdio};

use crate::experiments::hackbench::plan::Work;
use crate::kit::once;
use crate::kit::record::Record;
use crate::systems::column::Column;

/// Whether valgrind is installed.
pub(crate) fn can_count() -> bool {
    let version = Command::new("valgrind").arg("--version").stdin(Stdio::null()).output();
    version.is_ok_and(|output| output.status.success())
}

/// The instructions of the messages of one run of a system.
pub(crate) fn count(column: &Column, work: &Work) -> Result<f64, String> {
    let whole = executed(column, work)?;
    Ok(whole - executed(column, &Work { loops: 1, ..work.clone() })?)
}

/// The record of a system, of which `done` was counted.
pub(crate) fn record(id: &str, done: &Work, all: usize, samples: &[f64]) -> Record {
    let scale = (done.loops < all).then(|| done.loops as f64 / all as f64);
    Record { size: done.sizes[0], scale, ..once::record("hackbench-instructions", id, "count", samples) }
}

fn executed(column: &Column, work: &Work) -> Result<f64, String> {
    let fail = |error: String| format!("{}: {error}", column.name);
    let program = std::env::current_exe().map_err(|error| fail(error.to_string()))?;
    let plan = serde_json::to_string(work).map_err(|error| fail(error.to_string()))?;
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(program)
        .args(["hackbench-child", column.info.id, &plan])
        .envs(column.info.env.iter().copied())
        .stdin(Stdio::null());
    if let Some(engine) = column.info.engine {
        let before = std::env::var("ASHLAR_OPTIONS").unwrap_or_default();
        command.env("ASHLAR_OPTIONS", format!("{before},engine={engine}"));
    }
    let output = command.output().map_err(|error| fail(format!("cannot start valgrind: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = said.lines().last().unwrap_or_default();
        return Err(fail(format!("valgrind ended: {}: {last}", output.status)));
    }
    told(&said).ok_or_else(|| fail("valgrind told no number of instructions".to_owned()))
}

/// The number that cachegrind tells: `==12== I   refs:      273,724,592`.
fn told(said: &str) -> Option<f64> {
    let number = said.lines().find_map(|line| line.split_once("refs:").filter(|(name, _)| name.contains("I ")))?.1;
    number.trim().replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found_in_what_cachegrind_says() {
        let said = "==12== Cachegrind\n==12== Command: x\n==12== I   refs:      273,724,592\n==12== \n";
        assert_eq!(told(said), Some(273_724_592.0));
        assert_eq!(told("==12== D   refs:  1\n"), None);
    }
}
