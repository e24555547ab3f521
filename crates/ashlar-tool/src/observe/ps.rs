//! `ashlar ps`: the processes on ashlar.

use core::fmt::Write;
use std::process::ExitCode;

use super::memory::ReadError;
use super::proc;
use super::process::{Refusal, Target};
use super::report::Report;
use super::text::{short, shortened};
use crate::args::PsArgs;
use crate::error::ToolError;
use crate::output;

/// What was found.
struct Seen {
    reports: Vec<Report>,
    /// Processes on ashlar that could not be read: number, name and why.
    unread: Vec<ToolError>,
    /// The number of processes of other users, which may be on ashlar.
    hidden: usize,
}

/// Runs the command.
pub(crate) fn run(args: &PsArgs) -> Result<ExitCode, ToolError> {
    let seen = look()?;
    if args.json {
        output::print(&(to_json(&seen.reports)? + "\n"))?;
    } else {
        output::print(&table(&seen.reports))?;
    }
    for error in &seen.unread {
        eprintln!("ashlar: {error}");
    }
    if seen.hidden > 0 {
        let processes = if seen.hidden == 1 { "process" } else { "processes" };
        eprintln!("ashlar: {} {processes} of other users may not be looked at", seen.hidden);
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, ToolError> {
    serde_json::to_string(value).map_err(|error| ToolError::Failed(format!("--json: {error}")))
}

/// Returns the processes that can be read.
pub(super) fn readable() -> Result<Vec<Report>, ToolError> {
    Ok(look()?.reports)
}

/// Looks at all processes, in the order of their numbers.
fn look() -> Result<Seen, ToolError> {
    let all = proc::all().map_err(|error| ToolError::Failed(format!("/proc: {error}")))?;
    let mut seen = Seen { reports: Vec::new(), unread: Vec::new(), hidden: 0 };
    for pid in all {
        let target = match Target::open(pid) {
            Ok(target) => target,
            Err((Refusal::OtherUser(_), _)) => {
                seen.hidden += 1;
                continue;
            }
            Err(_) => continue,
        };
        match target.report() {
            Ok(report) => seen.reports.push(report),
            // One that ends is not listed.
            Err(Refusal::Foreign | Refusal::Gone | Refusal::Zombie | Refusal::Unreadable(ReadError::Ended)) => {}
            Err(refusal) => seen.unread.push(refusal.error(pid, &target.name)),
        }
    }
    Ok(seen)
}

/// The table, in 80 columns. A process with several allocators has a row for each.
fn table(reports: &[Report]) -> String {
    let mut text = format!(
        "{:>8} {:<18} {:<9} {:<8} {:>10} {:>10} {:>10}\n",
        "PID", "NAME", "VERSION", "MODE", "RSS/KiB", "LIVE/KiB", "HELD/KiB"
    );
    for report in reports {
        for allocator in &report.allocators {
            let kib = |bytes: u64| short(bytes.div_ceil(1024), 10);
            let _ = writeln!(
                text,
                "{:>8} {:<18} {:<9} {:<8} {:>10} {:>10} {:>10}",
                report.pid,
                shortened(&report.name, 18),
                shortened(&allocator.version, 9),
                allocator.mode,
                short(report.rss_kib, 10),
                kib(allocator.used_bytes.saturating_add(allocator.mapped_bytes)),
                kib(allocator.held_bytes.saturating_add(allocator.mapped_bytes))
            );
        }
    }
    text
}
