//! The columns of a run whose children answer once: systems, each perhaps with options of its own.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kit::once::ask;
use crate::kit::progress::progress;
use crate::systems::SystemInfo;

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

/// What the children of a run answered, in the order of the rounds, by the column's place; and a
/// line for each that did not.
#[derive(Debug)]
pub(crate) struct Answers<A> {
    pub(crate) of: BTreeMap<usize, Vec<A>>,
    pub(crate) failures: Vec<String>,
}

/// Asks every column once a round, each round beginning with another one. Who fails leaves the run,
/// with all its answers.
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
