//! What the kernel is asked, and what becomes of the lines that it prints.

use std::collections::BTreeMap;

use crate::experiments::kernel::args::KernelArgs;
use crate::kit::error::LabError;
use crate::kit::machine::{cpu_model, kernel, own_build};
use crate::kit::once::record;
use crate::kit::record::{Host, Peer, Record, Report};

/// What each line of the kernel begins with.
const MARK: &str = "ashlar-kernel: ";
/// Passes that the kernel prints of each test, at most.
const PASSES: u32 = 3;
/// Most MiB that the objects of a pass may take; the machine has a few times as much.
const MOST: u64 = 256;

/// What QEMU counts as ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Instructions,
    Ticks,
}

impl Clock {
    pub(crate) const ALL: [Clock; 2] = [Clock::Instructions, Clock::Ticks];

    /// The configuration, as records name it.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Clock::Instructions => "icount",
            Clock::Ticks => "threads",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Clock::Instructions => "instructions_per_op",
            Clock::Ticks => "host_ticks_per_op",
        }
    }

    /// Nanoseconds between two timer interrupts of a CPU. An instruction counts as one.
    fn period(self) -> u32 {
        match self {
            Clock::Instructions => 50_000,
            Clock::Ticks => 1_000_000,
        }
    }
}

/// The machine and what it is to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) cpus: u32,
    pub(crate) nodes: u32,
    pub(crate) objects: u32,
    pub(crate) sizes: Vec<usize>,
    pub(crate) seconds: u32,
    seed: u32,
    /// MiB that the objects of a pass take.
    mib: u64,
}

impl Plan {
    /// Checks what several options together ask for.
    pub(crate) fn new(args: &KernelArgs) -> Result<Plan, LabError> {
        if args.nodes > args.cpus {
            let expected = format_args!("{} nodes: expected at most as many as --cpus, {}", args.nodes, args.cpus);
            return Err(LabError::option("--nodes", expected));
        }
        let wrong = args.sizes.0.iter().find(|&&size| !(8..=1 << 16).contains(&size));
        if let Some(size) = wrong {
            return Err(LabError::option("--sizes", format_args!("size {size}: expected 8 to 65536 bytes")));
        }
        let largest = args.sizes.0.iter().copied().max().unwrap_or(8).next_power_of_two() as u64;
        let mib = (u64::from(args.cpus) * u64::from(args.objects) * largest).div_ceil(1 << 20);
        if mib > MOST {
            return Err(LabError::option(
                "--objects",
                format_args!("those of all CPUs take {mib} MiB: expected at most {MOST}"),
            ));
        }
        Ok(Plan {
            cpus: args.cpus,
            nodes: args.nodes,
            objects: args.objects,
            sizes: args.sizes.0.clone(),
            seconds: args.seconds,
            seed: args.seed,
            mib,
        })
    }

    /// MiB that the other allocators take turns with, from node 0: even, as pages have 2.
    fn arena(&self) -> u64 {
        2 * self.mib + 16
    }

    /// MiB of each node. Node 0 has the arena besides.
    pub(crate) fn memory(&self) -> Vec<u64> {
        let share = (2 * self.mib).div_ceil(u64::from(self.nodes)).next_multiple_of(2) + 64;
        (0..self.nodes).map(|node| if node == 0 { share + self.arena() } else { share }).collect()
    }

    /// The node of a CPU: neighbours share one.
    pub(crate) fn node_of(&self, cpu: u32) -> u32 {
        cpu * self.nodes / self.cpus
    }

    /// The command line of the kernel.
    pub(crate) fn line(&self, clock: Clock) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        format!(
            "objects={} passes={PASSES} sizes={} seconds={} seed={} period={} arena={}",
            self.objects,
            sizes.join(","),
            self.seconds,
            self.seed,
            clock.period(),
            self.arena(),
        )
    }
}

/// One pass of a test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pass {
    system: String,
    test: String,
    size: usize,
    cpus: usize,
    /// Ticks of one operation.
    cost: f64,
}

/// What the work at random came to on one system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Storm {
    pub(crate) system: String,
    pub(crate) allocated: u64,
    /// Objects that another CPU freed than the one that allocated them.
    pub(crate) elsewhere: u64,
    pub(crate) interrupts: u64,
    /// Objects whose memory was of the CPU's own node.
    pub(crate) local: u64,
    pub(crate) refused: u64,
    pub(crate) damaged: u64,
    /// What was in use after all was freed, and not before: objects, or bytes of a heap.
    pub(crate) lost: i64,
}

