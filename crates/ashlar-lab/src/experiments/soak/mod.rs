//! `ashlar-lab soak`: everything at once, for as long as one likes.
//!
//! A run is rounds of one process each. A round has options of the allocator that were drawn at
//! random: an engine, a mode, checks, hardening, guards, failures on purpose. Threads allocate and
//! free from malloc, kmalloc and caches. Another one meanwhile tunes, shrinks, reaps, validates,
//! profiles, forks and makes and destroys caches. Each object has an owner, who wrote all of it and
//! finds that again when it is freed. At the end of each of three phases all objects are free: no
//! cache may have one in use then, and the memory that stays resident may not grow.
//!
//! No `targets`: a round that loses something fails, and nothing else is judged.

pub(crate) mod args;
pub(crate) mod child;
mod plan;
mod table;

use std::time::Instant;

use crate::experiments::soak::args::SoakArgs;
use crate::experiments::soak::plan::{Answer, Round};
use crate::kit::error::LabError;
use crate::kit::{once, output, progress};

/// `ashlar-lab soak`.
pub(crate) fn run(args: &SoakArgs) -> Result<(), LabError> {
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()));
    let (start, seconds) = (Instant::now(), args.minutes * 60.0);
    let length = seconds.min(f64::from(args.round));
    let bar = progress::progress((seconds / length).ceil() as u64);
    let (mut done, mut failures) = (Vec::new(), Vec::new());
    // A run has the rounds that its time has room for, and one at least.
    while done.is_empty() && failures.is_empty() || start.elapsed().as_secs_f64() + length <= seconds + 0.5 {
        let number = done.len() + failures.len();
        let round = Round::draw(seed, number as u64, length, usize::from(args.threads));
        bar.set_message(round.options.clone());
        match ask(&round) {
            Ok(answer) => done.push((round, answer)),
            Err(error) => failures.push(format!("round {number} of seed {seed}, {}: {error}", table::settings(&round))),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    output::print(&table::render(seed, &done))?;
    if failures.is_empty() { Ok(()) } else { Err(LabError::several(&failures)) }
}

/// Has a child do a round.
fn ask(round: &Round) -> Result<Answer, String> {
    let environment = [("ASHLAR_DEBUG", &*round.debug), ("ASHLAR_FAILSLAB", &*round.failslab)];
    let given: Vec<_> = environment.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    once::ask(&["soak-child"], round, &given, &round.options)
}
