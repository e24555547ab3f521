//! `ashlar bench bulk`: what one call for many objects is worth, against a loop of single calls.
//!
//! The seed of the bulk calls is packet forwarding (a driver frees 32 packets at a time), their benchmark the kernel's
//! `slab_bulk_test01`: the same list of bulk sizes, objects of 256 bytes (an sk_buff), the fallback loop as control. The kernel's own
//! tables jump where a bulk outgrows the CPU's slab; so the list has 30, 32 and 34, and goes to 250.
//!
//! Peers have no bulk calls: theirs is the loop. The one allocator that is made for bulks is DPDK's mempool. It is measured by
//! its own test program, in `dpdk`, and our calls run the same loop.
//!
//! `child` holds the loops and is one process; here is the run, `table` prints it.

pub(crate) mod child;
mod dpdk;
mod table;

use crate::kit::output;
use core::str::FromStr;
use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use crate::kit::error::CliError;
use crate::kit::measure::UNIT;
use crate::kit::once::record;
use crate::kit::output::create;
use crate::kit::record::{Record, Report};
use crate::systems;
use crate::systems::SystemInfo;
use crate::systems::column::{Column, rounds};
use crate::systems::host;
use child::{Answer, KEPT_SIZE, MAX_BULK, Plan, Test};

/// The bulks of the kernel's test.
const DEFAULT_BULKS: &str = "1,2,3,4,8,16,30,32,34,48,64,128,158,250";

/// Options of `ashlar bench bulk`.
#[derive(Debug, Args)]
pub(crate) struct BulkArgs {
    /// Systems, separated by commas, or `all`; `dpdk` is the mempool in DPDK's own test
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) systems: String,

    /// Objects of one call, separated by commas
    #[arg(long, value_name = "LIST", default_value = DEFAULT_BULKS, value_parser = parse_bulks)]
    pub(crate) bulks: Bulks,

    /// Bytes of an object
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=65_536))]
    pub(crate) size: u32,

    /// Objects of a timed pass
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) objects: u32,

    /// Objects of the heap of the worst case
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) spread: u32,

    /// Passes of each cell in a process
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) passes: u32,

    /// Measured rounds; each starts a process for every system
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,

    /// Write host and records as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Judge the targets: from 8 on a call costs at most 0.4 of the loop, no cliff from 30 to 250, ahead of DPDK's mempool; exit code 1 if one is missed
    #[arg(long)]
    pub(crate) check_targets: bool,
}

/// Bulk sizes in the order given, each once; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bulks(pub(crate) Vec<usize>);

fn parse_bulks(text: &str) -> Result<Bulks, String> {
    let mut bulks = Vec::new();
    for part in text.split(',').map(str::trim) {
        match usize::from_str(part) {
            Ok(bulk) if (1..=MAX_BULK).contains(&bulk) && !bulks.contains(&bulk) => bulks.push(bulk),
            Ok(bulk) if bulks.contains(&bulk) => {}
            _ => return Err(format!("`{part}` is no bulk: expected numbers of objects from 1 to {MAX_BULK}")),
        }
    }
    bulks.sort_unstable();
    Ok(Bulks(bulks))
}

/// `ashlar bench bulk`.
pub(crate) fn run(args: &BulkArgs) -> Result<(), CliError> {
    let (columns, dpdk) = select(&args.systems)?;
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let plan = Plan {
        size: args.size as usize,
        bulks: args.bulks.0.clone(),
        objects: args.objects as usize,
        spread: args.spread as usize,
        passes: args.passes as usize,
    };
    let answers =
        rounds(&columns, args.rounds as usize, |_, column| column.ask::<_, Answer>("bench-bulk-child", &plan));
    let mut notes = BTreeMap::new();
    let mut records = Vec::new();
    for (&who, of) in &answers.of {
        notes.insert(columns[who].info.id, of[0].note.clone());
        records.extend(collect(&columns[who].name, plan.size, of));
    }
    let mut failures = answers.failures;
    let mut skipped = None;
    match dpdk {
        Asked::No => {}
        Asked::InAll(Err(why)) => skipped = Some(why),
        Asked::ByName(found) | Asked::InAll(Ok(found)) => match dpdk::run(&found) {
            Ok(found) => records.extend(found),
            Err(error) => failures.push(error),
        },
    }
    let chosen: Vec<&'static SystemInfo> = columns.iter().map(|column| column.info).collect();
    let mut host = host::of_run(&chosen, args.rounds as usize, &notes);
    host.objects = plan.objects;
    host.warm_up = "one pass of each cell in each process".to_owned();
    let run = Report { host, records, published: None };
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| CliError::Failed(format!("--json: {error}")))?;
    }
    let mut text = table::render(&run, &plan);
    if let Some(why) = skipped {
        text += &format!("\nSKIPPED  dpdk: {why}\n");
    }
    let verdict = args.check_targets.then(|| table::check(&run));
    if let Some((judged, _)) = &verdict {
        text += judged;
    }
    output::print(&text)?;
    if !failures.is_empty() {
        return Err(CliError::Failed(failures.join("\nerror: ")));
    }
    match verdict {
        Some((_, false)) => Err(CliError::TargetsMissed),
        _ => Ok(()),
    }
}

