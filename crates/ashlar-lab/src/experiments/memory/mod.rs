//! `ashlar-lab bench memory`: how much memory each system needs for the same work.
//!
//! One process for each system replays one trace (`systems::trace`), and is read at the end of each
//! phase: bytes that live, bytes in slabs (our allocators know them, as the kernel's `Slab:`), and
//! resident bytes. Utilisation is the live share of the bytes in slabs, or of the resident bytes
//! for a system that has no count of slabs. "Peak over live" is the most resident bytes over the
//! most live bytes. The figures of a trace are nearly exact; rounds only show that.
//!
//! Every process replays the same trace: the hashes of all steps are compared.
//!
//! No `targets`: `reproduce` judges these figures.

pub(crate) mod args;
pub(crate) mod child;
mod plan;
mod table;

use std::collections::BTreeMap;

use crate::experiments::memory::args::MemoryArgs;
use crate::experiments::memory::plan::{Answer, Plan, collect};
use crate::kit::error::LabError;
use crate::kit::output::{self, create};
use crate::kit::record::Report;
use crate::systems::column::{Column, rounds};
use crate::systems::{self, Kind, SystemInfo, host};

/// `ashlar bench memory`.
pub(crate) fn run(args: &MemoryArgs) -> Result<(), LabError> {
    let chosen = systems::select_heaps(&args.systems)?;
    for text in &args.options {
        ashlar::check_options(text).map_err(|error| LabError::option("--option", error))?;
    }
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let plan = Plan { profile: args.profile, scale: args.scale, seed: args.seed, idle: args.idle };
    let mut columns: Vec<Column> = Vec::new();
    for &info in &chosen {
        columns.push(Column::plain(info));
        if info.kind == Kind::Ours {
            let with = |text: &String| Column { name: format!("{}[{text}]", info.id), options: text.clone(), info };
            columns.extend(args.options.iter().map(with));
        }
    }
    let mut answers =
        rounds(&columns, args.rounds as usize, |_, column| column.ask::<_, Answer>("bench-memory-child", &plan));
    let hash = answers.of.values().flatten().next().map(|answer| answer.hash);
    for (&who, of) in &answers.of {
        if of.iter().any(|answer| Some(answer.hash) != hash) {
            answers.failures.push(format!("{}: replayed another trace than the others", columns[who].name));
        }
    }
    let mut notes = BTreeMap::new();
    let mut records = Vec::new();
    for (&who, of) in &answers.of {
        notes.insert(columns[who].info.id, of[0].note.clone());
        records.extend(collect(&columns[who].name, of));
    }
    let infos: Vec<&'static SystemInfo> = chosen;
    let mut host = host::of_run(&infos, args.rounds as usize, &notes);
    host.systems = columns.iter().map(|column| column.name.clone()).collect();
    let run = Report { host, records, published: None };
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    let shrinks: Vec<(&str, Option<&str>)> =
        answers.of.iter().map(|(&who, of)| (columns[who].name.as_str(), of[0].shrink.as_deref())).collect();
    output::print(&table::render(&run, &plan, hash.unwrap_or(0), &shrinks))?;
    if answers.failures.is_empty() { Ok(()) } else { Err(LabError::several(&answers.failures)) }
}
