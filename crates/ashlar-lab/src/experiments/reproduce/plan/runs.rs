//! The measurements that claims need: commands of this tool, run one after the other, each writing
//! JSON into a directory of its own.

use crate::kit::error::LabError;

/// A measurement by name.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) name: &'static str,
    /// Its arguments without `--json`.
    pub(crate) full: &'static [&'static str],
    /// The same for a machine that only wants to see that everything works.
    pub(crate) quick: &'static [&'static str],
}

/// All of them, in their order.
pub(crate) const RUNS: [Run; 9] = [
    Run {
        name: "tests",
        full: &["bench", "--systems", "slab,slub,slub-emu,slub+,slub-o,slub-ll,ashlar,glibc"],
        quick: &[
            "bench",
            "--systems",
            "slab,slub,slub-emu,slub+,slub-o,slub-ll,ashlar,glibc",
            "--sizes",
            "8,64,1024,4096",
            "--objects",
            "1000",
            "--rounds",
            "1",
        ],
    },
    Run {
        name: "one-cpu",
        full: &["bench", "E", "--cpus", "1", "--systems", "slab,slub,slub+,slub-ll,ashlar", "--sizes", "8..1024"],
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
    },
    Run {
        name: "nodes",
        full: &["bench", "A", "B", "C", "E", "--nodes", "4", "--systems", "slab,slub,slub+,ashlar"],
        quick: &[
            "bench",
            "A",
            "B",
            "C",
            "E",
            "--nodes",
            "4",
            "--systems",
            "slab,slub",
            "--sizes",
            "8,4096",
            "--objects",
            "1000",
            "--rounds",
            "1",
        ],
    },
    Run {
        name: "slob",
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
            "2",
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
    },
    Run {
        name: "simulate",
        full: &[
            "simulate",
            "--systems",
            "slab,slub,slub+,ashlar",
            "--sizes",
            "8..4096",
            "--cpus",
            "2,4,8,16,32,64,128,256,512,1024",
            "--nodes",
            "1,4",
        ],
        quick: &[
            "simulate",
            "--systems",
            "slab,slub",
            "--sizes",
            "64",
            "--objects",
            "500",
            "--cpus",
            "2,8",
            "--nodes",
            "1,4",
        ],
    },
    Run {
        name: "bulk",
        full: &["bench", "bulk", "--systems", "ashlar,slub-bulk,slub-ll,slab,glibc"],
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
    },
    Run {
        name: "memory",
        full: &["bench", "memory", "--profile", "caches", "--systems", "slob,slob-seg,slob-cache,slub,slab,ashlar"],
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
    },
    Run {
        name: "hackbench",
        full: &[
            "hackbench",
            "-g",
            "4",
            "-l",
            "1000",
            "--scale",
            "1",
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
    },
    Run {
        name: "forward",
        full: &["forward", "--systems", "slub-bulk,ashlar", "--max-seconds", "120"],
        quick: &["forward", "--systems", "slub-bulk", "--packets", "2000", "--rounds", "2"],
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
    run.map_or_else(|| name.to_owned(), |run| typed(run.full))
}

pub(crate) fn typed(args: &[&str]) -> String {
    format!("ashlar {}", args.join(" "))
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
