//! `ashlar info`: the caches and the memory of one process.

use std::fs;
use std::process::ExitCode;

use super::process::Target;
use super::ps::to_json;
use super::report::Report;
use super::{prometheus, text};
use crate::args::InfoArgs;
use crate::error::ToolError;
use crate::output;

/// Runs the command.
pub(crate) fn run(args: &InfoArgs) -> Result<ExitCode, ToolError> {
    let mut report = read(args.process.pid)?;
    if !args.caches.is_empty() {
        keep_caches(&mut report, &args.caches)?;
    }
    if let Some(path) = &args.save {
        let json = to_json(&report)? + "\n";
        fs::write(path, json)
            .map_err(|error| ToolError::option("--save", format_args!("{}: {error}", path.display())))?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = match () {
        () if args.json => to_json(&report)? + "\n",
        () if args.prometheus => prometheus::render(&[report]),
        () if !args.caches.is_empty() => details(&report),
        () => text::process(&report, args.events),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a process that the user named.
pub(crate) fn read(pid: i32) -> Result<Report, ToolError> {
    let target = Target::open(pid).map_err(|(refusal, name)| refusal.error(pid, &name))?;
    target.report().map_err(|refusal| refusal.error(pid, &target.name))
}

/// Leaves only the caches of these names.
pub(super) fn keep_caches(report: &mut Report, names: &[String]) -> Result<(), ToolError> {
    for name in names {
        let known = report.allocators.iter().any(|allocator| {
            let merged = allocator.aliases.iter().map(|alias| &alias.name);
            allocator.caches.iter().map(|cache| &cache.name).chain(merged).any(|known| known == name)
        });
        if !known {
            let Report { pid, name: process, .. } = report;
            return Err(ToolError::option("CACHE", format_args!("{name}: PID {pid} ({process}) has no such cache")));
        }
    }
    for allocator in &mut report.allocators {
        // A merged name stands for the cache that serves it.
        let merged = allocator.aliases.iter().filter(|alias| names.contains(&alias.name));
        let wanted: Vec<String> = merged.map(|alias| alias.cache.clone()).chain(names.iter().cloned()).collect();
        allocator.caches.retain(|cache| wanted.contains(&cache.name));
        allocator.aliases.retain(|alias| wanted.contains(&alias.cache));
    }
    report.allocators.retain(|allocator| !allocator.caches.is_empty());
    Ok(())
}

fn details(report: &Report) -> String {
    let caches = report
        .allocators
        .iter()
        .flat_map(|allocator| allocator.caches.iter().map(move |cache| text::cache(report, allocator, cache)));
    caches.collect::<Vec<_>>().join("\n")
}
