//! `ashlar simulate`: tests D and F on machines that are not here.
//!
//! For each engine two processes measure on two CPUs ([`child`]), one with one node and one with two fake ones: what operations cost
//! alone, which locks they take and for how long, and what lines cost that move. [`model`] is the discrete-event model that is fed with
//! it, [`predict`] what is predicted and how far that is from what two CPUs do. Everything that is not measured is marked as
//! simulated, on the screen and in the JSON.

mod child;
mod model;
mod predict;
mod table;

use crate::kit::machine;
use crate::kit::output;
use crate::kit::progress;
use crate::systems::engines;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ashlar::Engine;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::kit::error::CliError;
use crate::kit::measure::{UNIT, allowed_cpus};
use crate::kit::options::{SizeList, parse_sizes};
use crate::kit::output::create;
use crate::kit::record::{Host, Record};
pub(crate) use child::main as child_main;
use child::{Answer, Plan};
use predict::{Inputs, Validation};

/// Options of `ashlar simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// Engines of ashlar, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "ashlar,slab,slub,slub+,slub-ll,slob-seg")]
    pub(crate) systems: String,

    /// Object sizes in bytes, separated by commas; LOW..HIGH stands for the powers of two from LOW to HIGH
    #[arg(long, value_name = "LIST", default_value = "8,64,512,4096", value_parser = parse_sizes)]
    pub(crate) sizes: SizeList,

    /// Numbers of CPUs to predict for, 2 to 1024, separated by commas
    #[arg(long, value_name = "LIST", default_value = "2,4,8,16,64,256,1024", value_parser = parse_cpus)]
    pub(crate) cpus: Numbers,

    /// Numbers of NUMA nodes to predict for, 1 to 16, separated by commas; where there are more nodes than CPUs, nothing is predicted
    #[arg(long, value_name = "LIST", default_value = "1,4,16", value_parser = parse_nodes)]
    pub(crate) nodes: Numbers,

    /// What a cache line from another node costs over one of the same, which cannot be measured on a machine with one node
    #[arg(long, value_name = "RATIO", default_value = "2", value_parser = parse_far)]
    pub(crate) far: f64,

    /// Objects for each CPU and measured pass
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) objects: u32,

    /// Start of the random numbers: the same measurements and the same seed give the same predictions
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Write machine, records, measured inputs and errors as JSON
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) json: Option<PathBuf>,

    /// Do not measure: predict from the inputs of an earlier run's JSON file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["systems", "sizes", "objects", "far"])]
    pub(crate) from: Option<PathBuf>,
}

/// A list of numbers. (A type of its own, because clap takes a bare `Vec` for a repeated option.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers(pub(crate) Vec<usize>);

fn parse_numbers(text: &str, least: usize, most: usize) -> Result<Numbers, String> {
    let one = |part: &str| match part.trim().parse::<usize>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("`{}`: expected numbers from {least} to {most}, separated by commas", part.trim())),
    };
    let mut numbers = text.split(',').map(one).collect::<Result<Vec<_>, _>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Numbers(numbers))
}

fn parse_cpus(text: &str) -> Result<Numbers, String> {
    parse_numbers(text, 2, 1024)
}

fn parse_nodes(text: &str) -> Result<Numbers, String> {
    parse_numbers(text, 1, 16)
}

fn parse_far(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(far) if (1.0..=20.0).contains(&far) => Ok(far),
        _ => Err("expected a number from 1 to 20".to_owned()),
    }
}

/// A record that may be no measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SimRecord {
    #[serde(flatten)]
    pub(crate) record: Record,
    /// NUMA nodes.
    pub(crate) nodes: usize,
    /// False for what was measured on two CPUs of this machine.
    pub(crate) simulated: bool,
}

/// One engine at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) system: String,
    pub(crate) inputs: Inputs,
}

/// A run as `--json` writes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) host: Host,
    pub(crate) records: Vec<SimRecord>,
    /// Start of the random numbers.
    pub(crate) seed: u64,
    pub(crate) inputs: Vec<Cell>,
    pub(crate) validation: Vec<Validation>,
}

/// `ashlar simulate`.
pub(crate) fn run(args: &SimulateArgs) -> Result<(), CliError> {
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let (host, cells) = match &args.from {
        Some(path) => load(path)?,
        None => measure(args)?,
    };
    let run = predict(host, cells, &args.cpus.0, &args.nodes.0, args.seed);
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| CliError::Failed(format!("--json: {error}")))?;
    }
    output::print(&table::render(&run))
}

