//! What the charts show: published and measured figures of the same things, side by side.

use crate::experiments::reproduce::plan::evidence::Cell;
use crate::experiments::reproduce::table::page::charts::{Bars, Lines};
use crate::experiments::reproduce::table::report::Report;
use crate::kit::published::{Published, Table};

/// Where a figure stands on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tests,
    Programs,
    Simulated,
}

/// A chart under its caption.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) caption: String,
    pub(crate) simulated: bool,
    /// The picture, or why there is none.
    pub(crate) svg: Result<String, String>,
}

/// Charts of one thing, with one legend.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) kind: Kind,
    pub(crate) title: String,
    /// Colours by their index, and what they stand for.
    pub(crate) legend: Vec<(usize, String)>,
    pub(crate) charts: Vec<Chart>,
}

type Failure = Box<dyn core::error::Error>;

/// Systems of tests A to F in the order of their colours: ours, and what the mail calls them.
const SYSTEMS: [(&str, &str); 5] =
    [("slab24", "SLAB"), ("slub", "SLUB"), ("slub+", "SLUB+"), ("slub-o", "SLUB-o"), ("ashlar", "")];

const TESTS: [(&str, &str); 6] = [
    ("A", "A: kmalloc, one CPU"),
    ("B", "B: kfree, one CPU"),
    ("C", "C: kmalloc and kfree at once"),
    ("D", "D: kmalloc on all CPUs"),
    ("E", "E: kmalloc and kfree at once on all CPUs"),
    ("F", "F: frees of other CPUs' objects"),
];

/// Sizes of the bars.
const SIZES: [usize; 4] = [8, 64, 512, 4096];

/// Everything that there are figures for.
pub(crate) fn all(report: &Report, data: &Published) -> Result<Vec<Figure>, Failure> {
    let mut found = Vec::new();
    for (test, title) in TESTS {
        found.push(of_test(report, data, test, title)?);
    }
    found.extend(hackbench(report, data)?);
    found.extend(forwarding(report, data)?);
    for (test, nodes) in [("D", 1), ("D", 4), ("F", 4)] {
        found.extend(simulated(report, test, nodes)?);
    }
    found.retain(|figure| !figure.charts.is_empty());
    Ok(found)
}

fn chart(bars: &Bars, caption: String, simulated: bool) -> Result<Option<Chart>, Failure> {
    Ok(bars.draw()?.map(|svg| Chart { caption, simulated, svg: Ok(svg) }))
}

/// A chart of what was measured in the run `run`, or why it has no figures.
fn measured(report: &Report, run: &str, bars: &Bars, caption: String) -> Result<Chart, Failure> {
    let svg = bars.draw()?.ok_or_else(|| missing(report, run));
    Ok(Chart { caption, simulated: false, svg })
}

/// Why a chart that the run `run` gives figures for has none.
pub(crate) fn missing(report: &Report, run: &str) -> String {
    match report.runs.get(run) {
        None => format!("No figures: the run `{run}` was not made; `--runs all` makes every run."),
        Some(outcome) => match &outcome.failure {
            Some(failure) => format!("No figures: the run `{run}` failed: {failure}"),
            None if report.quick => {
                format!("No figures: a quick run of `{run}` measures too little for this chart; leave out `--quick`.")
            }
            None => format!("No figures: the run `{run}` measured none of these sizes and systems."),
        },
    }
}

/// Records of a run; none where it was not made.
fn cells<'a>(report: &'a Report, run: &str) -> &'a [Cell] {
    report.runs.get(run).map_or(&[], |outcome| &outcome.records)
}

