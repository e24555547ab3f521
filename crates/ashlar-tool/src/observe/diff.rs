//! `ashlar diff`: what changed between two files of `ashlar info --save`.

use core::fmt::Write;
use std::process::ExitCode;

use serde::Serialize;

use super::ps::to_json;
use super::report::{Allocator, Cache, Events, Report};
use super::saved;
use super::text::{is_used, name, short};
use crate::args::DiffArgs;
use crate::error::ToolError;
use crate::output;

/// The change of one process.
#[derive(Debug, Serialize)]
struct Change {
    /// Whether both files are of one process.
    same_process: bool,
    seconds: f64,
    rss_kib: i64,
    allocators: Vec<AllocatorChange>,
}

#[derive(Debug, Serialize)]
struct AllocatorChange {
    used_bytes: i64,
    held_bytes: i64,
    mapped_bytes: i64,
    metadata_bytes: i64,
    pinned_bytes: i64,
    /// The caches that changed, those that grew most first.
    caches: Vec<CacheChange>,
}

#[derive(Debug, Serialize)]
struct CacheChange {
    name: String,
    active: i64,
    slabs: i64,
    /// Bytes of objects in use.
    active_bytes: i64,
    pinned_bytes: i64,
    /// Events in between.
    events: Events,
}

impl CacheChange {
    /// Whether a column of the table would not be 0. The background locks lists of all caches.
    fn has_row(&self) -> bool {
        let Events { alloc_slow, free_slow, alloc_slab, .. } = self.events;
        self.active != 0 || self.active_bytes != 0 || self.slabs != 0 || [alloc_slow, free_slow, alloc_slab] != [0; 3]
    }
}

/// Runs the command.
pub(crate) fn run(args: &DiffArgs) -> Result<ExitCode, ToolError> {
    let (before, after) = (saved::one("A", &args.before)?, saved::one("B", &args.after)?);
    if after.time < before.time {
        return Err(ToolError::option("B", format_args!("{}: was saved before A", args.after.display())));
    }
    let change = change(&before, &after);
    let text = if args.json { to_json(&change)? + "\n" } else { render(&after, &change) };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn growth(before: u64, after: u64) -> i64 {
    i64::try_from(i128::from(after) - i128::from(before)).unwrap_or(if after > before { i64::MAX } else { i64::MIN })
}

fn change(before: &Report, after: &Report) -> Change {
    let nothing = Allocator::default();
    let pairs = after.allocators.iter().enumerate();
    let pairs = pairs.map(|(number, after)| (before.allocators.get(number).unwrap_or(&nothing), after));
    Change {
        same_process: before.pid == after.pid && before.started == after.started,
        seconds: after.time - before.time,
        rss_kib: growth(before.rss_kib, after.rss_kib),
        allocators: pairs.map(|(before, after)| of_allocator(before, after)).collect(),
    }
}

fn of_allocator(before: &Allocator, after: &Allocator) -> AllocatorChange {
    let nothing = Cache::default();
    let find = |caches: &[Cache], name: &str| caches.iter().find(|cache| cache.name == name).cloned();
    let mut caches: Vec<CacheChange> = after
        .caches
        .iter()
        .map(|cache| of_cache(find(&before.caches, &cache.name).as_ref().unwrap_or(&nothing), cache))
        .collect();
    // Caches that have gone.
    let gone = before.caches.iter().filter(|cache| find(&after.caches, &cache.name).is_none() && is_used(cache));
    caches.extend(gone.map(|cache| of_cache(cache, &Cache { name: cache.name.clone(), ..Cache::default() })));
    caches.retain(|cache| cache.active != 0 || cache.slabs != 0 || cache.events != Events::default());
    caches.sort_by(|a, b| b.active_bytes.cmp(&a.active_bytes).then_with(|| a.name.cmp(&b.name)));
    AllocatorChange {
        used_bytes: growth(before.used_bytes, after.used_bytes),
        held_bytes: growth(before.held_bytes, after.held_bytes),
        mapped_bytes: growth(before.mapped_bytes, after.mapped_bytes),
        metadata_bytes: growth(before.metadata_bytes, after.metadata_bytes),
        pinned_bytes: growth(before.pinned_bytes, after.pinned_bytes),
        caches,
    }
}

fn of_cache(before: &Cache, after: &Cache) -> CacheChange {
    let bytes = |cache: &Cache| cache.active.saturating_mul(cache.objsize);
    CacheChange {
        name: after.name.clone(),
        active: growth(before.active, after.active),
        slabs: growth(before.slabs, after.slabs),
        active_bytes: growth(bytes(before), bytes(after)),
        pinned_bytes: growth(before.pinned_bytes, after.pinned_bytes),
        events: after.events.since(&before.events),
    }
}

/// The text, in 80 columns.
fn render(after: &Report, change: &Change) -> String {
    let mut text = format!("{} (PID {}): {:.1} seconds\n", after.name, after.pid, change.seconds);
    if !change.same_process {
        text += "note: A and B are of different processes\n";
    }
    let kib = |bytes: i64| format!("{:+} KiB", bytes / 1024);
    let _ = writeln!(text, "resident {:+} KiB", change.rss_kib);
    let rate = |count: u64| {
        let rate = if change.seconds > 0.0 { count as f64 / change.seconds } else { 0.0 };
        if rate > 0.0 && rate < 9.95 { format!("{rate:.1}") } else { short(rate.round() as u64, 8) }
    };
    for allocator in &change.allocators {
        let _ = writeln!(
            text,
            "in use {}, held {}, mappings {}, pinned {}",
            kib(allocator.used_bytes),
            kib(allocator.held_bytes),
            kib(allocator.mapped_bytes),
            kib(allocator.pinned_bytes)
        );
        let _ = writeln!(
            text,
            "\n{:<20} {:>9} {:>9} {:>7} {:>8} {:>8} {:>8}",
            "# name", "active", "KiB", "slabs", "alloc/s", "free/s", "slabs/s"
        );
        for cache in allocator.caches.iter().filter(|cache| cache.has_row()) {
            let signed = |number: i64, width: usize| {
                let text = short(number.unsigned_abs(), width - 1);
                if number < 0 { format!("-{text}") } else { format!("+{text}") }
            };
            let _ = writeln!(
                text,
                "{} {:>9} {:>9} {:>7} {:>8} {:>8} {:>8}",
                name(&cache.name),
                signed(cache.active, 9),
                signed(cache.active_bytes / 1024, 9),
                signed(cache.slabs, 7),
                rate(cache.events.alloc_slow),
                rate(cache.events.free_slow),
                rate(cache.events.alloc_slab)
            );
        }
    }
    text
}
