//! `ashlar-lab hackbench`: the scheduler benchmark that the mails on SLOB measured an allocator
//! with.
//!
//! Groups of senders and receivers pass messages: each sender of a group sends to each receiver,
//! again and again. In the kernel each message is a head and a buffer that the sender allocates and
//! the receiver frees, first in, first out. Under the original program a malloc has nothing to do,
//! because the kernel allocates. So this is the same pattern on the allocator under test, in one
//! process (`child/threads.rs`, as tasks of the kernel share one heap) or with a heap for each task
//! (`child/processes.rs`, which copy).
//!
//! A kernel that runs hackbench has booted: its heap holds objects of many caches with holes
//! between them. The process starts with such a heap, unless `--boot 0` is given. For a first-fit
//! heap that is most of the difference. Such a heap also gets slower the more it holds, so `slob`
//! is given a share of the loops (`--scale`), which is printed with its figures.
//!
//! No `targets`: the mails give times of other machines, and `reproduce` judges the order.

pub(crate) mod args;
pub(crate) mod child;
mod plan;
mod table;

use std::collections::BTreeMap;

use crate::experiments::hackbench::args::HackbenchArgs;
use crate::experiments::hackbench::plan::{Answer, Work, collect, instructions, loops_of};
use crate::kit::error::LabError;
use crate::kit::output::{self, create};
use crate::kit::record::Report;
use crate::kit::table::{aligned, machine};
use crate::systems::column::{Column, rounds};
use crate::systems::{self, SystemInfo, host};

/// `ashlar hackbench`.
pub(crate) fn run(args: &HackbenchArgs) -> Result<(), LabError> {
    let chosen = systems::select_heaps(&args.systems)?;
    if args.process && args.datasize.0.len() > 1 {
        return Err(LabError::option("--datasize", "several sizes need threads; expected one size beside --process"));
    }
    if args.process && args.datasize.0[0] < 8 {
        return Err(LabError::option(
            "--datasize",
            "messages of processes say who sent them; expected at least 8 bytes",
        ));
    }
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let work = Work {
        groups: usize::from(args.groups),
        loops: args.loops as usize,
        fds: usize::from(args.fds),
        sizes: args.datasize.0.clone(),
        processes: args.process,
        boot: if args.process { 0.0 } else { args.boot },
    };
    let columns: Vec<Column> = chosen.iter().copied().map(Column::plain).collect();
    if args.instructions {
        if work.loops < 2 {
            return Err(LabError::option("--loops", "instructions are counted from the second on; expected 2 or more"));
        }
        return count_instructions(args, &work, &columns, json);
    }
    let answers = rounds(&columns, args.rounds as usize, |_, column| {
        let work = Work { loops: loops_of(column.info.id, work.loops, args.scale), ..work.clone() };
        column.ask::<_, Answer>("hackbench-child", &work)
    });
    let mut notes = BTreeMap::new();
    let mut records = Vec::new();
    let mut text = String::new();
    for (&who, of) in &answers.of {
        let info = columns[who].info;
        notes.insert(info.id, of[0].note.clone());
        let done = Work { loops: loops_of(info.id, work.loops, args.scale), ..work.clone() };
        records.extend(collect(info.id, &done, work.loops, of));
        text += &table::system(info.id, &done, work.loops, of);
    }
    let infos: Vec<&'static SystemInfo> = chosen.clone();
    let run = Report { host: host::of_run(&infos, args.rounds as usize, &notes), records, published: None };
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    output::print(&(machine(&run.host) + &text + &table::summary(&run)))?;
    if answers.failures.is_empty() { Ok(()) } else { Err(LabError::several(&answers.failures)) }
}

/// `--instructions`.
fn count_instructions(
    args: &HackbenchArgs,
    work: &Work,
    columns: &[Column],
    json: Option<std::fs::File>,
) -> Result<(), LabError> {
    let done =
        |column: &Column| Work { loops: loops_of(column.info.id, work.loops, args.scale).max(2), ..work.clone() };
    // A machine that cannot count says so, as one without counters does.
    let can_count = instructions::can_count();
    let asked = if can_count { columns } else { &[] };
    let counted = rounds(asked, args.rounds as usize, |_, column| instructions::count(column, &done(column)));
    let mut rows = vec![["", "instructions", "for a message"].map(str::to_owned).to_vec()];
    let mut records = Vec::new();
    for (&who, samples) in &counted.of {
        let (id, done) = (columns[who].info.id, done(&columns[who]));
        let record = instructions::record(id, &done, work.loops, samples);
        let messages = done.messages() - Work { loops: 1, ..done }.messages();
        let each = record.median / messages as f64;
        rows.push(vec![id.to_owned(), format!("{:.0}", record.median), format!("{each:.0}")]);
        records.push(record);
    }
    let infos: Vec<&'static SystemInfo> = columns.iter().map(|column| column.info).collect();
    let host = host::of_run(&infos, args.rounds as usize, &BTreeMap::new());
    let run = Report { host, records, published: None };
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    let mut text = machine(&run.host);
    if can_count {
        text += "\nInstructions of user space under valgrind, without start and first loop (median)\n";
        aligned(&mut text, &rows);
    } else {
        text += "\nInstructions: <not supported>, valgrind is not installed\n";
    }
    output::print(&text)?;
    if counted.failures.is_empty() { Ok(()) } else { Err(LabError::several(&counted.failures)) }
}