fn of_test(report: &Report, data: &Published, test: &str, title: &str) -> Result<Figure, Failure> {
    let mut charts = Vec::new();
    let table = data.tables.iter().find(|table| table.id == format!("000-{test}"));
    if let Some(table) = table {
        let all = table.rows.iter().all(|row| row.size.is_none());
        let sizes: Vec<Option<usize>> = if all { vec![None] } else { SIZES.map(Some).to_vec() };
        let objects = f64::from(table.divided_by().unwrap_or(1));
        let series = SYSTEMS.iter().enumerate().filter(|(_, (_, name))| !name.is_empty()).map(|(colour, (_, name))| {
            // A table for all sizes answers for any.
            let at = |size: &Option<usize>| table.sized(name, size.unwrap_or(8), None).map(|figure| figure / objects);
            (colour, sizes.iter().map(at).collect())
        });
        let bars = Bars {
            title: format!("Test {test}, published in 2007"),
            unit: "cycles".to_owned(),
            groups: sizes.iter().map(|size| size.map_or_else(|| "all sizes".to_owned(), bytes)).collect(),
            series: series.collect(),
            log: true,
        };
        charts.extend(chart(&bars, format!("published 2007: {}", machine(table)), false)?);
    }
    let bars_of = |run: &str, title: String, wanted: &dyn Fn(&&Cell) -> bool| {
        let cells: Vec<&Cell> = cells(report, run).iter().filter(|cell| cell.test == test).filter(wanted).collect();
        let series = SYSTEMS.iter().enumerate().map(|(colour, (system, _))| {
            let at = |size: &usize| cells.iter().find(|cell| cell.system == *system && cell.size == *size)?.median;
            (colour, SIZES.iter().map(at).collect::<Vec<_>>())
        });
        // A system that this run left out has no room.
        let series = series.filter(|(_, figures)| figures.iter().any(Option::is_some)).collect();
        Bars { title, unit: "cycles".to_owned(), groups: SIZES.map(bytes).to_vec(), series, log: true }
    };
    let here = bars_of("tests", format!("Test {test}, measured here"), &|cell| !cell.simulated);
    let cpus = cells(report, "tests").iter().find(|cell| cell.test == test).map_or(0, |cell| cell.cpus);
    let s = if cpus == 1 { "" } else { "s" };
    let caption = if cpus == 0 { "measured here".to_owned() } else { format!("measured here, {cpus} CPU{s}") };
    charts.push(measured(report, "tests", &here, caption)?);
    let model = bars_of("simulate", format!("Test {test}, simulated"), &|cell| {
        cell.simulated && cell.cpus == 8 && cell.nodes == Some(1)
    });
    charts.extend(chart(&model, "8 CPUs".to_owned(), true)?);
    let legend = SYSTEMS.iter().enumerate().map(|(colour, (system, _))| (colour, (*system).to_owned())).collect();
    Ok(Figure { kind: Kind::Tests, title: title.to_owned(), legend, charts })
}

fn machine(table: &Table) -> &str {
    &table.machine
}

fn bytes(size: usize) -> String {
    format!("{size} B")
}

/// Seconds of hackbench, as published and here.
fn hackbench(report: &Report, data: &Published) -> Result<Option<Figure>, Failure> {
    let mut charts = Vec::new();
    let published: Vec<(&str, usize, Option<f64>)> =
        ["SLOB, run 1", "SLOB-seg, run 1", "SLOB, run 2", "SLOB-cache, run 2"]
            .iter()
            .zip([0, 2, 0, 4])
            .map(|(&column, colour)| {
                let table = data.tables.iter().find(|table| table.id == "004-B");
                (column, colour, table.and_then(|table| table.labelled(column, "hackbench Time", None)))
            })
            .collect();
    let groups = ["run 1", "run 2"].map(str::to_owned).to_vec();
    let series = vec![
        (0, vec![published[0].2, published[2].2]),
        (2, vec![published[1].2, None]),
        (4, vec![None, published[3].2]),
    ];
    let bars = Bars {
        title: "hackbench, published in 2021".to_owned(),
        unit: "seconds".to_owned(),
        groups,
        series,
        log: true,
    };
    charts.extend(chart(&bars, "published 2021: hackbench -g 4 -l 10000".to_owned(), false)?);
    let here: Vec<&Cell> = cells(report, "hackbench").iter().filter(|cell| cell.test == "hackbench").collect();
    let systems = ["slob", "slob-seg", "slob-cache", "slub", "ashlar", "glibc"];
    let colours = [0, 2, 4, 1, 3, 5];
    let found: Vec<(usize, &str, f64)> = systems
        .iter()
        .zip(colours)
        .filter_map(|(&system, colour)| Some((colour, system, here.iter().find(|cell| cell.system == system)?.median?)))
        .collect();
    if found.is_empty() && !report.runs.contains_key("hackbench") {
        return Ok(None);
    }
    let series = found.iter().enumerate().map(|(at, &(colour, _, seconds))| {
        let mut figures = vec![None; found.len()];
        figures[at] = Some(seconds);
        (colour, figures)
    });
    let bars = Bars {
        title: "hackbench, measured here".to_owned(),
        unit: "seconds".to_owned(),
        // Whole names would meet; the legend has them.
        groups: found.iter().map(|(_, system, _)| system.trim_start_matches("slob-").to_owned()).collect(),
        series: series.collect(),
        log: false,
    };
    let scaled = here.iter().any(|cell| cell.scale.is_some_and(|scale| scale != 1.0));
    let caption = if scaled { "measured here, all for the full work" } else { "measured here" };
    charts.push(measured(report, "hackbench", &bars, caption.to_owned())?);
    let legend = systems.iter().zip(colours).map(|(system, colour)| (colour, (*system).to_owned())).collect();
    Ok(Some(Figure { kind: Kind::Programs, title: "hackbench".to_owned(), legend, charts }))
}

