//! `ashlar-lab forward`: forwards IPv4 packets, the load that the kernel's bulk free was first
//! measured with.
//!
//! In 2015 a mail compared five configurations of SLUB on one CPU of a router: unchanged, without
//! merging of caches, with the heads of sent packets freed in bulk, with both, and with larger
//! per-CPU lists as well. This experiment repeats that in user space. Each packet has a head of 256
//! bytes from a named cache and a buffer from kmalloc. A forwarder receives, checks, routes and
//! sends packets in polls of 64, and frees what was sent when it cleans its ring. The engine
//! `slub-bulk` is SLUB as of that mail.
//!
//! | room | parts |
//! |---|---|
//! | `plan` | which modes are compared, turns of the processes, statistics of pairs |
//! | `child` | one measured process: packets, routes, traffic, pools, the loop, networks |
//! | `table` | rates, differences and their intervals |
//! | `targets` | the gain that bulk free must reach |

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
