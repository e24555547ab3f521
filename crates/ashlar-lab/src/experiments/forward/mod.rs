//! `ashlar forward`: IPv4 forwarding, the load with which the kernel's bulk free was first measured.
//!
//! In 2015 a mail compared five configurations of SLUB on one CPU of a router: as it was, without merging of caches, with the heads
//! of sent packets freed in bulk, both, and bulk with larger per-CPU lists. This command repeats that in user space. Each packet has a
//! head of 256 bytes from a named cache and a buffer from kmalloc; a forwarder receives, checks, routes and sends them in polls of 64, and
//! frees what was sent when its ring is cleaned. The engine `slub-bulk` is SLUB as of that mail; other engines and
//! mallocs are rows beside it.
//!
//! * [`packet`]: one forwarding step. [`routes`]: the table. [`traffic`]: what is sent, and whether it arrived.
//! * [`skb`]: heads and buffers. [`pool`]: where they come from, and who else uses such objects.
//! * [`forwarder`]: the loop. [`completions`]: who frees. [`memory`]: frames from memory to memory.
//! * [`network`], [`sockets`], [`veth`]: the same between two network namespaces.
//! * [`child`]: a measured process, one for each system, mode and round. [`rounds`]: takes turns with them.
//! * [`modes`], [`statistics`], [`report`]: what is compared, how sure it is, and how it is shown.

pub(crate) mod args;
pub(crate) mod child;
mod plan;
mod table;
mod targets;

use crate::experiments::forward::args::{Cleaner, ForwardArgs};
use crate::experiments::forward::plan::modes::{self, Mode};
use crate::experiments::forward::plan::protocol::Setup;
use crate::experiments::forward::plan::{Case, Plan};
use crate::kit::error::LabError;
use crate::kit::output::{self, create};
use crate::systems;

/// Packets of a pass in memory: some tens of milliseconds.
const PACKETS_IN_MEMORY: usize = 200_000;
/// Over veth.
const PACKETS_OVER_VETH: usize = 20_480;

/// `ashlar forward`.
pub(crate) fn run(args: &ForwardArgs) -> Result<(), LabError> {
    let plan = planned(args)?;
    let target = args.check_targets.then(|| targets::target_of(&plan)).transpose()?;
    // Opened before the run: a wrong path must not cost a minute.
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let outcome = plan::run(&plan).map_err(LabError::Failed)?;
    let run = table::Run::new(&plan, &outcome);
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    let verdict = target.map(|system| targets::judge(&run, system));
    let mut text = table::render(&plan, &outcome, &run);
    if let Some(verdict) = &verdict {
        text += &verdict.text;
    }
    output::print(&text)?;
    match verdict {
        Some(verdict) if !verdict.passed => Err(LabError::TargetsMissed),
        _ => Ok(()),
    }
}

fn planned(args: &ForwardArgs) -> Result<Plan, LabError> {
    let systems = systems::select_forwarding(&args.systems)?;
    let modes = modes::select(&args.modes)?;
    let mut cases = Vec::new();
    for &system in &systems {
        // A malloc has neither caches to merge nor a bulk call.
        let own = if system.has_caches() { &modes[..] } else { &[Mode::Normal] };
        cases.extend(own.iter().map(|&mode| Case { system, mode }));
    }
    let setup = Setup {
        veth: args.veth,
        bulk: None,
        tuned: false,
        other_cpu: args.completions == Cleaner::Other,
        size: usize::from(args.size),
        routes: args.routes as usize,
        flows: args.flows as usize,
        bad: usize::from(args.bad),
        others: args.others as usize,
    };
    let usual = if args.veth { PACKETS_OVER_VETH } else { PACKETS_IN_MEMORY };
    Ok(Plan {
        systems,
        cases,
        setup,
        bulk: usize::from(args.bulk),
        packets: args.packets.map_or(usual, |packets| packets as usize),
        rounds: args.rounds as usize,
        max_seconds: u64::from(args.max_seconds),
        confidence: args.confidence,
    })
}

/// What `--modes` takes beside `all`, for the shells' completions.
#[cfg(test)]
pub(crate) fn mode_names() -> Vec<&'static str> {
    Mode::ALL.map(Mode::id).to_vec()
}
