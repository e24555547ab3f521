//! `ashlar-lab bench checks`: what the misuse checks of `malloc` and `free` cost.
//!
//! Three pairs of functions run in one process, on one pinned thread, by turns:
//!
//! | system | what |
//! |---|---|
//! | `ashlar-malloc` | `malloc` and `free` as every program gets them |
//! | `unchecked` | the same machine code without the five instructions that keep the object map |
//! | `ashlar` | `kmalloc` and `kfree`, which find the class in the memmap and check no free |
//!
//! `unchecked` exists in the lab alone (`child::unchecked`). A run fails if more than one call in a
//! hundred of any of the three leaves the fast path, because the figures would then be of something
//! else.
//!
//! No `targets`: the checks stay on whatever they cost.

pub(crate) mod args;
pub(crate) mod child;
mod plan;
mod table;

use std::collections::BTreeMap;

use crate::experiments::checks::args::ChecksArgs;
use crate::experiments::checks::plan::{Answer, Plan, Run};
use crate::kit::error::LabError;
use crate::kit::output::{self, create};
use crate::kit::{once, progress};
use crate::systems::host;

/// `ashlar bench checks`.
pub(crate) fn run(args: &ChecksArgs) -> Result<(), LabError> {
    if let Some(size) = args.sizes.0.iter().find(|&&size| size > plan::LARGEST) {
        let expected = plan::LARGEST;
        return Err(LabError::option("--sizes", format_args!("size {size}: expected at most {expected} bytes")));
    }
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let plan = Plan { sizes: args.sizes.0.clone(), pairs: plan::PAIRS, passes: plan::PASSES };
    let bar = progress::progress(u64::from(args.rounds));
    let mut answers: Vec<Answer> = Vec::new();
    for _ in 0..args.rounds {
        // A background thread would end some of the sections that are timed.
        let answer = once::ask(&["bench-checks-child"], &plan, &[], "reaper=off").map_err(LabError::Failed)?;
        answers.push(answer);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut host = host::of_run(&[], args.rounds as usize, &BTreeMap::new());
    host.systems = plan::SYSTEMS.iter().map(|system| (*system).to_owned()).collect();
    let run = Run::collect(host, &answers);
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    output::print(&table::render(&run))?;
    let left = run.off_the_fast_path();
    if left.is_empty() { Ok(()) } else { Err(LabError::several(&left)) }
}
