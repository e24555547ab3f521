//! Starts one child for each system and asks them in turn.
//!
//! Within a round, each test and size is asked of every system before the next one, so that a drift
//! of the machine (clock, neighbours, temperature) meets all of them; every turn starts with
//! another system. Only one child runs at any time.
//!
//! For the first pass after start each turn starts a new child, which ends when it has answered.

pub(crate) mod describe;
pub(crate) mod protocol;

use core::time::Duration;
use std::collections::BTreeMap;
use std::time::Instant;

use crate::experiments::kernel_tests::args::Test;
use crate::experiments::kernel_tests::plan::protocol::{Group, Reply, Request};
use crate::kit::counts::Counts;
use crate::kit::error::LabError;
use crate::kit::measure::UNIT;
use crate::kit::pipe::Pipe;
use crate::kit::progress::progress;
use crate::kit::record::Record;
use crate::kit::statistics::{median, round2};
use crate::systems::traits::{LESS, Setup};
use crate::systems::{Kind, SystemInfo, linux, start};

/// A run, checked and ready to start.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) tests: Vec<Test>,
    pub(crate) systems: Vec<&'static SystemInfo>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) objects: usize,
    /// Threads of the concurrent tests.
    pub(crate) cpus: usize,
    /// CPUs this process may use; more threads than this are oversubscribed.
    pub(crate) allowed: usize,
    /// NUMA nodes that ashlar and its engines are told to pretend.
    pub(crate) nodes: Option<usize>,
    /// What the engines are told to take for disabled interrupts.
    pub(crate) irq: Option<&'static str>,
    /// Objects of the fragmented heap that each process begins with, for each size.
    pub(crate) fragmented: Option<usize>,
    /// Whether each turn has a new child, whose first pass is measured.
    pub(crate) first_pass: bool,
    pub(crate) rounds: usize,
}

impl Plan {
    /// The letters of its tests.
    pub(crate) fn letters(&self) -> Vec<&'static str> {
        self.tests.iter().map(|test| test.letter()).collect()
    }
}

/// What a run brought.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) records: Vec<Record>,
    /// What the children said about themselves, by system.
    pub(crate) notes: BTreeMap<&'static str, String>,
    /// One line for each system that did not finish.
    pub(crate) failures: Vec<String>,
}

/// Samples of one cell.
#[derive(Default)]
struct Samples {
    /// For each turn, the cycles of each thread per operation.
    cycles: Vec<Vec<f64>>,
    /// For each turn, what the system counted, if it does.
    counts: Vec<Counts>,
    /// For each turn, resident KiB, of the cells that have them.
    resident: Vec<f64>,
}

/// Time for all systems together in one cell and round. A cell that needs less is asked for several
/// times in a round, so that a machine whose clock jumps meets every system in each of its states.
const CELL_BUDGET: Duration = Duration::from_millis(30);
/// Most turns of a cell in a round.
const MAX_TURNS: u32 = 8;

/// Rounds that a child serves. Where a process happens to lie in memory (its page colours, the
/// cache sets of its tables) moves some cells by a factor of two: a system is measured in several
/// processes, so that luck meets all alike.
pub(crate) const ROUNDS_OF_A_CHILD: usize = 2;
/// Turns of a kernel in a round.
const TURNS_OF_A_KERNEL: usize = 2;

