//! The answer in words.

use super::metric::{Change, Metric};
use super::record::{Record, Row};
use crate::interval::Interval;

/// Returns a sentence for each malloc that was compared, or why it was not; ashlar last, as the
/// answer.
pub(super) fn lines(record: &Record) -> Vec<String> {
    let mut rows: Vec<&Row> = record.mallocs.iter().skip(1).collect();
    let first = rows.len().min(1);
    rows.rotate_left(first);
    rows.into_iter().filter_map(|row| sentence(row, record.rounds)).collect()
}

fn sentence(row: &Row, rounds: usize) -> Option<String> {
    if let Some(why) = &row.left_out {
        return Some(format!("{}: not compared: {why}.", row.id()));
    }
    let ratio = |metric: Metric| match row.changes.of(metric) {
        Some(Change::Ratio(interval)) => Some(interval),
        _ => None,
    };
    let (time, cpu, memory) = (ratio(Metric::Elapsed)?, ratio(Metric::Cpu), ratio(Metric::Memory)?);
    if !time.enough {
        let seen = if rounds == 1 { " One round shows nothing sure" } else { " So few rounds show nothing sure" };
        return Some(format!(
            "{}: {} time, {} memory.{seen}: at least 6 are needed.",
            row.id(),
            change(time.median),
            change(memory.median)
        ));
    }
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    for (what, interval) in [("time", Some(time)), ("CPU time", cpu), ("memory", Some(memory))] {
        let Some(interval) = interval else { continue };
        // CPU time says more only where elapsed time says nothing.
        if what == "CPU time" && (time.excludes(1.0) || !interval.excludes(1.0)) {
            continue;
        }
        if interval.excludes(1.0) {
            known.push(difference(what, interval));
        } else {
            unknown.push(format!("{what} ({} to {})", change(interval.low), change(interval.high)));
        }
    }
    let unknown = format!("no difference in {} that {rounds} rounds can show", unknown.join(" or "));
    let unknown = if unknown.contains('(') { Some(unknown) } else { None };
    let known = (!known.is_empty()).then(|| known.join(", "));
    Some(format!("{}: {}.", row.id(), known.into_iter().chain(unknown).collect::<Vec<_>>().join("; ")))
}

/// A difference that is sure: "12 % less time (8 to 15 %)".
fn difference(what: &str, Interval { median, low, high, .. }: Interval) -> String {
    if median >= 2.0 {
        return format!("{} times the {what} ({} to {})", times(median), times(low), times(high));
    }
    let less = median < 1.0;
    let (near, far) = if less { (1.0 - high, 1.0 - low) } else { (low - 1.0, high - 1.0) };
    let word = if less { "less" } else { "more" };
    format!("{} % {word} {what} ({} to {} %)", percent((1.0 - median).abs()), percent(near), percent(far))
}

/// One end of an interval, or a median that is not sure: "3 % more".
fn change(ratio: f64) -> String {
    match ratio {
        2.0.. => format!("{} times as much", times(ratio)),
        1.0.. => format!("{} % more", percent(ratio - 1.0)),
        _ => format!("{} % less", percent(1.0 - ratio)),
    }
}

fn times(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

/// Two digits, and no point without need.
fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    match percent {
        ..0.005 => "0".to_owned(),
        ..0.0995 => format!("{percent:.2}"),
        ..9.95 => format!("{percent:.1}"),
        _ => format!("{percent:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::mallocs::Malloc;
    use crate::compare::record::Changes;

    fn interval(median: f64, low: f64, high: f64) -> Interval {
        Interval { median, low, high, confidence: 0.96, enough: true }
    }

    fn of(time: Interval, cpu: Interval, memory: Interval) -> String {
        let malloc = Malloc { id: "ashlar".to_owned(), preload: None, version: String::new(), options: None };
        let changes = [(Metric::Elapsed, time), (Metric::Cpu, cpu), (Metric::Memory, memory)];
        let changes = Changes(changes.map(|(metric, of)| (metric, Change::Ratio(of))).to_vec());
        sentence(&Row { changes, ..Row::new(malloc) }, 10).unwrap()
    }

    #[test]
    fn sentences_say_what_the_rounds_have_shown() {
        let (less, same) = (interval(0.88, 0.85, 0.92), interval(1.001, 0.97, 1.02));
        let (much, little) = (interval(2.31, 2.1, 25.0), interval(1.0004, 1.0001, 1.001));
        let cases = [
            (of(less, less, less), "ashlar: 12 % less time (8.0 to 15 %), 12 % less memory (8.0 to 15 %)."),
            (
                of(same, same, same),
                "ashlar: no difference in time (3.0 % less to 2.0 % more) or memory (3.0 % less to 2.0 % more) that \
                 10 rounds can show.",
            ),
            (
                of(same, less, much),
                "ashlar: 12 % less CPU time (8.0 to 15 %), 2.3 times the memory (2.1 to 25); no difference in time \
                 (3.0 % less to 2.0 % more) that 10 rounds can show.",
            ),
            (of(less, much, little), "ashlar: 12 % less time (8.0 to 15 %), 0.04 % more memory (0.01 to 0.1 %)."),
        ];
        for (found, wanted) in cases {
            assert_eq!(found, wanted);
        }
        let few = Interval { enough: false, ..less };
        assert_eq!(
            of(few, few, Interval { enough: false, ..much }),
            "ashlar: 12 % less time, 2.3 times as much memory. So few rounds show nothing sure: at least 6 are needed."
        );
    }
}
