//! The figures as text, in 80 columns.

use core::fmt::Write;

use super::report::{Allocator, Cache, Decay, Events, Report};

/// Columns of a terminal.
pub(super) const WIDTH: usize = 80;
/// Columns of the name of a cache.
const NAME: usize = 20;

/// Returns the text of a whole process.
pub(super) fn process(report: &Report, events: bool) -> String {
    let mut text = String::new();
    for (number, allocator) in report.allocators.iter().enumerate() {
        if number > 0 {
            text += "\n";
        }
        text += &head(report, allocator);
        text += "\n";
        text += &table(allocator);
        if events {
            text += "\n";
            text += &table_of_events(allocator);
        }
        for alias in &allocator.aliases {
            let _ = writeln!(text, "{} in {}", name(&alias.name), alias.cache);
        }
    }
    text
}

/// The two lines that say most of a process.
pub(super) fn summary(report: &Report) -> Vec<String> {
    let sum = |figure: fn(&Allocator) -> u64| report.allocators.iter().map(figure).fold(0, u64::saturating_add);
    let kib = |figure: fn(&Allocator) -> u64| sum(figure).div_ceil(1024);
    vec![
        format!("{} (PID {}){}: resident {} KiB", report.name, report.pid, state(report.state), report.rss_kib),
        format!(
            "in use {} KiB, held {} KiB, pinned {} KiB",
            kib(|a| a.used_bytes),
            kib(|a| a.held_bytes),
            kib(|a| a.pinned_bytes)
        ),
    ]
}

/// What is true of the process and of the allocator as a whole.
fn head(report: &Report, allocator: &Allocator) -> String {
    let mut text = String::new();
    let inner = report.inner_pid.map_or(String::new(), |inner| format!(", {inner} inside"));
    let _ = writeln!(text, "{} (PID {}{inner}){}", report.name, report.pid, state(report.state));
    let thread = if allocator.thread { ", background thread" } else { "" };
    let Allocator { version, mode, engine, .. } = allocator;
    let _ = writeln!(text, "ashlar {version}: mode {mode}, engine {engine}{thread}");
    let file = allocator.file.chars().collect::<Vec<_>>();
    let cut = file.len().saturating_sub(WIDTH - 6);
    let _ = writeln!(text, "in {}{}", if cut > 0 { "..." } else { "" }, file[cut..].iter().collect::<String>());
    if !allocator.options.is_empty() {
        let _ = writeln!(text, "options {}", shortened(&allocator.options, WIDTH - 8));
    }
    let kib = |bytes: u64| bytes.div_ceil(1024);
    let _ = writeln!(text, "resident {} KiB, peak {} KiB", report.rss_kib, report.peak_kib);
    let _ = writeln!(
        text,
        "in use {} KiB, held {} KiB, mappings {} KiB, metadata {} KiB",
        kib(allocator.used_bytes),
        kib(allocator.held_bytes),
        kib(allocator.mapped_bytes),
        kib(allocator.metadata_bytes)
    );
    let pages = &allocator.pages;
    let _ = writeln!(
        text,
        "free: {} KiB in front of slabs, {} KiB pinned in slabs, {} KiB of pages",
        kib(allocator.cached_bytes),
        kib(allocator.pinned_bytes),
        kib(pages.dirty_bytes)
    );
    let _ = writeln!(text, "large objects: {} of {} KiB", allocator.large.objects, kib(allocator.large.bytes));
    let decay = match pages.decay {
        Decay::Nothing => "no free page may be resident".to_owned(),
        Decay::Resting => "too few free pages to give back".to_owned(),
        Decay::Later => format!("not due, the oldest free pages have waited {} ms", pages.oldest_ms),
        Decay::Due => format!("due at the next tick, the oldest have waited {} ms", pages.oldest_ms),
    };
    let _ = writeln!(text, "decay {} ms: {decay}", pages.decay_ms);
    text
}

fn state(letter: char) -> &'static str {
    match letter {
        'T' | 't' => ", stopped",
        _ => "",
    }
}

