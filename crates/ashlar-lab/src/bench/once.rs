//! A child that does what its argument says, prints one answer, and ends: what `bench worst`, `bench bulk`, `bench memory` and
//! `hackbench` start for each system and round.
//!
//! The children of the tests A to F live through a run and wait for requests (`parent`). A child that ends is simpler, and begins with
//! an allocator that nobody has used: for memory and for a whole program's time that is the point.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::process::{Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::parent::{median, progress, round2};
use super::record::Record;
use super::systems::SystemInfo;
use crate::error::CliError;

/// Starts `ashlar COMMAND ID PLAN` with what the system's environment says and `options` for ashlar, and reads its answer.
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

/// A system of a run, perhaps with options of its own.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) info: &'static SystemInfo,
    /// The id, with the options.
    pub(crate) name: String,
    /// What `ASHLAR_OPTIONS` gains beside the engine.
    pub(crate) options: String,
}

impl Column {
    /// The system as it is.
    pub(crate) fn plain(info: &'static SystemInfo) -> Self {
        Self { info, name: info.id.to_owned(), options: String::new() }
    }

    /// Has a child measure this system.
    pub(crate) fn ask<P: Serialize, A: DeserializeOwned>(&self, command: &str, plan: &P) -> Result<A, String> {
        let engine = self.info.engine.map_or_else(String::new, |engine| format!("engine={engine}"));
        let parts: Vec<&str> = [engine.as_str(), &self.options].into_iter().filter(|part| !part.is_empty()).collect();
        ask(&[command, self.info.id], plan, self.info.env, &parts.join(","))
            .map_err(|error| format!("{}: {error}", self.name))
    }
}

/// What the children of a run answered, in the order of the rounds, by the column's place; and a line for each that did not.
#[derive(Debug)]
pub(crate) struct Answers<A> {
    pub(crate) of: BTreeMap<usize, Vec<A>>,
    pub(crate) failures: Vec<String>,
}

/// Asks every column once a round, each round beginning with another one. Who fails leaves the run, with all its answers.
pub(crate) fn rounds<A>(
    columns: &[Column],
    rounds: usize,
    mut ask: impl FnMut(usize, &Column) -> Result<A, String>,
) -> Answers<A> {
    let mut answers = Answers { of: BTreeMap::new(), failures: Vec::new() };
    let mut failed = vec![false; columns.len()];
    let bar = progress((rounds * columns.len()) as u64);
    for round in 0..rounds {
        for at in 0..columns.len() {
            let who = (round + at) % columns.len();
            bar.set_message(format!("round {}/{rounds}, {}", round + 1, columns[who].name));
            if !failed[who] {
                match ask(who, &columns[who]) {
                    Ok(answer) => answers.of.entry(who).or_default().push(answer),
                    Err(error) => {
                        answers.failures.push(error);
                        answers.of.remove(&who);
                        failed[who] = true;
                    }
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    answers
}

/// The record of one figure: least and median over `samples`, which are not empty.
pub(crate) fn record(test: &str, system: &str, unit: &str, samples: &[f64]) -> Record {
    Record {
        test: test.to_owned(),
        system: system.to_owned(),
        cpus: 1,
        unit: unit.to_owned(),
        min: round2(samples.iter().copied().fold(f64::INFINITY, f64::min)),
        median: round2(median(samples)),
        runs: samples.len(),
        samples: samples.iter().copied().map(round2).collect(),
        ..Record::default()
    }
}

/// Reads the plan of a child.
pub(crate) fn plan<P: DeserializeOwned>(text: &str, command: &str) -> Result<P, CliError> {
    serde_json::from_str(text)
        .map_err(|_| CliError::Usage(format!("expected to be started by `ashlar {command}`, which says what to do")))
}

/// Prints the answer of a child.
pub(crate) fn answer<A: Serialize>(answer: &A) -> Result<(), CliError> {
    crate::print(&serde_json::to_string(answer).map_err(|error| CliError::Failed(error.to_string()))?)
}
