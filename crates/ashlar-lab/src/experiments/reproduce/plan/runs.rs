//! The measurements that claims need: commands of this tool, run one after the other, each writing
//! JSON into a directory of its own.

use crate::kit::error::LabError;

/// What a machine of 8 CPUs has by default: the kernel's least number of objects in a slab grows
/// with the CPUs. The machines of mails 001 and 003 had so many.
const EIGHT_CPUS: &str = "min_objects=20";

/// A measurement by name.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) name: &'static str,
    /// What `ASHLAR_OPTIONS` gains; empty for nothing.
    pub(crate) options: &'static str,
    /// Its arguments without `--json`.
    pub(crate) full: &'static [&'static str],
    /// The same for a machine that only wants to see that everything works.
    pub(crate) quick: &'static [&'static str],
    /// How often the full command runs, where one time has a single round.
    pub(crate) repeats: usize,
}

/// All of them, in their order. Each has six rounds or more, because fewer have no interval; the
/// tests A to F have twelve or more, because a process serves two.
pub(crate) const RUNS: [Run; 15] = [
    Run {
        name: "tests",
        options: "",
        full: &[
            "bench",
            "--systems",
            "slab24,slub,slub-emu,slub+,slub-o,slub-ll,ashlar,glibc",
            "--sizes",
            "8..32768",
            "--rounds",
            "20",
        ],
        quick: &[
            "bench",
            "--systems",
            "slab24,slub,slub-emu,slub+,slub-o,slub-ll,ashlar,glibc",
            "--sizes",
            "8,64,1024,4096",
            "--objects",
            "1000",
            "--rounds",
            "1",
        ],
        repeats: 1,
    },
    // Test E with one thread, beside test C of `tests`. No claim divides by it, because the drift
    // between two runs would be in the quotient and not in its interval.
    Run {
        name: "one-cpu",
        options: "",
        full: &[
            "bench",
            "E",
            "--cpus",
            "1",
            "--systems",
            "slab24,slub,slub+,slub-ll,ashlar",
            "--sizes",
            "8..1024",
            "--rounds",
            "20",
        ],
        quick: &[
            "bench",
            "E",
            "--cpus",
            "1",
            "--systems",
            "slub+,slub-ll",
            "--sizes",
            "8,64",
            "--objects",
            "1000",
            "--rounds",
            "1",
        ],
        repeats: 1,
    },
    // SLUB of 2010 before and after its patches.
    Run {
        name: "2010",
        options: EIGHT_CPUS,
        full: &[
            "bench",
            "A",
            "B",
            "C",
            "E",
            "--systems",
            "slub-2010,slub-2010-ll",
            "--sizes",
            "8..16384",
            "--rounds",
            "20",
        ],
        quick: &[
            "bench",
            "A",
            "B",
            "C",
            "E",
            "--systems",
            "slub-2010,slub-2010-ll",
            "--sizes",
            "8,64,2048",
            "--objects",
            "1000",
            "--rounds",
            "1",
        ],
        repeats: 1,
    },
    // The kernel of the mail's IA64 had pages of 16 KiB.
    Run {
        name: "nodes",
        options: "",
        full: &[
            "bench",
            "A",
            "B",
            "C",
            "E",
            "--nodes",
            "4",
            "--page",
            "16K",
            "--systems",
            "slab24,slub,slub+,ashlar",
            "--rounds",
            "20",
        ],
        quick: &[
            "bench",
            "A",
            "B",
            "C",
            "E",
            "--nodes",
            "4",
            "--page",
            "16K",
            "--systems",
            "slab24,slub",
            "--sizes",
            "8,4096",
            "--objects",
            "1000",
            "--rounds",
            "1",
        ],
        repeats: 1,
    },
    // As many threads as the mail's machine had CPUs.
    Run {
        name: "nodes-8",
        options: "",
        full: &[
            "bench",
            "D",
            "F",
            "--nodes",
            "4",
            "--cpus",
            "8",
            "--page",
            "16K",
            "--systems",
            "slab24,slub,slub+",
            "--rounds",
            "12",
        ],
        quick: &[
            "bench",
            "D",
            "F",
            "--nodes",
            "4",
            "--cpus",
            "8",
            "--page",
            "16K",
            "--systems",
            "slab24,slub",
            "--sizes",
            "8,4096",
            "--objects",
            "500",
            "--rounds",
            "1",
        ],
        repeats: 1,
    },
    Run {
        name: "slob",
        options: "",
        full: &[
            "bench",
            "A",
            "--systems",
            "slob,slob-seg,slob-cache",
            "--sizes",
            "64,256",
            "--fragmented",
            "20000",
            "--rounds",
            "12",
        ],
        quick: &[
            "bench",
            "A",
            "--systems",
            "slob,slob-seg,slob-cache",
            "--sizes",
            "64",
            "--fragmented",
            "2000",
            "--objects",
            "1000",
            "--rounds",
            "1",
        ],
        repeats: 1,
    },
    Run {
        name: "simulate",
        options: "",
        full: &[
            "simulate",
            "--systems",
            "slab24,slub,slub+,ashlar",
            "--sizes",
            "8..16384",
            "--cpus",
            "2,4,8,16,32,64,128,256,512,1024",
            "--nodes",
            "1,4",
        ],
        quick: &[
            "simulate",
            "--systems",
            "slab24,slub",
            "--sizes",
            "64",
            "--objects",
            "500",
            "--cpus",
            "2,8",
            "--nodes",
            "1,4",
        ],
        repeats: 6,
    },
    Run {
        name: "bulk",
        options: EIGHT_CPUS,
        full: &["bench", "bulk", "--systems", "ashlar,slub-bulk,slub-ll,slab,glibc", "--rounds", "8"],
        quick: &[
            "bench",
            "bulk",
            "--systems",
            "ashlar,slub-bulk",
            "--bulks",
            "8,32",
            "--objects",
            "1000",
            "--rounds",
            "1",
        ],
        repeats: 1,
    },
    Run {
        name: "memory",
        options: "",
        full: &[
            "bench",
            "memory",
            "--profile",
            "caches",
            "--systems",
            "slob,slob-seg,slob-cache,slub,slab,ashlar",
            "--rounds",
            "6",
            "--idle",
            "0",
        ],
        quick: &[
            "bench",
            "memory",
            "--profile",
            "caches",
            "--systems",
            "slob,slob-seg,slob-cache,slub",
            "--scale",
            "0.05",
            "--rounds",
            "1",
            "--idle",
            "0",
        ],
        repeats: 1,
    },
    Run {
        name: "hackbench",
        options: "",
        full: &[
            "hackbench",
            "-g",
            "4",
            "-l",
            "1000",
            "--scale",
            "1",
            "--rounds",
            "8",
            "--systems",
            "slob,slob-seg,slob-cache,slub,ashlar,glibc",
        ],
        quick: &[
            "hackbench",
            "-g",
            "1",
            "-f",
            "4",
            "-l",
            "50",
            "--rounds",
            "1",
            "--systems",
            "slob,slob-seg,slob-cache",
        ],
        repeats: 1,
    },
    // By valgrind, because virtual machines seldom count instructions.
    Run {
        name: "instructions",
        options: "",
        full: &[
            "hackbench",
            "--instructions",
            "-g",
            "4",
            "-l",
            "50",
            "--scale",
            "1",
            "--rounds",
            "6",
            "--systems",
            "slob,slob-seg,slob-cache",
        ],
        quick: &[
            "hackbench",
            "--instructions",
            "-g",
            "1",
            "-f",
            "4",
            "-l",
            "5",
            "--scale",
            "1",
            "--rounds",
            "1",
            "--systems",
            "slob,slob-seg,slob-cache",
        ],
        repeats: 1,
    },
    Run {
        name: "forward",
        options: EIGHT_CPUS,
        full: &["forward", "--systems", "slub-bulk,ashlar", "--others", "16", "--max-seconds", "100"],
        quick: &["forward", "--systems", "slub-bulk", "--packets", "2000", "--rounds", "2"],
        repeats: 1,
    },
    // The same with other values of what the mails do not tell.
    Run {
        name: "forward-none",
        options: EIGHT_CPUS,
        full: &["forward", "--systems", "slub-bulk", "--others", "0", "--max-seconds", "50"],
        quick: &["forward", "--systems", "slub-bulk", "--others", "0", "--packets", "2000", "--rounds", "2"],
        repeats: 1,
    },
    Run {
        name: "forward-many",
        options: EIGHT_CPUS,
        full: &["forward", "--systems", "slub-bulk", "--others", "128", "--max-seconds", "50"],
        quick: &["forward", "--systems", "slub-bulk", "--others", "128", "--packets", "2000", "--rounds", "2"],
        repeats: 1,
    },
    Run {
        name: "simulate-far",
        options: "",
        full: &[
            "simulate",
            "--systems",
            "slab24,slub",
            "--sizes",
            "8..4096",
            "--cpus",
            "8",
            "--nodes",
            "1,4",
            "--far",
            "4",
        ],
        quick: &[
            "simulate",
            "--systems",
            "slab24,slub",
            "--sizes",
            "64",
            "--objects",
            "500",
            "--cpus",
            "8",
            "--nodes",
            "1,4",
            "--far",
            "4",
        ],
        repeats: 6,
    },
];