/// What one boot printed.
#[derive(Clone, Debug)]
pub(crate) struct Boot {
    pub(crate) clock: Clock,
    pub(crate) passes: Vec<Pass>,
    pub(crate) storms: Vec<Storm>,
}

/// Reads what the kernel printed; it must be whole, and by a machine as asked for.
pub(crate) fn parse(text: &str, plan: &Plan, clock: Clock) -> Result<Boot, String> {
    let mut boot = Boot { clock, passes: Vec::new(), storms: Vec::new() };
    let (mut began, mut ended) = (false, false);
    for line in text.lines() {
        let Some(said) = line.trim_end().strip_prefix(MARK) else { continue };
        let strange = || format!("cannot read what the kernel printed: `{said}`");
        let words: Vec<&str> = said.split(' ').collect();
        let number = |name: &str| -> Result<u64, String> {
            let value = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse().ok()).ok_or_else(strange)
        };
        match words.as_slice() {
            ["failed:", ..] => return Err(said.to_owned()),
            ["begin", ..] => {
                let found = [number("cpus")?, number("nodes")?, number("objects")?];
                if found != [plan.cpus, plan.nodes, plan.objects].map(u64::from) {
                    return Err(format!("the kernel found another machine: `{said}`"));
                }
                began = true;
            }
            ["pass", system, test, numbers @ ..] => {
                let numbers: Vec<u64> =
                    numbers.iter().map(|word| word.parse()).collect::<Result<_, _>>().map_err(|_| strange())?;
                let &[size, cpus, operations, ticks] = numbers.as_slice() else { return Err(strange()) };
                if operations == 0 {
                    return Err(strange());
                }
                boot.passes.push(Pass {
                    system: (*system).to_owned(),
                    test: (*test).to_owned(),
                    size: size as usize,
                    cpus: cpus as usize,
                    cost: ticks as f64 / operations as f64,
                });
            }
            ["storm", system, ..] => boot.storms.push(Storm {
                system: (*system).to_owned(),
                allocated: number("allocated")?,
                elsewhere: number("elsewhere")?,
                interrupts: number("interrupts")?,
                local: number("local")?,
                refused: number("refused")?,
                damaged: number("damaged")?,
                lost: 0,
            }),
            ["lost", system, lost] => {
                let storm = boot.storms.iter_mut().find(|storm| storm.system == *system).ok_or_else(strange)?;
                storm.lost = lost.parse().map_err(|_| strange())?;
            }
            ["end"] => ended = true,
            // CPUs, nodes, tests without memory, and reports of the allocator.
            _ => {}
        }
    }
    if !began || !ended || boot.passes.is_empty() || boot.storms.is_empty() {
        return Err("the kernel ended without its figures".to_owned());
    }
    Ok(boot)
}