/// Whether DPDK's test was asked for.
enum Asked {
    No,
    ByName(dpdk::Program),
    /// As one of all: where it cannot run, that is only told.
    InAll(Result<dpdk::Program, String>),
}

/// The systems of `list`, of which `dpdk` is none of ours.
fn select(list: &str) -> Result<(Vec<Column>, Asked), CliError> {
    let others: Vec<&str> = list.split(',').map(str::trim).filter(|id| *id != dpdk::ID).collect();
    let mut dpdk = Asked::No;
    if others.len() < list.split(',').count() {
        dpdk = Asked::ByName(
            dpdk::find().map_err(|error| CliError::option("--systems", format_args!("`{}`: {error}", dpdk::ID)))?,
        );
    } else if list.trim() == "all" {
        dpdk = Asked::InAll(dpdk::find());
    }
    let chosen = if others.is_empty() { Vec::new() } else { systems::select_heaps(&others.join(","))? };
    Ok((chosen.into_iter().map(Column::plain).collect(), dpdk))
}

/// The records of one system: over the passes of all its processes.
fn collect(system: &str, size: usize, answers: &[Answer]) -> Vec<Record> {
    let mut samples: BTreeMap<(Test, usize), Vec<f64>> = BTreeMap::new();
    for cell in answers.iter().flat_map(|answer| &answer.cells) {
        samples.entry((cell.test, cell.bulk)).or_default().extend(&cell.samples);
    }
    let named = |((test, bulk), samples): ((Test, usize), Vec<f64>)| {
        let (name, size) = match test {
            Test::Single => ("bulk-single".to_owned(), size),
            Test::Loop => ("bulk-loop".to_owned(), size),
            Test::Call => ("bulk-call".to_owned(), size),
            Test::WorstLoop => ("bulk-worst-loop".to_owned(), size),
            Test::WorstCall => ("bulk-worst-call".to_owned(), size),
            Test::Keep(keep) => (keep_name(keep), KEPT_SIZE),
        };
        Record { size, bulk: Some(bulk), ..record(&name, system, UNIT, &samples) }
    };
    samples.into_iter().map(named).collect()
}

/// Name of the records of DPDK's loop with `keep` objects.
fn keep_name(keep: usize) -> String {
    format!("bulk-keep-{keep}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulks_are_sorted_and_taken_once() {
        assert_eq!(parse_bulks("8, 1,8").unwrap().0, [1, 8]);
        assert_eq!(parse_bulks(DEFAULT_BULKS).unwrap().0.len(), 14);
        for bad in ["", "0", "5000", "many", "1,,2"] {
            assert!(parse_bulks(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn samples_of_all_processes_make_one_record() {
        let cell = |samples: &[f64]| child::Cell { test: Test::Call, bulk: 8, samples: samples.to_vec() };
        let answer = |samples: &[f64]| Answer { note: String::new(), cells: vec![cell(samples)] };
        let records = collect("slub", 256, &[answer(&[3.0, 1.0]), answer(&[2.0])]);
        assert_eq!(records.len(), 1);
        let found = &records[0];
        assert_eq!((found.test.as_str(), found.bulk, found.size, found.runs), ("bulk-call", Some(8), 256, 3));
        assert_eq!((found.min, found.median), (1.0, 2.0));
    }
}
