//! What is printed, in 80 columns: what ran, the table, notes, and the answer.

use core::fmt::Write;

use super::metric::{Change, Metric, show_ratio};
use super::record::{Record, Row};
use super::verdict;

/// Columns of the terminal.
pub(super) const WIDTH: usize = 80;
/// Columns of the names of the rows.
const NAME: usize = 14;
/// Columns of each figure.
const CELL: usize = 13;

/// Returns the whole text.
pub(super) fn render(record: &Record) -> String {
    let mut text = shortened(&record.program.join(" "), WIDTH) + "\n";
    let warmup = match record.warmup {
        0 => "no warm-up".to_owned(),
        1 => "1 round of warm-up".to_owned(),
        rounds => format!("{rounds} rounds of warm-up"),
    };
    let checked = if record.checked { "outputs compared" } else { "outputs not compared" };
    let rounds = plural(record.rounds, "round");
    let _ = writeln!(text, "{rounds} of {}, {warmup}, {checked}", plural(record.mallocs.len(), "malloc"));
    for row in &record.mallocs {
        text += &row_of_legend(row);
    }
    if record.rounds > 0 {
        text += "\n";
        text += &table(record);
    }
    text += "\n";
    for note in &record.notes {
        text += &wrapped(&format!("note: {note}"));
    }
    for line in verdict::lines(record) {
        text += &wrapped(&line);
    }
    text
}

fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// The version of a malloc and where it is.
fn row_of_legend(row: &Row) -> String {
    let malloc = &row.malloc;
    let mut what = malloc.version.clone();
    if let Some(options) = &malloc.options {
        let _ = write!(what, " [{options}]");
    }
    let what = shortened(&what, WIDTH - NAME - 22);
    let place = malloc.preload.as_ref().map(|path| {
        // The end of a path says more than its start.
        let path: Vec<char> = path.display().to_string().chars().collect();
        let room = WIDTH - NAME - what.chars().count() - 2;
        if path.len() <= room {
            return format!(", {}", path.iter().collect::<String>());
        }
        format!(", ...{}", path[path.len() - (room - 3)..].iter().collect::<String>())
    });
    format!("{:NAME$}{what}{}\n", row.id(), place.unwrap_or_default())
}

fn table(record: &Record) -> String {
    let line = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|cell| format!("{cell:>CELL$}")).collect();
        format!("{name:NAME$}{cells}").trim_end().to_owned() + "\n"
    };
    let mut text = line("", &mut Metric::ALL.iter().map(|metric| metric.title().to_owned()));
    if let Some(system) = record.mallocs.first() {
        let medians =
            Metric::ALL.iter().map(|metric| system.median(*metric).map_or("-".to_owned(), |at| metric.show(at)));
        text += &line(system.id(), &mut medians.into_iter());
    }
    for row in record.compared() {
        let changes = || Metric::ALL.iter().map(|metric| (metric, row.changes.of(*metric)));
        text += &line(row.id(), &mut changes().map(|(metric, change)| median(*metric, change)));
        if record.rounds > 1 {
            text += &line("", &mut changes().map(|(metric, change)| ends(*metric, change)));
        }
    }
    let kind = match record.rounds {
        1 => "ratios to it",
        2..=5 => "ratios to it, and their range",
        _ => "ratios to it, and their 95 % intervals",
    };
    text += &wrapped(&format!(
        "{}: medians; the others: {kind}. Memory is that of the largest process.",
        record.mallocs.first().map_or("", Row::id)
    ));
    text
}

fn median(metric: Metric, change: Option<Change>) -> String {
    match change {
        Some(Change::Ratio(of)) => show_ratio(of.median),
        Some(Change::Difference(of)) => metric.show_difference(of.median),
        None => "-".to_owned(),
    }
}

fn ends(metric: Metric, change: Option<Change>) -> String {
    match change {
        Some(Change::Ratio(of)) => format!("{}-{}", show_ratio(of.low), show_ratio(of.high)),
        Some(Change::Difference(of)) => {
            let ends = format!("{}..{}", metric.show_difference(of.low), metric.show_difference(of.high));
            // Large differences are told by their medians alone.
            if ends.len() < CELL { ends } else { String::new() }
        }
        None => String::new(),
    }
}