/// The figures of all boots as records.
pub(crate) fn report(plan: &Plan, boots: &[Boot], qemu: String) -> Report {
    let mut records: Vec<Record> = Vec::new();
    let mut systems: Vec<String> = Vec::new();
    for boot in boots {
        let mut cells: BTreeMap<(&str, &str, usize, usize), Vec<f64>> = BTreeMap::new();
        for pass in &boot.passes {
            if !systems.contains(&pass.system) {
                systems.push(pass.system.clone());
            }
            cells.entry((&pass.test, &pass.system, pass.size, pass.cpus)).or_default().push(pass.cost);
        }
        records.extend(cells.into_iter().map(|((test, system, size, cpus), costs)| Record {
            size,
            cpus,
            mode: Some(boot.clock.mode().to_owned()),
            ..record(&format!("kernel-{test}"), system, boot.clock.unit(), &costs)
        }));
    }
    let host = Host {
        cpu_model: cpu_model(),
        cpus: plan.cpus as usize,
        arch: "x86_64".to_owned(),
        kernel: kernel(),
        ashlar_version: env!("CARGO_PKG_VERSION").to_owned(),
        ashlar_mode: "platform".to_owned(),
        rustc: env!("ASHLAR_RUSTC").to_owned(),
        build: own_build(),
        objects: plan.objects as usize,
        nodes: Some(plan.nodes as usize),
        rounds: 1,
        warm_up: "two passes of each test".to_owned(),
        systems,
        peers: BTreeMap::from([(
            "qemu".to_owned(),
            Peer { version: qemu, build: "emulates the machine".to_owned(), note: String::new() },
        )]),
        ..Host::default()
    };
    Report { host, records, published: None }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::kit::options::SizeList;

    pub(crate) fn args() -> KernelArgs {
        KernelArgs {
            cpus: 8,
            nodes: 4,
            sizes: SizeList(vec![64, 4096]),
            objects: 1000,
            seconds: 1,
            seed: 1,
            json: None,
            check_targets: false,
        }
    }

    /// What a kernel printed, cut to what is read.
    pub(crate) const PRINTED: &str = "SeaBIOS\n\
        ashlar-kernel: node 0 10\n\
        ashlar-kernel: cpu 0 0 0\n\
        ashlar-kernel: begin cpus=8 nodes=4 objects=1000 period=50000\n\
        ashlar-kernel: pass ashlar A 64 1 1000 300000\n\
        ashlar-kernel: pass ashlar A 64 1 1000 100000\n\
        ashlar-kernel: pass ashlar B 64 1 1000 100000\n\
        ashlar-kernel: pass ashlar D 64 8 8000 1600000\r\n\
        ashlar-kernel: pass ashlar F 64 8 7000 700000\n\
        ashlar-kernel: full talc A 64\n\
        ashlar-kernel: storm ashlar allocated=9 elsewhere=2 interrupts=3 in_interrupts=4 local=9 refused=0 damaged=0 ticks=7\n\
        ashlar-kernel: lost ashlar 0\n\
        ashlar-kernel: end\n";

    pub(crate) fn printed(text: &str) -> Result<Boot, String> {
        parse(text, &Plan::new(&args()).expect("sound options"), Clock::Instructions)
    }

    #[test]
    fn a_boot_is_read_as_records() {
        let boot = printed(PRINTED).expect("a whole boot");
        assert_eq!(boot.storms[0].allocated, 9);
        let report = report(&Plan::new(&args()).expect("sound options"), &[boot], "8".to_owned());
        let a = report.cell("kernel-A", "ashlar", 64).expect("A");
        assert_eq!((a.min, a.median, a.runs, a.cpus), (100.0, 200.0, 2, 1));
        assert_eq!(report.cell("kernel-D", "ashlar", 64).expect("D").min, 200.0);
    }

    #[test]
    fn a_boot_that_is_not_whole_or_of_another_machine_is_refused() {
        let refused = |text: &str| printed(text).expect_err("refused");
        assert!(refused(&PRINTED.replace("ashlar-kernel: end", "")).contains("without its figures"));
        assert!(refused(&PRINTED.replace("cpus=8", "cpus=7")).contains("another machine"));
        assert!(refused(&PRINTED.replace("damaged=0", "damaged=x")).contains("cannot read"));
        assert!(refused(&PRINTED.replace("1 1000 300000", "1 0 300000")).contains("cannot read"));
        let failed = PRINTED.replace("ashlar-kernel: end", "ashlar-kernel: failed: page fault at 0");
        assert_eq!(refused(&failed), "failed: page fault at 0");
    }

    #[test]
    fn the_machine_has_the_memory_that_objects_need() {
        let plan = Plan::new(&args()).expect("sound options");
        let memory = plan.memory();
        assert_eq!(memory.len(), 4);
        assert!(memory.iter().all(|mib| mib % 2 == 0));
        assert!(memory.iter().sum::<u64>() > 4 * plan.mib);
        assert!((0..8).map(|cpu| plan.node_of(cpu)).eq([0, 0, 1, 1, 2, 2, 3, 3]));
        assert!(plan.line(Clock::Ticks).contains("sizes=64,4096 "));
    }

    #[test]
    fn what_no_machine_can_do_is_refused() {
        let refused = |args: KernelArgs| Plan::new(&args).expect_err("refused").to_string();
        assert!(refused(KernelArgs { cpus: 2, ..args() }).starts_with("--nodes: 4 nodes: expected at most"));
        assert!(refused(KernelArgs { sizes: SizeList(vec![4]), ..args() }).starts_with("--sizes: size 4"));
        assert!(refused(KernelArgs { objects: 10_000, ..args() }).starts_with("--objects: those of all CPUs take 313"));
    }
}
