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

/// Writes rows under their first one, right-aligned; a cell more than the first row has ends its line as it is.
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
