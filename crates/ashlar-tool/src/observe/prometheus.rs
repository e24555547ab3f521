//! The figures in the text format of Prometheus, and in that of OpenMetrics.

use core::fmt::Write;

use super::report::{Allocator, Cache, Report};

/// The two forms of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Version 0.0.4 of the format.
    Prometheus,
    /// Version 1.0.0: counters have a name without `_total`, and the text has an end.
    OpenMetrics,
}

impl Form {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Returns the text of some processes.
pub(super) fn render(reports: &[Report]) -> String {
    figures(reports, Form::Prometheus)
}

/// Returns the text of all processes, of which `left_out` caches are not in `reports`.
pub(super) fn render_all(reports: &[Report], left_out: usize, form: Form) -> String {
    let mut text = figures(reports, form);
    for (name, help, value) in [
        ("export_processes", "Processes on ashlar that could be read.", reports.len()),
        ("export_caches_left_out", "Caches with slabs that are left out, the smallest ones.", left_out),
    ] {
        family(&mut text, name, "gauge", help);
        let _ = writeln!(text, "ashlar_{name} {value}");
    }
    if form == Form::OpenMetrics {
        text += "# EOF\n";
    }
    text
}

fn figures(reports: &[Report], form: Form) -> String {
    let mut text = String::new();
    type OfAllocator = fn(&Allocator) -> u64;
    let of_allocators: [(&str, &str, OfAllocator); 9] = [
        ("used_bytes", "Objects in use, without mappings of single objects.", |a| a.used_bytes),
        ("held_bytes", "Memory taken from the system and not returned.", |a| a.held_bytes),
        ("mapped_bytes", "Mappings of single objects.", |a| a.mapped_bytes),
        ("metadata_bytes", "Caches, sheaves and tables.", |a| a.metadata_bytes),
        ("cached_bytes", "Free objects in front of slabs.", |a| a.cached_bytes),
        ("pinned_bytes", "Free objects in slabs that are in use.", |a| a.pinned_bytes),
        ("dirty_bytes", "Free pages that may be resident.", |a| a.pages.dirty_bytes),
        ("large_objects", "Large objects in the zone.", |a| a.large.objects),
        ("large_bytes", "Memory of large objects in the zone.", |a| a.large.bytes),
    ];
    family(&mut text, "resident_bytes", "gauge", "Resident memory of the process.");
    for report in reports {
        let labels = labels(report, None);
        let _ = writeln!(text, "ashlar_resident_bytes{{{labels}}} {}", report.rss_kib.saturating_mul(1024));
    }
    for (name, help, figure) in of_allocators {
        family(&mut text, name, "gauge", help);
        for (labels, allocator) in allocators(reports) {
            let _ = writeln!(text, "ashlar_{name}{{{labels}}} {}", figure(allocator));
        }
    }
    type OfCache = fn(&Cache) -> u64;
    let of_caches: [(&str, &str, OfCache); 7] = [
        ("cache_active_objects", "Objects in use.", |c| c.active),
        ("cache_objects", "Objects that the slabs can hold.", |c| c.objects),
        ("cache_cached_objects", "Free objects in front of slabs.", |c| c.cached),
        ("cache_object_bytes", "Usable bytes of an object.", |c| c.objsize),
        ("cache_slabs", "Slabs.", |c| c.slabs),
        ("cache_slab_bytes", "Memory of slabs.", |c| c.bytes),
        ("cache_pinned_bytes", "Free objects in slabs that are in use.", |c| c.pinned_bytes),
    ];
    for (name, help, figure) in of_caches {
        family(&mut text, name, "gauge", help);
        for (labels, cache) in caches(reports) {
            let _ = writeln!(text, "ashlar_{name}{{{labels}}} {}", figure(cache));
        }
    }
    let events = if form == Form::OpenMetrics { "cache_events" } else { "cache_events_total" };
    family(&mut text, events, "counter", "Events at a cache since it was created.");
    for (labels, cache) in caches(reports) {
        for (event, count) in cache.events.named() {
            let _ = writeln!(text, "ashlar_cache_events_total{{{labels},event=\"{event}\"}} {count}");
        }
    }
    text
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP ashlar_{name} {help}\n# TYPE ashlar_{name} {kind}");
}

fn labels(report: &Report, allocator: Option<usize>) -> String {
    let mut labels = format!("pid=\"{}\",name=\"{}\"", report.pid, escaped(&report.name));
    if let Some(number) = allocator {
        let _ = write!(labels, ",allocator=\"{number}\"");
    }
    labels
}

fn allocators(reports: &[Report]) -> impl Iterator<Item = (String, &Allocator)> {
    reports.iter().flat_map(|report| {
        let numbered = report.allocators.iter().enumerate();
        numbered.map(|(number, allocator)| (labels(report, Some(number)), allocator))
    })
}

fn caches(reports: &[Report]) -> impl Iterator<Item = (String, &Cache)> {
    allocators(reports).flat_map(|(labels, allocator)| {
        let caches = allocator.caches.iter().enumerate();
        caches.map(move |(number, cache)| {
            // Two caches may have one name.
            let twin = allocator.caches[..number].iter().filter(|other| other.name == cache.name).count();
            let twin = if twin > 0 { format!("#{twin}") } else { String::new() };
            (format!("{labels},cache=\"{}{twin}\"", escaped(&cache.name)), cache)
        })
    })
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
