//! `ashlar doctor`: what is in the way of ashlar on this machine, in a program or in a process, and
//! what to do about it.
//!
//! * [`checks`]: one function for each thing that is looked at.
//! * [`finding`]: what a check says.
//! * [`elf`]: what a program's file says: whether it is static, and which malloc is in it.
//! * [`subject`]: where the facts of a process or of a program come from.

mod checks;
mod elf;
mod finding;
mod subject;
#[cfg(test)]
mod tests;

use core::fmt::Write;
use std::process::ExitCode;

use serde::Serialize;

use crate::args::DoctorArgs;
use crate::error::ToolError;
use crate::output;
use finding::{Finding, State};
use subject::Subject;

/// Columns of a terminal, and of the names and states at its left.
const WIDTH: usize = 80;
const LEFT: usize = 22;

/// All findings, as `--json` writes them.
#[derive(Debug, Serialize)]
struct Diagnosis {
    subject: String,
    problems: usize,
    findings: Vec<Finding>,
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, ToolError> {
    let subject = match (args.pid, args.program.split_first()) {
        (Some(pid), None) => Subject::of_process(pid)?,
        (None, Some((name, _))) => Subject::of_program(name)?,
        (None, None) => Subject::of_machine(),
        (Some(_), Some(_)) => return Err(ToolError::option("PROGRAM", "cannot be given together with PID")),
    };
    let findings = checks::all(&subject);
    let problems = findings.iter().filter(|finding| finding.state == State::Problem).count();
    let diagnosis = Diagnosis { subject: subject.name(), problems, findings };
    let text = if args.json {
        serde_json::to_string(&diagnosis).map_err(|error| ToolError::Failed(format!("--json: {error}")))? + "\n"
    } else {
        text(&diagnosis)
    };
    output::print(&text)?;
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(diagnosis: &Diagnosis) -> String {
    let mut text = format!("{}\n\n", diagnosis.subject);
    for Finding { name, state, value, advice } in &diagnosis.findings {
        let state = match state {
            State::Ok => "ok",
            State::Note => "note",
            State::Problem => "PROBLEM",
        };
        let mut left = format!("{name:<13}{state:<9}");
        for line in wrapped(value, WIDTH - LEFT) {
            let _ = writeln!(text, "{left}{line}");
            left = " ".repeat(LEFT);
        }
        for (number, line) in wrapped(advice, WIDTH - LEFT - 3).iter().enumerate() {
            let _ = writeln!(text, "{}{}{line}", " ".repeat(LEFT), if number == 0 { "-> " } else { "   " });
        }
    }
    text += match diagnosis.problems {
        0 => "\nNothing is in the way.\n".to_owned(),
        1 => "\n1 problem.\n".to_owned(),
        many => format!("\n{many} problems.\n"),
    }
    .as_str();
    text
}

/// Breaks text into lines of at most `width` characters. A longer word has a line of its own, cut
/// at that width.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word: String = word.chars().take(width).collect();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}
