//! `ashlar-lab bench programs`: whole programs on ashlar, its peers and glibc, by preloading each
//! library.
//!
//! `plan` finds the libraries, runs the rounds and holds a run as data. `child` starts a process: a
//! program of this machine with its input, or a workload of the crate `ashlar-workload`. `targets`
//! judges a run, by pairs of rounds (`targets/paired.rs`) where noise is as large as what is
//! judged.

pub(crate) mod args;
mod child;
mod plan;
mod table;
mod targets;

use core::fmt::Write;
use std::path::{Path, PathBuf};

use crate::experiments::programs::args::ProgramsArgs;
use crate::experiments::programs::child::real::{REAL, Real};
use crate::experiments::programs::child::startup;
use crate::experiments::programs::plan::record::{Kind, Machine, Run};
use crate::experiments::programs::plan::{Plan, Program, systems};
use crate::kit::error::LabError;
use crate::kit::machine;
use crate::kit::measure::allowed_cpus;
use crate::kit::output::{self, create};
use ashlar_workload::{LIVE, PAIRS, WORKLOADS, Workload};

/// `ashlar bench programs`.
pub(crate) fn run(args: &ProgramsArgs) -> Result<(), LabError> {
    if args.list {
        return list(args);
    }
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let (run, failures) = match &args.from {
        Some(path) => (Run::load(path)?, Vec::new()),
        None => measure(args)?,
    };
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    let mut text = table::header(&run);
    text += &table::render(&run, args.by);
    let verdict = args.check_targets.then(|| targets::check(&run, args.by));
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

/// A directory for the inputs, gone with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, LabError> {
        let path = std::env::temp_dir().join(format!("ashlar-programs-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .map_err(|error| LabError::Failed(format!("cannot make {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn measure(args: &ProgramsArgs) -> Result<(Run, Vec<String>), LabError> {
    let names = select(&args.workloads)?;
    let (systems, mut missing) = systems::select(&args.systems, &args.options)?;
    let scratch = Scratch::new()?;
    let programs = prepare(&names, &scratch.0, args.scale, &mut missing)?;
    for line in &missing {
        eprintln!("MISSING  {line}");
    }
    let plan = Plan { programs, systems, rounds: args.rounds as usize, scale: args.scale };
    let (records, failures) = plan::run(&plan)?;
    let mut run = Run { host: machine(&plan), programs: records, geomeans: Vec::new(), missing };
    run.geomeans = table::means(&run, args.by);
    Ok((run, failures))
}

/// A workload that was asked for, by its name or as one of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    name: &'static str,
    /// By its own name: it may not be missing.
    by_name: bool,
}

/// All workloads by name, in the order of the tables.
fn known() -> Vec<&'static str> {
    let ours = Workload::all().map(|workload| workload.name);
    ours.chain(REAL.iter().map(|real| real.name)).chain([startup::NAME, PAIRS.name]).collect()
}

/// The workloads that `list` names, in the order of the tables.
fn select(list: &str) -> Result<Vec<Asked>, LabError> {
    let synthetic = || WORKLOADS.iter().map(|workload| workload.name);
    let live = || LIVE.iter().map(|workload| workload.name);
    let real = || REAL.iter().map(|real| real.name);
    let known = known();
    let mut chosen: Vec<Asked> = Vec::new();
    for word in list.split(',').map(str::trim) {
        let named: Vec<&'static str> = match word {
            "all" => known.iter().copied().filter(|name| *name != PAIRS.name).collect(),
            "synthetic" => synthetic().collect(),
            "live" => live().collect(),
            "real" => real().collect(),
            _ => known.iter().copied().filter(|name| *name == word).collect(),
        };
        if named.is_empty() {
            return Err(LabError::option(
                "--workloads",
                format_args!(
                    "unknown workload `{word}`; expected `all`, `synthetic`, `live`, `real` or a comma-separated list of: {}",
                    known.join(", ")
                ),
            ));
        }
        for name in named {
            match chosen.iter_mut().find(|asked| asked.name == name) {
                Some(asked) => asked.by_name |= name == word,
                None => chosen.push(Asked { name, by_name: name == word }),
            }
        }
    }
    chosen.sort_by_key(|asked| known.iter().position(|name| *name == asked.name));
    Ok(chosen)
}

fn prepare(names: &[Asked], dir: &Path, scale: f64, missing: &mut Vec<String>) -> Result<Vec<Program>, LabError> {
    let mut programs = Vec::new();
    for asked in names {
        if let Some(workload) = Workload::by_name(asked.name) {
            programs.push(Program::Synthetic(workload));
        } else if let Some(real) = Real::by_name(asked.name) {
            match real.find() {
                Ok(_) => programs.push(Program::Real(real.prepare(dir, scale).map_err(LabError::Failed)?)),
                Err(line) if asked.by_name => return Err(LabError::option("--workloads", line)),
                Err(line) => missing.push(line),
            }
        } else {
            programs.push(Program::Startup);
        }
    }
    Ok(programs)
}

fn machine(plan: &Plan) -> Machine {
    Machine {
        cpu_model: machine::cpu_model(),
        cpus: allowed_cpus().len(),
        arch: std::env::consts::ARCH.to_owned(),
        kernel: machine::kernel(),
        glibc: machine::glibc(),
        thp: machine::thp(),
        ashlar_version: env!("CARGO_PKG_VERSION").to_owned(),
        ashlar_mode: ashlar::mode().to_string(),
        build: machine::own_build(),
        rounds: plan.rounds,
        scale: plan.scale,
    }
}

/// `--list`: what can be run here, and what cannot.
fn list(args: &ProgramsArgs) -> Result<(), LabError> {
    let names = select(&args.workloads)?;
    let (systems, mut missing) = systems::select(&args.systems, &args.options)?;
    let mut text = String::from("Workloads\n");
    for asked in names {
        let (kind, what) = if let Some(workload) = Workload::by_name(asked.name) {
            let threads = if workload.threads == 1 { "1 thread" } else { &format!("{} threads", workload.threads) };
            let kind = match Program::Synthetic(workload).kind() {
                Kind::Pairs => PAIRS.name,
                Kind::Live => "live",
                _ => "synthetic",
            };
            (format!("{kind}, {threads}"), workload.what)
        } else if let Some(real) = Real::by_name(asked.name) {
            missing.extend(real.find().err());
            ("real".to_owned(), real.what)
        } else {
            ("start-up".to_owned(), startup::WHAT)
        };
        let _ = writeln!(text, "  {:<15} {kind:<21} {what}", asked.name);
    }
    text += "Systems\n";
    for system in &systems {
        let file = system.preload.as_ref().map_or_else(String::new, |path| path.display().to_string());
        let _ = writeln!(text, "  {:<15} {:<21} {file}", system.id, system.version);
    }
    for line in &missing {
        let _ = writeln!(text, "MISSING  {line}");
    }
    output::print(&text)
}

/// What `--systems` takes beside `all`, for the shells' completions.
#[cfg(test)]
pub(crate) fn system_names() -> Vec<&'static str> {
    plan::systems::known()
}

