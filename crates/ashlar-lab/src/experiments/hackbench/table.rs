//! What hackbench prints, then what `perf stat` prints under it, then the memory: the form of the
//! mails.

use core::fmt::Write;

use crate::experiments::hackbench::plan::{Answer, Count, Figures, Work};
use crate::kit::counts::Search;
use crate::kit::record::Report;
use crate::kit::table::seconds as precise;

/// The block of one system: of its best round, and the times of all.
pub(crate) fn system(id: &str, done: &Work, all: usize, answers: &[Answer]) -> String {
    let Some(best) = answers.iter().min_by_key(|answer| answer.elapsed) else { return String::new() };
    let mut text = String::new();
    let (kind, tasks) = if done.processes { ("process", 2 * done.fds) } else { ("threaded", 2 * done.fds) };
    let sizes = done.sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let options = format!("hackbench -g {} -l {} -f {} -s {sizes}", done.groups, done.loops, done.fds);
    let _ = writeln!(
        text,
        "\n{id}\nRunning in {kind} mode with {} groups using {tasks} tasks each (== {} tasks)\n\
         Each sender will pass {} messages of {sizes} bytes",
        done.groups,
        done.groups * tasks,
        done.loops * done.fds
    );
    let seconds = best.elapsed.as_secs_f64();
    let _ = writeln!(text, "Time: {}", precise(seconds));
    if answers.len() > 1 {
        let times: Vec<String> = answers.iter().map(|answer| precise(answer.elapsed.as_secs_f64())).collect();
        let _ = writeln!(text, "(the least of {})", times.join(", "));
    }
    if done.boot > 0.0 {
        let _ = writeln!(text, "(on a heap that has been up for a while: --boot {})", done.boot);
    }
    if done.loops < all {
        let whole = seconds * all as f64 / done.loops as f64;
        let _ = writeln!(
            text,
            "(--scale: {} of {all} loops; all of them, if the time grows in step, would take {whole:.3})",
            done.loops
        );
    }
    let _ = writeln!(text, "\n Performance counter stats for '{options}':\n");
    for count in &best.counts {
        let _ = writeln!(text, "{}", counter(count, best, seconds));
    }
    let _ = writeln!(text, "\n{seconds:>18.9} seconds time elapsed\n");
    let _ = writeln!(text, "{:>18.9} seconds user", best.usage.user.as_secs_f64());
    let _ = writeln!(text, "{:>18.9} seconds sys", best.usage.sys.as_secs_f64());
    let _ = writeln!(
        text,
        "\nmemory usage:\nbefore hackbench:\n{}\nafter hackbench:\n{}",
        memory(&best.before),
        memory(&best.after)
    );
    if let Some(counts) = &best.heap {
        let _ = writeln!(text, "\nlocks: {:.3} for an allocation or free", counts.locks);
        text += &counts.search.as_ref().map(search).unwrap_or_default();
    }
    text
}

/// What an allocator that searches did meanwhile.
fn search(search: &Search) -> String {
    format!(
        "search: {:.1} pages for an allocation, {:.1} of them walked, {:.1} free blocks looked at there; {:.1} free blocks for a free; \
         {:.1} % of the calls waited for slob_lock\n",
        search.pages,
        search.walked,
        search.blocks,
        search.free_blocks,
        100.0 * search.waits
    )
}

fn memory(figures: &Figures) -> String {
    let slab = match figures.slab_kib {
        Some(kib) => format!("Slab: {kib} kB (and {} kB that describe and queue them), ", figures.metadata_kib),
        None => String::new(),
    };
    format!("{slab}RSS: {} kB", figures.rss_kib)
}

