//! Runs the commands that measure, each a process of the lab with `--json`, and reads what they
//! wrote.
//!
//! So this experiment has the results of the others without knowing one of them.

use core::time::Duration;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use crate::experiments::reproduce::plan::evidence::{Evidence, Outcome};
use crate::experiments::reproduce::plan::runs::{RUNS, Run};
use crate::kit::error::{LabError, NAME};
use crate::kit::progress::progress;

/// No run takes longer; one that hangs is ended and told.
pub(crate) const LONGEST: Duration = Duration::from_secs(300);

/// Runs all of `runs`, and writes what each wrote into `directory`.
pub(crate) fn measure(runs: &[&'static Run], quick: bool, directory: &Path) -> Result<Evidence, LabError> {
    let times = |run: &Run| if quick { 1 } else { run.repeats };
    let bar = progress(runs.iter().map(|run| times(run) as u64).sum());
    bar.enable_steady_tick(Duration::from_millis(500));
    let mut evidence = Evidence::new();
    for run in runs {
        let args = if quick { run.quick } else { run.full };
        bar.set_message(run.typed(args));
        let start = Instant::now();
        let path = directory.join(run.name).with_extension("json");
        let mut outcome: Option<Outcome> = None;
        for _ in 0..times(run) {
            let failure = one(args, run.options, &path);
            let mut found = if path.exists() { read(&path) } else { Outcome::default() };
            found.failure = failure.err().or(found.failure);
            match &mut outcome {
                Some(outcome) => outcome.repeat(found),
                None => outcome = Some(found),
            }
            bar.inc(1);
        }
        let mut outcome = outcome.unwrap_or_default();
        outcome.command = run.typed(args);
        outcome.seconds = (start.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        evidence.insert(run.name.to_owned(), outcome);
    }
    bar.finish_and_clear();
    Ok(evidence)
}

/// Runs one command; the error is what it said last.
pub(crate) fn one(args: &[&str], options: &str, json: &Path) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    if !options.is_empty() {
        let before = std::env::var("ASHLAR_OPTIONS").unwrap_or_default();
        command.env("ASHLAR_OPTIONS", if before.is_empty() { options.to_owned() } else { before + "," + options });
    }
    let mut child = command
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
            let error = said.lines().find_map(|line| line.strip_prefix(NAME)?.strip_prefix(": "));
            Err(error.map_or_else(|| status.to_string(), str::to_owned))
        }
    }
}

/// Waits for `child`, but not for ever.
pub(crate) fn wait(child: &mut Child) -> Result<ExitStatus, String> {
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
                outcome.command = run.typed(run.full);
            }
            (run.name.to_owned(), outcome)
        })
    };
    RUNS.iter().filter_map(of).collect()
}
