//! A child that does what its argument says, prints one answer, and ends: what `bench worst`,
//! `bench bulk`, `bench memory` and `hackbench` start for each system and round.
//!
//! The children of the tests A to F live through a run and wait for requests (`parent`). A child
//! that ends is simpler, and begins with an allocator that was not used yet: for memory and for a
//! whole program's time that is the point.

use std::io::BufReader;
use std::process::{Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kit::error::LabError;
use crate::kit::output;
use crate::kit::record::Record;
use crate::kit::statistics::{median, rounded};

/// Starts `ashlar COMMAND ID PLAN` with what the system's environment says and `options` for
/// ashlar, and reads its answer.
pub(crate) fn ask<P: Serialize, A: DeserializeOwned>(
    command: &[&str],
    plan: &P,
    environment: &[(&str, &str)],
    options: &str,
) -> Result<A, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let plan = serde_json::to_string(plan).map_err(|error| error.to_string())?;
    let mut child = Command::new(program);
    child.args(command).arg(&plan).envs(environment.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
    if !options.is_empty() {
        // The later of two options wins, and the others stay.
        let before = std::env::var("ASHLAR_OPTIONS").unwrap_or_default();
        child.env("ASHLAR_OPTIONS", before + "," + options);
    }
    let mut child = child.spawn().map_err(|error| format!("cannot start the child: {error}"))?;
    let answer = match child.stdout.take() {
        Some(out) => serde_json::from_reader(BufReader::new(out)).map_err(|error| error.to_string()),
        None => Err("the child has no output".to_owned()),
    };
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() { answer } else { Err(format!("the child ended: {status}")) }
}

/// The record of one figure: least and median over `samples`, which are not empty.
pub(crate) fn record(test: &str, system: &str, unit: &str, samples: &[f64]) -> Record {
    Record {
        test: test.to_owned(),
        system: system.to_owned(),
        cpus: 1,
        unit: unit.to_owned(),
        min: rounded(samples.iter().copied().fold(f64::INFINITY, f64::min), unit),
        median: rounded(median(samples), unit),
        runs: samples.len(),
        samples: samples.iter().map(|sample| rounded(*sample, unit)).collect(),
        ..Record::default()
    }
}

/// Reads the plan of a child.
pub(crate) fn plan<P: DeserializeOwned>(text: &str, command: &str) -> Result<P, LabError> {
    serde_json::from_str(text)
        .map_err(|_| LabError::Usage(format!("expected to be started by `ashlar {command}`, which says what to do")))
}

/// Prints the answer of a child.
pub(crate) fn answer<A: Serialize>(answer: &A) -> Result<(), LabError> {
    output::print(&serde_json::to_string(answer).map_err(|error| LabError::Failed(error.to_string()))?)
}