/// Whether there is a run of this name.
#[cfg(test)]
pub(crate) fn known(name: &str) -> bool {
    RUNS.iter().any(|run| run.name == name)
}

/// The command of a run as a user would type it.
pub(crate) fn command(name: &str) -> String {
    let run = RUNS.iter().find(|run| run.name == name);
    run.map_or_else(|| name.to_owned(), |run| run.typed(run.full))
}

impl Run {
    /// The command with some arguments as a user would type it.
    pub(crate) fn typed(&self, args: &[&str]) -> String {
        let args = args.join(" ");
        match self.options {
            "" => format!("ashlar {args}"),
            options => format!("ASHLAR_OPTIONS={options} ashlar {args}"),
        }
    }
}

/// The runs that `--runs` names.
pub(crate) fn select(list: &str) -> Result<Vec<&'static Run>, LabError> {
    if list.trim() == "all" {
        return Ok(RUNS.iter().collect());
    }
    let mut chosen = Vec::new();
    for name in list.split(',').map(str::trim) {
        let found = RUNS.iter().find(|run| run.name == name).ok_or_else(|| {
            let names = RUNS.iter().map(|run| run.name).collect::<Vec<_>>().join(", ");
            LabError::option("--runs", format_args!("unknown run `{name}`; expected `all` or some of {names}"))
        })?;
        chosen.push(found);
    }
    Ok(chosen)
}

