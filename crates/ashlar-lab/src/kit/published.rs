//! Figures that the kernel's mailing lists published, to be shown beside measured ones.
//!
//! `data/published.json` belongs to the crate, so that a fresh clone has it. It holds figures,
//! sizes, units and configurations; its texts are ours. A table that has what a test of the lab
//! measures names its `series`: for which test, in which column, under which head. Cycles of other
//! machines are for shapes, never for absolute comparison.

use serde::{Deserialize, Serialize};

const DATA: &str = include_str!("../../data/published.json");
/// Label of a row that stands for every size.
const ALL_SIZES: &str = "all sizes";

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Published {
    about: String,
    pub(crate) sources: Vec<Source>,
    pub(crate) tables: Vec<Table>,
}

/// A mail, and what its systems are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) id: String,
    pub(crate) document: String,
    pub(crate) date: String,
    pub(crate) systems: serde_json::Map<String, serde_json::Value>,
}

/// One table of a mail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) machine: String,
    pub(crate) unit: String,
    /// Of tables without series.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    /// How many objects a figure most likely stands for; 1 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    objects_in_a_figure: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) series: Vec<Series>,
    pub(crate) rows: Vec<Row>,
}

/// A column that a test of the lab can be held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// As in the records of a run.
    pub(crate) test: String,
    column: String,
    pub(crate) system: String,
    /// What stands over it in the lab's table.
    pub(crate) head: String,
}

/// A line, by size or by label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<usize>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) label: String,
    pub(crate) values: Vec<Option<Value>>,
    /// Where the rows of a table differ in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) unit: String,
    /// The mail's own sign for how its columns compare.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) rating: String,
    /// What was set for this row.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    settings: serde_json::Map<String, serde_json::Value>,
}

/// A figure as printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Value {
    One(serde_json::Number),
    Range { min: f64, max: f64 },
    Pair { alloc: f64, free: f64 },
}

impl Published {
    /// The data of this build.
    pub(crate) fn load() -> Result<Self, String> {
        serde_json::from_str(DATA).map_err(|error| format!("the published figures of this build: {error}"))
    }

    /// The series for `test`, each with its table.
    pub(crate) fn series<'a>(&'a self, test: &str) -> Vec<(&'a Table, &'a Series)> {
        let all = self.tables.iter().flat_map(|table| table.series.iter().map(move |series| (table, series)));
        all.filter(|(_, series)| series.test == test).collect()
    }
}

impl Table {
    /// Least and largest figure of a series at a size, for one object; mostly they are the same.
    pub(crate) fn at(&self, series: &Series, size: usize) -> Option<(f64, f64)> {
        let column = self.columns.iter().position(|column| *column == series.column)?;
        let row = self.rows.iter().find(|row| row.size == Some(size) || row.label == ALL_SIZES)?;
        let (least, most) = match row.values.get(column)?.as_ref()? {
            Value::One(figure) => (figure.as_f64()?, figure.as_f64()?),
            Value::Range { min, max } => (*min, *max),
            Value::Pair { alloc, .. } if series.test == "D" => (*alloc, *alloc),
            Value::Pair { free, .. } => (*free, *free),
        };
        let objects = f64::from(self.objects_in_a_figure.unwrap_or(1));
        Some((least / objects, most / objects))
    }

