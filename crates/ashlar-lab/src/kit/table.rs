//! Parts that the tables of all experiments share.

use core::fmt::Write;

use crate::kit::record::Host;

/// As many digits as the size of the figure deserves.
pub(crate) fn figure(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Machine, build and peers.
pub(crate) fn machine(host: &Host) -> String {
    let mut text = String::new();
    let tsc = host.tsc_mhz.map_or_else(String::new, |mhz| format!(", tsc {mhz} MHz"));
    let _ = writeln!(text, "{} ({}), {} CPUs{tsc}", host.cpu_model, host.arch, host.cpus);
    let _ = writeln!(text, "Linux {}, glibc {}, transparent huge pages: {}", host.kernel, host.glibc, host.thp);
    let _ =
        writeln!(text, "ashlar {} ({}), mode {}, {}", host.ashlar_version, host.build, host.ashlar_mode, host.rustc);
    for (id, peer) in &host.peers {
        let note = if peer.note.is_empty() { String::new() } else { format!(", {}", peer.note) };
        let _ = writeln!(text, "  {id}: {}, {}{note}", peer.version, peer.build);
    }
    if host.build.starts_with("debug") {
        text += "WARNING: this is a debug build; its figures mean nothing (use cargo run --release).\n";
    }
    text
}

/// Writes rows in parts that are at most `width` wide, one under the other. Each part begins with
/// the first column; a cell more than the first row has ends the line of the last part.
pub(crate) fn aligned_within(text: &mut String, rows: &[Vec<String>], width: usize) {
    let columns = rows.first().map_or(0, Vec::len);
    let widest = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count() + 2).max();
    let mut from = 1;
    loop {
        let (mut to, mut used) = (from, widest(0).unwrap_or(0));
        while to < columns {
            used += widest(to).unwrap_or(0);
            let last = if to + 1 == columns { widest(columns).unwrap_or(0) } else { 0 };
            if to > from && used + last > width + 2 {
                break;
            }
            to += 1;
        }
        let part = rows.iter().map(|row| {
            let end = if to == columns { row.len() } else { to };
            row[..1].iter().chain(&row[from.min(end)..end]).cloned().collect::<Vec<_>>()
        });
        aligned(text, &part.collect::<Vec<_>>());
        if to >= columns {
            return;
        }
        text.push('\n');
        from = to;
    }
}

/// Writes rows under their first one, right-aligned; a cell more than the first row has ends its
/// line as it is.
pub(crate) fn aligned(text: &mut String, rows: &[Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or(0)).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:>width$}  ");
        }
        if let Some(rating) = row.get(widths.len()) {
            line += rating;
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// A number with as many digits as it deserves.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size < 2.0 => format!("{value:.3}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The least and the most of several whole figures; one figure if they are the same.
pub(crate) fn range(least: f64, most: f64) -> String {
    let (least, most) = (format!("{least:.0}"), format!("{most:.0}"));
    if least == most { least } else { format!("{least} to {most}") }
}

/// Seconds, with four digits at least that mean something: short runs take milliseconds.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        short if short < 0.1 => format!("{short:.5}"),
        short if short < 1.0 => format!("{short:.4}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_too_wide_has_parts_that_begin_alike() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let rows = [row(&["", "aaaaaa", "bbbbbb", "cccccc"]), row(&["8", "1", "2", "3", "++"])];
        let mut wide = String::new();
        aligned_within(&mut wide, &rows, 80);
        let mut plain = String::new();
        aligned(&mut plain, &rows);
        assert_eq!(wide, plain);
        let mut narrow = String::new();
        aligned_within(&mut narrow, &rows, 20);
        assert_eq!(narrow, "   aaaaaa  bbbbbb\n8       1       2\n\n   cccccc\n8       3  ++\n");
        for width in 1..40 {
            let mut text = String::new();
            aligned_within(&mut text, &rows, width);
            assert!(text.contains("3  ++") && text.matches("cccccc").count() == 1, "{width}:\n{text}");
            assert!(width < 17 || text.lines().all(|line| line.len() <= width), "{width}:\n{text}");
        }
    }

    #[test]
    fn seconds_of_short_runs_are_not_zero() {
        assert_eq!([0.001_234, 0.1234, 12.3456].map(seconds), ["0.00123", "0.1234", "12.346"]);
    }
}
