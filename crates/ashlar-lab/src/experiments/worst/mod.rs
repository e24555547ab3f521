//! `ashlar-lab bench worst`: the worst case of each call.
//!
//! The tests A to F time thousands of calls together; a program with a deadline asks for the
//! slowest of them. Here each call is timed by itself, on heaps that are made to be bad, and what
//! is printed is the minimum, percentiles and the maximum. One process serves one engine or malloc,
//! one call after the other on one pinned thread.
//!
//! What the system does to the process (interrupts, and the host of a virtual machine) is in the
//! figures: the maximum of many thousand calls is mostly that, and the same for all systems. An
//! engine answers for the percentiles up to p99.9, and for the bound on instructions in
//! docs/engines.md.
//!
//! No `targets`: a shared machine cannot judge a maximum.

pub(crate) mod args;
pub(crate) mod child;
mod plan;
mod table;

use crate::experiments::worst::args::WorstArgs;
use crate::experiments::worst::plan::{Answer, Plan, Run};
use crate::experiments::worst::table::render;
use crate::kit::error::LabError;
use crate::kit::{machine, measure, once, output, progress};
use crate::systems::{Kind, SystemInfo, select_calls};

/// `ashlar bench worst`.
pub(crate) fn run(args: &WorstArgs) -> Result<(), LabError> {
    let systems = select_calls(&args.systems)?;
    if let Some(size) = args.sizes.0.iter().find(|&&size| size < plan::SMALLEST) {
        let expected = plan::SMALLEST;
        return Err(LabError::option("--sizes", format_args!("size {size}: expected at least {expected} bytes")));
    }
    let json = args.json.as_deref().map(|path| output::create("--json", path)).transpose()?;
    let plan = Plan {
        sizes: args.sizes.0.clone(),
        live: args.live as usize,
        samples: args.samples as usize,
        cold: args.cold as usize,
        sweep_mib: usize::from(args.sweep),
    };
    let (mut records, mut clock) = (Vec::new(), u64::MAX);
    let bar = progress::progress(systems.len() as u64);
    for info in systems {
        bar.set_message(info.id);
        let answer = ask(info, &plan).map_err(|error| LabError::Failed(format!("{}: {error}", info.id)))?;
        records.extend(answer.records);
        clock = clock.min(answer.clock);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let run = Run {
        cpu_model: machine::cpu_model(),
        kernel: machine::kernel(),
        tsc_mhz: machine::tsc_mhz(),
        ashlar_version: env!("CARGO_PKG_VERSION").to_owned(),
        build: machine::own_build(),
        unit: measure::UNIT_OF_TICKS.to_owned(),
        clock,
        plan,
        records,
    };
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    output::print(&render(&run))
}

/// Has a child measure a system.
fn ask(info: &SystemInfo, plan: &Plan) -> Result<Answer, String> {
    // A background thread has no place beside a deadline.
    let options = match info.kind {
        Kind::Ours if info.has_caches() => format!("reaper=off,engine={}", info.id),
        Kind::Ours => "reaper=off".to_owned(),
        Kind::Peer { .. } | Kind::Limit | Kind::Linux => String::new(),
    };
    let mut answer: Answer = once::ask(&["bench-worst-child", info.id], plan, info.env, &options)?;
    for record in answer.records.iter_mut().filter(|record| record.system.is_empty()) {
        info.id.clone_into(&mut record.system);
    }
    Ok(answer)
}
