//! `ashlar-lab reproduce`: every claim of the five mails that this project starts from, and whether
//! it holds here.
//!
//! The claims are data (`data/claims.json`). `plan` reads them and lists the runs that they need,
//! `child` makes each run with the lab's other commands, `targets` compares, and `table` writes the
//! table and the page for people.

pub(crate) mod args;
mod child;
mod plan;
mod table;
mod targets;

use std::path::{Path, PathBuf};

use crate::experiments::reproduce::args::ReproduceArgs;
use crate::experiments::reproduce::plan::claims::Claims;
use crate::experiments::reproduce::plan::evidence::Evidence;
use crate::experiments::reproduce::plan::rows::Rows;
use crate::experiments::reproduce::plan::runs;
use crate::experiments::reproduce::table::report::{Machine, Report};
use crate::kit::error::LabError;
use crate::kit::output::{self, create};
use crate::kit::published::Published;
use crate::kit::{machine, measure};

/// `ashlar reproduce`.
pub(crate) fn run(args: &ReproduceArgs) -> Result<(), LabError> {
    let (claims, data) = (Claims::load().map_err(LabError::Failed)?, Published::load().map_err(LabError::Failed)?);
    let rows = Rows::load().map_err(LabError::Failed)?;
    let chosen = runs::select(&args.runs)?;
    // What is read is read before anything is written: both may be the same file.
    let recorded = args.from.as_deref().map(load).transpose()?;
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let markdown = args.markdown.as_deref().map(read_document).transpose()?;
    let html = args.html.as_deref().map(|path| create("--html", path)).transpose()?;
    let (machine, quick, evidence) = match recorded {
        Some(recorded) => recorded,
        None => {
            let scratch = Scratch::new()?;
            (machine(), args.quick, child::measure(&chosen, args.quick, &scratch.0)?)
        }
    };
    let judged = targets::judge(&claims, &data, &evidence);
    let tables = targets::order::check(&rows, &data, &evidence);
    let report = Report { machine, quick, claims: judged, tables, runs: evidence };
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &report).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    if let Some(mut file) = html {
        let page = table::page::render(&report, &data).map_err(|error| LabError::Failed(format!("--html: {error}")))?;
        std::io::Write::write_all(&mut file, page.as_bytes())
            .map_err(|error| LabError::Failed(format!("--html: {error}")))?;
    }
    if let (Some(path), Some(old)) = (&args.markdown, markdown) {
        let fail = |error: String| LabError::Failed(format!("--markdown: {}: {error}", path.display()));
        let text = table::markdown::render(&report, old.as_deref()).map_err(fail)?;
        std::fs::write(path, text).map_err(|error| fail(error.to_string()))?;
    }
    output::print(&table::render(&report))?;
    let failures: Vec<String> = match &args.from {
        Some(_) => Vec::new(),
        None => {
            let failed =
                report.runs.values().filter_map(|run| Some(format!("`{}`: {}", run.command, run.failure.as_ref()?)));
            failed.collect()
        }
    };
    if failures.is_empty() { Ok(()) } else { Err(LabError::several(&failures)) }
}

/// Reads a document that gets new parts, and sees that it has some before anything is measured;
/// `None` if there is no document yet.
fn read_document(path: &Path) -> Result<Option<String>, LabError> {
    let fail = |error: String| {
        let expected = "expected a path to a new file, or a document with parts";
        LabError::option("--markdown", format_args!("{}: {error}; {expected}", path.display()))
    };
    match std::fs::read_to_string(path) {
        Ok(text) => match table::markdown::check(&text) {
            Ok(()) => Ok(Some(text)),
            Err(error) => Err(fail(error)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match create("--markdown", path) {
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        },
        Err(error) => Err(fail(format!("cannot read it: {error}"))),
    }
}

fn machine() -> Machine {
    Machine {
        cpu_model: machine::cpu_model(),
        processor: Some(machine::processor()),
        cpus: measure::allowed_cpus().len(),
        kernel: machine::kernel(),
        glibc: machine::glibc(),
        ashlar_version: env!("CARGO_PKG_VERSION").to_owned(),
        ashlar_mode: ashlar::mode().to_string(),
        build: machine::own_build(),
    }
}

/// Recorded runs: a report of this command, or a directory of what the other commands wrote.
fn load(path: &Path) -> Result<(Machine, bool, Evidence), LabError> {
    let fail = |error: String| {
        let expected =
            "expected a file written by `ashlar reproduce --json`, or a directory with files such as tests.json";
        LabError::option("--from", format_args!("{}: {error}; {expected}", path.display()))
    };
    if path.is_dir() {
        let evidence = child::recorded(path);
        let told = evidence.values().find(|outcome| outcome.host["cpu_model"].is_string());
        let Some(first) = told.or_else(|| evidence.values().next()) else {
            return Err(fail("no recorded run is in it".to_owned()));
        };
        let text = |key: &str| first.host[key].as_str().unwrap_or_default().to_owned();
        let machine = Machine {
            cpu_model: text("cpu_model"),
            processor: None,
            cpus: first.host["cpus"].as_u64().unwrap_or(0) as usize,
            kernel: text("kernel"),
            glibc: text("glibc"),
            ashlar_version: text("ashlar_version"),
            ashlar_mode: text("ashlar_mode"),
            build: text("build"),
        };
        return Ok((machine, false, evidence));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fail(format!("cannot read it: {error}")))?;
    let report: Report = serde_json::from_str(&text).map_err(|error| fail(error.to_string()))?;
    Ok((report.machine, report.quick, report.runs))
}

/// A directory that goes away with this value.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, LabError> {
        let nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.subsec_nanos());
        let path = std::env::temp_dir().join(format!("ashlar-reproduce-{}-{nanos}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| LabError::Failed(format!("cannot make the directory {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the system's directory for such files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What `--runs` takes beside `all`, for the shells' completions.
#[cfg(test)]
pub(crate) fn run_names() -> Vec<&'static str> {
    runs::RUNS.iter().map(|run| run.name).collect()
}