/// Runs the plan: one warm-up round that is not counted, then the rounds. First passes have no
/// warm-up round, and one turn in each round.
pub(crate) fn run(plan: &Plan) -> Result<Outcome, LabError> {
    let mut lab = Lab::open(plan);
    let groups = Group::ALL.into_iter().filter(|group| plan.tests.iter().any(|test| Group::of(*test) == *group));
    let passes: Vec<(Group, usize)> =
        groups.flat_map(|group| plan.sizes.iter().map(move |&size| (group, size))).collect();
    let warming: &[(Group, usize)] = if plan.first_pass { &[] } else { &passes };
    let bar = progress((plan.rounds * passes.len() + warming.len()) as u64);
    let mut turns = vec![1; passes.len()];
    bar.set_message("warm-up");
    for (&(group, size), turns) in warming.iter().zip(&mut turns) {
        let start = Instant::now();
        lab.turn(group, size, 0, false);
        // The first turn is the slowest, for it meets the page faults: a safe measure for what the
        // rest may take.
        let fit = CELL_BUDGET.as_nanos() / start.elapsed().as_nanos().max(1);
        *turns = u32::try_from(fit).unwrap_or(MAX_TURNS).clamp(1, MAX_TURNS) as usize;
        bar.inc(1);
    }
    for round in 0..plan.rounds {
        if round % ROUNDS_OF_A_CHILD == 0 {
            if round > 0 {
                lab.renew();
            }
            bar.set_message("kernels");
            lab.boot_kernels(ROUNDS_OF_A_CHILD.min(plan.rounds - round));
        }
        bar.set_message(format!("round {}/{}", round + 1, plan.rounds));
        for (&(group, size), &turns) in passes.iter().zip(&turns) {
            for turn in 0..turns {
                lab.turn(group, size, round * turns + turn, true);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(lab.close())
}

/// The children of a run and what they brought so far.
struct Lab<'a> {
    plan: &'a Plan,
    /// In the order of the plan; a kernel and a system that failed have none, and for first passes
    /// no system has one between two turns.
    children: Vec<Option<Connection>>,
    /// In the order of the plan.
    failed: Vec<bool>,
    notes: BTreeMap<&'static str, String>,
    failures: Vec<String>,
    /// By system, kind of figure, and size.
    cells: BTreeMap<(usize, Cell, usize), Samples>,
}

impl<'a> Lab<'a> {
    fn open(plan: &'a Plan) -> Self {
        let mut lab = Self {
            plan,
            children: Vec::new(),
            failed: vec![false; plan.systems.len()],
            notes: BTreeMap::new(),
            failures: Vec::new(),
            cells: BTreeMap::new(),
        };
        for (who, info) in plan.systems.iter().enumerate() {
            lab.children.push(None);
            if info.kind != Kind::Linux && !plan.first_pass {
                lab.start(who, &plan.sizes);
                lab.note(who);
            }
        }
        lab
    }

    /// Starts a child of the system `who`, which will be asked for `sizes`.
    fn start(&mut self, who: usize, sizes: &[usize]) {
        let info = self.plan.systems[who];
        match Connection::open(info, self.plan, sizes) {
            Ok(connection) => self.children[who] = Some(connection),
            Err(error) => self.give_up(who, error),
        }
    }

    /// Has the child of the system `who` say what it knows of itself, the first time.
    fn note(&mut self, who: usize) {
        let id = self.plan.systems[who].id;
        if let Some(connection) = &mut self.children[who]
            && !self.notes.contains_key(id)
        {
            match connection.note() {
                Ok(note) => drop(self.notes.insert(id, note)),
                Err(error) => self.give_up(who, format!("{id}: {error}")),
            }
        }
    }

    /// Takes a system out of the run.
    fn give_up(&mut self, who: usize, error: String) {
        self.failures.push(error);
        self.failed[who] = true;
        self.children[who] = None;
    }

    /// Boots each kernel once, for as many rounds as the children serve.
    fn boot_kernels(&mut self, rounds: usize) {
        for (who, info) in self.plan.systems.iter().enumerate() {
            if info.kind != Kind::Linux || self.failed[who] {
                continue;
            }
            let (plan, rounds) = (self.plan, rounds * TURNS_OF_A_KERNEL);
            let booted = linux::part(&plan.letters(), &plan.sizes, plan.objects)
                .and_then(|sizes| linux::boot(info.id, &linux::Job { objects: plan.objects, rounds, sizes }));
            match booted {
                Ok(boot) => {
                    self.notes.insert(info.id, boot.release);
                    for pass in boot.passes {
                        let tests = linux::TESTS.into_iter().filter_map(Test::parse);
                        for (test, ticks) in tests.zip(pass.ticks) {
                            if plan.tests.contains(&test) {
                                let samples = self.cells.entry((who, Cell::Of(test), pass.size)).or_default();
                                samples.cycles.push(vec![ticks as f64 / plan.objects as f64]);
                            }
                        }
                    }
                }
                Err(error) => self.give_up(who, format!("{}: {error}", info.id)),
            }
        }
    }

    /// Replaces the children of all systems that are still in the run.
    fn renew(&mut self) {
        for who in 0..self.children.len() {
            // The old child ends before the new one starts.
            if self.children[who].take().is_some() {
                self.start(who, &self.plan.sizes);
            }
        }
    }

    /// Asks every system once for one pass, beginning with the system `first` (modulo their
    /// number). For first passes each is asked in a new child.
    fn turn(&mut self, group: Group, size: usize, first: usize, counted: bool) {
        let count = self.children.len();
        for at in 0..count {
            let who = (first + at) % count;
            if self.plan.first_pass && !self.failed[who] {
                self.start(who, &[size]);
            }
            let Some(connection) = &mut self.children[who] else {
                continue;
            };
            match connection.measure(group, size, !self.plan.first_pass) {
                Ok(Pass { phase1, phase2, counts, resident }) if counted => {
                    for (cell, figures) in figures(group, self.plan, &phase1, &phase2) {
                        let samples = self.cells.entry((who, cell, size)).or_default();
                        samples.cycles.push(figures);
                        samples.counts.extend(counts);
                        samples.resident.extend(resident.and_then(|resident| cell.resident(resident)));
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let id = self.plan.systems[who].id;
                    self.give_up(who, format!("{id}: {error} ({group:?}, size {size})"));
                }
            }
            if self.plan.first_pass {
                // The child ends before the next one starts. Only now may it look at its allocator.
                self.note(who);
                self.children[who] = None;
            }
        }
    }

    fn close(mut self) -> Outcome {
        // A system that gave up has too few samples in some cells, and its other figures are not to
        // be trusted either.
        self.cells.retain(|(who, _, _), _| !self.failed[*who]);
        let mut records: Vec<Record> = self
            .cells
            .iter()
            .map(|(&(who, cell, size), samples)| record(self.plan, who, cell, size, samples))
            .collect();
        records.sort_by(|a, b| a.test.cmp(&b.test));
        Outcome { records, notes: self.notes, failures: self.failures }
    }
}

/// A kind of figure: a test of the mail, or a second phase that the mail does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Of(Test),
    DFree,
    FAlloc,
}

impl Cell {
    fn name(self) -> &'static str {
        match self {
            Self::Of(test) => test.letter(),
            Self::DFree => "D-free",
            Self::FAlloc => "F-alloc",
        }
    }

    /// Of the resident KiB with all objects allocated and with all freed, those of this figure.
    fn resident(self, [full, freed]: [i64; 2]) -> Option<f64> {
        match self {
            Self::Of(Test::A) => Some(full as f64),
            Self::Of(Test::B) => Some(freed as f64),
            _ => None,
        }
    }
}

/// Cycles per operation of each thread, for each kind of figure that a pass of `group` gives and
/// the plan asks for.
fn figures(group: Group, plan: &Plan, phase1: &[u64], phase2: &[u64]) -> Vec<(Cell, Vec<f64>)> {
    let per_object =
        |ticks: &[u64]| -> Vec<f64> { ticks.iter().map(|&ticks| ticks as f64 / plan.objects as f64).collect() };
    let all = match group {
        Group::AllocFree => vec![(Cell::Of(Test::A), per_object(phase1)), (Cell::Of(Test::B), per_object(phase2))],
        Group::Pairs => vec![(Cell::Of(Test::C), per_object(phase1))],
        Group::Concurrent => vec![(Cell::Of(Test::D), per_object(phase1)), (Cell::DFree, per_object(phase2))],
        Group::ConcurrentPairs => vec![(Cell::Of(Test::E), per_object(phase1))],
        Group::Remote => {
            // CPU 0 freed what all the others allocated: a figure is for one object, not for the
            // kernel module's count of 10000.
            let others = (phase1.len() - 1) as f64;
            let freed = phase2[0] as f64 / (plan.objects as f64 * others);
            vec![(Cell::FAlloc, per_object(&phase1[1..])), (Cell::Of(Test::F), vec![freed])]
        }
    };
    all.into_iter().filter(|(cell, _)| !matches!(cell, Cell::Of(test) if !plan.tests.contains(test))).collect()
}

/// The record of one cell: least and median over the turns, of the mean over the CPUs.
fn record(plan: &Plan, who: usize, cell: Cell, size: usize, samples: &Samples) -> Record {
    let samples_of = &samples.cycles;
    let means: Vec<f64> = samples_of.iter().map(|cpus| cpus.iter().sum::<f64>() / cpus.len() as f64).collect();
    let per_cpu = (0..samples_of[0].len())
        .map(|cpu| round2(median(&samples_of.iter().map(|cpus| cpus[cpu]).collect::<Vec<_>>())))
        .collect();
    let cpus = match cell {
        Cell::Of(Test::A | Test::B | Test::C) => 1,
        Cell::Of(Test::F) | Cell::FAlloc => Group::Remote.threads(plan.cpus),
        Cell::Of(Test::D | Test::E) | Cell::DFree => plan.cpus,
    };
    Record {
        test: cell.name().to_owned(),
        system: plan.systems[who].id.to_owned(),
        size,
        cpus,
        unit: UNIT.to_owned(),
        min: round2(means.iter().copied().fold(f64::INFINITY, f64::min)),
        median: round2(median(&means)),
        runs: means.len(),
        oversubscribed: cpus > plan.allowed,
        per_cpu,
        mode: None,
        counts: Counts::mean(&samples.counts),
        resident: (!samples.resident.is_empty()).then(|| round2(median(&samples.resident))),
        samples: means.iter().copied().map(round2).collect(),
        ..Record::default()
    }
}

/// A size of other pages than those of `sizes`, small ones or not.
fn start_beside(sizes: &[usize]) -> usize {
    if sizes.iter().any(|&size| size <= 64) { 256 } else { 16 }
}

/// What a child measured; see [`Reply::Done`].
struct Pass {
    phase1: Vec<u64>,
    phase2: Vec<u64>,
    counts: Option<Counts>,
    resident: Option<[i64; 2]>,
}

/// A child of the lab.
struct Connection(Pipe);

impl Connection {
    /// Starts a child and has it prepare for `sizes`.
    fn open(info: &SystemInfo, plan: &Plan, sizes: &[usize]) -> Result<Self, String> {
        let fail = |error: String| format!("{}: {error}", info.id);
        let nodes = plan.nodes.map(|nodes| format!("nodes={nodes}"));
        let irq = plan.irq.map(|irq| format!("irq={irq}"));
        let options: Vec<String> = nodes.into_iter().chain(irq).collect();
        let options = (!options.is_empty()).then(|| options.join(","));
        let command = start::command(info, options.as_deref(), "bench-child").map_err(fail)?;
        let mut connection = Self(Pipe::open(command).map_err(fail)?);
        // The start must not warm up what is measured.
        let start = plan.first_pass.then(|| start_beside(sizes));
        let sizes = sizes.iter().copied().chain(start).collect();
        let holes =
            if plan.fragmented.is_some() { plan.sizes.iter().map(|size| size - LESS).collect() } else { Vec::new() };
        let fragmented = plan.fragmented.unwrap_or(0);
        let setup =
            Setup { objects: plan.objects, cpus: plan.cpus, sizes, fragmented, holes, large_sheaves: Vec::new() };
        match connection.0.ask(&Request::Setup { setup, start }).map_err(fail)? {
            Reply::Ready => Ok(connection),
            Reply::Failed(message) => Err(fail(message)),
            Reply::Done { .. } | Reply::Note(_) => Err(fail("answered the set-up with figures".to_owned())),
        }
    }

    fn note(&mut self) -> Result<String, String> {
        match self.0.ask(&Request::Note)? {
            Reply::Note(note) => Ok(note),
            Reply::Ready | Reply::Done { .. } | Reply::Failed(_) => Err("said nothing of itself".to_owned()),
        }
    }

    fn measure(&mut self, group: Group, size: usize, warm: bool) -> Result<Pass, String> {
        match self.0.ask(&Request::Run { group, size, warm })? {
            Reply::Done { phase1, phase2, counts, resident } => Ok(Pass { phase1, phase2, counts, resident }),
            Reply::Failed(message) => Err(message),
            Reply::Ready | Reply::Note(_) => Err("answered a run without figures".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(tests: &[Test]) -> Plan {
        Plan {
            tests: tests.to_vec(),
            systems: Vec::new(),
            sizes: vec![8],
            objects: 10,
            cpus: 3,
            allowed: 2,
            nodes: None,
            irq: None,
            fragmented: None,
            first_pass: false,
            rounds: 1,
        }
    }

    #[test]
    fn remote_frees_are_counted_per_object_freed() {
        let cells = figures(Group::Remote, &plan(&[Test::F]), &[0, 100, 200], &[400, 0, 0]);
        assert_eq!(cells, [(Cell::FAlloc, vec![10.0, 20.0]), (Cell::Of(Test::F), vec![20.0])]);
    }

    #[test]
    fn a_process_starts_with_an_object_of_another_size() {
        assert_eq!([8, 16, 64, 65, 256, 16384].map(|size| start_beside(&[size])), [256, 256, 256, 16, 16, 16]);
    }

    #[test]
    fn a_record_of_a_has_the_full_heap_and_one_of_b_the_empty_one() {
        let turn = [[700, 40], [500, 20], [600, 30]];
        let resident = |cell: Cell| {
            let resident = turn.iter().filter_map(|&kib| cell.resident(kib)).collect();
            let samples = Samples { cycles: vec![vec![1.0]], counts: Vec::new(), resident };
            let systems = vec![SystemInfo::by_id("glibc").unwrap()];
            record(&Plan { systems, ..plan(&[Test::A]) }, 0, cell, 8, &samples).resident
        };
        assert_eq!([Cell::Of(Test::A), Cell::Of(Test::B)].map(resident), [Some(600.0), Some(30.0)]);
        assert_eq!([Cell::Of(Test::C), Cell::DFree, Cell::FAlloc].map(resident), [None; 3]);
    }

    #[test]
    fn half_of_a_shared_pass_can_be_asked_for() {
        let cells = figures(Group::AllocFree, &plan(&[Test::B]), &[100], &[200]);
        assert_eq!(cells, [(Cell::Of(Test::B), vec![20.0])]);
    }
}
