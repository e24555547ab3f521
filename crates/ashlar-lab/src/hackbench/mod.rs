//! `ashlar hackbench`: the scheduler benchmark that the mails on SLOB measured an allocator with.
//!
//! Groups of senders and receivers pass messages; each of the senders of a group sends to each of its receivers, again and again. In
//! the kernel each message is a head and a buffer that the sender allocates and the receiver frees, first in, first out: the work of an
//! allocator between producers and consumers. Under hackbench itself a malloc has nothing to do, for it is the kernel that allocates. So
//! this is the same pattern on the allocator under test: `message` is what is passed, `threads` passes it within a process, as the
//! kernel's tasks share one heap; `processes` has a heap for each task, and copies.
//!
//! `child` is one measured process, `counters` are what perf counts meanwhile, `table` prints both as the mails do.
//!
//! A kernel that runs hackbench has booted: its heap holds objects of many caches with holes between them. So has the process, unless
//! `--boot 0` says otherwise; for a first-fit heap that is most of the difference.
//!
//! A first-fit heap gets slower the more there is in it, so `slob` is given a share of the loops (`--scale`), and that is said with
//! its figures.

pub(crate) mod child;
mod counters;
mod message;
mod processes;
mod table;
mod threads;

use crate::kit::memory::anonymous_kib;
use crate::kit::output;
use crate::kit::table::machine;
use core::time::Duration;
use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::kit::counts::Counts;
use crate::kit::error::CliError;
use crate::kit::measure::allowed_cpus;
use crate::kit::once::record;
use crate::kit::options::parse_scale;
use crate::kit::output::create;
use crate::kit::record::{Record, Report};
use crate::systems;
use crate::systems::SystemInfo;
use crate::systems::column::{Column, rounds};
use crate::systems::heap::Heap;
use crate::systems::host;
use counters::{Count, Usage};

/// Systems that are given less to do.
const SLOW: [&str; 1] = ["slob"];
/// Largest message: what the kernel copies to a socket in one piece.
const MAX_BYTES: usize = 16_384;

/// Options of `ashlar hackbench`.
#[derive(Debug, Args)]
pub(crate) struct HackbenchArgs {
    /// Groups
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) groups: u16,

    /// Messages of each sender to each receiver
    #[arg(short, long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) loops: u32,

    /// Senders of a group, and as many receivers
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) fds: u16,

    /// Bytes of a message; several sizes, separated by commas, take turns
    #[arg(short = 's', long = "datasize", value_name = "LIST", default_value = "100", value_parser = parse_bytes)]
    pub(crate) datasize: Bytes,

    /// Senders and receivers are threads: what one allocates the other frees (the default)
    #[arg(short = 'T', long, conflicts_with = "process")]
    pub(crate) threads: bool,

    /// Senders and receivers are processes, each with its own heap: messages are copied, each side frees what it allocated
    #[arg(short = 'P', long)]
    pub(crate) process: bool,

    /// Systems, separated by commas, or `all`
    #[arg(long, visible_alias = "system", value_name = "LIST", default_value = "ashlar")]
    pub(crate) systems: String,

    /// Share of the loops that slow systems (`slob`) run
    #[arg(long, value_name = "F", default_value = "0.02", value_parser = parse_scale)]
    pub(crate) scale: f64,

    /// Begin with the heap of a machine that has been up for a while: so many times 7 MiB of objects of 160 caches, of which a third
    /// was freed since; 0 for an empty heap. Processes begin with empty heaps
    #[arg(long, value_name = "F", default_value = "1", value_parser = parse_boot)]
    pub(crate) boot: f64,

    /// Measured rounds; each starts a process for every system
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// Write host and records as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

fn parse_boot(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(boot) if (0.0..=10.0).contains(&boot) => Ok(boot),
        _ => Err("expected a number from 0 to 10".to_owned()),
    }
}

/// Sizes of messages, in the order of their turns; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(Vec<usize>);

fn parse_bytes(text: &str) -> Result<Bytes, String> {
    let one = |part: &str| match part.trim().parse() {
        Ok(bytes) if (1..=MAX_BYTES).contains(&bytes) => Ok(bytes),
        _ => Err(format!("`{}` is no size: expected bytes from 1 to {MAX_BYTES}", part.trim())),
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(Bytes)
}

/// What a process of hackbench is told to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Work {
    groups: usize,
    loops: usize,
    /// Senders of a group, and as many receivers.
    fds: usize,
    /// Bytes of the messages, in turn.
    sizes: Vec<usize>,
    processes: bool,
    /// Size of the heap that a process begins with; 0 for none.
    boot: f64,
}

impl Work {
    fn messages(&self) -> usize {
        self.groups * self.fds * self.fds * self.loops
    }
}

/// Memory of a process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Figures {
    /// Of slab allocators: `Slab:` of the kernel.
    slab_kib: Option<u64>,
    /// What describes and queues the slabs.
    metadata_kib: u64,
    /// Resident, without pages of files.
    rss_kib: u64,
}

