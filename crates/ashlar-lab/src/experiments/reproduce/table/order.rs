//! The order of the columns in every row of every table, as text.

use core::fmt::Write as _;

use crate::experiments::reproduce::targets::order::{Count, TableOrder};
use crate::kit::table::aligned;

/// A line for each table, and one for each pair of its columns.
pub(crate) fn render(tables: &[TableOrder]) -> String {
    if tables.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\nEvery row of every table: pairs of columns in the order of the mail (within 5 % is a tie; in 001 0.61 %)\n",
    );
    let head = ["", "pairs", "as in the mail", "tie in one", "opposite", "simulated", "rows that agree", "ratings"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut all = Count::default();
    for table in tables {
        let count = table.count();
        all = all.plus(count);
        let (agree, measured) = table.rows_that_agree();
        let ratings = table.ratings().map_or_else(String::new, |(same, of)| format!("{same} of {of}"));
        rows.push(line(&table.tables, count, &format!("{agree} of {measured}"), &ratings));
        for (pair, count) in table.by_pair() {
            rows.push(line(&pair, count, "", ""));
        }
    }
    rows.push(line("all", all, "", ""));
    aligned(&mut text, &rows);
    if all.not_measured > 0 {
        let _ = writeln!(text, "Not measured: {} pairs", all.not_measured);
    }
    text
}

fn line(name: &str, count: Count, rows: &str, ratings: &str) -> Vec<String> {
    let share = match count.measured() {
        0 => "-".to_owned(),
        measured => format!("{} ({:.0} %)", count.same, 100.0 * count.same as f64 / measured as f64),
    };
    vec![
        name.to_owned(),
        count.measured().to_string(),
        share,
        count.tie.to_string(),
        count.opposite.to_string(),
        count.simulated.to_string(),
        rows.to_owned(),
        ratings.to_owned(),
    ]
}
