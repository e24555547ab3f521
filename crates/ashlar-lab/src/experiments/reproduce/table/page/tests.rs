//! The page from made-up reports: what is on it, and that it needs nothing else.

use super::*;
use crate::experiments::reproduce::plan::claims::Claims;
use crate::experiments::reproduce::plan::evidence::{Cell, Evidence, Outcome};
use crate::experiments::reproduce::plan::rows::Rows;
use crate::experiments::reproduce::table::report::Machine;
use crate::experiments::reproduce::targets;

fn cell(test: &str, system: &str, size: usize, figure: f64) -> Cell {
    Cell {
        test: test.to_owned(),
        system: system.to_owned(),
        size,
        cpus: 2,
        nodes: None,
        mode: None,
        phase: None,
        bulk: None,
        scale: None,
        unit: "tsc_cycles_per_op".to_owned(),
        median: Some(figure),
        runs: 1,
        samples: vec![figure; 6],
        counts: None,
        simulated: false,
    }
}

/// A report in which every chart has figures.
pub(crate) fn report() -> (Report, Published) {
    let data = Published::load().unwrap();
    let mut evidence = Evidence::new();
    let mut put = |run: &str, records: Vec<Cell>| {
        let outcome = Outcome { command: format!("ashlar {run} <&>"), records, ..Outcome::default() };
        evidence.insert(run.to_owned(), outcome);
    };
    let systems = ["slab24", "slub", "slub+", "slub-o", "slub-ll", "slub-emu", "ashlar"];
    let mut tests = Vec::new();
    for (at, system) in systems.iter().enumerate() {
        for test in ["A", "B", "C", "D", "D-free", "E", "F"] {
            tests.extend(
                [8, 16, 64, 512, 4096].map(|size| cell(test, system, size, 10.0 + at as f64 + size as f64 / 50.0)),
            );
        }
    }
    put("tests", tests);
    let simulated = |cpus: usize, nodes: usize, system: &str, test: &str| Cell {
        cpus,
        nodes: Some(nodes),
        simulated: true,
        ..cell(test, system, 64, 20.0 * cpus as f64 / nodes as f64)
    };
    let mut machines = Vec::new();
    for system in ["slab24", "slub"] {
        for (cpus, nodes) in [(2, 1), (8, 1), (1024, 1), (8, 4), (1024, 4)] {
            machines.extend(["D", "F"].map(|test| simulated(cpus, nodes, system, test)));
        }
    }
    put("simulate", machines);
    put("hackbench", vec![cell("hackbench", "slob", 0, 90.0), cell("hackbench", "slob-seg", 0, 9.0)]);
    let mode =
        |mode: &str, ns: f64| Cell { mode: Some(mode.to_owned()), ..cell("forward-memory", "slub-bulk", 64, ns) };
    put("forward", vec![mode("normal", 100.0), mode("bulk", 97.0), mode("nomerge", 101.0)]);
    let claims = targets::judge(&Claims::load().unwrap(), &data, &evidence);
    let machine = Machine { cpu_model: "A & B <CPU>".to_owned(), cpus: 2, ..Machine::default() };
    let tables = targets::order::check(&Rows::load().unwrap(), &data, &evidence);
    (Report { machine, quick: false, claims, tables, runs: evidence }, data)
}

#[test]
fn every_claim_and_every_chart_is_on_the_page() {
    let (report, data) = report();
    let page = render(&report, &data).unwrap();
    for claim in &report.claims {
        assert!(page.contains(&format!("id=\"{}\"", claim.id)), "{}", claim.id);
    }
    // Published and measured of six tests, D and F simulated as well; hackbench and forwarding
    // twice; three over CPUs.
    assert_eq!(page.matches("<svg class=\"chart\"").count(), 6 * 2 + 2 + 4 + 3);
    for title in
        ["A: kmalloc", "F: frees of other", "hackbench", "Packet forwarding", "Test D over CPUs, 64 bytes, 4 nodes"]
    {
        assert!(page.contains(title), "{title}");
    }
    assert!(page.matches(">simulated ").count() >= 5, "what is simulated says so");
    assert!(!page.contains("quick run"));
    for table in &report.tables {
        assert!(page.contains(&format!("<b>{}</b>", table.tables)), "{}", table.tables);
    }
    assert!(page.contains("Apart: 6 of our own: ") && page.contains("; ratings "), "{page}");
}

#[test]
fn the_page_needs_nothing_else_and_escapes_what_it_shows() {
    let (report, data) = report();
    let page = render(&report, &data).unwrap();
    let outside = page.match_indices("://").filter(|(at, _)| !page[..*at].ends_with("http")).count()
        + page.match_indices("http://").filter(|(at, _)| !page[*at..].starts_with("http://www.w3.org/")).count();
    assert_eq!(outside, 0, "a name space is no resource, anything else is");
    assert!(!page.contains("<script") && !page.contains("@import") && !page.contains("url("));
    assert!(page.contains("A &amp; B &lt;CPU&gt;") && page.contains("ashlar tests &lt;&amp;&gt;"));
    assert!(page.contains("name=\"viewport\"") && page.contains("prefers-color-scheme:dark"));
}

#[test]
fn every_colour_of_a_chart_is_one_of_the_style_sheet() {
    let (report, data) = report();
    let page = render(&report, &data).unwrap();
    let (_, body) = page.split_once("</style>").unwrap();
    for attribute in ["fill=\"#", "stroke=\"#"] {
        for (at, _) in body.match_indices(attribute) {
            let colour = &body[at..at + attribute.len() + 7];
            assert!(page.contains(&format!("[{colour}]")), "{colour} has no rule");
        }
    }
}

#[test]
fn a_report_without_measurements_is_a_page_too() {
    let (mut report, data) = report();
    report.runs.clear();
    report.quick = true;
    report.claims = targets::judge(&Claims::load().unwrap(), &data, &report.runs);
    let page = render(&report, &data).unwrap();
    // What was published remains.
    assert_eq!(page.matches("<svg class=\"chart\"").count(), 6);
    assert!(page.contains("quick run") && page.contains("Neither was measured"));
    // Six tests, and the predictions.
    assert_eq!(page.matches("No figures: the run").count(), 7);
}

#[test]
fn a_chart_without_figures_says_why() {
    let (mut report, data) = report();
    report.quick = true;
    for name in ["tests", "hackbench"] {
        report.runs.get_mut(name).unwrap().records.clear();
    }
    let simulate = report.runs.get_mut("simulate").unwrap();
    simulate.records.clear();
    simulate.failure = Some("no second CPU".to_owned());
    let page = render(&report, &data).unwrap();
    assert_eq!(page.matches("a quick run of `tests` measures too little").count(), 6);
    assert_eq!(page.matches("a quick run of `hackbench` measures too little").count(), 1);
    assert!(page.contains("the run `simulate` failed: no second CPU"), "{page}");
}
