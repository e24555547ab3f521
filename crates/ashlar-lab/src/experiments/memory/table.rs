//! What `bench memory` prints: a block for each figure, systems down, phases across.

use core::fmt::Write;

use crate::experiments::memory::plan::Plan;
use crate::kit::record::{self, Report};
use crate::kit::table::machine;
use crate::systems::trace::Trace;

/// Test, title.
const BLOCKS: [(&str, &str); 5] = [
    ("memory-slab", "Slab: kB of slabs and large objects (systems that have slabs)"),
    (
        "memory-metadata",
        "kB that describe and queue the slabs: caches, tables, sheaves (a CPU's arrays of free objects)",
    ),
    ("memory-rss", "RSS: kB by which resident memory has grown"),
    ("memory-utilisation", "Utilisation: per cent of the slabs, or of RSS where slabs are unknown, that is live"),
    ("memory-peak-over-live", "Peak over live: most resident of most live, so far"),
];

/// All blocks.
pub(crate) fn render(run: &Report, plan: &Plan, hash: u64, shrinks: &[(&str, Option<&str>)]) -> String {
    let mut text = machine(&run.host);
    let profile =
        clap::ValueEnum::to_possible_value(&plan.profile).map_or_else(String::new, |value| value.get_name().to_owned());
    let _ = writeln!(
        text,
        "trace `{profile}`, scale {}, seed {}, hash {hash:016x} on every system; {} rounds: medians",
        plan.scale, plan.seed, run.host.rounds
    );
    for (system, shrink) in shrinks {
        let _ = writeln!(text, "  {system} shrinks by {}", shrink.unwrap_or("nothing: it has no such call"));
    }
    let phases = Trace::phases(plan.profile);
    let systems = run.systems();
    let width = systems.iter().map(|system| system.len()).max().unwrap_or(0).max(8);
    let figure = |test: &str, system: &str, phase: &str| {
        let of = |record: &&record::Record| {
            record.test == test && record.system == system && record.phase.as_deref() == Some(phase)
        };
        run.records.iter().find(of).map(|record| (record.median, record.unit.as_str()))
    };
    let head = |text: &mut String, title: &str| {
        let _ = write!(text, "\n{title}\n{:width$}", "");
        for phase in phases {
            let _ = write!(text, " {phase:>10}");
        }
        text.push('\n');
    };
    let line = |text: &mut String, name: &str, test: &str, system: &str| {
        let _ = write!(text, "{name:width$}");
        for phase in phases {
            let shown = match figure(test, system, phase) {
                Some((value, "KiB")) => format!("{value:.0}"),
                Some((value, "ratio")) => format!("{value:.2}"),
                Some((value, _)) => format!("{value:.1}"),
                None => "-".to_owned(),
            };
            let _ = write!(text, " {shown:>10}");
        }
        text.push('\n');
    };
    if let Some(first) = systems.first() {
        head(&mut text, "Live: kB asked for and not freed, of every system");
        line(&mut text, "all", "memory-live", first);
    }
    for (test, title) in BLOCKS {
        head(&mut text, title);
        for system in systems.iter().filter(|system| phases.iter().any(|phase| figure(test, system, phase).is_some())) {
            line(&mut text, system, test, system);
        }
    }
    text
}
