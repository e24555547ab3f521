//! Tables with made-up figures on either side of a tie.

use super::*;
use crate::experiments::reproduce::plan::evidence::{Cell, Outcome};

fn cell(test: &str, system: &str, size: usize, figure: f64) -> Cell {
    serde_json::from_value(serde_json::json!({
        "test": test, "system": system, "size": size, "cpus": 2, "unit": "tsc_cycles_per_op", "median": figure,
    }))
    .expect("a cell")
}

/// The mail's own figures, as if they had been measured.
fn printed(data: &Published) -> Evidence {
    let mut evidence = Evidence::new();
    for entry in Rows::load().unwrap().entries {
        // Rows with several sizes or runs are left out.
        if !["000-A", "000-B", "000-F", "003-A, 003-B"].contains(&&*entry.tables) {
            continue;
        }
        let outcome: &mut Outcome = evidence.entry("tests".to_owned()).or_default();
        for row in entry.rows(data) {
            let size = row.name.parse().expect("a size");
            for column in &entry.columns {
                let figure = entry.published(column, &row, data).expect("a figure");
                let known = |cell: &Cell| (&cell.test, &cell.system, cell.size) == (&row.test, &column.system, size);
                // Two mails have SLUB; the first counts.
                if !outcome.records.iter().any(known) {
                    outcome.records.push(cell(&row.test, &column.system, size, figure));
                }
            }
        }
    }
    evidence
}

fn table<'a>(tables: &'a [TableOrder], name: &str) -> &'a TableOrder {
    tables.iter().find(|table| table.tables == name).expect("a table")
}

#[test]
fn the_mails_agree_with_themselves() {
    let data = Published::load().unwrap();
    let tables = check(&Rows::load().unwrap(), &data, &printed(&data));
    for name in ["000-A", "000-B", "000-F"] {
        let table = table(&tables, name);
        let count = table.count();
        // Six pairs of four columns, ten rows.
        assert_eq!((count.same, count.measured(), count.simulated), (60, 60, 0), "{name}");
        assert_eq!(table.rows_that_agree(), (10, 10));
        assert_eq!(table.by_pair().len(), 6);
        // Its ratings follow no single rule.
        let (same, of) = table.ratings().expect("a rating");
        assert!(of == 10 && same >= 7, "{name}: {same}");
    }
}

#[test]
fn a_row_is_the_same_a_tie_or_opposite() {
    let data = Published::load().unwrap();
    // 000-A at 8 bytes: SLAB 96, SLUB 86, SLUB+ 45.
    let pair = |slab: f64, slub: f64| {
        let records = vec![cell("A", "slab24", 8, slab), cell("A", "slub", 8, slub)];
        let evidence = Evidence::from([("tests".to_owned(), Outcome { records, ..Outcome::default() })]);
        let tables = check(&Rows::load().unwrap(), &data, &evidence);
        let row = table(&tables, "000-A").rows[0].clone();
        assert_eq!((row.row.as_str(), row.pairs.len()), ("8", 6));
        assert_eq!(row.pairs.iter().filter(|pair| pair.measured.is_some()).count(), 1);
        assert!(row.rating.is_none(), "SLUB+ was not measured");
        row.pairs[0].clone()
    };
    assert_eq!(pair(110.0, 100.0).agreement, Agreement::Same);
    assert_eq!(pair(104.0, 100.0).agreement, Agreement::Tie);
    assert_eq!(pair(100.0, 110.0).agreement, Agreement::Opposite);
    assert!((pair(110.0, 100.0).published - 96.0 / 86.0).abs() < 1e-9);
    let none = check(&Rows::load().unwrap(), &data, &Evidence::new());
    let count = none.iter().fold(Count::default(), |all, table| all.plus(table.count()));
    assert_eq!(count.measured(), 0);
    assert!(count.not_measured > 500, "{count:?}");
}

#[test]
fn packets_per_second_are_better_when_there_are_more() {
    let data = Published::load().unwrap();
    let mode =
        |mode: &str, ns: f64| Cell { mode: Some(mode.to_owned()), ..cell("forward-memory", "slub-bulk", 60, ns) };
    let records = vec![mode("normal", 100.0), mode("bulk", 98.0), mode("nomerge", 100.4)];
    let evidence = Evidence::from([("forward".to_owned(), Outcome { records, ..Outcome::default() })]);
    let tables = check(&Rows::load().unwrap(), &data, &evidence);
    let of = |over: &str, under: &str| {
        let pairs = &table(&tables, "001-A").rows[0].pairs;
        pairs.iter().find(|pair| (&*pair.over, &*pair.under) == (over, under)).expect("a pair").clone()
    };
    // The mail: 2049166 and 2091218 packets, and 2053440, which it calls the same.
    let bulk = of("normal", "bulk-free32");
    assert_eq!(bulk.agreement, Agreement::Same, "{bulk:?}");
    assert!(
        (bulk.published - 2_091_218.0 / 2_049_166.0).abs() < 1e-9
            && (bulk.measured.unwrap() - 100.0 / 98.0).abs() < 1e-9
    );
    assert_eq!(of("normal", "slab_nomerge").agreement, Agreement::Same);
}
