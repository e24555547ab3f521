//! `ashlar-lab simulate`: predicts tests D and F for machines with more CPUs and nodes.
//!
//! For each engine two processes measure on two CPUs (`child`), one with one node and one with two
//! fake ones: what operations cost alone, which locks they take and for how long, and what a cache
//! line costs that moves. `plan/model.rs` is a discrete-event model that takes these figures, and
//! `plan/predict.rs` says what it predicts and how far that is from what two CPUs do. Everything
//! that is not measured is marked as simulated, on the screen and in the JSON.
//!
//! No `targets`: a prediction is not judged.

pub(crate) mod args;
pub(crate) mod child;
mod plan;
mod table;

use std::process::{Command, Stdio};

use ashlar::Engine;

use crate::experiments::simulate::args::SimulateArgs;
use crate::experiments::simulate::plan::measured::{Answer, Plan};
use crate::experiments::simulate::plan::predict::Inputs;
use crate::experiments::simulate::plan::{Cell, Run};
use crate::kit::error::LabError;
use crate::kit::measure::allowed_cpus;
use crate::kit::output::{self, create};
use crate::kit::record::Host;
use crate::kit::{machine, progress};
use crate::systems::engines;

/// `ashlar simulate`.
pub(crate) fn run(args: &SimulateArgs) -> Result<(), LabError> {
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let (host, cells) = match &args.from {
        Some(path) => load(path)?,
        None => measure(args)?,
    };
    let run = plan::predict(host, cells, &args.cpus.0, &args.nodes.0, args.line.map(f64::from), args.seed);
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    output::print(&table::render(&run))
}

/// What an earlier run measured.
fn load(path: &std::path::Path) -> Result<(Host, Vec<Cell>), LabError> {
    let fail = |error: String| {
        let expected = "expected a file written by `ashlar simulate --json`";
        LabError::option("--from", format_args!("{}: {error}; {expected}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| fail(format!("cannot read it: {error}")))?;
    let run: Run = serde_json::from_str(&text).map_err(|error| fail(error.to_string()))?;
    if run.inputs.is_empty() {
        return Err(fail("it holds no measurements".to_owned()));
    }
    Ok((run.host, run.inputs))
}

/// Measures each engine on one node and on two.
fn measure(args: &SimulateArgs) -> Result<(Host, Vec<Cell>), LabError> {
    let systems = engines::engines(&args.systems)?;
    let allowed = allowed_cpus().len();
    if allowed < 2 {
        let error =
            "two CPUs are needed: what a line costs that moves is measured between them; this process may use one";
        return Err(LabError::Failed(error.to_owned()));
    }
    let plan = Plan { sizes: args.sizes.0.clone(), objects: args.objects as usize, seed: args.seed };
    let bar = progress::progress(2 * systems.len() as u64);
    let mut cells = Vec::new();
    for &engine in &systems {
        bar.set_message(engine.id());
        let ask = |nodes: usize| {
            let answer = ask(engine, nodes, &plan);
            bar.inc(1);
            answer.map_err(|error| LabError::Failed(format!("{}: {error}", engine.id())))
        };
        let inputs = Inputs::pair(&ask(1)?, &ask(2)?, args.far);
        cells.extend(inputs.into_iter().map(|inputs| Cell { system: engine.id().to_owned(), inputs }));
    }
    bar.finish_and_clear();
    let host = Host {
        cpu_model: machine::cpu_model(),
        cpus: allowed,
        arch: std::env::consts::ARCH.to_owned(),
        kernel: machine::kernel(),
        tsc_mhz: machine::tsc_mhz(),
        ashlar_version: env!("CARGO_PKG_VERSION").to_owned(),
        ashlar_mode: ashlar::mode().to_string(),
        build: machine::own_build(),
        objects: plan.objects,
        systems: systems.iter().map(|engine| engine.id().to_owned()).collect(),
        ..Host::default()
    };
    Ok((host, cells))
}

/// Has a child measure `engine` on `nodes` nodes.
fn ask(engine: Engine, nodes: usize, plan: &Plan) -> Result<Answer, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let plan = serde_json::to_string(plan).map_err(|error| error.to_string())?;
    // The later of two options wins, and the others stay. The background thread would be a third
    // party at the locks.
    let mut options = std::env::var("ASHLAR_OPTIONS").unwrap_or_default();
    options += &format!(",reaper=off,engine={},nodes={nodes}", engine.id());
    let output = Command::new(program)
        .args(["simulate-child", &plan])
        .env("ASHLAR_OPTIONS", options)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start the child: {error}"))?;
    if !output.status.success() {
        return Err(format!("the child ended: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).map_err(|error| format!("cannot read the child's answer `{}`: {error}", text.trim()))
}
