//! Figures that others published, as columns more of the table: after the systems, before the
//! rating.

use core::fmt::Write;

use crate::kit::published::{Published, Value};
use crate::kit::record::Report;
use crate::kit::table::{self, figure};

/// Heads of the columns for `test`; none when published figures were not asked for.
pub(crate) fn heads(run: &Report, test: &str) -> Vec<String> {
    let series = run.published.as_ref().map_or_else(Vec::new, |published| published.series(test));
    series.into_iter().map(|(_, series)| series.head.clone()).collect()
}

/// The cells of a row, as many as there are heads.
pub(crate) fn cells(run: &Report, test: &str, size: usize) -> Vec<String> {
    let series = run.published.as_ref().map_or_else(Vec::new, |published| published.series(test));
    let cell = |figures: Option<(f64, f64)>| match figures {
        Some((least, most)) if least < most => format!("{}-{}", short(least), short(most)),
        Some((least, _)) => short(least),
        None => "-".to_owned(),
    };
    series.into_iter().map(|(table, series)| cell(table.at(series, size))).collect()
}

/// Printed figures are whole numbers, and stay so.
fn short(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { figure(value) }
}

/// What the heads stand for, and the published tables that no test of the lab repeats.
pub(crate) fn legend(text: &mut String, run: &Report, width: usize) {
    let Some(published) = &run.published else {
        return;
    };
    let head = "Published figures (NAME@YEAR): cycles of other machines and other kernels, for shapes only";
    let _ = writeln!(text, "\n{head}\n{}\n", "=".repeat(head.len()));
    let mut told: Vec<&str> = Vec::new();
    let series = published.tables.iter().flat_map(|table| table.series.iter().map(move |series| (table, series)));
    for (table, series) in series {
        if told.contains(&series.head.as_str()) {
            continue;
        }
        told.push(&series.head);
        let source = published.sources.iter().find(|source| source.id == table.source);
        let what = source.and_then(|source| source.systems.get(&series.system)?.as_str()).unwrap_or_default();
        let date = source.map_or("", |source| source.date.as_str());
        let _ = writeln!(text, "{:<17} {date}  {what}; machine: {}", series.head, table.machine);
    }
    if let Some(objects) = published.tables.iter().find_map(|table| table.divided_by()) {
        let _ = writeln!(
            text,
            "Test F of 2007: what was printed, divided by {objects}, since a figure there most likely stands for {objects} objects."
        );
    }
    others(text, published, width);
}

/// Tables of other programs than the lab's tests.
fn others(text: &mut String, published: &Published, width: usize) {
    for table in published.tables.iter().filter(|table| table.series.is_empty()) {
        let date = published.sources.iter().find(|source| source.id == table.source).map_or("", |source| &source.date);
        let _ = writeln!(text, "\nPublished {date}: {} ({}; machine: {})\n", table.title, table.unit, table.machine);
        let mut rows = vec![vec![String::new()]];
        rows[0].extend(table.columns.iter().cloned());
        for row in &table.rows {
            let unit = if row.unit.is_empty() { String::new() } else { format!(" [{}]", row.unit) };
            let mut cells = vec![format!("{}{unit}", row.label)];
            cells.extend(row.values.iter().map(|value| match value {
                Some(Value::One(figure)) => figure.to_string(),
                Some(Value::Range { min, max }) => format!("{min}-{max}"),
                Some(Value::Pair { alloc, free }) => format!("{alloc}/{free}"),
                None => "-".to_owned(),
            }));
            rows.push(cells);
        }
        table::aligned_within(text, &rows, width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::kernel_tests::table::{Columns, render};
    use crate::kit::record;
    use crate::kit::statistics::Statistic;

    #[test]
    fn published_figures_stand_in_the_rows_of_the_run() {
        let mut run = record::sample(&[
            ("A", "glibc", 8, 35.0),
            ("A", "ashlar", 8, 10.0),
            ("C", "ashlar", 64, 9.0),
            ("F", "ashlar", 8, 9.0),
        ]);
        let plain = render(&run, Statistic::Median, Columns::All);
        assert!(!plain.contains('@') && !plain.contains("Published"), "{plain}");
        run.published = Some(Published::load().unwrap());
        let text = render(&run, Statistic::Median, Columns::All);
        let row = |test: &str, size: &str| {
            let block = text.split(&format!("Test {test}: ")).nth(1).expect("a block");
            block.lines().find(|line| line.trim_start().starts_with(size)).expect("a row").to_owned()
        };
        // SLAB, SLUB, SLUB+ and SLUB-o of 2007, then the others; the rating stays last.
        assert!(row("A", "8 ").contains("  96  ") && row("A", "8 ").contains("  44  "), "{text}");
        assert!(row("A", "8 ").ends_with("3 *"), "{text}");
        assert!(row("C", "64 ").contains("137-146"), "{text}");
        assert!(row("F", "8 ").contains("  160  ") && row("F", "8 ").contains("  187  "), "1120 and 1309 by 7: {text}");
        assert!(text.contains("SLUB-o@2007") && text.contains("slub_min_objects=20"), "{text}");
        assert!(text.contains("2049166") && text.contains("263.9 "), "tables of no test: {text}");
    }
}