/// A line as `perf stat` prints it.
fn counter(count: &Count, answer: &Answer, seconds: f64) -> String {
    let of = |name: &str| answer.counts.iter().find(|count| count.name == name).and_then(|count| count.value);
    let Some(value) = count.value else {
        return format!("{:>18}      {}", "<not supported>", count.name);
    };
    let clock = of("task-clock").unwrap_or(0.0) / 1e3;
    let rate = |value: f64| match value / clock {
        per if per >= 1e6 => format!("{:9.3} M/sec", per / 1e6),
        per if per >= 1e3 => format!("{:9.3} K/sec", per / 1e3),
        per => format!("{per:9.3} /sec"),
    };
    let share = |of_what: Option<f64>, what: &str| match of_what {
        Some(all) if all > 0.0 => format!("{:9.3} % of all {what}", 100.0 * value / all),
        _ => rate(value),
    };
    let (shown, remark) = match count.name.as_str() {
        "task-clock" => (format!("{value:.2} msec"), format!("{:9.3} CPUs utilized", value / 1e3 / seconds)),
        "cycles" => (format!("{value:.0}"), format!("{:9.3} GHz", value / clock / 1e9)),
        "instructions" => {
            let each = of("cycles")
                .filter(|cycles| *cycles > 0.0)
                .map(|cycles| format!("{:9.2} insn per cycle", value / cycles));
            (format!("{value:.0}"), each.unwrap_or_else(|| rate(value)))
        }
        "branch-misses" => (format!("{value:.0}"), share(of("branches"), "branches")),
        "cache-misses" => (format!("{value:.0}"), share(of("cache-references"), "cache refs")),
        _ => (format!("{value:.0}"), rate(value)),
    };
    format!("{shown:>18}      {:<18} # {remark}", count.name)
}

/// One line for each system, where there are several.
pub(crate) fn summary(run: &Report) -> String {
    let systems = run.systems();
    if systems.len() < 2 {
        return String::new();
    }
    let mut text = format!(
        "\n{:<16} {:>10} {:>10} {:>12} {:>10} {:>10}\n",
        "system", "best, s", "median, s", "ns/message", "Slab kB", "RSS kB"
    );
    for system in systems {
        let of = |test: &str, phase: Option<&str>| {
            run.records
                .iter()
                .find(|record| record.system == system && record.test == test && record.phase.as_deref() == phase)
        };
        let (Some(time), Some(message)) = (of("hackbench", None), of("hackbench-message", None)) else { continue };
        let kib =
            |test| of(test, Some("after")).map_or_else(|| "-".to_owned(), |record| format!("{:.0}", record.median));
        let scaled = time.scale.map_or_else(String::new, |scale| format!("  with {scale} of the loops"));
        let _ = writeln!(
            text,
            "{system:<16} {:>10} {:>10} {:>12.1} {:>10} {:>10}{scaled}",
            precise(time.min),
            precise(time.median),
            message.median,
            kib("hackbench-slab"),
            kib("hackbench-rss")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::experiments::hackbench::plan::{NAMES, Usage};
    use crate::kit::counts::Counts;

    #[test]
    fn the_block_has_the_lines_of_the_mail_and_names_what_is_not_supported() {
        let value = |at: usize| {
            [Some(57_669.66), Some(902_343.0), None, Some(4116.0), Some(1e9), Some(2e9)].get(at).copied().flatten()
        };
        let counts =
            NAMES.iter().enumerate().map(|(at, name)| Count { name: (*name).to_owned(), value: value(at) }).collect();
        let figures = |kib| Figures { slab_kib: Some(kib), metadata_kib: 3, rss_kib: 9 };
        let search = Search { pages: 81.52, walked: 9.0, blocks: 30.26, free_blocks: 4.0, waits: 0.125 };
        let answer = Answer {
            note: String::new(),
            elapsed: Duration::from_millis(28_896),
            counts,
            usage: Usage::default(),
            heap: Some(Counts { locks: 1.0, slow: 1.0, search: Some(search) }),
            before: figures(7560),
            after: figures(7836),
        };
        let done = Work { groups: 4, loops: 200, fds: 20, sizes: vec![100], processes: false, boot: 1.0 };
        let text = system("slob", &done, 10_000, &[answer]);
        for line in [
            "Time: 28.896",
            "200 of 10000 loops; all of them, if the time grows in step, would take 1444.800",
            "Performance counter stats for 'hackbench -g 4 -l 200 -f 20 -s 100':",
            "57669.66 msec      task-clock         #     1.996 CPUs utilized",
            "902343      context-switches   #    15.647 K/sec",
            "<not supported>      cpu-migrations",
            "2000000000      instructions       #      2.00 insn per cycle",
            "<not supported>      cache-misses",
            "28.896000000 seconds time elapsed",
            "Slab: 7560 kB",
            "Slab: 7836 kB",
            "locks: 1.000 for an allocation or free",
            "search: 81.5 pages for an allocation, 9.0 of them walked, 30.3 free blocks looked at there; 4.0 free blocks for a free; 12.5 % of",
        ] {
            assert!(text.contains(line), "no `{line}` in:\n{text}");
        }
    }
}