/// A unit as it stands behind a figure.
pub(crate) fn unit(unit: &str) -> &'static str {
    match unit {
        "tsc_cycles_per_op" => " cycles",
        "ns_per_op" | "ns_per_packet" | "ns" => " ns",
        "s" | "seconds" => " s",
        "kB" | "KiB" | "kb" => " kB",
        "ms" | "msec" => " ms",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::kit::bootstrap;
    use crate::registry::args::Cli;

    /// A command with too few rounds would leave all its claims open.
    #[test]
    fn every_command_has_rounds_enough_for_an_interval() {
        for run in &RUNS {
            let rounds = run.full.iter().position(|arg| *arg == "--rounds").map(|at| run.full[at + 1]);
            let rounds = rounds.map_or(1, |rounds| rounds.parse().expect("a number"));
            // Of the tests A to F a process serves two rounds. `forward` goes on until it knows.
            let served = if run.full[0] == "bench" && !["bulk", "memory"].contains(&run.full[1]) { 2 } else { 1 };
            let enough = rounds / served * run.repeats >= bootstrap::fewest_rounds();
            assert!(enough || run.full[0] == "forward", "{}", run.typed(run.full));
        }
    }

    #[test]
    fn the_lab_understands_every_command() {
        for run in &RUNS {
            for args in [run.full, run.quick] {
                let line = ["ashlar-lab"].iter().chain(args).chain(&["--json", "out.json"]);
                let parsed = Cli::try_parse_from(line);
                assert!(parsed.is_ok(), "{}: {:?}", run.typed(args), parsed.err().map(|error| error.to_string()));
            }
        }
    }
}
