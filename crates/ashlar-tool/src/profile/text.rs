//! Tables of a profile, and folded stacks for flame graphs.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use super::read::Profile;
use super::stacks::{Memory, NO_FRAMES, Stack, Stacks};
use crate::args::ProfileBy;

/// Bytes in three digits and a unit.
pub(crate) fn bytes(bytes: f64) -> String {
    let mut value = bytes.max(0.0);
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 999.5 {
            return if unit == "B" || value >= 99.95 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Milliseconds as seconds, minutes or hours.
pub(crate) fn age(ms: u64) -> String {
    match ms / 1000 {
        0..600 => format!("{:.1} s", ms as f64 / 1000.0),
        seconds @ 600..36_000 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// The first lines: what was sampled, and what of it is missing.
pub(super) fn summary(out: &mut impl Write, profile: &Profile, total: &Memory) -> io::Result<()> {
    let counts = profile.counts;
    let rate = match profile.rate {
        0 => "stopped".to_owned(),
        1 => "every object".to_owned(),
        rate => format!("a sample each {}", bytes(rate as f64)),
    };
    writeln!(
        out,
        "heap profile of PID {}: {rate}, {} samples in {}, {} live",
        profile.pid,
        counts.taken,
        age(profile.lasted_ms),
        profile.live.len()
    )?;
    writeln!(out, "live {} of {} allocated", bytes(total.live_bytes), bytes(total.allocated_bytes))?;
    for (count, what) in [
        (counts.lost, "samples had no room in the table and are missing"),
        (counts.truncated, "backtraces were deeper than 64 frames and are truncated"),
        (counts.nested, "samples were taken inside a backtrace and have none"),
    ] {
        if count > 0 {
            writeln!(out, "{count} {what}")?;
        }
    }
    Ok(())
}

/// A row of the table: its own memory, and that of all it called.
#[derive(Default)]
struct Row {
    own: Memory,
    with_callees: Memory,
    place: String,
}

/// Prints the table of the places with most memory.
pub(super) fn top(
    out: &mut impl Write,
    profile: &Profile,
    stacks: &Stacks<'_>,
    by: ProfileBy,
    allocated: bool,
    limit: usize,
) -> io::Result<()> {
    let mut total = Memory::default();
    stacks.all.iter().for_each(|stack| total.add(&stack.memory));
    summary(out, profile, &total)?;
    if by == ProfileBy::Site {
        return sites(out, &stacks.all, &total, allocated, limit);
    }
    let mut rows: Vec<(String, Row)> = match by {
        ProfileBy::Thread => by_thread(profile, stacks),
        ProfileBy::Cache => by_name(&stacks.all, |stack| stack.cache.clone()),
        _ => by_function(&stacks.all),
    }
    .into_iter()
    .collect();
    let key = |row: &Row| if allocated { row.own.allocated_bytes } else { row.own.live_bytes };
    let cumulated = |row: &Row| if allocated { row.with_callees.allocated_bytes } else { row.with_callees.live_bytes };
    rows.sort_by(|(name, a), (other, b)| {
        key(b).total_cmp(&key(a)).then(cumulated(b).total_cmp(&cumulated(a))).then(name.cmp(other))
    });
    let head = match by {
        ProfileBy::Thread => "thread",
        ProfileBy::Cache => "cache",
        _ => "function",
    };
    let whole = if allocated { total.allocated_bytes } else { total.live_bytes };
    let percent = |part: f64| if whole > 0.0 { part * 100.0 / whole } else { 0.0 };
    writeln!(out)?;
    if by == ProfileBy::Function {
        writeln!(
            out,
            "{:>9} {:>6} {:>9} {:>6} {:>9} {:>8}  {head}",
            "# live", "%", "+callees", "%", "allocated", "oldest"
        )?;
    } else {
        writeln!(out, "{:>9} {:>6} {:>9} {:>9} {:>8}  {head}", "# live", "%", "objects", "allocated", "oldest")?;
    }
    let count = rows.len();
    for (name, row) in rows.into_iter().take(limit) {
        let (live, all) = (bytes(row.own.live_bytes), bytes(row.own.allocated_bytes));
        let (share, oldest) = (percent(key(&row)), age(row.own.oldest_ms));
        let oldest = if row.own.live_samples == 0 { "-" } else { oldest.as_str() };
        if by == ProfileBy::Function {
            let (with, part) = (bytes(row.with_callees.live_bytes), percent(cumulated(&row)));
            write!(out, "{live:>9} {share:>6.1} {with:>9} {part:>6.1} {all:>9} {oldest:>8}  {name}")?;
        } else {
            let objects = row.own.live_objects;
            write!(out, "{live:>9} {share:>6.1} {objects:>9.0} {all:>9} {oldest:>8}  {name}")?;
        }
        if row.place.is_empty() { writeln!(out)? } else { writeln!(out, "  {}", row.place)? }
    }
    if count > limit {
        writeln!(out, "... and {} more (--limit)", count - limit)?;
    }
    Ok(())
}

fn by_name(stacks: &[Stack], name: impl Fn(&Stack) -> String) -> HashMap<String, Row> {
    let mut rows: HashMap<String, Row> = HashMap::new();
    for stack in stacks {
        let row = rows.entry(name(stack)).or_default();
        row.own.add(&stack.memory);
        row.with_callees.add(&stack.memory);
    }
    rows
}

fn by_function(stacks: &[Stack]) -> HashMap<String, Row> {
    let mut rows: HashMap<String, Row> = HashMap::new();
    for stack in stacks {
        let row = rows.entry(stack.innermost().to_owned()).or_default();
        row.own.add(&stack.memory);
        if let Some(frame) = stack.functions().next()
            && row.place.is_empty()
            && frame.line != 0
        {
            row.place = format!("{}:{}", frame.file, frame.line);
        }
        // A function that calls itself counts once.
        let names: BTreeSet<&str> = stack.functions().map(|frame| frame.function.as_str()).collect();
        for name in if names.is_empty() { BTreeSet::from([NO_FRAMES]) } else { names } {
            rows.entry(name.to_owned()).or_default().with_callees.add(&stack.memory);
        }
    }
    rows
}

/// Which thread allocated is known of live samples alone.
fn by_thread(profile: &Profile, stacks: &Stacks<'_>) -> HashMap<String, Row> {
    let mut rows: HashMap<String, Row> = HashMap::new();
    for live in &profile.live {
        let row = rows.entry(format!("{} ({})", live.name, live.thread)).or_default();
        row.own.add(&Memory {
            live_bytes: live.bytes(),
            live_objects: live.objects(),
            live_samples: 1,
            oldest_ms: live.age_ms,
            ..Memory::default()
        });
    }
    let mut rest = Memory::default();
    stacks.all.iter().for_each(|stack| rest.allocated_bytes += stack.memory.allocated_bytes);
    rows.entry("all threads".to_owned()).or_default().own.add(&rest);
    rows
}

/// Prints the sites with most memory, each with its backtrace.
pub(super) fn sites(
    out: &mut impl Write,
    stacks: &[Stack],
    total: &Memory,
    allocated: bool,
    limit: usize,
) -> io::Result<()> {
    let key = |memory: &Memory| if allocated { memory.allocated_bytes } else { memory.live_bytes };
    let mut order: Vec<&Stack> = stacks.iter().filter(|stack| key(&stack.memory) > 0.0).collect();
    order.sort_by(|a, b| key(&b.memory).total_cmp(&key(&a.memory)));
    for stack in order.iter().take(limit) {
        let memory = &stack.memory;
        let share = key(memory) * 100.0 / key(total).max(1.0);
        writeln!(
            out,
            "\n{} live ({share:.1} %) in {:.0} objects of {}, the oldest {} old; {} allocated",
            bytes(memory.live_bytes),
            memory.live_objects,
            stack.cache,
            age(memory.oldest_ms),
            bytes(memory.allocated_bytes)
        )?;
        backtrace(out, stack)?;
    }
    if order.len() > limit {
        writeln!(out, "\n... and {} more (--limit)", order.len() - limit)?;
    }
    Ok(())
}

/// Returns the sites of one cache with most live memory, a line each, under a head.
pub(crate) fn of_cache(profile: &Profile, cache: &str, limit: usize) -> String {
    let profile = profile.of_cache(cache);
    let stacks = Stacks::of(&profile);
    let mut order: Vec<&Stack> = stacks.all.iter().filter(|stack| stack.memory.live_samples > 0).collect();
    order.sort_by(|a, b| b.memory.live_bytes.total_cmp(&a.memory.live_bytes));
    let total: f64 = order.iter().map(|stack| stack.memory.live_bytes).sum();
    let mut text = format!("{:>9} {:>6} {:>9} {:>8}  site\n", "# live", "%", "objects", "oldest");
    for Stack { memory, frames, .. } in order.into_iter().take(limit) {
        let names: Vec<&str> = frames.iter().flatten().map(|frame| frame.function.as_str()).collect();
        text += &format!(
            "{:>9} {:>6.1} {:>9.0} {:>8}  {}\n",
            bytes(memory.live_bytes),
            memory.live_bytes * 100.0 / total.max(1.0),
            memory.live_objects,
            age(memory.oldest_ms),
            callers(&names)
        );
    }
    text
}

/// Functions of a backtrace in a row.
const CALLERS: usize = 4;

/// Returns the innermost functions in a row. One that calls itself stands once.
pub(crate) fn callers(names: &[&str]) -> String {
    let mut names = names.to_vec();
    names.dedup();
    names.truncate(CALLERS);
    if names.is_empty() { NO_FRAMES.to_owned() } else { names.join(" < ") }
}

/// Prints the functions of a backtrace, innermost first.
pub(super) fn backtrace(out: &mut impl Write, stack: &Stack) -> io::Result<()> {
    if stack.functions().next().is_none() {
        writeln!(out, "    {NO_FRAMES}")?;
    }
    for frame in stack.functions() {
        if frame.line == 0 {
            writeln!(out, "    {}", frame.function)?;
        } else {
            writeln!(out, "    {} at {}:{}", frame.function, frame.file, frame.line)?;
        }
    }
    Ok(())
}

/// Prints a line for each site: its functions, the outermost first, and its bytes.
pub(super) fn folded(out: &mut impl Write, stacks: &Stacks<'_>, allocated: bool) -> io::Result<()> {
    let mut lines: HashMap<String, f64> = HashMap::new();
    for stack in &stacks.all {
        let names: Vec<String> = stack.functions().rev().map(|frame| frame.function.replace(';', ":")).collect();
        let line = if names.is_empty() { NO_FRAMES.to_owned() } else { names.join(";") };
        let memory = &stack.memory;
        *lines.entry(line).or_default() += if allocated { memory.allocated_bytes } else { memory.live_bytes };
    }
    let mut lines: Vec<(String, f64)> = lines.into_iter().filter(|(_, bytes)| *bytes >= 0.5).collect();
    lines.sort_by(|a, b| a.0.cmp(&b.0));
    lines.iter().try_for_each(|(line, bytes)| writeln!(out, "{line} {bytes:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_have_three_digits() {
        let told = [0.0, 999.0, 1000.0, 20480.0, 102400.0, 1023.0 * 1024.0, 5e9, 5e14].map(bytes);
        assert_eq!(told, ["0 B", "999 B", "1.0 KiB", "20.0 KiB", "100 KiB", "1.0 MiB", "4.7 GiB", "454.7 TiB"]);
        assert_eq!([0, 1500, 599_999, 600_000, 36_000_000].map(age), ["0.0 s", "1.5 s", "600.0 s", "10 min", "10 h"]);
    }
}