/// What `--workloads` takes beside `all`, for the shells' completions.
#[cfg(test)]
pub(crate) fn workload_names() -> Vec<&'static str> {
    ["synthetic", "live", "real"].into_iter().chain(known()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_the_order_of_the_tables_and_know_groups() {
        let names = |list: &str| select(list).unwrap().iter().map(|asked| asked.name).collect::<Vec<_>>();
        assert_eq!(names("startup, trees,numbers,trees"), ["numbers", "trees", "startup"]);
        assert_eq!(names("synthetic").len(), WORKLOADS.len());
        assert_eq!(names("live, live-8").len(), LIVE.len());
        assert!(names("live").iter().all(|name| name.starts_with("live-")));
        assert_eq!(names("live-8,real,trees")[..2], ["trees", "live-8"]);
        assert_eq!(names("all").len(), WORKLOADS.len() + LIVE.len() + REAL.len() + 1);
        assert!(!names("all").contains(&PAIRS.name) && names("pairs,trees") == ["trees", "pairs"]);
        assert!(select("live,live-64").unwrap().iter().all(|asked| asked.by_name == (asked.name == "live-64")));
        assert!(select("real,git").unwrap().iter().all(|asked| asked.by_name == (asked.name == "git")));
        let error = select("nosuch").unwrap_err().to_string();
        assert!(["`nosuch`", "`live`", "handover", "gcc"].iter().all(|part| error.contains(part)), "{error}");
    }
}
