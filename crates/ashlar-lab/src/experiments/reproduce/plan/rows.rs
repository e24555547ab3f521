//! Which measured figures stand for the cells of the mails' tables: `data/rows.json`.
//!
//! Claims are sentences picked from the text. This file covers the rest: every row of every table,
//! and in it each pair of columns that a run of the lab can measure.

use serde::Deserialize;

use crate::experiments::reproduce::plan::evidence::{Cell, Evidence};
use crate::kit::published::Published;
use crate::kit::rating::EQUAL;
use crate::kit::statistics::geometric_mean;

const DATA: &str = include_str!("../../../../data/rows.json");
/// Sizes that a row for all sizes is measured at, in bytes.
const ALL_SIZES: [usize; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rows {
    #[expect(dead_code, reason = "for readers of the file")]
    about: String,
    pub(crate) entries: Vec<Entry>,
}

/// Columns that are compared with one another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// The tables that the columns are from. Entries of the same tables count together.
    pub(crate) tables: String,
    /// The test of all rows, where `rows` does not say it.
    test: Option<String>,
    pub(crate) from: Vec<From>,
    #[serde(default)]
    higher_is_better: bool,
    equal: Option<f64>,
    /// The columns that the mail's rating compares, the rated one last.
    pub(crate) rated: Option<[String; 2]>,
    /// Rows with a label; without it, all rows of the first column's table.
    rows: Option<Vec<Labelled>>,
    pub(crate) columns: Vec<Column>,
}

/// Where measured figures of an entry are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    pub(crate) run: String,
    cpus: Option<usize>,
    nodes: Option<usize>,
}

/// A row that is found by its label.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Labelled {
    label: String,
    test: String,
    phase: Option<String>,
    /// The test that the figure is divided by.
    per: Option<String>,
}

/// A column of a mail, and the system that stands for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    pub(crate) table: String,
    pub(crate) column: String,
    part: Option<String>,
    /// Where the columns are rows of a table.
    label: Option<String>,
    pub(crate) system: String,
    mode: Option<String>,
}

/// A row of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Bytes, or what the mail calls it.
    pub(crate) name: String,
    /// The mail's rating.
    pub(crate) rating: String,
    size: Option<usize>,
    pub(crate) test: String,
    phase: Option<String>,
    per: Option<String>,
}

impl Rows {
    /// The rows of this build.
    pub(crate) fn load() -> Result<Self, String> {
        serde_json::from_str(DATA).map_err(|error| format!("the rows of this build: {error}"))
    }
}

impl Column {
    /// How a reader tells it from the others of its entry.
    pub(crate) fn name(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.system)
    }
}

impl Entry {
    /// The share within which two figures are the same.
    pub(crate) fn equal(&self) -> f64 {
        self.equal.unwrap_or(EQUAL)
    }

    /// The rows of the mail, in its order.
    pub(crate) fn rows(&self, data: &Published) -> Vec<Row> {
        let test = self.test.clone().unwrap_or_default();
        if let Some(rows) = &self.rows {
            let of = |row: &Labelled| Row {
                name: row.label.clone(),
                rating: String::new(),
                size: None,
                test: row.test.clone(),
                phase: row.phase.clone(),
                per: row.per.clone(),
            };
            return rows.iter().map(of).collect();
        }
        let row = |name: String, rating: &str, size| Row {
            name,
            rating: rating.to_owned(),
            size,
            test: test.clone(),
            phase: None,
            per: None,
        };
        if self.columns.iter().any(|column| column.label.is_some()) {
            return vec![row(self.columns[0].column.clone(), "", None)];
        }
        let Some(table) = data.tables.iter().find(|table| table.id == self.columns[0].table) else { return Vec::new() };
        let name = |size: Option<usize>, label: &str| size.map_or_else(|| label.to_owned(), |size| size.to_string());
        table.rows.iter().map(|of| row(name(of.size, &of.label), &of.rating, of.size)).collect()
    }