impl Figures {
    /// Those of this process.
    fn of(heap: &impl Heap) -> Self {
        let slab = heap.slab();
        Self {
            slab_kib: slab.map(|slab| slab.bytes as u64 / 1024),
            metadata_kib: slab.map_or(0, |slab| slab.metadata as u64 / 1024),
            rss_kib: anonymous_kib(),
        }
    }

    fn multiply(&mut self, by: u64) {
        self.slab_kib = self.slab_kib.map(|kib| kib * by);
        self.metadata_kib *= by;
        self.rss_kib *= by;
    }
}

/// What a process of hackbench prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Answer {
    note: String,
    elapsed: Duration,
    counts: Vec<Count>,
    usage: Usage,
    /// What the allocator counted, for one allocation or free; of threads, and of systems that count.
    heap: Option<Counts>,
    before: Figures,
    after: Figures,
}

/// `ashlar hackbench`.
pub(crate) fn run(args: &HackbenchArgs) -> Result<(), CliError> {
    let chosen = systems::select_heaps(&args.systems)?;
    if args.process && args.datasize.0.len() > 1 {
        return Err(CliError::option("--datasize", "several sizes need threads; expected one size beside --process"));
    }
    if args.process && args.datasize.0[0] < 8 {
        return Err(CliError::option(
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
        serde_json::to_writer_pretty(file, &run).map_err(|error| CliError::Failed(format!("--json: {error}")))?;
    }
    output::print(&(machine(&run.host) + &text + &table::summary(&run)))?;
    if answers.failures.is_empty() { Ok(()) } else { Err(CliError::Failed(answers.failures.join("\nerror: "))) }
}

/// Loops of a system, of `all`.
fn loops_of(id: &str, all: usize, scale: f64) -> usize {
    if SLOW.contains(&id) { ((all as f64 * scale) as usize).max(1) } else { all }
}

/// The records of one system, which has done `done`, of `all` loops.
fn collect(id: &str, done: &Work, all: usize, answers: &[Answer]) -> Vec<Record> {
    let scale = (done.loops < all).then(|| done.loops as f64 / all as f64);
    let cpus = allowed_cpus().len();
    let tasks = 2 * done.groups * done.fds;
    let counts = Counts::mean(&answers.iter().filter_map(|answer| answer.heap).collect::<Vec<_>>());
    let base = |test: &str, unit: &str, samples: &[f64]| Record {
        size: done.sizes[0],
        cpus,
        oversubscribed: tasks > cpus,
        scale,
        counts,
        ..record(test, id, unit, samples)
    };
    let of = |figure: &dyn Fn(&Answer) -> f64| answers.iter().map(figure).collect::<Vec<f64>>();
    let mut records = vec![
        Record { min: least_seconds(answers), ..base("hackbench", "s", &of(&|answer| answer.elapsed.as_secs_f64())) },
        base("hackbench-message", "ns", &of(&|answer| answer.elapsed.as_secs_f64() * 1e9 / done.messages() as f64)),
        base("hackbench-user", "s", &of(&|answer| answer.usage.user.as_secs_f64())),
        base("hackbench-sys", "s", &of(&|answer| answer.usage.sys.as_secs_f64())),
    ];
    for name in counters::NAMES {
        let values: Vec<f64> = answers
            .iter()
            .flat_map(|answer| &answer.counts)
            .filter(|count| count.name == name)
            .filter_map(|count| count.value)
            .collect();
        // What is not supported has no record.
        if values.len() == answers.len() {
            let unit = if name == "task-clock" { "ms" } else { "count" };
            records.push(base(&format!("hackbench-{name}"), unit, &values));
        }
    }
    for (phase, figures) in [("before", (|a| &a.before) as fn(&Answer) -> &Figures), ("after", |a| &a.after)] {
        let mut add = |test: &str, samples: Vec<f64>| {
            records.push(Record { phase: Some(phase.to_owned()), ..base(test, "KiB", &samples) });
        };
        if figures(&answers[0]).slab_kib.is_some() {
            add("hackbench-slab", of(&|answer| figures(answer).slab_kib.unwrap_or(0) as f64));
            add("hackbench-metadata", of(&|answer| figures(answer).metadata_kib as f64));
        }
        add("hackbench-rss", of(&|answer| figures(answer).rss_kib as f64));
    }
    records
}

/// Milliseconds count in a time that is printed as seconds.
fn least_seconds(answers: &[Answer]) -> f64 {
    let least = answers.iter().map(|answer| answer.elapsed).min().unwrap_or_default();
    (least.as_secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_systems_run_a_share_of_the_loops() {
        assert_eq!(loops_of("slob", 10_000, 0.02), 200);
        assert_eq!(loops_of("slob", 10, 0.02), 1);
        assert_eq!(loops_of("slob-seg", 10_000, 0.02), 10_000);
    }

    #[test]
    fn sizes_are_lists() {
        assert_eq!(parse_bytes("100").unwrap(), Bytes(vec![100]));
        assert_eq!(parse_bytes("100, 1460").unwrap(), Bytes(vec![100, 1460]));
        for bad in ["", "0", "99999", "many"] {
            assert!(parse_bytes(bad).unwrap_err().contains("from 1 to 16384"), "{bad}");
        }
    }
}
