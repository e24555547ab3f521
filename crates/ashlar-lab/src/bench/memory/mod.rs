//! `ashlar bench memory`: how much memory each system needs for the same work.
//!
//! One trace (`trace`) is replayed by one process for each system (`child`), and read at the end of each phase: what is live, what the
//! slabs have (ours know it, as the kernel's `Slab:`), what is resident. Utilisation is live bytes of slab bytes, or of resident bytes where
//! nobody can tell slabs; peak over live is the most that was resident of the most that was live. The figures of a trace are nearly
//! exact: rounds only show that.
//!
//! Every process sees the same trace: the hashes of all that was done are compared.

pub(crate) mod child;
mod table;

use crate::kit::output;
use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use crate::kit::error::CliError;
use crate::kit::once::record;
use crate::kit::options::parse_scale;
use crate::kit::output::create;
use crate::kit::record::{Record, Report};
use crate::systems;
use crate::systems::column::{Column, rounds};
use crate::systems::host;
use crate::systems::trace::Profile;
use crate::systems::{Kind, SystemInfo};
use child::{Answer, Moment, Plan};

/// Options of `ashlar bench memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Systems, separated by commas, or `all`
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) systems: String,

    /// The trace
    #[arg(long, value_enum, default_value_t = Profile::Mixed)]
    pub(crate) profile: Profile,

    /// How much of the full trace, for all systems
    #[arg(long, value_name = "F", default_value = "1", value_parser = parse_scale)]
    pub(crate) scale: f64,

    /// What the trace is made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Milliseconds that the idle phase lasts
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub(crate) idle: u64,

    /// Each system of ashlar once more, with these options (as in `ASHLAR_OPTIONS`); may be given several times
    #[arg(long = "option", value_name = "KEY=VALUE")]
    pub(crate) options: Vec<String>,

    /// Measured rounds; each starts a process for every system
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// Write host and records as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// `ashlar bench memory`.
pub(crate) fn run(args: &MemoryArgs) -> Result<(), CliError> {
    let chosen = systems::select_heaps(&args.systems)?;
    for text in &args.options {
        ashlar::check_options(text).map_err(|error| CliError::option("--option", error))?;
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
        serde_json::to_writer_pretty(file, &run).map_err(|error| CliError::Failed(format!("--json: {error}")))?;
    }
    let shrinks: Vec<(&str, Option<&str>)> =
        answers.of.iter().map(|(&who, of)| (columns[who].name.as_str(), of[0].shrink.as_deref())).collect();
    output::print(&table::render(&run, &plan, hash.unwrap_or(0), &shrinks))?;
    if answers.failures.is_empty() { Ok(()) } else { Err(CliError::Failed(answers.failures.join("\nerror: "))) }
}

/// The records of one system.
fn collect(system: &str, answers: &[Answer]) -> Vec<Record> {
    let mut records = Vec::new();
    for (at, moment) in answers[0].moments.iter().enumerate() {
        let mut add = |test: &str, unit: &str, figure: &dyn Fn(&Moment) -> Option<f64>| {
            let samples: Vec<f64> = answers.iter().filter_map(|answer| figure(&answer.moments[at])).collect();
            if samples.len() == answers.len() {
                records.push(Record { phase: Some(moment.phase.clone()), ..record(test, system, unit, &samples) });
            }
        };
        let kib = |bytes: usize| bytes as f64 / 1024.0;
        let share = |part: usize, of: usize| (of > 0).then(|| 100.0 * part as f64 / of as f64);
        add("memory-live", "KiB", &|moment| Some(kib(moment.live)));
        add("memory-slab", "KiB", &|moment| moment.slab.map(kib));
        add("memory-metadata", "KiB", &|moment| moment.metadata.map(kib));
        add("memory-rss", "KiB", &|moment| Some(kib(moment.rss)));
        add("memory-utilisation", "percent", &|moment| share(moment.live, moment.slab.unwrap_or(moment.rss)));
        add("memory-peak-rss", "KiB", &|moment| Some(kib(moment.peak_rss)));
        add("memory-peak-over-live", "ratio", &|moment| share(moment.peak_rss, moment.peak_live).map(|p| p / 100.0));
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_slabs_only_where_there_are_slabs() {
        let moment = |slab| Moment {
            phase: "grow".to_owned(),
            live: 3 << 20,
            slab,
            metadata: slab.map(|_| 0),
            rss: 4 << 20,
            peak_live: 4 << 20,
            peak_rss: 6 << 20,
        };
        let answer = |slab| Answer { note: String::new(), shrink: None, hash: 1, moments: vec![moment(slab)] };
        let find = |records: &[Record], test: &str| {
            records.iter().find(|r| r.test == test).map(|r| (r.median, r.unit.clone()))
        };
        let ours = collect("slub", &[answer(Some(6 << 20))]);
        assert_eq!(find(&ours, "memory-slab"), Some((6144.0, "KiB".to_owned())));
        assert_eq!(find(&ours, "memory-utilisation"), Some((50.0, "percent".to_owned())));
        assert_eq!(find(&ours, "memory-peak-over-live"), Some((1.5, "ratio".to_owned())));
        let peer = collect("glibc", &[answer(None)]);
        assert_eq!(find(&peer, "memory-slab"), None);
        assert_eq!(find(&peer, "memory-utilisation"), Some((75.0, "percent".to_owned())));
        assert!(peer.iter().all(|record| record.phase.as_deref() == Some("grow")));
    }
}