    /// What the mail printed, as a cost.
    pub(crate) fn published(&self, column: &Column, row: &Row, data: &Published) -> Option<f64> {
        let table = data.tables.iter().find(|table| table.id == column.table)?;
        let part = column.part.as_deref();
        let label = column.label.as_deref().unwrap_or(&row.name);
        let found = match row.size {
            Some(size) => table.sized(&column.column, size, part),
            None => table.labelled(&column.column, label, part),
        };
        found.map(|figure| if self.higher_is_better { 1.0 / figure } else { figure })
    }

    /// What was measured in one of the places, and whether it is simulated.
    pub(crate) fn measured(&self, column: &Column, row: &Row, from: &From, evidence: &Evidence) -> Option<(f64, bool)> {
        let outcome = evidence.get(&from.run)?;
        let of = |test: &str, size: Option<usize>| {
            let is_it = |cell: &&Cell| {
                cell.test == test
                    && cell.system == column.system
                    && size.is_none_or(|size| cell.size == size)
                    && from.cpus.is_none_or(|cpus| cell.cpus == cpus)
                    && from.nodes.is_none_or(|nodes| cell.nodes.unwrap_or(1) == nodes)
                    && row.phase.as_ref().is_none_or(|phase| cell.phase.as_ref() == Some(phase))
                    && column.mode.as_ref().is_none_or(|mode| cell.mode.as_ref() == Some(mode))
            };
            let mut found: Vec<&Cell> = outcome.records.iter().filter(is_it).collect();
            found.sort_by_key(|cell| cell.simulated);
            let cell = *found.first()?;
            if outcome.is_off(&[cell]).is_some() {
                return None;
            }
            cell.full().filter(|figure| *figure > 0.0).map(|figure| (figure, cell.simulated))
        };
        let per = match &row.per {
            Some(test) => of(test, None)?.0,
            None => 1.0,
        };
        let all_sizes = row.size.is_none() && row.name == "all sizes";
        let found = if all_sizes {
            let found: Vec<(f64, bool)> = ALL_SIZES.iter().filter_map(|&size| of(&row.test, Some(size))).collect();
            let figures: Vec<f64> = found.iter().map(|(figure, _)| *figure).collect();
            (!figures.is_empty()).then(|| (geometric_mean(&figures), found.iter().any(|(_, simulated)| *simulated)))
        } else {
            of(&row.test, row.size)
        };
        found.map(|(figure, simulated)| (figure / per, simulated))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::experiments::reproduce::plan::runs;
    use crate::systems::SystemInfo;

    #[test]
    fn every_table_of_the_mails_is_covered() {
        let (rows, data) = (Rows::load().unwrap(), Published::load().unwrap());
        let covered: BTreeSet<&str> =
            rows.entries.iter().flat_map(|entry| &entry.columns).map(|column| &*column.table).collect();
        for table in &data.tables {
            // 001-B has the differences of 001-A.
            assert_eq!(covered.contains(&*table.id), table.id != "001-B", "{}", table.id);
        }
    }

    #[test]
    fn every_cell_that_is_compared_exists_in_the_mail_and_in_the_lab() {
        let (rows, data) = (Rows::load().unwrap(), Published::load().unwrap());
        for entry in &rows.entries {
            let name = &entry.tables;
            assert!(entry.from.iter().all(|from| runs::known(&from.run)), "{name}");
            assert!(entry.columns.len() > 1, "{name}: nothing to compare");
            let all = entry.rows(&data);
            assert!(!all.is_empty(), "{name}");
            for column in &entry.columns {
                assert!(name.contains(&column.table), "{name}: a column of {}", column.table);
                assert!(SystemInfo::by_id(&column.system).is_some(), "{name}: no system {}", column.system);
                let printed = all.iter().filter(|row| entry.published(column, row, &data).is_some()).count();
                // 002-B has a row more than 002-A, which is the first column.
                assert_eq!(printed, all.len(), "{name}: {} of {}", column.column, column.table);
            }
            for rated in entry.rated.iter().flatten() {
                assert!(entry.columns.iter().any(|column| column.column == *rated), "{name}: {rated}");
            }
            assert_eq!(entry.rated.is_some(), all.iter().any(|row| !row.rating.is_empty()), "{name}: its rating");
        }
    }
}