const MODES: [(&str, &str, &str); 4] = [
    ("nomerge", "nomerge", "slab_nomerge"),
    ("bulk", "bulk", "bulk-free32"),
    ("bulk-nomerge", "both", "bulk-free32 + slab_nomerge"),
    ("bulk-tuned", "bulk, tuned", "slub-tuned"),
];

/// Packets per second more than with mode `normal`, in per cent.
fn forwarding(report: &Report, data: &Published) -> Result<Option<Figure>, Failure> {
    let table = data.tables.iter().find(|table| table.id == "001-A");
    let pps = |label: &str| table?.labelled("pps", label, None);
    let published = MODES.map(|(_, _, label)| Some((pps(label)? / pps("normal")? - 1.0) * 100.0));
    let systems = [("slub-bulk", 1), ("ashlar", 4)];
    let here = |system: &str| {
        let of = |mode: &str| {
            let is_it = |cell: &&Cell| {
                cell.test == "forward-memory" && cell.system == system && cell.mode.as_deref() == Some(mode)
            };
            cells(report, "forward").iter().find(is_it)?.median
        };
        MODES.map(|(mode, _, _)| Some((of("normal")? / of(mode)? - 1.0) * 100.0)).to_vec()
    };
    let series: Vec<(usize, Vec<Option<f64>>)> =
        systems.iter().map(|&(system, colour)| (colour, here(system))).collect();
    if series.iter().all(|(_, figures)| figures.iter().all(Option::is_none)) && !report.runs.contains_key("forward") {
        return Ok(None);
    }
    let groups: Vec<String> = MODES.map(|(_, short, _)| short.to_owned()).to_vec();
    let bars = |title: &str, series| Bars {
        title: title.to_owned(),
        unit: "% more packets per second than normal".to_owned(),
        groups: groups.clone(),
        series,
        log: false,
    };
    let mut charts = Vec::new();
    let of_mail = bars("Forwarding, published in 2015", vec![(5, published.to_vec())]);
    charts.extend(chart(&of_mail, "published 2015: one CPU of an i7-4790K, ixgbe".to_owned(), false)?);
    let here = bars("Forwarding, measured here", series);
    charts.push(measured(report, "forward", &here, "measured here, in memory".to_owned())?);
    let mut legend = vec![(5, "the mail's SLUB".to_owned())];
    legend.extend(systems.iter().map(|&(system, colour)| (colour, system.to_owned())));
    Ok(Some(Figure { kind: Kind::Programs, title: "Packet forwarding".to_owned(), legend, charts }))
}

/// A test over CPUs.
fn simulated(report: &Report, test: &str, nodes: usize) -> Result<Option<Figure>, Failure> {
    let mut series = Vec::new();
    let mut legend = Vec::new();
    for (colour, (system, _)) in SYSTEMS.iter().enumerate() {
        let mut points: Vec<(f64, f64)> = cells(report, "simulate")
            .iter()
            .filter(|cell| cell.simulated && cell.test == test && cell.system == *system && cell.size == 64)
            .filter(|cell| cell.nodes == Some(nodes))
            .filter_map(|cell| Some((cell.cpus as f64, cell.median?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !points.is_empty() {
            series.push((colour, points));
            legend.push((colour, (*system).to_owned()));
        }
    }
    let s = if nodes == 1 { "" } else { "s" };
    let title = format!("Test {test} over CPUs, 64 bytes, {nodes} node{s}");
    let lines = Lines { title: title.clone() + ", simulated", unit: "cycles".to_owned(), series };
    let charts =
        lines.draw()?.map(|svg| Chart { caption: "CPUs from left to right".to_owned(), simulated: true, svg: Ok(svg) });
    Ok(charts.map(|chart| Figure { kind: Kind::Simulated, title, legend, charts: vec![chart] }))
}