/// What an earlier run measured.
fn load(path: &std::path::Path) -> Result<(Host, Vec<Cell>), CliError> {
    let fail = |error: String| {
        let expected = "expected a file written by `ashlar simulate --json`";
        CliError::option("--from", format_args!("{}: {error}; {expected}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| fail(format!("cannot read it: {error}")))?;
    let run: Run = serde_json::from_str(&text).map_err(|error| fail(error.to_string()))?;
    if run.inputs.is_empty() {
        return Err(fail("it holds no measurements".to_owned()));
    }
    Ok((run.host, run.inputs))
}

/// Measures each engine on one node and on two.
fn measure(args: &SimulateArgs) -> Result<(Host, Vec<Cell>), CliError> {
    let systems = engines::engines(&args.systems)?;
    let allowed = allowed_cpus().len();
    if allowed < 2 {
        let error =
            "two CPUs are needed: what a line costs that moves is measured between them; this process may use one";
        return Err(CliError::Failed(error.to_owned()));
    }
    let plan = Plan { sizes: args.sizes.0.clone(), objects: args.objects as usize, seed: args.seed };
    let bar = progress::progress(2 * systems.len() as u64);
    let mut cells = Vec::new();
    for &engine in &systems {
        bar.set_message(engine.id());
        let ask = |nodes: usize| {
            let answer = ask(engine, nodes, &plan);
            bar.inc(1);
            answer.map_err(|error| CliError::Failed(format!("{}: {error}", engine.id())))
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
    // The later of two options wins, and the others stay. The background thread would be a third party at the locks.
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

/// All predictions, and what they are worth.
fn predict(host: Host, cells: Vec<Cell>, cpus: &[usize], nodes: &[usize], seed: u64) -> Run {
    let (mut records, mut validation) = (Vec::new(), Vec::new());
    for Cell { system, inputs } in &cells {
        let size = inputs.one_node.size;
        let record = |test: &str, cpus: usize, nodes: usize, ticks: f64, simulated: bool| {
            let ticks = (ticks * 100.0).round() / 100.0;
            let record = Record {
                mode: None,
                test: test.to_owned(),
                system: system.clone(),
                size,
                cpus,
                unit: UNIT.to_owned(),
                min: ticks,
                median: ticks,
                runs: 1,
                samples: vec![ticks],
                ..Record::default()
            };
            SimRecord { record, nodes, simulated }
        };
        for &nodes in nodes {
            for &cpus in cpus.iter().filter(|&&cpus| cpus >= nodes) {
                records.push(record("D", cpus, nodes, inputs.test_d(cpus, nodes, seed), true));
                records.push(record("F", cpus, nodes, inputs.test_f(cpus, nodes), true));
            }
        }
        let found = predict::validate(system, inputs, seed);
        records.extend(found.iter().map(|cell| record(&cell.test, cell.cpus, cell.nodes, cell.measured, false)));
        validation.extend(found);
    }
    Run { host, records, seed, inputs: cells, validation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::record;

    pub(crate) fn sample() -> Run {
        let cells = ["slab", "slub"].map(|system| Cell { system: system.to_owned(), inputs: predict::tests::inputs() });
        predict(Host::default(), cells.to_vec(), &[2, 8, 1024], &[1, 4, 16], 1)
    }

    #[test]
    fn every_test_has_a_record_for_each_machine_that_can_be() {
        let run = sample();
        let of = |simulated: bool| run.records.iter().filter(move |record| record.simulated == simulated).count();
        // 2, 8 and 1024 CPUs on one node, 8 and 1024 on four, 1024 on sixteen; tests D and F; two engines.
        assert_eq!(of(true), 6 * 2 * 2);
        assert_eq!(of(false), run.validation.len());
    }

    #[test]
    fn json_says_what_is_simulated_and_can_be_read_as_a_run_of_the_lab() {
        let run = sample();
        let text = serde_json::to_string(&run).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["records"][0]["simulated"], true);
        assert_eq!(value["records"][0]["nodes"], 1);
        let report: record::Report = serde_json::from_str(&text).unwrap();
        assert_eq!(report.records.len(), run.records.len());
        let again: Run = serde_json::from_str(&text).unwrap();
        assert_eq!(again.records, run.records);
    }

    #[test]
    fn lists_are_sorted_and_checked() {
        assert_eq!(parse_cpus("8, 2,8").unwrap().0, [2, 8]);
        for bad in ["1", "1025", "", "two", "2,,4"] {
            assert!(parse_cpus(bad).unwrap_err().contains("expected numbers from 2 to 1024"), "{bad}");
        }
        assert!(parse_nodes("17").unwrap_err().contains("from 1 to 16"));
        assert!(parse_far("0.5").is_err() && parse_far("far").is_err());
    }
}
