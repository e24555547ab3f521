//! `ashlar-lab bench bulk`: calls that allocate and free many objects, against loops of single
//! calls.
//!
//! The list of bulk sizes and the objects of 256 bytes (an sk_buff) are those of the kernel's
//! `slab_bulk_test01`; the loop of single calls is the control. The kernel's own tables jump where
//! a bulk outgrows the slab of the CPU, so the list has 30, 32 and 34, and goes up to 250.
//!
//! Peers have no bulk calls, so they run the loop alone. DPDK's mempool is made for bulks. Its own
//! test program measures it (`child/dpdk.rs`), and our calls run the same loop.

pub(crate) mod args;
pub(crate) mod child;
mod plan;
mod table;
mod targets;

use std::collections::BTreeMap;

use crate::experiments::bulk::args::BulkArgs;
use crate::experiments::bulk::child::dpdk;
use crate::experiments::bulk::plan::{Answer, Plan, collect};
use crate::kit::error::LabError;
use crate::kit::output::{self, create};
use crate::kit::record::Report;
use crate::systems::column::{Column, rounds};
use crate::systems::{self, SystemInfo, host};

/// `ashlar bench bulk`.
pub(crate) fn run(args: &BulkArgs) -> Result<(), LabError> {
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
        serde_json::to_writer_pretty(file, &run).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    let mut text = table::render(&run, &plan);
    if let Some(why) = skipped {
        text += &format!("\nSKIPPED  dpdk: {why}\n");
    }
    let verdict = args.check_targets.then(|| targets::check(&run));
    if let Some(verdict) = &verdict {
        text += &verdict.text;
    }
    output::print(&text)?;
    if !failures.is_empty() {
        return Err(LabError::several(&failures));
    }
    match verdict {
        Some(verdict) if !verdict.passed => Err(LabError::TargetsMissed),
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

/// The systems of `list`. `dpdk` stands for a program outside the lab.
fn select(list: &str) -> Result<(Vec<Column>, Asked), LabError> {
    let others: Vec<&str> = list.split(',').map(str::trim).filter(|id| *id != dpdk::ID).collect();
    let mut dpdk = Asked::No;
    if others.len() < list.split(',').count() {
        dpdk = Asked::ByName(
            dpdk::find().map_err(|error| LabError::option("--systems", format_args!("`{}`: {error}", dpdk::ID)))?,
        );
    } else if list.trim() == "all" {
        dpdk = Asked::InAll(dpdk::find());
    }
    let chosen = if others.is_empty() { Vec::new() } else { systems::select_heaps(&others.join(","))? };
    Ok((chosen.into_iter().map(Column::plain).collect(), dpdk))
}
