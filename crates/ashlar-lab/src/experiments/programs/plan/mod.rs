//! The rounds of a run.
//!
//! One warm-up round that is not timed: it brings files into the page cache, so that no system pays
//! for being first, and reads the memory of our own workloads after they have idled (all sleep side
//! by side). Then the measured rounds, in which each workload runs once on every system, and every
//! round begins with another system. Only one program runs at a time.

pub(crate) mod record;
pub(crate) mod systems;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

use ashlar_workload::{LIVE, PAIRS, Workload};

use crate::experiments::programs::child::process::{self, Usage};
use crate::experiments::programs::child::real::Prepared;
use crate::experiments::programs::child::{startup, synthetic};
use crate::experiments::programs::plan::record::{Figure, Kind, Record};
use crate::experiments::programs::plan::systems::{BASE, System};
use crate::kit::error::LabError;
use crate::kit::progress::progress;

/// Sleep of an idle process, in milliseconds: longer than the second after which busy allocators
/// give memory back.
const IDLE_MS: u64 = 1500;

/// Something to run.
pub(crate) enum Program {
    /// One of this tool.
    Synthetic(&'static Workload),
    Real(Prepared),
    Startup,
}

impl Program {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Synthetic(workload) => workload.name,
            Self::Real(real) => real.name(),
            Self::Startup => startup::NAME,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Synthetic(workload) if workload.name == PAIRS.name => Kind::Pairs,
            Self::Synthetic(workload) if LIVE.iter().any(|live| live.name == workload.name) => Kind::Live,
            Self::Synthetic(_) => Kind::Synthetic,
            Self::Real(_) => Kind::Real,
            Self::Startup => Kind::Startup,
        }
    }
}

/// A run, checked and ready to start.
pub(crate) struct Plan {
    pub(crate) programs: Vec<Program>,
    pub(crate) systems: Vec<System>,
    pub(crate) rounds: usize,
    pub(crate) scale: f64,
}

/// What was seen of one program on one system.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) usages: Vec<Usage>,
    pub(crate) idle: Option<u64>,
    pub(crate) checksum: String,
}

/// A child that sleeps before it says how much memory it still has.
struct Sleeper {
    program: usize,
    system: usize,
    child: Child,
    out: BufReader<ChildStdout>,
    start: Instant,
}

struct Lab<'a> {
    plan: &'a Plan,
    cells: BTreeMap<(usize, usize), Samples>,
    failures: Vec<String>,
}

