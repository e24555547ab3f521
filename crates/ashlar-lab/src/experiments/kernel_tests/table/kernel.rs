//! The lines that the kernel's test module prints, as in the mails of 2007 and 2010.

use core::fmt::Write;

use crate::kit::record::{Record, Report, value};
use crate::kit::statistics::Statistic;

/// The lines of each system, by the titles of the mail of 2010.
pub(crate) fn render(run: &Report, by: Statistic) -> String {
    let mut text = String::new();
    for system in run.systems() {
        let _ = writeln!(text, "\n{system}\n{}", "=".repeat(system.len()));
        let title = format!("{} allocations then {} frees test", run.host.objects, run.host.objects);
        section(&mut text, &title, run, &["A", "B"], |size| alloc_then_free(run, system, size, by));
        let title = format!("{} (alloc + free) test", run.host.objects);
        section(&mut text, &title, run, &["C"], |size| pair(run, system, size, by));
        section(&mut text, "Concurrent allocs, then frees", run, &["D", "D-free"], |size| {
            concurrent(run, system, size, by)
        });
        section(&mut text, "Concurrent alloc/free on all cpus", run, &["E"], |size| {
            concurrent_pair(run, system, size, by)
        });
        section(&mut text, "Remote free", run, &["F"], |size| remote(run, system, size, by));
    }
    if run.records.iter().any(|record| record.test == "F") {
        text += "\nNote: remote frees are per object freed. The module divides CPU 0's time by the objects of one CPU, so the\n\
            mail of 2007 (8 CPUs) most likely shows cycles per 7 objects: multiply by 7 to compare with it.\n";
    }
    if run.records.iter().any(|record| record.oversubscribed) {
        text += "\nNote: oversubscribed, more threads than CPUs: the concurrent figures contain waiting.\n";
    }
    text
}

fn section(text: &mut String, title: &str, run: &Report, tests: &[&str], line: impl Fn(usize) -> Option<String>) {
    let mut sizes: Vec<usize> = tests.iter().flat_map(|test| run.sizes(test)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let lines: Vec<String> = sizes.into_iter().filter_map(line).collect();
    if !lines.is_empty() {
        let _ = writeln!(text, "\n{title}\n\n{}", lines.join("\n"));
    }
}

fn cycles(record: &Record, by: Statistic) -> String {
    format!("{:.0}", value(record, by))
}

fn alloc_then_free(run: &Report, system: &str, size: usize, by: Statistic) -> Option<String> {
    let times = run.host.objects;
    let (unit, kmalloc) = (unit(run), run.cell("A", system, size));
    let kfree = run.cell("B", system, size).map(|record| format!("kfree -> {} {unit}", cycles(record, by)));
    match (kmalloc, kfree) {
        (Some(record), Some(kfree)) => {
            Some(format!("{times} times kmalloc({size}) -> {} {unit} {kfree}", cycles(record, by)))
        }
        (Some(record), None) => Some(format!("{times} times kmalloc({size}) -> {} {unit}", cycles(record, by))),
        // The module never prints B alone; the size must be somewhere.
        (None, Some(kfree)) => Some(format!("{times} times ({size}) {kfree}")),
        (None, None) => None,
    }
}

fn pair(run: &Report, system: &str, size: usize, by: Statistic) -> Option<String> {
    let record = run.cell("C", system, size)?;
    Some(format!("{} times kmalloc({size})/kfree -> {} {}", run.host.objects, cycles(record, by), unit(run)))
}

fn concurrent(run: &Report, system: &str, size: usize, by: Statistic) -> Option<String> {
    let (alloc, free) = (run.cell("D", system, size)?, run.cell("D-free", system, size)?);
    let mut line = format!("Kmalloc N*alloc N*free({size}):");
    for (cpu, (alloc, free)) in alloc.per_cpu.iter().zip(&free.per_cpu).enumerate() {
        let _ = write!(line, " {cpu}={alloc:.0}/{free:.0}");
    }
    let _ = write!(line, " Average={}/{}", cycles(alloc, by), cycles(free, by));
    Some(line)
}

fn concurrent_pair(run: &Report, system: &str, size: usize, by: Statistic) -> Option<String> {
    let record = run.cell("E", system, size)?;
    let mut line = format!("Kmalloc N*(alloc free)({size}):");
    for (cpu, figure) in record.per_cpu.iter().enumerate() {
        let _ = write!(line, " {cpu}={figure:.0}");
    }
    let _ = write!(line, " Average={}", cycles(record, by));
    Some(line)
}

fn remote(run: &Report, system: &str, size: usize, by: Statistic) -> Option<String> {
    let (alloc, free) = (run.cell("F-alloc", system, size)?, run.cell("F", system, size)?);
    let mut line = format!("Kmalloc N*remote free({size}): 0=0/{}", cycles(free, by));
    for (other, figure) in alloc.per_cpu.iter().enumerate() {
        let _ = write!(line, " {}={figure:.0}/0", other + 1);
    }
    let _ = write!(line, " Average={}/{}", cycles(alloc, by), cycles(free, by));
    Some(line)
}

/// The module's word for the unit, where it is one.
fn unit(run: &Report) -> &'static str {
    match run.records.first() {
        Some(record) if record.unit.starts_with("ns") => "ns",
        _ => "cycles",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::record;

    fn run() -> Report {
        let mut run = record::sample(&[
            ("A", "glibc", 8, 86.4),
            ("B", "glibc", 8, 169.7),
            ("C", "glibc", 8, 105.0),
            ("D", "glibc", 16, 99.5),
            ("D-free", "glibc", 16, 137.8),
            ("E", "glibc", 16, 72.0),
            ("F", "glibc", 16, 200.0),
            ("F-alloc", "glibc", 16, 98.0),
        ]);
        run.host.objects = 10_000;
        for record in &mut run.records {
            record.per_cpu = match record.test.as_str() {
                "D" => vec![102.0, 97.0],
                "D-free" => vec![136.4, 139.1],
                "E" => vec![71.0, 73.0],
                _ => record.per_cpu.clone(),
            };
        }
        run
    }

    #[test]
    fn lines_are_those_of_the_module() {
        let text = render(&run(), Statistic::Median);
        for line in [
            "10000 times kmalloc(8) -> 86 cycles kfree -> 170 cycles",
            "10000 times kmalloc(8)/kfree -> 105 cycles",
            "Kmalloc N*alloc N*free(16): 0=102/136 1=97/139 Average=100/138",
            "Kmalloc N*(alloc free)(16): 0=71 1=73 Average=72",
            "Kmalloc N*remote free(16): 0=0/200 1=98/0 Average=98/200",
        ] {
            assert!(text.lines().any(|found| found == line), "no `{line}` in:\n{text}");
        }
    }

    #[test]
    fn a_test_that_was_not_run_has_no_lines() {
        let mut run = run();
        run.records.retain(|record| record.test == "C");
        let text = render(&run, Statistic::Median);
        assert!(!text.contains("Kmalloc N*") && !text.contains("Note"), "{text}");
    }
}