/// The caches that have slabs or objects, the largest first.
pub(super) fn table(allocator: &Allocator) -> String {
    let mut text = format!(
        "{:<NAME$} {:>7} {:>9} {:>8} {:>7} {:>7} {:>6} {:>8}\n",
        "# name", "objsize", "active", "cached", "full", "partial", "empty", "pinned/K"
    );
    let mut used: Vec<&Cache> = allocator.caches.iter().filter(|cache| is_used(cache)).collect();
    used.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    for cache in used {
        let _ = writeln!(
            text,
            "{} {:>7} {:>9} {:>8} {:>7} {:>7} {:>6} {:>8}",
            name(&cache.name),
            cache.objsize,
            short(cache.active, 9),
            short(cache.cached, 8),
            short(cache.full, 7),
            short(cache.partial, 7),
            short(cache.empty, 6),
            short(cache.pinned_bytes.div_ceil(1024), 8)
        );
    }
    text
}

pub(super) fn is_used(cache: &Cache) -> bool {
    cache.slabs > 0 || cache.active > 0
}

/// What happened at the caches.
fn table_of_events(allocator: &Allocator) -> String {
    let row = |name: String, cells: [String; 8]| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>6}")).collect();
        format!("{name}{cells}\n")
    };
    let heads = ["alloc", "free", "refill", "flush", "slabs+", "slabs-", "remote", "waits"];
    let mut text = row(format!("{:<NAME$}", "# slow paths"), heads.map(str::to_owned));
    for cache in allocator.caches.iter().filter(|cache| cache.events != Events::default()) {
        let e = &cache.events;
        let [refill, flush, taken, given] = [e.sheaf_refill, e.sheaf_flush, e.alloc_slab, e.free_slab];
        let counts = [e.alloc_slow, e.free_slow, refill, flush, taken, given, e.remote_free, e.lock_waits];
        text += &row(name(&cache.name), counts.map(|count| short(count, 6)));
    }
    text
}

/// All figures of one cache, a line each.
pub(super) fn cache(report: &Report, allocator: &Allocator, cache: &Cache) -> String {
    figures_of(report, cache) + &events_of(allocator, cache)
}

/// What a cache has, and its tunables.
pub(super) fn figures_of(report: &Report, cache: &Cache) -> String {
    let mut text = format!("{} of {} (PID {})\n", cache.name, report.name, report.pid);
    let mut line = |what: &str, figure: String| {
        let _ = writeln!(text, "{what:<24} {figure}");
    };
    line("engine", cache.engine.clone());
    line("objsize, stride, align", format!("{}, {}, {} bytes", cache.objsize, cache.stride, cache.align));
    line("slab", format!("order {}, {} objects", cache.order, cache.objperslab));
    line("active", cache.active.to_string());
    line("objects", cache.objects.to_string());
    line("on sheaves of CPUs", cache.on_cpus.to_string());
    line("in barns", format!("{} on {} full sheaves", cache.in_barns, cache.full_sheaves));
    line("evicted", cache.evicted.to_string());
    line("slabs", cache.slabs.to_string());
    line("full, partial, empty", format!("{}, {}, {}", cache.full, cache.partial, cache.empty));
    line("bytes of slabs", cache.bytes.to_string());
    line("bytes pinned", cache.pinned_bytes.to_string());
    let tunables = &cache.tunables;
    line("sheaf_capacity", tunables.sheaf_capacity.to_string());
    line("barn_limit", tunables.barn_limit.to_string());
    line("min_partial", tunables.min_partial.to_string());
    line("cpu_partial", tunables.cpu_partial.to_string());
    line("remote_node_defrag_ratio", tunables.remote_node_defrag_ratio.to_string());
    text
}

/// What happened at a cache, and its other names.
pub(super) fn events_of(allocator: &Allocator, cache: &Cache) -> String {
    let mut text = String::new();
    let mut line = |what: &str, figure: String| {
        let _ = writeln!(text, "{what:<24} {figure}");
    };
    for (event, count) in cache.events.named() {
        line(event, count.to_string());
    }
    let names = allocator.aliases.iter().filter(|alias| alias.cache == cache.name);
    for alias in names {
        line("also named", format!("{} ({} bytes)", alias.name, alias.objsize));
    }
    text
}

/// A name in its columns.
pub(super) fn name(name: &str) -> String {
    format!("{:<NAME$}", shortened(name, NAME))
}

/// Cuts a text to `width` columns.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(2)).collect::<String>() + ".."
}

/// A number in at most `width` columns.
pub(super) fn short(number: u64, width: usize) -> String {
    let units = [(1, ""), (1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G"), (1_000_000_000_000, "T")];
    let texts = units.iter().map(|(unit, sign)| format!("{}{sign}", number / unit));
    texts.into_iter().find(|text| text.len() <= width).unwrap_or_else(|| ">".repeat(width.min(3)))
}
