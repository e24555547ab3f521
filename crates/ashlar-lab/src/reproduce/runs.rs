//! The measurements that claims need: commands of this tool, run one after the other, each writing JSON into a directory of its own.

use core::time::Duration;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use super::evidence::{Evidence, Outcome};
use crate::kit::error::CliError;
use crate::kit::progress::progress;

/// A measurement by name.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) name: &'static str,
    /// Its arguments without `--json`.
    full: &'static [&'static str],
    /// The same for a machine that only wants to see that everything works.
    quick: &'static [&'static str],
}

/// No run takes longer; one that hangs is ended and told.
const LONGEST: Duration = Duration::from_secs(300);

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

fn typed(args: &[&str]) -> String {
    format!("ashlar {}", args.join(" "))
}

/// The runs that `--runs` names.
pub(crate) fn select(list: &str) -> Result<Vec<&'static Run>, CliError> {
    if list.trim() == "all" {
        return Ok(RUNS.iter().collect());
    }
    let mut chosen = Vec::new();
    for name in list.split(',').map(str::trim) {
        let found = RUNS.iter().find(|run| run.name == name).ok_or_else(|| {
            let names = RUNS.iter().map(|run| run.name).collect::<Vec<_>>().join(", ");
            CliError::option("--runs", format_args!("unknown run `{name}`; expected `all` or some of {names}"))
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

/// Runs all of `runs`, and writes what each wrote into `directory`.
pub(crate) fn measure(runs: &[&'static Run], quick: bool, directory: &Path) -> Result<Evidence, CliError> {
    let bar = progress(runs.len() as u64);
    bar.enable_steady_tick(Duration::from_millis(500));
    let mut evidence = Evidence::new();
    for run in runs {
        let args = if quick { run.quick } else { run.full };
        bar.set_message(typed(args));
        let start = Instant::now();
        let path = directory.join(run.name).with_extension("json");
        let failure = one(args, &path);
        let mut outcome = if path.exists() { read(&path) } else { Outcome::default() };
        outcome.command = typed(args);
        outcome.seconds = (start.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        outcome.failure = failure.err().or(outcome.failure);
        evidence.insert(run.name.to_owned(), outcome);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(evidence)
}

/// Runs one command; the error is what it said last.
fn one(args: &[&str], json: &Path) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(args)
        .arg("--json")
        .arg(json)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start it: {error}"))?;
    let pipe = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        // What cannot be read is not told; the exit code is.
        let _ = pipe.map(|mut pipe| pipe.read_to_string(&mut text));
        text
    });
    let status = wait(&mut child);
    let said = reader.join().unwrap_or_default();
    match status? {
        status if status.success() => Ok(()),
        status => {
            Err(said.lines().find(|line| line.starts_with("error")).map_or_else(|| status.to_string(), str::to_owned))
        }
    }
}

/// Waits for `child`, but not for ever.
fn wait(child: &mut Child) -> Result<ExitStatus, String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() < LONGEST => std::thread::sleep(Duration::from_millis(50)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("ended after {} seconds", LONGEST.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Reads what a command wrote by `--json`.
pub(crate) fn read(path: &Path) -> Outcome {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return Outcome { failure: Some(error.to_string()), ..Outcome::default() },
    };
    match serde_json::from_str::<Outcome>(&text) {
        Ok(mut outcome) => {
            outcome.derive();
            outcome
        }
        // A command that failed at its start leaves an empty file.
        Err(error) => Outcome { failure: Some(format!("cannot read its JSON: {error}")), ..Outcome::default() },
    }
}

/// Recorded runs of a directory: `NAME.json` for each run.
pub(crate) fn recorded(directory: &Path) -> Evidence {
    let of = |run: &Run| {
        let path = directory.join(run.name).with_extension("json");
        path.exists().then(|| {
            let mut outcome = read(&path);
            if outcome.command.is_empty() {
                outcome.command = typed(run.full);
            }
            (run.name.to_owned(), outcome)
        })
    };
    RUNS.iter().filter_map(of).collect()
}