/// Text of at most `most` characters.
fn shortened(text: &str, most: usize) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() <= most { text } else { text.chars().take(most - 3).collect::<String>() + "..." }
}

/// Breaks a line between words, with an indent for those that follow.
pub(super) fn wrapped(line: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            text.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mallocs::Malloc;
    use crate::compare::record::Run;
    use crate::compare::spool::Spool;
    use crate::resources::{End, Usage};
    use core::time::Duration;

    fn row(id: &str, runs: &[Usage]) -> Row {
        let malloc = Malloc {
            id: id.to_owned(),
            preload: (id != "system").then(|| format!("/a/{}/lib.so", "long/".repeat(30)).into()),
            version: "libtcmalloc-minimal4 2.10-1+".repeat(4),
            options: Some("decay=50,percpu=lock".to_owned()),
        };
        let stdout = Spool::new().unwrap().digest().unwrap();
        let runs = runs.iter().map(|&usage| Run { turn: 0, end: End::Code(0), usage, stdout }).collect();
        Row { runs, ..Row::new(malloc) }
    }

    fn record(rows: Vec<Row>) -> Record {
        let mut record = Record {
            program: vec!["python3".to_owned(), "-c".to_owned(), "print(1)\n".repeat(30)],
            host: crate::host::describe(),
            rounds: 0,
            planned_rounds: 6,
            warmup: 1,
            checked: true,
            interrupted: None,
            mallocs: rows,
            notes: vec!["a note ".repeat(30).trim().to_owned()],
        };
        record.finish();
        record
    }

    #[test]
    fn the_widest_values_stay_within_80_columns() {
        let usage = |scale: u64| Usage {
            elapsed: Duration::from_micros(999_999 * scale),
            user: Duration::from_micros(99_999 * scale),
            system: Duration::ZERO,
            peak_kib: 1_048_570 * scale,
            minor_faults: 99_999_999 * scale,
            major_faults: 0,
            voluntary_switches: 0,
            involuntary_switches: 999_999_999 * (scale - 1),
        };
        let rounds = |scales: [u64; 6]| scales.map(usage);
        let rows = vec![
            row("system", &rounds([1, 1, 2, 1, 1, 1])),
            row("ashlar", &rounds([1234, 1, 99, 9999, 3, 2])),
            row("a-very-long-n", &rounds([1_000_000, 2_000_000, 1_000_000, 1, 999_999_999, 1])),
        ];
        let text = render(&record(rows));
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert_eq!(line, line.trim_end());
        }
        assert!(text.contains("\nashlar "), "{text}");
        // Each figure stands in its own column.
        let ashlar = text.lines().rfind(|line| line.starts_with("ashlar   ")).unwrap();
        assert_eq!(ashlar.split_whitespace().count(), 6, "{ashlar}");
    }

    #[test]
    fn ratios_stand_below_the_figures_of_the_system() {
        let usage = |ms: u64, kib: u64| Usage {
            elapsed: Duration::from_millis(ms),
            user: Duration::from_millis(ms),
            peak_kib: kib,
            minor_faults: 10,
            voluntary_switches: 2,
            ..Usage::default()
        };
        let rows = vec![row("system", &[usage(1000, 2048); 6]), row("ashlar", &[usage(900, 1024); 6])];
        let text = render(&record(rows));
        let squeezed = |start: &str| {
            let line = text.lines().rfind(|line| line.starts_with(start)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(squeezed("system   "), "system 1.000 s 1.000 s 2.000 MiB 10 2");
        assert_eq!(squeezed("ashlar   "), "ashlar 0.900 0.900 0.500 1.000 1.000");
        assert!(text.contains("  0.900-0.900  0.900-0.900  0.500-0.500"), "{text}");
        assert!(text.ends_with("ashlar: 10 % less time (10 to 10 %), 50 % less memory (50 to 50 %).\n"), "{text}");
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let line = "word ".repeat(40);
        let text = wrapped(line.trim());
        assert!(text.lines().count() == 3 && text.lines().skip(1).all(|line| line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 40);
    }
}