    /// The figure of a column at a size, as printed: of a range its middle, of two the `part`,
    /// `alloc` or `free`.
    pub(crate) fn sized(&self, column: &str, size: usize, part: Option<&str>) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.size == Some(size) || row.label == ALL_SIZES)?;
        self.cell(row, column, part)
    }

    /// The figure of a column in the row of that label.
    pub(crate) fn labelled(&self, column: &str, label: &str, part: Option<&str>) -> Option<f64> {
        self.cell(self.rows.iter().find(|row| row.label == label)?, column, part)
    }

    fn cell(&self, row: &Row, column: &str, part: Option<&str>) -> Option<f64> {
        let column = self.columns.iter().position(|known| known == column)?;
        match (row.values.get(column)?.as_ref()?, part) {
            (Value::One(figure), None) => figure.as_f64(),
            (Value::Range { min, max }, None) => Some(f64::midpoint(*min, *max)),
            (Value::Pair { alloc, .. }, Some("alloc")) => Some(*alloc),
            (Value::Pair { free, .. }, Some("free")) => Some(*free),
            _ => None,
        }
    }

    /// Whether the figures are divided before they are shown.
    pub(crate) fn divided_by(&self) -> Option<u32> {
        self.objects_in_a_figure
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_series_has_its_column_and_no_two_share_a_head() {
        let data = Published::load().expect("the file is well formed");
        assert_eq!(data.tables.len(), 28);
        let mut seen = BTreeSet::new();
        for table in &data.tables {
            let source = data.sources.iter().find(|source| source.id == table.source).expect("a known source");
            assert!(table.series.is_empty() != table.title.is_empty(), "{}: series or a title", table.id);
            assert!(table.rows.iter().all(|row| row.values.len() == table.columns.len()), "{}", table.id);
            for series in &table.series {
                assert!(table.columns.contains(&series.column), "{}: {}", table.id, series.column);
                assert!(source.systems.contains_key(&series.system), "{}: {}", table.id, series.system);
                assert!(seen.insert((&series.test, &series.head)), "{}: {}", table.id, series.head);
            }
        }
        for test in ["A", "B", "C", "D", "D-free", "E", "F"] {
            assert!(!data.series(test).is_empty(), "test {test}");
        }
    }

    #[test]
    fn a_figure_is_found_by_test_head_and_size() {
        let data = Published::load().unwrap();
        let at = |test: &str, head: &str, size: usize| {
            let all = data.series(test);
            let (table, series) = all.iter().find(|(_, series)| series.head == head).expect("a series");
            table.at(series, size)
        };
        assert_eq!(at("A", "SLUB+@2007", 8), Some((45.0, 45.0)));
        assert_eq!(at("A", "SLUB+@2007", 24), None);
        assert_eq!(at("C", "SLAB@2007", 64), Some((137.0, 146.0)));
        assert_eq!(at("F", "SLAB@2007", 8), Some((160.0, 160.0)), "1120 for 7 objects");
        assert_eq!(at("D", "SLUB@2007-08", 16), Some((99.0, 99.0)));
        assert_eq!(at("D-free", "SLUB@2007-08", 16), Some((139.0, 139.0)));
        assert_eq!(at("B", "SLUB-ll@2010", 8), Some((95.0, 95.0)));
    }

    /// `ASHLAR_SEEDS` names a file with the tables as they were taken from the mails, from which
    /// this data was made.
    #[test]
    fn the_data_are_those_of_the_mails() {
        let Some(path) = std::env::var_os("ASHLAR_SEEDS") else {
            eprintln!("ASHLAR_SEEDS is not set: nothing to compare with");
            return;
        };
        let text = std::fs::read_to_string(path).expect("ASHLAR_SEEDS names a file");
        let mails: serde_json::Value = serde_json::from_str(&text).expect("ASHLAR_SEEDS is JSON");
        let ours = serde_json::to_value(Published::load().unwrap()).unwrap();
        let mut tables = ours["tables"].as_array().unwrap().iter();
        for (mail, source) in mails["documents"].as_array().unwrap().iter().zip(ours["sources"].as_array().unwrap()) {
            assert_eq!((&mail["id"], &mail["date"]), (&source["document"], &source["date"]));
            for theirs in mail["tables"].as_array().unwrap() {
                let table = tables.next().expect("a table for each of theirs");
                let id = &theirs["id"];
                assert_eq!((&table["id"], &table["source"]), (id, &source["id"]));
                let columns = |table: &serde_json::Value| table["columns"].as_array().unwrap().len();
                assert_eq!(columns(table), columns(theirs), "{id}");
                // Ours are shorter, but never another unit.
                let first = |table: &serde_json::Value| {
                    table["unit"].as_str().unwrap().split_whitespace().next().map(str::to_owned)
                };
                assert_eq!(first(table), first(theirs), "{id}");
                let rows = |table: &serde_json::Value| table["rows"].as_array().unwrap().clone();
                assert_eq!(rows(table).len(), rows(theirs).len(), "{id}");
                for (row, theirs) in rows(table).iter().zip(&rows(theirs)) {
                    for key in ["size", "label", "rating"] {
                        assert_eq!(row.get(key), theirs.get(key), "{id}");
                    }
                    assert!(same(&row["values"], &theirs["values"]), "{id}: {row} and {theirs}");
                    for (key, value) in row["settings"].as_object().into_iter().flatten() {
                        assert_eq!(*value, theirs["settings"][key], "{id}");
                    }
                }
            }
        }
        assert!(tables.next().is_none(), "a table that is in no mail");
    }

    /// Equal values, however a number is written.
    fn same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
        match (a, b) {
            (serde_json::Value::Number(a), serde_json::Value::Number(b)) => a.as_f64() == b.as_f64(),
            (serde_json::Value::Array(a), serde_json::Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (serde_json::Value::Object(a), serde_json::Value::Object(b)) => {
                a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
            }
            _ => a == b,
        }
    }
}