/// Runs the plan. The second part has a line for each program that did not run well on a system; it
/// has no record.
pub(crate) fn run(plan: &Plan) -> Result<(Vec<Record>, Vec<String>), LabError> {
    process::shrink_self();
    let mut lab = Lab { plan, cells: BTreeMap::new(), failures: Vec::new() };
    let bar = progress(((plan.rounds + 1) * plan.programs.len()) as u64);
    bar.set_message("warm-up");
    let mut asleep = Vec::new();
    for (at, program) in plan.programs.iter().enumerate() {
        for who in 0..plan.systems.len() {
            lab.warm_up(at, program, who, &mut asleep);
        }
        bar.inc(1);
    }
    for sleeper in asleep {
        lab.wake(sleeper);
    }
    for round in 0..plan.rounds {
        bar.set_message(format!("round {}/{}", round + 1, plan.rounds));
        for (at, program) in plan.programs.iter().enumerate() {
            for turn in 0..plan.systems.len() {
                lab.measure(at, program, (round + turn) % plan.systems.len());
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    lab.compare_outputs();
    Ok((lab.records(), lab.failures))
}

impl Lab<'_> {
    /// A program that failed on a system is not run there again.
    fn fail(&mut self, at: usize, who: usize, error: &str) {
        let (program, system) = (self.plan.programs[at].name(), &self.plan.systems[who].id);
        self.failures.push(format!("{program} on {system}: {error}"));
        self.cells.remove(&(at, who));
    }

    fn warm_up(&mut self, at: usize, program: &Program, who: usize, asleep: &mut Vec<Sleeper>) {
        let system = &self.plan.systems[who];
        let outcome = match program {
            Program::Synthetic(workload) => self.fall_asleep(at, workload, who).map(|sleeper| {
                asleep.push(sleeper);
                Samples::default()
            }),
            Program::Real(real) => {
                real.run(system, true).map(|(_, checksum)| Samples { checksum, ..Samples::default() })
            }
            Program::Startup => startup::check(system).map(|()| Samples::default()),
        };
        match outcome {
            Ok(samples) => {
                self.cells.insert((at, who), samples);
            }
            Err(error) => self.fail(at, who, &error),
        }
    }

    /// Starts a workload of our own and waits until its work is done.
    fn fall_asleep(&self, program: usize, workload: &Workload, system: usize) -> Result<Sleeper, String> {
        let mut command = synthetic::command(workload, &self.plan.systems[system], self.plan.scale)?;
        command.args(["--idle", &IDLE_MS.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        let start = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("cannot start: {error}"))?;
        let Some(mut out) = child.stdout.take().map(BufReader::new) else {
            return Err("has no output".to_owned());
        };
        let mut line = String::new();
        if out.read_line(&mut line).is_ok() && line.trim() == "idle" {
            return Ok(Sleeper { program, system, child, out, start });
        }
        let mut said = String::new();
        if let Some(mut err) = child.stderr.take() {
            let _ = err.read_to_string(&mut said);
        }
        let ended = process::wait(child, start).err().unwrap_or_else(|| "ended too early".to_owned());
        Err(process::reason(&said, ended))
    }

    fn wake(&mut self, mut sleeper: Sleeper) {
        let mut said = String::new();
        let read = sleeper.out.read_to_string(&mut said).map_err(|error| error.to_string());
        let ended = process::wait(sleeper.child, sleeper.start);
        let answer = read.and(ended).and_then(|_| synthetic::parse(&said));
        match answer {
            Ok(answer) => {
                if let Some(samples) = self.cells.get_mut(&(sleeper.program, sleeper.system)) {
                    samples.idle = answer.idle_rss_kib;
                    samples.checksum = answer.checksum;
                }
            }
            Err(error) => self.fail(sleeper.program, sleeper.system, &error),
        }
    }

    fn measure(&mut self, at: usize, program: &Program, who: usize) {
        if !self.cells.contains_key(&(at, who)) {
            return;
        }
        let system = &self.plan.systems[who];
        let outcome = match program {
            Program::Synthetic(workload) => synthetic::command(workload, system, self.plan.scale)
                .and_then(process::run)
                .and_then(|(usage, out)| synthetic::parse(&out).map(|answer| (usage, answer)))
                .map(|(usage, answer)| {
                    // What the process says of its own memory contains nothing of ours.
                    let peak_anon_kib = Some(answer.peak_anon_kib);
                    (vec![Usage { peak_rss_kib: answer.peak_rss_kib, peak_anon_kib, ..usage }], answer.checksum)
                }),
            Program::Real(real) => real.run(system, false).map(|(usage, checksum)| (vec![usage], checksum)),
            Program::Startup => return self.measure_startup(at, who),
        };
        self.take(at, who, outcome);
    }

    /// Start-up costs so little that all systems take turns many times in each round, all of it
    /// when the first one is asked.
    fn measure_startup(&mut self, at: usize, who: usize) {
        let first = self.cells.keys().find(|(program, _)| *program == at).map(|(_, system)| *system);
        if first != Some(who) {
            return;
        }
        let each = startup::RUNS.div_ceil(self.plan.rounds);
        let each = ((each as f64 * self.plan.scale.min(1.0)) as usize).max(1);
        for turn in 0..each * self.plan.systems.len() {
            let who = (turn + turn / self.plan.systems.len()) % self.plan.systems.len();
            if self.cells.contains_key(&(at, who)) {
                let outcome = startup::run(&self.plan.systems[who]).map(|usage| (vec![usage], String::new()));
                self.take(at, who, outcome);
            }
        }
    }

    fn take(&mut self, at: usize, who: usize, outcome: Result<(Vec<Usage>, String), String>) {
        match outcome {
            Ok((usages, checksum)) => {
                let Some(samples) = self.cells.get_mut(&(at, who)) else { return };
                samples.usages.extend(usages);
                if samples.checksum != checksum {
                    let error = format!("output {checksum} differs from {} of its warm-up", samples.checksum);
                    self.fail(at, who, &error);
                }
            }
            Err(error) => self.fail(at, who, &error),
        }
    }

    /// The outputs of a program must be the same on all systems: those of glibc, or of the first.
    fn compare_outputs(&mut self) {
        for at in 0..self.plan.programs.len() {
            let of = |who: usize| self.cells.get(&(at, who)).map(|samples| samples.checksum.clone());
            let base = self.plan.systems.iter().position(|system| system.id == BASE).and_then(of);
            let Some(expected) = base.or_else(|| (0..self.plan.systems.len()).find_map(of)) else { continue };
            for who in 0..self.plan.systems.len() {
                if let Some(found) = self.cells.get(&(at, who)).map(|samples| samples.checksum.clone())
                    && found != expected
                {
                    self.fail(at, who, &format!("wrong output: checksum {found}, expected {expected}"));
                }
            }
        }
    }

    fn records(&self) -> Vec<Record> {
        let record = |(&(at, who), samples): (&(usize, usize), &Samples)| {
            let (program, system) = (&self.plan.programs[at], &self.plan.systems[who]);
            record(program.name(), program.kind(), system, samples)
        };
        self.cells.iter().map(record).collect()
    }
}

/// Figures of at least one run.
pub(crate) fn record(workload: &str, kind: Kind, system: &System, samples: &Samples) -> Record {
    let of = |figure: &dyn Fn(&Usage) -> f64| -> Vec<f64> { samples.usages.iter().map(figure).collect() };
    let millis = |time: core::time::Duration| time.as_secs_f64() * 1000.0;
    let elapsed = of(&|usage| millis(usage.elapsed));
    let cpu = of(&|usage| millis(usage.user + usage.sys));
    let rounded = |samples: &[f64]| samples.iter().map(|ms| (ms * 1000.0).round() / 1000.0).collect();
    let anonymous: Vec<f64> =
        samples.usages.iter().filter_map(|usage| usage.peak_anon_kib).map(|kib| kib as f64).collect();
    Record {
        workload: workload.to_owned(),
        kind,
        system: system.id.clone(),
        preload: system.preload.as_ref().map(|path| path.to_string_lossy().into_owned()),
        version: system.version.clone(),
        unit: "ms".to_owned(),
        elapsed: Figure::of(&elapsed),
        cpu: Figure::of(&cpu),
        user: Figure::of(&of(&|usage| millis(usage.user))),
        sys: Figure::of(&of(&|usage| millis(usage.sys))),
        peak_rss_kib: Figure::of(&of(&|usage| usage.peak_rss_kib as f64)),
        peak_anon_kib: (!anonymous.is_empty()).then(|| Figure::of(&anonymous)),
        idle_rss_kib: samples.idle.map(|kib| Figure::of(&[kib as f64])),
        minor_faults: Figure::of(&of(&|usage| usage.minor_faults as f64)),
        context_switches: Figure::of(&of(&|usage| usage.context_switches as f64)),
        runs: samples.usages.len(),
        checksum: samples.checksum.clone(),
        samples: rounded(&elapsed),
        cpu_samples: rounded(&cpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(systems: &[&str]) -> Plan {
        let system = |id: &&str| System { id: (*id).to_owned(), preload: None, version: String::new(), options: None };
        Plan { programs: vec![Program::Startup], systems: systems.iter().map(system).collect(), rounds: 1, scale: 1.0 }
    }

    fn outputs(systems: &[(&str, &str)]) -> Vec<String> {
        let plan = plan(&systems.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        let cell = |(who, (_, checksum)): (usize, &(&str, &str))| {
            let samples = Samples { checksum: (*checksum).to_owned(), ..Samples::default() };
            ((0, who), samples)
        };
        let cells = systems.iter().enumerate().map(cell).collect();
        let mut lab = Lab { plan: &plan, cells, failures: Vec::new() };
        lab.compare_outputs();
        assert_eq!(lab.cells.len() + lab.failures.len(), systems.len(), "a wrong one has no record");
        lab.failures
    }

    #[test]
    fn an_output_that_differs_from_that_of_glibc_is_a_failure_and_no_figure() {
        assert!(outputs(&[("ashlar", "1"), ("glibc", "1")]).is_empty());
        let wrong = outputs(&[("ashlar", "2"), ("glibc", "1"), ("jemalloc", "1")]);
        assert_eq!(wrong, ["startup on ashlar: wrong output: checksum 2, expected 1"]);
        assert_eq!(outputs(&[("ashlar", "2"), ("jemalloc", "1")]).len(), 1, "without glibc the first decides");
    }

    #[test]
    fn workloads_of_our_own_have_the_kind_of_their_table() {
        let kind = |name| Program::Synthetic(Workload::by_name(name).unwrap()).kind();
        assert_eq!(["trees", "live-64-busy", "pairs"].map(kind), [Kind::Synthetic, Kind::Live, Kind::Pairs]);
        assert_eq!(serde_json::to_value(Kind::Live).unwrap(), "live");
    }

    #[test]
    fn an_output_that_changes_between_runs_is_a_failure() {
        let plan = plan(&["glibc"]);
        let first = Samples { checksum: "1".to_owned(), ..Samples::default() };
        let mut lab = Lab { plan: &plan, cells: [((0, 0), first)].into(), failures: Vec::new() };
        lab.take(0, 0, Ok((vec![Usage::default()], "1".to_owned())));
        assert_eq!((lab.failures.len(), lab.cells[&(0, 0)].usages.len()), (0, 1));
        lab.take(0, 0, Ok((vec![Usage::default()], "2".to_owned())));
        assert_eq!((lab.failures.len(), lab.cells.len()), (1, 0));
    }
}
